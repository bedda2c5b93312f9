//! Runs one workload of the `apiserver` benchmark: `apiserver WORK [--server KUBECONFIG --processes ID,…] [--quick]`.

use std::process::ExitCode;

fn main() -> ExitCode {
    pintle_bench::apiserver::main()
}
