//! Starts the servers for the programs of a workload.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use anyhow::Context;

use super::Program;
use super::build::Built;

pub(crate) struct LoadServer {
    child: Child,
    address: String,
}

impl LoadServer {
    pub(crate) fn start(built: &Built, name: &'static str, args: &[String]) -> anyhow::Result<Self> {
        let program = built.program(Program::Rust(name)).context("cannot find the server's program")?;
        // Pass a pipe as standard input: the server exits when the pipe is closed, even if this
        // process is killed.
        let mut command = Command::new(&program);
        command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().with_context(|| format!("cannot start {}", program.display()))?;
        let mut address = String::new();
        if let Some(output) = &mut child.stdout {
            BufReader::new(output).read_line(&mut address).context("the server did not print its address")?;
        }
        Ok(Self { child, address: address.trim_end().to_owned() })
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    pub(crate) fn process(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for LoadServer {
    fn drop(&mut self) {
        // Close standard input, which stops the server unless it has already exited.
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}
