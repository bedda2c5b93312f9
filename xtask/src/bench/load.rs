//! The server beside the programs of a work.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use anyhow::Context;

use super::Program;
use super::build::Built;

/// Runs until this is dropped.
pub(crate) struct LoadServer {
    child: Child,
    address: String,
}

impl LoadServer {
    /// One with so many pods, on a port that is free. Its address is a URL.
    pub(crate) fn with_pods(built: &Built, pods: usize) -> anyhow::Result<Self> {
        Self::start(built, "load_server", &["--pods", &pods.to_string()])
    }

    /// A whole API server. Its address is a kubeconfig file.
    pub(crate) fn cluster(built: &Built) -> anyhow::Result<Self> {
        Self::start(built, "api_server", &[])
    }

    /// The one of the area `rest`. Its address is a kubeconfig file.
    pub(crate) fn rest(built: &Built) -> anyhow::Result<Self> {
        Self::start(built, "rest_server", &[])
    }

    fn start(built: &Built, name: &'static str, args: &[&str]) -> anyhow::Result<Self> {
        let program = built.program(Program::Rust(name)).context("the server is one of ours")?;
        // It ends with its input, should this process end before it drops the server.
        let mut command = Command::new(&program);
        command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().with_context(|| format!("starting {}", program.display()))?;
        let mut address = String::new();
        if let Some(output) = &mut child.stdout {
            BufReader::new(output).read_line(&mut address).context("the server does not say where it listens")?;
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
        // It ends with its input. One that has ended already is what is wanted.
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}
