//! Does one work on the queues of keyed changes, once: `cache_fifo WORK [--quick]`.

use std::process::ExitCode;

fn main() -> ExitCode {
    pintle_bench::fifo::main()
}
