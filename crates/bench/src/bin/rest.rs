//! Runs one workload of the benchmark area `rest` once: `rest WORK --server KUBECONFIG [--quick]`.

use std::process::ExitCode;

fn main() -> ExitCode {
    pintle_bench::rest::main()
}
