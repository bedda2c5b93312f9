//! Runs one workload on the FIFO queues: `cache_fifo WORK [--quick]`.

use std::process::ExitCode;

fn main() -> ExitCode {
    pintle_bench::fifo::main()
}
