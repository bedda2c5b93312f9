//! The load server beside the programs of a work.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use anyhow::Context;

use super::Program;
use super::build::Built;

/// Runs until this is dropped.
pub(crate) struct LoadServer {
    child: Child,
    url: String,
}

impl LoadServer {
    /// One with so many pods, on a port that is free.
    pub(crate) fn start(built: &Built, pods: usize) -> anyhow::Result<Self> {
        let program = built.program(Program::Rust("load_server")).context("the load server is one of ours")?;
        // It ends with its input, should this process end before it drops the server.
        let mut command = Command::new(&program);
        command.args(["--pods", &pods.to_string()]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().with_context(|| format!("starting {}", program.display()))?;
        let mut url = String::new();
        if let Some(output) = &mut child.stdout {
            BufReader::new(output).read_line(&mut url).context("the load server does not say where it listens")?;
        }
        Ok(Self { child, url: url.trim_end().to_owned() })
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for LoadServer {
    fn drop(&mut self) {
        // One that has ended already is what is wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
