//! Runs the embedded API server over TLS, and prints where its kubeconfig is: `api_server`. Ends when nobody holds its input any more.
#![allow(clippy::print_stdout, reason = "a program that talks to its caller")]

use std::error::Error;
use std::io::Read as _;

use pintle::apiserver::{ApiServer, ApiServerConfig};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let server = ApiServer::start(ApiServerConfig { tls: true, ..ApiServerConfig::default() }).await?;
    let kubeconfig = std::env::temp_dir().join(format!("pintle-bench-{}.kubeconfig", std::process::id()));
    std::fs::write(&kubeconfig, server.kubeconfig())?;
    println!("{}", kubeconfig.display());
    tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new())).await??;
    std::fs::remove_file(kubeconfig)?;
    server.shutdown().await;
    Ok(())
}
