//! Runs a server that answers client-go's load at once, over TLS, and prints the path of a kubeconfig. The program exits
//! when its standard input is closed.

use std::error::Error;

use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("https://{}", listener.local_addr()?);
    let authority = pintle_bench::apiserver::serve(listener)?;
    tokio::task::spawn_blocking(move || pintle_bench::publish(&authority, &[("floor", url)])).await??;
    // Exit without waiting for responses, because a watch may never end.
    std::process::exit(0)
}
