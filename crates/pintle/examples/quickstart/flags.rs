//! Command line flags and logging.

use std::path::PathBuf;

use clap::Parser;

/// Demo of a controller, on an embedded API server or a real cluster
#[derive(Debug, Parser)]
#[command(name = "quickstart")]
pub(crate) struct Flags {
    /// Keep running at the end, and write a kubeconfig for kubectl
    #[arg(long)]
    pub(crate) serve: bool,
    /// Use the current context of this kubeconfig instead of the embedded API server
    #[arg(long, value_name = "PATH")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Read the websites from the YAML files in this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) sites: Option<PathBuf>,
}

impl Flags {
    /// Parses the command line. Exits the process if the command line is invalid.
    pub(crate) fn read() -> Self {
        Self::parse()
    }
}

/// Sets up logging. Only errors are logged by default, because the injected faults cause many warnings about retries.
/// Set `RUST_LOG` to see more.
pub(crate) fn log() {
    let filter = tracing_subscriber::EnvFilter::try_from_default_env().unwrap_or_else(|_| "error".into());
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
}
