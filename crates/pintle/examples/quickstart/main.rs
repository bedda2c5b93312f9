//! A complete demo of an operator. The operator is in `operator.rs`. `README.md` describes the other files in this
//! directory.
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
mod website;

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
