//! Record Kubernetes Events: recorder, correlator, broadcaster.
