//! Runs the server for the `rest` benchmark and prints the path of a kubeconfig with the contexts `plain` and `tls`.
//! The program exits when its standard input is closed.

use std::error::Error;

use pintle_bench::publish;
use pintle_bench::rest::{Listeners, serve};
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let (plain, tls) = (TcpListener::bind("127.0.0.1:0").await?, TcpListener::bind("127.0.0.1:0").await?);
    let contexts =
        [("plain", format!("http://{}", plain.local_addr()?)), ("tls", format!("https://{}", tls.local_addr()?))];
    let authority = serve(Listeners { plain, tls })?;
    tokio::task::spawn_blocking(move || publish(&authority, &contexts)).await??;
    // Exit without waiting for responses, because a watch may never end.
    std::process::exit(0)
}
