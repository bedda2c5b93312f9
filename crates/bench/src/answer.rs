//! Prints the result of a benchmark program and determines the program's exit code.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "this module writes to the terminal")]

use std::process::ExitCode;

use crate::meter::Sample;

/// Prints a sample as JSON. If `sample` is `None`, prints `usage` and the names of the workloads, and returns the exit
/// code 2.
pub fn answer<'a>(sample: Option<Sample>, usage: &str, works: impl Iterator<Item = &'a str>) -> ExitCode {
    let Some(sample) = sample else {
        eprintln!("usage: {usage}, one of:");
        works.for_each(|work| eprintln!("  {work}"));
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
