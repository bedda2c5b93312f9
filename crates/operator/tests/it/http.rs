//! An HTTP client for a manager's server.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::support::soon;

/// The URL of a server that does not exist. Binding port 0 never returns this privileged port.
pub(crate) const UNREACHABLE: &str = "http://127.0.0.1:1";

pub(crate) async fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap()
}

pub(crate) async fn get(address: SocketAddr, path: &str) -> Option<(u16, String)> {
    let (head, body) = request(address, "GET", path).await?;
    Some((head.split(' ').nth(1)?.parse().ok()?, body))
}

pub(crate) async fn request(address: SocketAddr, method: &str, path: &str) -> Option<(String, String)> {
    let mut connection = TcpStream::connect(address).await.ok()?;
    connection.write_all(format!("{method} {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes()).await.unwrap();
    let mut response = String::new();
    soon(connection.read_to_string(&mut response)).await.unwrap();
    let (head, body) = response.split_once("\r\n\r\n")?;
    Some((format!("{head}\r\n"), body.to_owned()))
}
