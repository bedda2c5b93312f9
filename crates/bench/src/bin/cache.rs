//! Runs one workload of the benchmark area `cache` once: `cache WORK --server URL [--quick]`.

use std::process::ExitCode;

fn main() -> ExitCode {
    pintle_bench::cache::main()
}
