//! A scripted WebSocket server on the loopback interface.

use std::net::SocketAddr;
use std::sync::Arc;

use futures_util::{SinkExt, StreamExt};
use pintle_meta::{ApiResource, ClientConfig, DynamicObject, Scope};
use pintle_restreq::{Api, RestClient};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role};
use tokio_tungstenite::tungstenite::{Bytes, Message};

pub(crate) const V5: &str = "v5.channel.k8s.io";
pub(crate) const V4: &str = "v4.channel.k8s.io";

pub(crate) const SUCCESS: &str = r#"{"metadata":{},"status":"Success"}"#;

pub(crate) trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

pub(crate) struct Peer {
    pub(crate) head: String,
    pub(crate) stream: Box<dyn Stream>,
}

impl Peer {
    pub(crate) async fn new(mut stream: Box<dyn Stream>) -> Self {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.unwrap());
        }
        Self { head: String::from_utf8(head).unwrap(), stream }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find_map(|(key, value)| key.eq_ignore_ascii_case(name).then_some(value))
    }

    pub(crate) fn target(&self) -> &str {
        self.head.split(' ').nth(1).unwrap()
    }

    pub(crate) fn acceptance(&self, protocol: &str) -> String {
        let accept = derive_accept_key(self.header("sec-websocket-key").unwrap().as_bytes());
        format!(
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Accept: {accept}\r\nSec-WebSocket-Protocol: {protocol}\r\n\r\n"
        )
    }

    pub(crate) async fn say(&mut self, text: impl AsRef<[u8]>) {
        self.stream.write_all(text.as_ref()).await.unwrap();
        self.stream.flush().await.unwrap();
    }

    pub(crate) async fn accept(mut self, protocol: &str) -> Socket {
        self.say(self.acceptance(protocol)).await;
        Socket(WebSocketStream::from_raw_socket(self.stream, Role::Server, None).await)
    }
}

pub(crate) struct Socket(pub(crate) WebSocketStream<Box<dyn Stream>>);

impl Socket {
    pub(crate) async fn send(&mut self, channel: u8, data: impl AsRef<[u8]>) {
        let message = [&[channel], data.as_ref()].concat();
        self.0.send(Message::Binary(message.into())).await.unwrap();
    }

    /// Returns the next data message, or `None` after the last message.
    pub(crate) async fn next(&mut self) -> Option<Bytes> {
        loop {
            match self.0.next().await {
                Some(Ok(Message::Binary(data))) => return Some(data),
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                Some(Ok(Message::Close(_)) | Err(_)) | None => return None,
                Some(Ok(other)) => panic!("unexpected message: {other:?}"),
            }
        }
    }

    pub(crate) async fn close(self) {
        self.close_with(CloseCode::Normal, "").await;
    }

    pub(crate) async fn close_with(mut self, code: CloseCode, reason: &'static str) {
        self.0.close(Some(CloseFrame { code, reason: reason.into() })).await.unwrap();
        // Wait for the client to close the connection, so that no data is lost.
        while let Some(Ok(_)) = self.0.next().await {}
    }

    pub(crate) async fn end(mut self, status: &str) {
        self.send(3, status).await;
        self.close().await;
    }
}

/// Starts a server that accepts one connection and passes it to `run`. Returns the address of the server, and a task
/// that returns the result of `run`.
pub(crate) async fn serve<F, Fut>(
    tls: Option<Arc<rustls::ServerConfig>>,
    run: F,
) -> (SocketAddr, JoinHandle<Fut::Output>)
where
    F: FnOnce(Peer) -> Fut + Send + 'static,
    Fut: Future<Output: Send + 'static> + Send,
{
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let addr = listener.local_addr().unwrap();
    let task = tokio::spawn(async move {
        let (tcp, _) = listener.accept().await.unwrap();
        tcp.set_nodelay(true).unwrap();
        let stream: Box<dyn Stream> = match tls {
            None => Box::new(tcp),
            Some(tls) => Box::new(tokio_rustls::TlsAcceptor::from(tls).accept(tcp).await.unwrap()),
        };
        run(Peer::new(stream).await).await
    });
    (addr, task)
}

/// Starts a server that accepts one connection and passes it to `run`. Returns an `Api` for pods of this server, and
/// a task that returns the result of `run`.
pub(crate) async fn pods<F, Fut>(run: F) -> (Api<DynamicObject>, JoinHandle<Fut::Output>)
where
    F: FnOnce(Peer) -> Fut + Send + 'static,
    Fut: Future<Output: Send + 'static> + Send,
{
    let (addr, task) = serve(None, run).await;
    (pods_of(ClientConfig::new(format!("http://{addr}"))), task)
}

pub(crate) fn pods_of(config: ClientConfig) -> Api<DynamicObject> {
    let pods = ApiResource::new("v1", "Pod", "pods", Scope::Namespaced);
    Api::dynamic(RestClient::new(config).unwrap(), pods, Some("team-a")).unwrap()
}
