//! What the program is asked to do.

use std::path::PathBuf;

use clap::Parser;

/// A controller at work, on an embedded API server or a real cluster
#[derive(Debug, Parser)]
#[command(name = "quickstart")]
pub(crate) struct Flags {
    /// Stay up afterwards, and write a kubeconfig for kubectl
    #[arg(long)]
    pub(crate) serve: bool,
    /// Run on the cluster of this kubeconfig's current context instead of the embedded API server
    #[arg(long, value_name = "PATH")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Take the websites from the YAML files in this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) sites: Option<PathBuf>,
}

impl Flags {
    /// Those of the command line. What cannot be understood ends the program.
    pub(crate) fn read() -> Self {
        Self::parse()
    }
}

/// Libraries speak of what they retry as warnings; a run that breaks things on purpose has many. `RUST_LOG` tells more.
pub(crate) fn log() {
    let filter = tracing_subscriber::EnvFilter::try_from_default_env().unwrap_or_else(|_| "error".into());
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
}
