//! State shared between the connection task and the streams of its channels, without I/O.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use pintle_meta::__private::Mutex;
use tokio::io::ReadBuf;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    /// The numbers of the channels that carry data from the server.
    pub(crate) inputs: &'static [u8],
    /// The number of the channel that carries the server's status or error message.
    pub(crate) error: u8,
    /// The number of bytes that precede the data on each channel from the server.
    pub(crate) preamble: usize,
    pub(crate) close_signal: CloseSignal,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CloseSignal {
    /// The client sends a close message, as in `v5.channel.k8s.io`.
    Message,
    /// The protocol has no close message, so closing the stream returns an error.
    Unsupported,
    /// The protocol has no close message, so closing the stream only flushes the data.
    Flush,
}

#[derive(Clone, Debug)]
pub(crate) enum End {
    Closed,
    Lost(Arc<str>),
}

pub(super) const OUTPUT: u8 = 0;
pub(super) const CLOSE: u8 = 255;
/// The maximum number of bytes that a channel buffers for its reader. If a channel has reached this limit, the driver
/// keeps one more message.
pub(super) const MAX_UNREAD: usize = 64 << 10;
const OVERHEAD: usize = 64;
/// The size in bytes below which a received message is copied, so that it does not keep an entire read buffer in
/// memory.
const SMALL: usize = 4 << 10;
/// The maximum size in bytes of a message from the client, as in client-go.
const MAX_CHUNK: usize = 32 << 10;
const MAX_ERROR: usize = 64 << 10;

pub(super) struct Shared(Mutex<State>);

struct State {
    inputs: Vec<Input>,
    output: Output,
    /// A message to the server that only matters in its newest version, such as a terminal size. A new message replaces
    /// an earlier message that has not been sent yet.
    latest: Option<Bytes>,
    error: Vec<u8>,
    end: Option<End>,
    driver: Option<Waker>,
    observer: Option<Waker>,
}

#[derive(Default)]
struct Input {
    unread: VecDeque<Bytes>,
    /// The total size of the messages in `unread`, including the `OVERHEAD` of each message.
    size: usize,
    is_closed: bool,
    is_abandoned: bool,
    reader: Option<Waker>,
}

struct Output {
    close_signal: CloseSignal,
    pending: Option<Bytes>,
    /// Whether the buffer of the socket may still contain data. Data in the socket's buffer would be lost if the
    /// connection were dropped.
    is_unflushed: bool,
    close: Close,
    writer: Option<Waker>,
    /// The reason why the client can no longer send data, or `None` while it can send data.
    fault: Option<Arc<str>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Close {
    Open,
    Requested,
    Done,
}

impl Shared {
    pub(super) fn new(layout: &Layout) -> Self {
        Self(Mutex::new(State {
            inputs: layout.inputs.iter().map(|_| Input::default()).collect(),
            output: Output {
                close_signal: layout.close_signal,
                pending: None,
                is_unflushed: false,
                close: Close::Open,
                writer: None,
                fault: None,
            },
            latest: None,
            error: Vec::new(),
            end: None,
            driver: None,
            observer: None,
        }))
    }

    pub(super) fn set_driver(&self, cx: &Context<'_>) {
        register(&mut self.0.lock().driver, cx);
    }

    pub(super) fn next_message(&self) -> Option<Bytes> {
        let mut state = self.0.lock();
        if let Some(latest) = state.latest.take() {
            return Some(latest);
        }
        let output = &mut state.output;
        let message = match output.pending.take() {
            None if output.close == Close::Requested => {
                output.close = Close::Done;
                Some(Bytes::from_static(&[CLOSE, OUTPUT]))
            }
            pending => pending,
        };
        output.is_unflushed |= message.is_some();
        // If there is no message left, the writer keeps waiting until the socket has sent all messages.
        let writer = if message.is_some() { output.writer.take() } else { None };
        drop(state);
        wake(writer);
        message
    }

    pub(super) fn flushed(&self) {
        let mut state = self.0.lock();
        let was_unflushed = std::mem::take(&mut state.output.is_unflushed);
        let writer = if was_unflushed { state.output.writer.take() } else { None };
        drop(state);
        wake(writer);
    }

    /// Passes data from the server to the reader of its channel. Returns the data if the buffer of the channel is full.
    pub(super) fn push(&self, index: usize, data: Bytes) -> Option<Bytes> {
        let mut state = self.0.lock();
        let input = &mut state.inputs[index];
        if input.is_abandoned || input.is_closed || data.is_empty() {
            return None;
        }
        if input.size >= MAX_UNREAD {
            return Some(data);
        }
        let data = if data.len() < SMALL { Bytes::copy_from_slice(&data) } else { data };
        input.size += data.len() + OVERHEAD;
        input.unread.push_back(data);
        let reader = input.reader.take();
        drop(state);
        wake(reader);
        None
    }

    pub(super) fn push_error(&self, data: &[u8]) {
        let mut state = self.0.lock();
        let room = MAX_ERROR.saturating_sub(state.error.len());
        state.error.extend_from_slice(&data[..data.len().min(room)]);
        let observer = state.observer.take();
        drop(state);
        wake(observer);
    }

    pub(super) fn close_input(&self, index: usize) {
        let mut state = self.0.lock();
        let input = &mut state.inputs[index];
        input.is_closed = true;
        let reader = input.reader.take();
        drop(state);
        wake(reader);
    }

    /// Records that the client can no longer send data. The channels' readers can still read data that has already
    /// arrived.
    pub(super) fn fail_output(&self, why: &str) {
        let mut state = self.0.lock();
        state.output.fault.get_or_insert_with(|| why.into());
        state.output.pending = None;
        let writer = state.output.writer.take();
        drop(state);
        wake(writer);
    }

    /// Records how the connection ended, unless its end is already recorded.
    pub(super) fn finish(&self, end: End) {
        let mut state = self.0.lock();
        state.end.get_or_insert(end);
        let wakers: Vec<Waker> = (state.inputs.iter_mut().filter_map(|input| input.reader.take()))
            .collect::<Vec<_>>()
            .into_iter()
            .chain(state.output.writer.take())
            .chain(state.observer.take())
            .collect();
        drop(state);
        wake(wakers);
    }

    pub(super) fn send_latest(&self, message: Bytes) -> Result<(), End> {
        let mut state = self.0.lock();
        if let Some(end) = &state.end {
            return Err(end.clone());
        }
        state.latest = Some(message);
        let driver = state.driver.clone();
        drop(state);
        wake(driver);
        Ok(())
    }

    pub(super) fn error_text(&self) -> Option<String> {
        let state = self.0.lock();
        let text = (!state.error.is_empty()).then(|| String::from_utf8_lossy(&state.error).into_owned());
        text.map(|text| text.replace(char::is_control, " "))
    }

    pub(super) fn poll_outcome<T>(
        &self,
        cx: &Context<'_>,
        decide: &mut impl FnMut(&[u8], Option<&End>) -> Option<T>,
    ) -> Poll<T> {
        let mut state = self.0.lock();
        if let Some(outcome) = decide(&state.error, state.end.as_ref()) {
            return Poll::Ready(outcome);
        }
        register(&mut state.observer, cx);
        Poll::Pending
    }

    /// Reads from a channel. At the end of the channel, returns `Ready` and reads nothing.
    pub(super) fn poll_read(&self, index: usize, cx: &Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let mut state = self.0.lock();
        let State { inputs, error, end, driver, .. } = &mut *state;
        let input = &mut inputs[index];
        let Some(front) = input.unread.front_mut() else {
            return match end {
                _ if input.is_closed => Poll::Ready(Ok(())),
                Some(End::Closed) => Poll::Ready(Ok(())),
                // The server sends its status last, so all output has already arrived.
                Some(End::Lost(_)) if !error.is_empty() => Poll::Ready(Ok(())),
                Some(End::Lost(why)) => Poll::Ready(Err(io::Error::new(io::ErrorKind::ConnectionReset, lost(why)))),
                None => {
                    register(&mut input.reader, cx);
                    Poll::Pending
                }
            };
        };
        let read = front.len().min(buf.remaining());
        buf.put_slice(&front[..read]);
        front.advance(read);
        let was_full = input.size >= MAX_UNREAD;
        input.size -= read;
        if front.is_empty() {
            input.unread.pop_front();
            input.size -= OVERHEAD;
        }
        let driver = driver.clone().filter(|_| was_full && input.size < MAX_UNREAD);
        drop(state);
        wake(driver);
        Poll::Ready(Ok(()))
    }

    /// Discards the unread data of a channel and all later data.
    pub(super) fn abandon(&self, index: usize) {
        let mut state = self.0.lock();
        let input = &mut state.inputs[index];
        input.is_abandoned = true;
        let unread = std::mem::take(&mut input.unread);
        let driver = state.driver.clone();
        drop(state);
        drop(unread);
        wake(driver);
    }

    /// Stores the next message to the server, and returns the number of bytes of `data` that it contains.
    pub(super) fn poll_write(&self, cx: &Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        let mut state = self.0.lock();
        if state.output.close != Close::Open {
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::BrokenPipe, "the stream is closed")));
        }
        ready!(state.poll_output(cx))?;
        let chunk = &data[..data.len().min(MAX_CHUNK)];
        if chunk.is_empty() {
            return Poll::Ready(Ok(0));
        }
        let mut message = BytesMut::with_capacity(1 + chunk.len());
        message.put_u8(OUTPUT);
        message.put_slice(chunk);
        state.output.pending = Some(message.freeze());
        let driver = state.driver.clone();
        drop(state);
        wake(driver);
        Poll::Ready(Ok(chunk.len()))
    }

    pub(super) fn poll_flush(&self, cx: &Context<'_>) -> Poll<io::Result<()>> {
        let mut state = self.0.lock();
        if state.output.pending.is_none() && !state.output.is_unflushed {
            return Poll::Ready(Ok(()));
        }
        state.check_output()?;
        register(&mut state.output.writer, cx);
        Poll::Pending
    }

    /// Closes the channel to the server after its last message was sent.
    pub(super) fn poll_close(&self, cx: &Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_flush(cx))?;
        let mut state = self.0.lock();
        match (state.output.close_signal, state.output.close) {
            (CloseSignal::Flush, _) | (_, Close::Done) => return Poll::Ready(Ok(())),
            (CloseSignal::Unsupported, _) => {
                return Poll::Ready(Err(io::Error::new(io::ErrorKind::Unsupported, NO_CLOSE)));
            }
            (CloseSignal::Message, _) => {}
        }
        if state.end.is_some() || state.output.fault.is_some() {
            state.output.close = Close::Done;
            return Poll::Ready(Ok(()));
        }
        state.output.close = Close::Requested;
        register(&mut state.output.writer, cx);
        let driver = state.driver.clone();
        drop(state);
        wake(driver);
        Poll::Pending
    }

    /// Closes the channel to the server without waiting for unsent messages. Returns `false` if the protocol has no
    /// close message.
    pub(super) fn close(&self) -> bool {
        let mut state = self.0.lock();
        if state.end.is_some() || state.output.close != Close::Open {
            return true;
        }
        match state.output.close_signal {
            CloseSignal::Flush => return true,
            CloseSignal::Unsupported => return false,
            CloseSignal::Message => state.output.close = Close::Requested,
        }
        let driver = state.driver.clone();
        drop(state);
        wake(driver);
        true
    }
}

/// The error message for closing a stream if the protocol has no close message.
pub(super) const NO_CLOSE: &str = "the server speaks v4.channel.k8s.io, which cannot close the input of a command: the \
    command does not see its end. Servers since Kubernetes 1.30 speak v5.channel.k8s.io";

impl State {
    /// Waits until the connection task has taken the last message to send.
    fn poll_output(&mut self, cx: &Context<'_>) -> Poll<io::Result<()>> {
        self.check_output()?;
        if self.output.pending.is_none() {
            return Poll::Ready(Ok(()));
        }
        register(&mut self.output.writer, cx);
        Poll::Pending
    }

    fn check_output(&self) -> io::Result<()> {
        let why = match (&self.output.fault, &self.end) {
            (Some(why), _) | (None, Some(End::Lost(why))) => lost(why),
            (None, Some(End::Closed)) => "the server closed the connection".to_owned(),
            (None, None) => return Ok(()),
        };
        Err(io::Error::new(io::ErrorKind::BrokenPipe, why))
    }
}

fn lost(why: &str) -> String {
    format!("the connection to the API server was lost: {why}")
}

fn register(slot: &mut Option<Waker>, cx: &Context<'_>) {
    match slot {
        Some(waker) => waker.clone_from(cx.waker()),
        None => *slot = Some(cx.waker().clone()),
    }
}

/// Calls wakers. The caller must not hold the lock, because a waker can run arbitrary code.
fn wake(wakers: impl IntoIterator<Item = Waker>) {
    wakers.into_iter().for_each(Waker::wake);
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use super::*;

    const LAYOUT: Layout = Layout { inputs: &[1], error: 2, preamble: 0, close_signal: CloseSignal::Flush };

    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn driver_without_a_message_keeps_the_waker() {
        let wakes = Arc::new(Wakes::default());
        let (shared, waker) = (Shared::new(&LAYOUT), Waker::from(wakes.clone()));
        let cx = Context::from_waker(&waker);
        assert!(shared.poll_write(&cx, b"data").is_ready());
        assert!(shared.next_message().is_some());
        assert!(shared.poll_flush(&cx).is_pending());
        assert!(shared.next_message().is_none());
        assert_eq!(wakes.0.load(Ordering::Relaxed), 0);
        shared.flushed();
        assert_eq!(wakes.0.load(Ordering::Relaxed), 1);
        assert!(shared.poll_flush(&cx).is_ready());
    }

    #[test]
    fn flush_waits_until_the_socket_has_sent_the_message() {
        let (shared, cx) = (Shared::new(&LAYOUT), Context::from_waker(Waker::noop()));
        assert!(matches!(shared.poll_write(&cx, b"data"), Poll::Ready(Ok(4))));
        assert!(shared.poll_flush(&cx).is_pending(), "the driver has not taken the message");
        assert!(shared.next_message().is_some());
        assert!(shared.poll_flush(&cx).is_pending() && shared.poll_close(&cx).is_pending(), "the socket may hold it");
        shared.flushed();
        assert!(matches!(shared.poll_close(&cx), Poll::Ready(Ok(()))));
        shared.next_message();
        assert!(shared.poll_flush(&cx).is_ready(), "nothing was sent since the last flush");
    }
}
