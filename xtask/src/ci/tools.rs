//! Installs missing tools that the checks need.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use xshell::{Shell, cmd};

use super::command::Quiet;

const DENY: &str = "0.20.2";

/// Returns the path of cargo-deny. Prefers a program on `PATH` with the right version to a program in `target/tools`.
/// If neither exists, installs the program in `target/tools`.
pub(super) fn deny(sh: &Shell) -> anyhow::Result<PathBuf> {
    let tools = sh.current_dir().join("target/tools");
    let ours = tools.join("bin/cargo-deny");
    for program in [PathBuf::from("cargo-deny"), ours.clone()] {
        if is_deny(sh, &program) {
            return Ok(program);
        }
    }
    let build = tools.join("build");
    // Without optimization and debug information, the build takes half as long.
    let install = format!("install --locked --debug --no-default-features cargo-deny@{DENY} --root");
    let install = Quiet::cargo(sh, "deny").args(&install).arg(&tools);
    let install = install.env("CARGO_PROFILE_DEV_DEBUG", "false").env("CARGO_TARGET_DIR", &build);
    install.limit(Duration::from_secs(20 * 60)).run().with_context(|| format!("installing cargo-deny {DENY}"))?;
    sh.remove_path(build)?;
    if !is_deny(sh, &ours) {
        bail!("{} was just installed, but is not cargo-deny {DENY}", ours.display());
    }
    Ok(ours)
}

fn is_deny(sh: &Shell, program: &Path) -> bool {
    let output = cmd!(sh, "{program} deny --version").quiet().ignore_stderr().read();
    output.is_ok_and(|output| output.split_whitespace().any(|word| word == DENY))
}

pub(super) fn component(sh: &Shell, name: &str, command: &str) -> anyhow::Result<()> {
    let cargo = crate::cargo();
    if cmd!(sh, "{cargo} {command} --version").quiet().ignore_stdout().ignore_stderr().run().is_ok() {
        return Ok(());
    }
    println!();
    println!("  installing {name} with rustup: once");
    let add = Quiet::new(sh, name, "rustup").args(&format!("component add {name}"));
    let missing = || format!("`cargo {command}` is missing; install the toolchain component {name}");
    add.run().map(drop).with_context(missing)
}
