//! `pintle-apiserver`: the embedded API server as a program.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use pintle_apiserver::{ApiServer, ApiServerConfig};
use tokio::signal::unix::{SignalKind, signal};

/// A Kubernetes API server in one process: nothing to install, nothing kept.
#[derive(Debug, Parser)]
#[command(name = "pintle-apiserver", version)]
struct Arguments {
    /// The port of 127.0.0.1 to listen on; 0 takes a free one.
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// Speak TLS, with a certificate made at the start.
    #[arg(long)]
    tls: bool,
    /// Know users by the tokens in this CSV file: token,user,uid,"group1,group2". Without it every caller is an administrator.
    #[arg(long, value_name = "FILE")]
    token_auth_file: Option<PathBuf>,
    /// Create the objects of the manifests below this folder.
    #[arg(long, value_name = "DIR")]
    load: Option<PathBuf>,
    /// Write a kubeconfig for this server here.
    #[arg(long, value_name = "OUT")]
    kubeconfig: Option<PathBuf>,
}

#[tokio::main]
async fn main() -> ExitCode {
    let filter = tracing_subscriber::EnvFilter::try_from_default_env();
    let filter = filter.unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("warn"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    match run(Arguments::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Standard error is all there is to tell of it.
            let _ = writeln!(std::io::stderr(), "pintle-apiserver: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: Arguments) -> Result<(), Box<dyn std::error::Error>> {
    if arguments.token_auth_file.is_some() && !arguments.tls {
        tracing::warn!(
            "clients in Go, kubectl among them, send no token over plain HTTP; add --tls for them to be known"
        );
    }
    let config = ApiServerConfig {
        port: arguments.port,
        tls: arguments.tls,
        token_auth_file: arguments.token_auth_file,
        first_revision: first_revision(),
        ..ApiServerConfig::default()
    };
    let server = ApiServer::start(config).await?;
    if let Some(dir) = arguments.load {
        server.load_dir(&dir)?;
    }
    if let Some(path) = arguments.kubeconfig {
        std::fs::write(&path, server.kubeconfig())
            .map_err(|cause| format!("the kubeconfig {} cannot be written: {cause}", path.display()))?;
    }
    writeln!(std::io::stdout(), "{}", server.url())?;
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        _ = terminate.recv() => (),
        interrupted = tokio::signal::ctrl_c() => interrupted?,
    }
    server.shutdown().await;
    Ok(())
}

/// Tenths of a second since 2026: above what an earlier server on the same port gave out, unless it wrote more than ten times a
/// second all its life, so that its clients list anew. It stays below 2^32 for a decade, like the versions of real clusters,
/// since tools take larger ones for the far future.
fn first_revision() -> u64 {
    const START_OF_2026: i64 = 1_767_225_600;
    let tenths = jiff::Timestamp::now().as_millisecond() / 100 - START_OF_2026 * 10;
    tenths.try_into().unwrap_or(1)
}
