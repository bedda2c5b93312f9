//! Runs one workload that uses the informer cache without an informer, once: `cache_micro WORK [--quick]`.

use std::process::ExitCode;

fn main() -> ExitCode {
    pintle_bench::store::main()
}
