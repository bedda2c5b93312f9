//! Forwards connections to the ports of pods.

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

/// A connection to a port of a pod, returned by [`Api::port_forward`].
///
/// - **Backpressure**: each direction buffers at most 64 KiB plus one message.
/// - **End of the connection**: when the pod closes the connection, a read returns the end of the stream. If no process
///   listens on the port, a read returns an error that contains the message of the node. If the connection to the API
///   server is lost, a read returns an error. The connection is closed when the `PortForward` is dropped.
/// - **Half-closed connections**: the protocol does not support half-closed connections. Shutting down the write half
///   flushes the data, but does not signal the end of the stream to the pod. Drop the [`PortForward`] to close the
///   connection.
///
/// # Cancel safety
///
/// If a read or write returns `Pending`, no data has been transferred.
pub struct PortForward {
    receiver: Receiver,
    sender: Sender,
    connection: Connection,
    request: Arc<RequestLine>,
}

/// The kubelet's WebSocket subprotocol. Newer servers also support tunneling SPDY, which carries several connections
/// over one WebSocket.
const PROTOCOL: &str = "v4.channel.k8s.io";

const LAYOUT: Layout = Layout {
    inputs: &[0],
    error: 1,
    // The first message from the server on each channel is the port number in two bytes.
    preamble: 2,
    close_signal: CloseSignal::Flush,
};

impl<T> Api<T> {
    /// Opens a connection to a port of a pod. Each call opens a new connection.
    ///
    /// The user needs the verbs `get` and `create` on `pods/portforward`. The client uses a WebSocket over HTTP/1.1.
    /// The process in the pod receives the connection from localhost.
    ///
    /// # Errors
    ///
    /// Returns `NotFound` if the pod does not exist, or another error if this `Api` is not for pods or the request
    /// fails. If no process listens on the port, reading from the returned connection fails.
    ///
    /// # Panics
    ///
    /// Panics if called outside of a tokio runtime, or if the timers of the runtime are not enabled.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the connection is closed.
    ///
    /// # Examples
    ///
    /// The following example forwards each connection from a local port to a pod:
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

pintle_meta::debug_struct!(PortForward |self| { request = format_args!("{}", self.request), .. });
