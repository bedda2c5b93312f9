//! Runs one workload of the `cel` benchmark: `cel WORK [--quick]`.

use std::alloc::System;
use std::process::ExitCode;

use pintle_bench::cel::WORKS;
use pintle_bench::{Sample, answer};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

fn main() -> ExitCode {
    answer(run(), "cel WORK [--quick]", WORKS.iter().map(|(work, _)| *work))
}

fn run() -> Option<Sample> {
    let mut args = std::env::args().skip(1);
    let name = args.next()?;
    let (_, work) = WORKS.iter().find(|(work, _)| *work == name)?;
    let quick = match args.next().as_deref() {
        None => false,
        Some("--quick") => true,
        Some(_) => return None,
    };
    Some(work(quick))
}
