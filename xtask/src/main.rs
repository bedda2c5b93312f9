//! The development jobs of this project. Run a job with `cargo xtask JOB`.
//!
//! Each job has its own module. [`ci`] runs all checks, [`tidy`] checks the repository's rules, [`docs`] builds the
//! documentation, [`mod@bench`] compares Pintle with its peers, [`conformance`] compares the API server with a real
//! one, and [`new_operator`] creates an operator project.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program that talks to a terminal")]

mod bench;
mod ci;
mod clients;
mod conformance;
mod docs;
mod flags;
mod new_operator;
mod real_server;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::Parser as _;
use xshell::{Shell, cmd};

use crate::flags::Xtask;

fn main() -> ExitCode {
    if let Some(code) = ci::compile().or_else(ci::compile_nothing) {
        return code;
    }
    match run(Xtask::parse()) {
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
    match flags {
        Xtask::Bench(flags) => bench::run(&sh, &flags),
        Xtask::Ci(flags) => ci::run(&sh, &flags),
        Xtask::NewOperator(flags) => new_operator::run(&sh, &flags),
        Xtask::Tidy => {
            println!("{}: tidy", tidy::run(&sh)?);
            Ok(ExitCode::SUCCESS)
        }
        Xtask::Docs => docs::run(&sh),
        Xtask::Conformance(flags) => conformance::run(&sh, &flags),
    }
}

fn cargo() -> String {
    std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned())
}

fn metadata(sh: &Shell) -> anyhow::Result<serde_json::Value> {
    let cargo = cargo();
    let text = cmd!(sh, "{cargo} metadata --locked --no-deps --format-version 1").quiet().read()?;
    Ok(serde_json::from_str(&text)?)
}

fn packages(sh: &Shell) -> anyhow::Result<Vec<serde_json::Value>> {
    metadata(sh)?["packages"].as_array().cloned().context("cargo metadata contains no packages")
}

/// Returns the files below a folder, except files and folders whose names are in `skip`.
fn files(folder: &Path, skip: &[&str]) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))? {
        let entry = entry?;
        if skip.iter().any(|skip| entry.file_name() == *skip) {
            continue;
        }
        if entry.file_type()?.is_dir() {
            found.extend(files(&entry.path(), skip)?);
        } else {
            found.push(entry.path());
        }
    }
    Ok(found)
}

fn target_dir(sh: &Shell) -> anyhow::Result<PathBuf> {
    let metadata = metadata(sh)?;
    let folder = metadata["target_directory"].as_str().context("cargo metadata contains no target_directory")?;
    Ok(PathBuf::from(folder))
}

fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}
