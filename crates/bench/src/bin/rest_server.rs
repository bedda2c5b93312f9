//! Runs the server for the `rest` benchmark and prints the path of a kubeconfig with the contexts `plain` and `tls`.
//! The program exits when its standard input is closed.
#![allow(clippy::print_stdout, reason = "the caller reads the output")]

use std::error::Error;
use std::io::Read as _;

use pintle_bench::rest::{Listeners, serve};
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let (plain, tls) = (TcpListener::bind("127.0.0.1:0").await?, TcpListener::bind("127.0.0.1:0").await?);
    let (http, https) = (plain.local_addr()?, tls.local_addr()?);
    let authority = serve(Listeners { plain, tls })?;
    let folder = std::env::temp_dir().join(format!("pintle-bench-{}", std::process::id()));
    std::fs::create_dir(&folder)?;
    let (ca, kubeconfig) = (folder.join("ca.pem"), folder.join("kubeconfig"));
    std::fs::write(&ca, authority)?;
    std::fs::write(
        &kubeconfig,
        format!(
            "apiVersion: v1
kind: Config
current-context: plain
clusters:
- name: plain
  cluster: {{server: 'http://{http}'}}
- name: tls
  cluster: {{server: 'https://{https}', certificate-authority: '{ca}'}}
contexts:
- name: plain
  context: {{cluster: plain, user: nobody}}
- name: tls
  context: {{cluster: tls, user: nobody}}
users:
- name: nobody
  user: {{}}
",
            ca = ca.display(),
        ),
    )?;
    println!("{}", kubeconfig.display());
    tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new())).await??;
    std::fs::remove_dir_all(folder)?;
    // Exit without waiting for responses, because a watch may never end.
    std::process::exit(0)
}
