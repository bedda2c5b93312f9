//! The project's own tools, run as `cargo xtask JOB`.
//!
//! One file a job: [`bench`] compares us with our peers.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program that talks to a terminal")]

mod bench;
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
    }
}

/// The folder of the workspace, wherever the command was called from.
fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}
