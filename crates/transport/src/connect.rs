//! Opens TCP and TLS connections, directly or through a proxy.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use rustls::pki_types::ServerName;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::error::BoxError;
use crate::failure::Failure;
use crate::http2_config::Http2Config;
use crate::metrics::LookUps;
use crate::proxy::Proxy;
use crate::reads::Reads;
use crate::tls::TlsSettings;
use crate::{eyeballs, tunnel};

/// Opens connections to one server. A single timeout covers the connection attempt, the proxy and the TLS
/// handshake.
#[derive(Clone)]
pub(super) struct Connector {
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) proxy: Option<Proxy>,
    pub(super) proxy_tls: Option<Arc<TlsSettings>>,
    pub(super) tls: Option<Arc<TlsSettings>>,
    pub(super) timeout: Duration,
    pub(super) http2: Http2Config,
    pub(super) metrics: Option<Arc<LookUps>>,
}

/// The idle time after which TCP keep-alive sends up to three probes. Without probes, a watch over HTTP/1.1 might
/// not notice for hours, or ever, that its peer is gone. HTTP/2 connections also send HTTP/2 pings.
const KEEP_ALIVE: Duration = Duration::from_secs(30);
const KEEP_ALIVE_AGAIN: Duration = Duration::from_secs(5);
/// The time after which the operating system closes a connection if the peer does not acknowledge sent data. Linux
/// waits 15 minutes by default.
#[cfg(target_os = "linux")]
const UNACKNOWLEDGED: Duration = Duration::from_secs(45);

impl Connector {
    /// Returns a connector that offers only HTTP/1.1, because an HTTP/2 connection cannot be upgraded to another
    /// protocol.
    pub(super) fn without_http2(mut self) -> Self {
        self.tls = self.tls.as_deref().map(|tls| Arc::new(tls.without_http2()));
        self
    }

    pub(super) async fn connect(&self) -> Result<Conn, Failure> {
        match tokio::time::timeout(self.timeout, self.open()).await {
            Ok(opened) => opened.map_err(Failure::connecting),
            Err(_) => Err(Failure::ConnectTimeout),
        }
    }

    async fn open(&self) -> Result<Conn, BoxError> {
        let metrics = self.metrics.as_deref();
        let stream: Stream = match &self.proxy {
            None => Box::new(reach(&self.host, self.port, metrics).await?),
            Some(Proxy::Http { host, port, auth, .. }) => {
                let mut stream: Stream = Box::new(reach(host, *port, metrics).await?);
                if let Some(tls) = &self.proxy_tls {
                    stream = Box::new(secure(stream, tls, host).await?);
                }
                if self.tls.is_some() {
                    tunnel::connect(&mut stream, &self.host, self.port, auth.as_ref()).await?;
                }
                stream
            }
            Some(Proxy::Socks5 { host, port, auth }) => {
                let mut tcp = reach(host, *port, metrics).await?;
                tunnel::socks5(&mut tcp, &self.host, self.port, auth.as_ref()).await?;
                Box::new(tcp)
            }
        };
        let Some(tls) = &self.tls else { return Ok(Conn { stream, is_http2: false, observer: None }) };
        let stream = secure(stream, tls, tls.server_name.as_ref().unwrap_or(&self.host)).await?;
        let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        Ok(Conn { stream: Box::new(stream), is_http2, observer: None })
    }
}

/// Performs a TLS handshake. The peer's certificate must be valid for `name`.
async fn secure(stream: Stream, tls: &TlsSettings, name: &str) -> Result<TlsStream<Stream>, BoxError> {
    let name = ServerName::try_from(name.to_owned())?;
    Ok(TlsConnector::from(tls.config.clone()).connect(name, stream).await?)
}

async fn reach(host: &str, port: u16, metrics: Option<&LookUps>) -> io::Result<TcpStream> {
    let tcp = eyeballs::connect(host, port, metrics).await?;
    tcp.set_nodelay(true)?;
    let socket = SockRef::from(&tcp);
    let probes = TcpKeepalive::new().with_time(KEEP_ALIVE).with_interval(KEEP_ALIVE_AGAIN);
    #[cfg(not(windows))]
    let probes = probes.with_retries(3);
    socket.set_tcp_keepalive(&probes)?;
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(UNACKNOWLEDGED))?;
    Ok(tcp)
}

/// An open connection to the server, directly or through a proxy.
pub struct Conn {
    stream: Stream,
    pub(super) is_http2: bool,
    observer: Option<ReadObserver>,
}

/// A connection over plain TCP, TLS, or TLS inside a TLS connection to a proxy.
type Stream = Box<dyn Io>;

trait Io: AsyncRead + AsyncWrite + Send + Sync + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Sync + Unpin> Io for T {}

struct ReadObserver {
    reads: Arc<Reads>,
    has_read: bool,
    is_settled: bool,
}

impl Conn {
    /// Records the time of each read in `reads`. After the first data from the peer, the next read notifies
    /// [`Reads::settled`], because the caller has then processed this data.
    pub(super) fn observed_by(mut self, reads: Arc<Reads>) -> Self {
        self.observer = Some(ReadObserver { reads, has_read: false, is_settled: false });
        self
    }
}

impl AsyncRead for Conn {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_read(cx, buf);
        if let Some(observer) = &mut self.observer {
            match polled {
                Poll::Ready(_) => {
                    observer.has_read = true;
                    observer.reads.mark();
                }
                Poll::Pending if observer.has_read && !observer.is_settled => {
                    observer.reads.settled.notify_one();
                    observer.is_settled = true;
                }
                Poll::Pending => {}
            }
        }
        polled
    }
}

impl AsyncWrite for Conn {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

pintle_meta::debug_struct!(Connector { host, port, .. });

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn dead_peer_of_idle_connection_is_detected_in_time() {
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let tcp = reach("127.0.0.1", listener.local_addr().unwrap().port(), None).await.unwrap();
        let socket = SockRef::from(&tcp);
        let probes = socket.tcp_keepalive_interval().unwrap() * socket.tcp_keepalive_retries().unwrap();
        assert!(socket.keepalive().unwrap());
        assert_eq!(socket.tcp_keepalive_time().unwrap() + probes, Duration::from_secs(45));
        assert_eq!(socket.tcp_user_timeout().unwrap(), Some(Duration::from_secs(45)));
    }
}
