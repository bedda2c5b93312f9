//! Runs one workload on the informers' cache type, without an informer: `cache_micro WORK [--quick]`.

use std::process::ExitCode;

fn main() -> ExitCode {
    pintle_bench::store::main()
}
