//! Runs a workload once. The workload uses the cache of the informer without an informer: `cache_micro WORK [--quick]`.

use std::process::ExitCode;

fn main() -> ExitCode {
    pintle_bench::store::main()
}
