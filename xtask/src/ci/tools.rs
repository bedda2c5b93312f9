//! Installs missing tools for the checks, in fixed versions.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, bail};
use xshell::{Shell, cmd};

use super::command::Quiet;

pub(super) struct Tool {
    name: &'static str,
    version: &'static str,
    about: &'static str,
    /// Prevents two threads from installing the tool at the same time.
    one_at_a_time: Mutex<()>,
}

pub(super) static NEXTEST: Tool = Tool::new("cargo-nextest", "0.9.151", "runs tests with time limits");
pub(super) static DENY: Tool = Tool::new("cargo-deny", "0.20.2", "checks licences and sources of dependencies");

/// Starts to install the tools on another thread while the first steps run. If an installation fails, the step that
/// needs the tool repeats the installation and reports the error.
pub(super) fn install_ahead(sh: &Shell) {
    let root = sh.current_dir();
    thread::spawn(move || {
        let Ok(sh) = Shell::new() else { return };
        sh.change_dir(root);
        for tool in [&NEXTEST, &DENY] {
            let _retried_by_the_step = tool.program(&sh);
        }
    });
}

impl Tool {
    const fn new(name: &'static str, version: &'static str, about: &'static str) -> Self {
        Self { name, version, about, one_at_a_time: Mutex::new(()) }
    }

    /// Returns the path of the tool's program. Uses a program on `PATH` with the right version, or else the program in
    /// `target/tools`. Installs a missing program in `target/tools`.
    pub(super) fn program(&self, sh: &Shell) -> anyhow::Result<PathBuf> {
        let Self { name, version, about, one_at_a_time } = self;
        let _held = one_at_a_time.lock().unwrap_or_else(PoisonError::into_inner);
        let tools = sh.current_dir().join("target/tools");
        let ours = tools.join("bin").join(name);
        for program in [PathBuf::from(name), ours.clone()] {
            if self.is_at(sh, &program) {
                return Ok(program);
            }
        }
        println!();
        println!("  installing {name} {version} ({about}) into {}: once, a minute or two", tools.display());
        let build = tools.join("build");
        // Without optimization and debug information, the build takes half of the time.
        let install = format!("install --locked --debug --no-default-features {name}@{version} --root");
        let install = Quiet::cargo(sh, name).args(&install).arg(&tools);
        let install = install.env("CARGO_PROFILE_DEV_DEBUG", "false").env("CARGO_TARGET_DIR", &build);
        install.limit(Duration::from_secs(20 * 60)).run().with_context(|| format!("installing {name} {version}"))?;
        sh.remove_path(build)?;
        if !self.is_at(sh, &ours) {
            bail!("{} was just installed, but is not {name} {version}", ours.display());
        }
        Ok(ours)
    }

    fn is_at(&self, sh: &Shell, program: &Path) -> bool {
        let subcommand = self.name.trim_start_matches("cargo-");
        let output = cmd!(sh, "{program} {subcommand} --version").quiet().ignore_stderr().read();
        output.is_ok_and(|output| output.split_whitespace().any(|word| word == self.version))
    }
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
