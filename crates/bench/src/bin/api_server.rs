//! Runs the embedded API server over TLS, or over plain HTTP with `--http`, and prints the path of its kubeconfig. Ends when its standard
//! input is closed.
#![allow(clippy::print_stdout, reason = "the caller reads the output")]

use std::error::Error;
use std::io::Read as _;

use pintle::apiserver::{ApiServer, ApiServerConfig};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let tls = !std::env::args().any(|argument| argument == "--http");
    let server = ApiServer::start(ApiServerConfig { tls, ..ApiServerConfig::default() }).await?;
    let kubeconfig = std::env::temp_dir().join(format!("pintle-bench-{}.kubeconfig", std::process::id()));
    std::fs::write(&kubeconfig, server.kubeconfig())?;
    println!("{}", kubeconfig.display());
    tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new())).await??;
    std::fs::remove_file(kubeconfig)?;
    server.shutdown().await;
    Ok(())
}
