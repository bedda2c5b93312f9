//! Connections: plain, through a proxy, with TLS.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::proxy::{SocksV5, Tunnel};
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tower_service::Service;

use super::proxy::Proxy;
use super::tls::TlsSettings;
use crate::request::BoxError;

/// Opens connections: TCP, and TLS over it, within one deadline.
#[derive(Clone)]
pub(super) struct Connector {
    tcp: HttpConnector,
    proxy: Option<Proxy>,
    tls: Option<Arc<TlsSettings>>,
    timeout: Duration,
}

const TCP_KEEP_ALIVE: Duration = Duration::from_secs(30);

impl Connector {
    pub(super) fn new(tls: Option<Arc<TlsSettings>>, proxy: Option<Proxy>, timeout: Duration) -> Self {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_keepalive(Some(TCP_KEEP_ALIVE));
        Self { tcp, proxy, tls, timeout }
    }
}

impl Service<Uri> for Connector {
    type Response = Conn;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Conn, BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.tcp.poll_ready(cx).map_err(BoxError::from)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let host = uri.host().unwrap_or_default().to_owned();
        let tcp = self.tcp.clone();
        let (tls, proxy, timeout) = (self.tls.clone(), self.proxy.clone(), self.timeout);
        let connect = async move {
            let forwarded = tls.is_none() && matches!(proxy, Some(Proxy::Http { .. }));
            let stream = reach(tcp, uri, proxy, tls.is_some()).await?;
            match tls {
                None => Ok(Conn { io: TokioIo::new(Box::new(stream)), h2: false, forwarded }),
                Some(tls) => secured(stream, &host, &tls).await,
            }
        };
        Box::pin(async move {
            match tokio::time::timeout(timeout, connect).await {
                Ok(connected) => connected,
                Err(_) => Err(ConnectTimeout.into()),
            }
        })
    }
}

/// Opens the TCP connection, through the proxy if there is one.
async fn reach(mut tcp: HttpConnector, uri: Uri, proxy: Option<Proxy>, tunnel: bool) -> Result<TcpStream, BoxError> {
    let stream = match proxy {
        None => tcp.call(uri).await?,
        Some(Proxy::Http { uri: proxy, auth }) if tunnel => {
            let tunnel = Tunnel::new(proxy, tcp);
            match auth {
                Some(auth) => tunnel.with_auth(auth),
                None => tunnel,
            }
            .call(uri)
            .await?
        }
        Some(Proxy::Http { uri: proxy, .. }) => tcp.call(proxy).await?,
        Some(Proxy::Socks5 { uri: proxy, auth }) => {
            let socks = SocksV5::new(proxy, tcp);
            match auth {
                Some((user, password)) => socks.with_auth(user, password),
                None => socks,
            }
            .call(uri)
            .await?
        }
    };
    Ok(stream.into_inner())
}

async fn secured(io: TcpStream, host: &str, tls: &TlsSettings) -> Result<Conn, BoxError> {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let name = tls.server_name.as_deref().unwrap_or(host);
    let name = ServerName::try_from(name.to_owned())?;
    let stream = TlsConnector::from(tls.config.clone()).connect(name, io).await?;
    let h2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    Ok(Conn { io: TokioIo::new(Box::new(stream)), h2, forwarded: false })
}

/// The deadline for connecting has passed.
#[derive(Debug)]
pub(super) struct ConnectTimeout;

impl fmt::Display for ConnectTimeout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the server could not be reached in time")
    }
}

impl std::error::Error for ConnectTimeout {}

pub(super) trait Io: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// An open connection.
pub(super) struct Conn {
    io: TokioIo<Box<dyn Io>>,
    /// Whether TLS agreed on HTTP/2.
    h2: bool,
    /// Whether a proxy at the other end has to be told the whole URL.
    forwarded: bool,
}

impl Connection for Conn {
    fn connected(&self) -> Connected {
        let connected = Connected::new().proxy(self.forwarded);
        if self.h2 { connected.negotiated_h2() } else { connected }
    }
}

impl Read for Conn {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buf)
    }
}

impl Write for Conn {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}
