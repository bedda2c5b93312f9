//! Multiplexes several streams over one WebSocket with the channel protocols of Kubernetes.
//!
//! The first byte of each message is the number of its channel. `v5.channel.k8s.io` also has a message that closes a
//! channel.

mod demux;
mod driver;
mod halves;
mod state;

use std::sync::Arc;

use tokio::task::AbortHandle;

use self::driver::Driver;
pub(crate) use self::halves::{Receiver, Sender};
use self::state::Shared;
pub(crate) use self::state::{CloseSignal, End, Layout};
use crate::websocket::WebSocket;

/// A handle to a WebSocket connection to a pod. The connection is closed when the last clone of the handle is dropped.
#[derive(Clone)]
pub(crate) struct Connection(Arc<Owner>);

struct Owner {
    shared: Arc<Shared>,
    task: AbortHandle,
}

pub(crate) fn open(socket: WebSocket, layout: Layout) -> Connection {
    let shared = Arc::new(Shared::new(&layout));
    let task = tokio::spawn(Driver::new(socket, shared.clone(), layout)).abort_handle();
    Connection(Arc::new(Owner { shared, task }))
}

impl Connection {
    fn shared(&self) -> &Shared {
        &self.0.shared
    }

    /// Returns the writer of the only channel to the server. Call this method only once.
    pub(crate) fn sender(&self) -> Sender {
        Sender::new(self.clone())
    }

    /// Returns the reader of the channel at `index` in [`Layout::inputs`]. Call this method only once per index.
    pub(crate) fn receiver(&self, index: usize) -> Receiver {
        Receiver::new(self.clone(), index)
    }

    /// Queues a message, such as a terminal size. The new message replaces an earlier message that has not been sent
    /// yet. If the connection has already ended, returns how it ended.
    pub(crate) fn send_latest(&self, message: bytes::Bytes) -> Result<(), End> {
        self.shared().send_latest(message)
    }

    /// Returns the content of the error channel as text, with control characters replaced. Returns `None` if the error
    /// channel is empty.
    pub(crate) fn error_text(&self) -> Option<String> {
        self.shared().error_text()
    }

    /// Waits until `decide` returns a value. The first argument of `decide` is the content of the error channel, and
    /// the second argument describes how the connection ended. The second argument is `None` while the connection is
    /// open.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, no data is lost.
    pub(crate) async fn outcome<T>(&self, mut decide: impl FnMut(&[u8], Option<&End>) -> Option<T>) -> T {
        std::future::poll_fn(|cx| self.shared().poll_outcome(cx, &mut decide)).await
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Dispatches `messages` to the channels as if they came from the server. Returns the data of each input and the text
/// of the error channel.
#[cfg(any(test, fuzzing))]
pub(crate) fn received(layout: Layout, messages: &[bytes::Bytes]) -> (Vec<Vec<u8>>, String) {
    use std::task::{Context, Poll, Waker};

    let (shared, mut demux) = (Shared::new(&layout), demux::Demux::new(layout));
    let mut inputs = vec![Vec::new(); layout.inputs.len()];
    let mut read_all = |shared: &Shared| {
        for (index, input) in inputs.iter_mut().enumerate() {
            let mut buffer = [0; 700];
            let mut buffer = tokio::io::ReadBuf::new(&mut buffer);
            let cx = Context::from_waker(Waker::noop());
            while let Poll::Ready(Ok(())) = shared.poll_read(index, &cx, &mut buffer)
                && !buffer.filled().is_empty()
            {
                input.extend_from_slice(buffer.filled());
                buffer.clear();
            }
        }
    };
    for message in messages {
        let mut held = demux.dispatch(&shared, message.clone());
        while let Some((index, data)) = held {
            read_all(&shared);
            held = shared.push(index, data).map(|data| (index, data));
        }
    }
    read_all(&shared);
    (inputs, shared.error_text().unwrap_or_default())
}
