//! Runs the command of a step with a time limit, and writes the output to a file.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use xshell::Shell;

/// A command that writes its output to `target/ci/STEP.log`.
pub(super) struct Quiet {
    command: Command,
    log: PathBuf,
    limit: Duration,
}

pub(super) struct Ended {
    pub(super) status: ExitStatus,
    pub(super) output: String,
}

impl Quiet {
    /// Creates a command for a step, whose time limit is 30 minutes.
    pub(super) fn new(sh: &Shell, step: &str, program: impl AsRef<OsStr>) -> Self {
        let mut command = Command::new(program);
        command.current_dir(sh.current_dir()).stdin(Stdio::null());
        let log = sh.current_dir().join("target/ci").join(format!("{step}.log"));
        Self { command, log, limit: Duration::from_secs(30 * 60) }
    }

    pub(super) fn cargo(sh: &Shell, step: &str) -> Self {
        Self::new(sh, step, crate::cargo())
    }

    pub(super) fn args(mut self, args: &str) -> Self {
        self.command.args(args.split_whitespace());
        self
    }

    pub(super) fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.command.arg(arg);
        self
    }

    pub(super) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    pub(super) fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Runs the command and returns its output, or an error that contains the output if the command
    /// fails.
    pub(super) fn run(self) -> anyhow::Result<String> {
        let name = format!("{:?}", self.command);
        let ended = self.end()?;
        if !ended.status.success() {
            bail!("{}\n{name}: {}", ended.output.trim_end(), ended.status);
        }
        Ok(ended.output)
    }

    /// Runs the command until it exits, and accepts a nonzero exit code.
    pub(super) fn end(mut self) -> anyhow::Result<Ended> {
        if let Some(folder) = self.log.parent() {
            fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
        }
        let log = File::create(&self.log).with_context(|| format!("making {}", self.log.display()))?;
        let read = || fs::read(&self.log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        let child = self.command.stdout(log.try_clone()?).stderr(log).spawn();
        let mut child = child.with_context(|| format!("{:?}", self.command))?;
        let deadline = Instant::now() + self.limit;
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(Ended { status, output: read()? });
            }
            if Instant::now() >= deadline {
                child.kill()?;
                child.wait()?;
                bail!("{}\n{:?}: stopped after {} s", read()?.trim_end(), self.command, self.limit.as_secs());
            }
            sleep(Duration::from_millis(20));
        }
    }
}
