//! Runs one workload of the `rest` benchmark: `rest WORK --server KUBECONFIG [--quick]`.

use std::process::ExitCode;

fn main() -> ExitCode {
    pintle_bench::rest::main()
}
