//! Runs one workload of the `election` benchmark: `election WORK [--polling] --server KUBECONFIG [--quick]`.

use std::process::ExitCode;

fn main() -> ExitCode {
    pintle_bench::election::main()
}
