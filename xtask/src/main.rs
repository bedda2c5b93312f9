//! The project's own tools, run as `cargo xtask JOB`.
//!
//! One file a job: [`bench`] compares us with our peers, [`conformance`] the API server with a real one.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program that talks to a terminal")]

mod bench;
mod conformance;
mod flags;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use xshell::Shell;

use crate::flags::{Xtask, XtaskCmd};

fn main() -> ExitCode {
    match run(Xtask::from_env_or_exit()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(flags: Xtask) -> anyhow::Result<ExitCode> {
    let sh = Shell::new()?;
    sh.change_dir(root());
    match flags.subcommand {
        XtaskCmd::Bench(flags) => bench::run(&sh, &flags),
        XtaskCmd::Conformance(flags) => conformance::run(&sh, &flags),
    }
}

/// The cargo that called us.
fn cargo() -> String {
    std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned())
}

/// The folder of the workspace, wherever the command was called from.
fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}
