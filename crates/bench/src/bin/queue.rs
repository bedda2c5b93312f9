//! Runs one workload of the `queue` benchmark: `queue WORK [--keys static|string] [--metrics] [--tasks] [--next]
//! [--quick]`.

use std::alloc::System;
use std::process::ExitCode;

use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

fn main() -> ExitCode {
    pintle_bench::queue::main()
}
