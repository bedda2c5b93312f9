//! Runs the embedded API server over TLS, or over plain HTTP with `--http`. The program prints the path of a
//! kubeconfig for the server. `--maps N` creates `N` ConfigMaps for the `controller` benchmark at startup.
//! `--changes N` updates `N` of these ConfigMaps per second. The program exits when its standard input is closed.
#![allow(clippy::print_stdout, reason = "the caller reads the output")]

use std::error::Error;
use std::io::Read as _;

use pintle::apiserver::{ApiServer, ApiServerConfig};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let (mut tls, mut maps, mut changes) = (true, 0, 0);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--http" => tls = false,
            "--maps" => maps = arguments.next().ok_or("--maps needs a number")?.parse()?,
            "--changes" => changes = arguments.next().ok_or("--changes needs a number")?.parse()?,
            _ => return Err("usage: api_server [--http] [--maps N] [--changes N]".into()),
        }
    }
    let server = ApiServer::start(ApiServerConfig { tls, ..ApiServerConfig::default() }).await?;
    pintle_bench::controller::fill(&server, maps).await?;
    let kubeconfig = std::env::temp_dir().join(format!("pintle-bench-{}.kubeconfig", std::process::id()));
    std::fs::write(&kubeconfig, server.kubeconfig())?;
    println!("{}", kubeconfig.display());
    let end = tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new()));
    tokio::select! {
        end = end => drop(end??),
        failed = pintle_bench::controller::change(&server, maps, changes) => failed?,
    }
    std::fs::remove_file(kubeconfig)?;
    server.shutdown().await;
    Ok(())
}
