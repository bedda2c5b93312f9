use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;
use tower_service::Service;

use super::tls::TlsSettings;
use crate::request::BoxError;

/// Opens connections: TCP, and TLS over it, within one deadline.
#[derive(Clone)]
pub(super) struct Connector {
    tcp: HttpConnector,
    tls: Option<Arc<TlsSettings>>,
    timeout: Duration,
}

const TCP_KEEP_ALIVE: Duration = Duration::from_secs(30);

impl Connector {
    pub(super) fn new(tls: Option<Arc<TlsSettings>>, timeout: Duration) -> Self {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_keepalive(Some(TCP_KEEP_ALIVE));
        Self { tcp, tls, timeout }
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
        let tcp = self.tcp.call(uri);
        let tls = self.tls.clone();
        let timeout = self.timeout;
        let connect = async move {
            let tcp = tcp.await?;
            match tls {
                None => Ok(Conn { io: TokioIo::new(Box::new(tcp.into_inner())), h2: false }),
                Some(tls) => secured(Box::new(tcp.into_inner()), &host, &tls).await,
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

async fn secured(io: Box<dyn Io>, host: &str, tls: &TlsSettings) -> Result<Conn, BoxError> {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let name = tls.server_name.as_deref().unwrap_or(host);
    let name = ServerName::try_from(name.to_owned())?;
    let stream = TlsConnector::from(tls.config.clone()).connect(name, io).await?;
    let h2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    Ok(Conn { io: TokioIo::new(Box::new(stream)), h2 })
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
}

impl Connection for Conn {
    fn connected(&self) -> Connected {
        let connected = Connected::new();
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
