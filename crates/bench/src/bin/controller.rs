//! Runs one workload of the `controller` benchmark: `controller WORK --objects N --workers N --server KUBECONFIG
//! [--quick]`.

use std::process::ExitCode;

fn main() -> ExitCode {
    pintle_bench::controller::main()
}
