//! What client-go gives Go, for Rust: the machinery that every Kubernetes controller stands on.
