//! Runs one workload of the FIFO queues once: `cache_fifo WORK [--quick]`.

use std::process::ExitCode;

fn main() -> ExitCode {
    pintle_bench::fifo::main()
}
