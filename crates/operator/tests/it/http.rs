//! An HTTP client for a manager's server.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

use crate::support::soon;

/// The URL of a server that does not exist. Binding port 0 never returns this privileged port.
pub(crate) const UNREACHABLE: &str = "http://127.0.0.1:1";

pub(crate) async fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// A loopback address to which a test can bind a server later. On Linux, no other socket gets this port while a
/// `ReservedAddress` exists. The server can still bind the port, because both sockets set `SO_REUSEADDR` and this socket
/// does not listen. On other systems the port is not reserved, because they reject the second socket.
pub(crate) struct ReservedAddress {
    pub(crate) address: SocketAddr,
    _socket: Option<TcpSocket>,
}

impl ReservedAddress {
    pub(crate) fn new() -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_reuseaddr(true).unwrap();
        socket.bind(([127, 0, 0, 1], 0).into()).unwrap();
        Self { address: socket.local_addr().unwrap(), _socket: cfg!(target_os = "linux").then_some(socket) }
    }
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
