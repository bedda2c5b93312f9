//! Runs one workload of the benchmark area `controller` once: `controller WORK --objects N --workers N --server KUBECONFIG
//! [--quick]`.

use std::process::ExitCode;

fn main() -> ExitCode {
    pintle_bench::controller::main()
}
