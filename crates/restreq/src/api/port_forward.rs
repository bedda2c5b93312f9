//! Forwards connections to the ports of pods.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::Method;
use pintle_meta::{ApiError, InvalidKey, ObjectKey, RequestLine};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::Api;
use crate::channels::{self, CloseSignal, Connection, Layout, Receiver, Sender};
use crate::error::InvalidRequest;

/// A connection to a pod's port, returned by [`Api::port_forward`].
///
/// - **Backpressure**: each direction buffers at most 64 KiB plus one message.
/// - **End of the connection**: when the pod closes the connection, a read returns the end of the stream. If no process
///   listens on the port, a read returns an error with the node's message. If the connection to the API server is lost,
///   a read returns an error. Dropping the `PortForward` closes the connection.
/// - **Half-closed connections**: the protocol does not support half-closed connections. Shutting down the write side
///   flushes the data, but the pod receives no end of the stream. To close the connection, drop the [`PortForward`].
///
/// # Cancel safety
///
/// A read or write that returns `Pending` has transferred no data.
pub struct PortForward {
    receiver: Receiver,
    sender: Sender,
    connection: Connection,
    request: Arc<RequestLine>,
}

/// The kubelet's WebSocket subprotocol. Newer servers also support SPDY tunnels, which carry several connections over
/// one WebSocket.
const PROTOCOL: &str = "v4.channel.k8s.io";

const LAYOUT: Layout = Layout {
    inputs: &[0],
    error: 1,
    // The first message on each channel from the server contains only the port number, as two bytes.
    preamble: 2,
    close_signal: CloseSignal::Flush,
};

impl<T> Api<T> {
    /// Opens a connection to a pod's port. Each call opens a separate connection.
    ///
    /// The client's user needs permission for the verbs `get` and `create` on `pods/portforward`. The client opens a
    /// WebSocket over HTTP/1.1. The process in the pod sees a connection from localhost.
    ///
    /// # Errors
    ///
    /// Returns `NotFound` if the pod does not exist, an error if this `Api` is not for pods, or another error if the
    /// request fails. If no process listens on the port, reading from the returned connection fails.
    ///
    /// # Panics
    ///
    /// Panics if called outside of a tokio runtime with timers enabled.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the connection.
    ///
    /// # Examples
    ///
    /// Forwards each connection from a local port to a pod:
    ///
    /// ```
    /// use pintle_meta::DynamicObject;
    /// use pintle_restreq::Api;
    /// use tokio::io::copy_bidirectional;
    /// use tokio::net::TcpListener;
    ///
    /// async fn forward(pods: Api<DynamicObject>) -> Result<(), Box<dyn std::error::Error>> {
    ///     let listener = TcpListener::bind("127.0.0.1:8080").await?;
    ///     loop {
    ///         let (mut local, _) = listener.accept().await?;
    ///         let mut remote = pods.port_forward("web-1", 80).await?;
    ///         tokio::spawn(async move {
    ///             if let Err(error) = copy_bidirectional(&mut local, &mut remote).await {
    ///                 eprintln!("{error}");
    ///             }
    ///         });
    ///     }
    /// }
    /// ```
    pub async fn port_forward(
        &self,
        key: impl TryInto<ObjectKey, Error: Into<InvalidKey>>,
        port: u16,
    ) -> Result<PortForward, ApiError> {
        let request = self.on_object_of("", &["pods"], self.client.verb(Method::GET), key).subresource(["portforward"]);
        let request = match port {
            0 => request.keep(InvalidRequest::Mismatch("port 0 is not a port; use a port from 1 to 65535".into())),
            port => request.param("ports", port.to_string()),
        };
        let (socket, _, request) = request.websocket(&[PROTOCOL]).await?;
        let connection = channels::open(socket, LAYOUT);
        let (receiver, sender) = (connection.receiver(0), connection.sender());
        Ok(PortForward { receiver, sender, connection, request })
    }
}

impl AsyncRead for PortForward {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.receiver).poll_read(cx, buf))?;
        let is_end = buf.filled().len() == before && buf.remaining() > 0;
        match is_end.then(|| self.connection.error_text()).flatten() {
            Some(message) => Poll::Ready(Err(io::Error::other(format!("{}: {message}", self.request)))),
            None => Poll::Ready(Ok(())),
        }
    }
}

impl AsyncWrite for PortForward {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.sender).poll_write(cx, data)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.sender).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.sender).poll_shutdown(cx)
    }
}

impl fmt::Debug for PortForward {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PortForward").field("request", &format_args!("{}", self.request)).finish_non_exhaustive()
    }
}
