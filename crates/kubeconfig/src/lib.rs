//! Find, read, merge, validate and write kubeconfig files.
