//! Does one work of the area `queue`, once: `queue WORK [--keys static|string] [--metrics] [--tasks] [--next] [--quick]`.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program that talks to a terminal")]

use std::process::ExitCode;

use pintle_bench::Sample;
use pintle_bench::queue::{Keys, Setting, WORKS};

fn main() -> ExitCode {
    let Some(sample) = run() else {
        eprintln!("usage: queue WORK [--keys static|string] [--metrics] [--tasks] [--next] [--quick], one of:");
        WORKS.iter().for_each(|(work, _)| eprintln!("  {work}"));
        return ExitCode::from(2);
    };
    match serde_json::to_string(&sample) {
        Ok(line) => println!("{line}"),
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

/// `None`: there is no such work, or not in that variant.
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
