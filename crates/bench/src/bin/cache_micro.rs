//! Runs one workload of the cache alone, once: `cache_micro WORK [--quick]`.

use std::process::ExitCode;

fn main() -> ExitCode {
    pintle_bench::store::main()
}
