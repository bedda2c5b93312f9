//! Runs a server that answers client-go's load at once, over TLS, and prints the path of a kubeconfig. The program exits
//! when its standard input is closed.
#![allow(clippy::print_stdout, reason = "the caller reads the output")]

use std::error::Error;
use std::io::Read as _;

use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let authority = pintle_bench::apiserver::serve(listener)?;
    let folder = std::env::temp_dir().join(format!("pintle-bench-{}", std::process::id()));
    std::fs::create_dir(&folder)?;
    let (ca, kubeconfig) = (folder.join("ca.pem"), folder.join("kubeconfig"));
    std::fs::write(&ca, authority)?;
    std::fs::write(
        &kubeconfig,
        format!(
            "apiVersion: v1
kind: Config
current-context: floor
clusters:
- name: floor
  cluster: {{server: 'https://{address}', certificate-authority: '{ca}'}}
contexts:
- name: floor
  context: {{cluster: floor, user: nobody}}
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
