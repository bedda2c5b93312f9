//! The project's own tools: `cargo xtask ci`, `docs`, `bench`, `conformance`.
fn main() {}
