//! The readers and the writer of a connection's channels, which implement the I/O traits of tokio.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::Connection;
use super::state::NO_CLOSE;

/// The reader of a channel from the server. After the reader is dropped, the connection discards further data of
/// the channel.
pub(crate) struct Receiver {
    connection: Connection,
    index: usize,
}

/// The writer of the channel to the server. Dropping the writer closes the channel.
pub(crate) struct Sender(Connection);

impl Receiver {
    pub(super) fn new(connection: Connection, index: usize) -> Self {
        Self { connection, index }
    }
}

impl Sender {
    pub(super) fn new(connection: Connection) -> Self {
        Self(connection)
    }
}

impl AsyncRead for Receiver {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.connection.shared().poll_read(self.index, cx, buf)
    }
}

impl AsyncWrite for Sender {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        self.0.shared().poll_write(cx, data)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.shared().poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.shared().poll_close(cx)
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.connection.shared().abandon(self.index);
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        if !self.0.shared().close() {
            tracing::warn!("the input of a command was dropped, but {NO_CLOSE}");
        }
    }
}
