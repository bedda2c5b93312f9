//! A complete demo of an operator. `operator.rs` contains the operator, and `README.md` in this folder describes the
//! other files.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program that talks to a terminal")]

mod children;
mod created;
mod flags;
mod manifests;
mod observer;
mod operator;
mod play;
mod progress;
mod replica;
mod script;
mod serve;
mod stage;
mod summary;

use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    flags::log();
    match script::run(flags::Flags::read()).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
