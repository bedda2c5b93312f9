//! Side-by-side benchmarks against client-go, controller-runtime and kube-rs.
