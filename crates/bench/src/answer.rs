//! How the binaries end.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "this is what talks to the terminal")]

use std::process::ExitCode;

use crate::Sample;

/// Prints a sample; or how the program is used, if there is none: `usage`, and one of these works.
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
