//! Detects with HTTP/2 pings whether the peer is lost, like client-go.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use h2::{Ping, PingPong, client};
use tokio::time::{Instant, Sleep, sleep};

use crate::connect::Conn;
use crate::http2_config::Http2Config;
use crate::reads::Reads;

/// Sends a ping if the connection has received no data for `after`.
pub(crate) struct KeepAlive {
    ping: PingPong,
    after: Duration,
    /// The time to wait for the response to a ping.
    timeout: Duration,
    reads: Arc<Reads>,
    timer: Pin<Box<Sleep>>,
    is_waiting: bool,
}

impl KeepAlive {
    pub(super) fn new(
        connection: &mut client::Connection<Conn, Bytes>,
        config: Http2Config,
        reads: Arc<Reads>,
    ) -> Option<Self> {
        let after = config.ping_after?;
        let timer = Box::pin(sleep(after));
        let ping = connection.ping_pong()?;
        Some(Self { ping, after, timeout: config.ping_timeout, reads, timer, is_waiting: false })
    }

    /// Returns `Ready` if a ping response is overdue.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            if self.is_waiting && self.ping.poll_pong(cx).is_ready() {
                self.is_waiting = false;
                self.timer.as_mut().reset(Instant::now() + self.after);
            }
            ready!(self.timer.as_mut().poll(cx));
            if self.is_waiting {
                self.reads.mark_dead();
                return Poll::Ready(());
            }
            let silent_until = self.reads.last() + self.after;
            if silent_until > Instant::now() {
                self.timer.as_mut().reset(silent_until);
                continue;
            }
            if self.ping.send_ping(Ping::opaque()).is_err() {
                // The connection has ended, and its next poll returns the error.
                return Poll::Pending;
            }
            self.is_waiting = true;
            self.timer.as_mut().reset(Instant::now() + self.timeout);
        }
    }
}
