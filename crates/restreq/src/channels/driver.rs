//! The task that handles a WebSocket connection.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_core::Stream;
use futures_sink::Sink;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};
use tokio_tungstenite::tungstenite::error::CapacityError;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{self, Message};

use super::demux::Demux;
use super::state::{End, Layout, Shared};
use crate::websocket::{MAX_MESSAGE, WebSocket};

/// Transfers data between a WebSocket and the streams of its channels.
///
/// Sending and receiving are independent, to avoid a deadlock if a command copies its input to its output.
///
/// If the buffer of a reader is full, the driver keeps one message and stops reading from the WebSocket, so that the
/// server has to wait. The operating system detects a lost peer with the TCP settings in `connect.rs`.
pub(super) struct Driver {
    socket: WebSocket,
    shared: Arc<Shared>,
    demux: Demux,
    /// A received message that does not fit into the buffer of its channel, with the channel's index.
    held: Option<(usize, Bytes)>,
    can_send: bool,
    pings: Interval,
}

/// The interval between pings. Some proxies drop connections that are idle for a minute.
const PING_PERIOD: Duration = Duration::from_secs(30);

enum Step {
    /// The driver has sent or received data, so it must be polled again immediately.
    Moved,
    Waits,
    End(End),
}

impl Driver {
    pub(super) fn new(socket: WebSocket, shared: Arc<Shared>, layout: Layout) -> Self {
        let mut pings = interval_at(Instant::now() + PING_PERIOD, PING_PERIOD);
        pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self { socket, shared, demux: Demux::new(layout), held: None, can_send: true, pings }
    }

    fn run(&mut self, cx: &mut Context<'_>) -> Poll<End> {
        loop {
            let has_sent = self.send(cx);
            match self.receive(cx) {
                Step::End(end) => return Poll::Ready(end),
                Step::Waits if !has_sent => return Poll::Pending,
                Step::Waits | Step::Moved => {}
            }
        }
    }

    /// Sends as much data as possible, and returns `true` if any data was sent. The driver continues to receive after a
    /// send error, because the server may have sent its status before it closed the connection.
    fn send(&mut self, cx: &mut Context<'_>) -> bool {
        if !self.can_send {
            return false;
        }
        let (has_sent, result) = self.try_send(cx);
        if let Err(error) = result {
            self.can_send = false;
            self.shared.fail_output(&error.to_string());
        }
        has_sent
    }

    fn try_send(&mut self, cx: &mut Context<'_>) -> (bool, Result<(), tungstenite::Error>) {
        let mut has_sent = false;
        while let Poll::Ready(ready) = Pin::new(&mut self.socket).poll_ready(cx) {
            let message = match self.pings.poll_tick(cx) {
                Poll::Ready(_) => Some(Message::Ping(Bytes::new())),
                Poll::Pending => self.shared.next_message().map(Message::Binary),
            };
            let Some(message) = message else { break };
            if let Err(error) = ready.and_then(|()| Pin::new(&mut self.socket).start_send(message)) {
                return (has_sent, Err(error));
            }
            has_sent = true;
        }
        match Pin::new(&mut self.socket).poll_flush(cx) {
            Poll::Ready(flushed) => {
                if flushed.is_ok() {
                    self.shared.flushed();
                }
                (has_sent, flushed)
            }
            Poll::Pending => (has_sent, Ok(())),
        }
    }

    fn receive(&mut self, cx: &mut Context<'_>) -> Step {
        if let Some((index, data)) = self.held.take()
            && let Some(data) = self.shared.push(index, data)
        {
            self.held = Some((index, data));
            return Step::Waits;
        }
        match Pin::new(&mut self.socket).poll_next(cx) {
            Poll::Pending => Step::Waits,
            Poll::Ready(None) => Step::End(End::Closed),
            Poll::Ready(Some(Err(error))) => Step::End(End::Lost(reason(&error).into())),
            Poll::Ready(Some(Ok(Message::Close(frame)))) => {
                // Ignore errors, because the server does not need a response to its close frame.
                let _: Poll<_> = Pin::new(&mut self.socket).poll_flush(cx);
                Step::End(closed(frame))
            }
            Poll::Ready(Some(Ok(message @ (Message::Binary(_) | Message::Text(_))))) => {
                self.held = self.demux.dispatch(&self.shared, message.into_data());
                Step::Moved
            }
            Poll::Ready(Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_)))) => Step::Moved,
        }
    }
}

impl Future for Driver {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.shared.set_driver(cx);
        self.run(cx).map(|end| self.shared.finish(end))
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.shared.finish(End::Lost("its task has ended, with its runtime".into()));
    }
}

fn reason(error: &tungstenite::Error) -> String {
    match error {
        tungstenite::Error::Capacity(CapacityError::MessageTooLong { size, .. }) => {
            format!("a message of {size} bytes is larger than the limit of {MAX_MESSAGE} bytes")
        }
        error => error.to_string(),
    }
}

fn closed(frame: Option<CloseFrame>) -> End {
    match frame {
        None => End::Closed,
        Some(CloseFrame { code: CloseCode::Normal | CloseCode::Away | CloseCode::Status, .. }) => End::Closed,
        Some(CloseFrame { code, reason }) => {
            // Replace control characters, because text from the server could otherwise forge log lines.
            let reason = reason.replace(char::is_control, " ");
            End::Lost(format!("the server closed the WebSocket with code {code}: {reason:?}").into())
        }
    }
}
