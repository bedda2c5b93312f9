//! Runs one workload of the `queue` benchmark: `queue WORK [--keys static|string] [--metrics] [--tasks] [--next]
//! [--quick]`.

use std::alloc::System;
use std::process::ExitCode;

use pintle_bench::queue::{Keys, Setting, WORKS};
use pintle_bench::{Sample, answer};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

fn main() -> ExitCode {
    let usage = "queue WORK [--keys static|string] [--metrics] [--tasks] [--next] [--quick]";
    answer(run(), usage, WORKS.iter().map(|(work, _)| *work))
}

fn run() -> Option<Sample> {
    let mut args = std::env::args().skip(1);
    let name = args.next()?;
    let (_, work) = WORKS.iter().find(|(work, _)| *work == name)?;
    let mut setting = Setting::default();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--keys" => {
                setting.keys = match args.next()?.as_str() {
                    "static" => Keys::Static,
                    "string" => Keys::String,
                    _ => return None,
                }
            }
            "--metrics" => setting.metrics = true,
            "--tasks" => setting.tasks = true,
            "--next" => setting.next = true,
            "--quick" => setting.quick = true,
            _ => return None,
        }
    }
    work(setting)
}
