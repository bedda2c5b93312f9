//! Runs one workload of the `cache` benchmark: `cache WORK --server URL [--quick]`.

use std::process::ExitCode;

fn main() -> ExitCode {
    pintle_bench::cache::main()
}
