//! Runs a workload once. The workload uses the cache type of informers directly, without an informer: `cache_micro WORK [--quick]`.

use std::process::ExitCode;

fn main() -> ExitCode {
    pintle_bench::store::main()
}
