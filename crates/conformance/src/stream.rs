//! An open watch, whose frames are buffered by a background task until a step reads them.

use bytes::{Bytes, BytesMut};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};
use tokio_util::task::AbortOnDropHandle;

use anyhow::bail;

use crate::case::Step;
use crate::client::Streaming;
use crate::json::Json;

/// The maximum number of buffered watch frames, far more than any case needs. While the buffer is full, the background
/// task does not read from the watch.
const AHEAD: usize = 10_000;

pub(crate) struct Stream {
    frames: Vec<Json>,
    taken: usize,
    /// The receiver of watch frames, or `None` after the stream has ended or failed.
    coming: Option<mpsc::Receiver<Json>>,
    _pump: AbortOnDropHandle<()>,
}

impl Stream {
    pub(crate) fn new(streaming: Streaming) -> Self {
        let (sender, coming) = mpsc::channel(AHEAD);
        let pump = AbortOnDropHandle::new(tokio::spawn(pump(streaming, sender)));
        Self { frames: Vec::new(), taken: 0, coming: Some(coming), _pump: pump }
    }

    pub(crate) fn ended(&self) -> bool {
        self.coming.is_none()
    }

    /// Takes the frames for a `READ` step from the buffer.
    ///
    /// # Errors
    ///
    /// Returns an error if too few frames arrive before the deadline.
    pub(crate) async fn take(&mut self, step: &Step, deadline: Instant) -> anyhow::Result<Vec<Json>> {
        loop {
            if step.skip.is_some() {
                let mut index = 0;
                self.frames.retain(|frame| {
                    index += 1;
                    index <= self.taken || !is_plain_bookmark(frame)
                });
            }
            let enough = step.frames.is_some_and(|wanted| self.frames.len() - self.taken >= wanted);
            if enough && step.end != Some(true) {
                break;
            }
            let Some(coming) = &mut self.coming else { break };
            match timeout_at(deadline, coming.recv()).await {
                Ok(Some(frame)) => self.frames.push(frame),
                Ok(None) => self.coming = None,
                Err(_late) => break,
            }
        }
        let unread = &self.frames[self.taken..];
        let count = step.frames.unwrap_or(unread.len());
        let Some(taken) = unread.get(..count) else {
            bail!("read {} of {count} frames: {}", unread.len(), Json::Array(unread.to_vec()));
        };
        let taken = taken.to_vec();
        self.taken += count;
        Ok(taken)
    }
}

/// Reads watch frames until the stream ends, fails, or contains invalid JSON.
async fn pump(mut streaming: Streaming, frames: mpsc::Sender<Json>) {
    let mut rest = BytesMut::new();
    while let Ok(Some(lines)) = streaming.lines(&mut rest).await {
        for line in lines.into_iter().filter(|line: &Bytes| !line.trim_ascii().is_empty()) {
            let Ok(frame) = serde_json::from_slice(&line) else { return };
            if frames.send(frame).await.is_err() {
                return;
            }
        }
    }
}

/// Returns `true` for a periodic bookmark, which a server can send at any time. Returns `false` for the bookmark at the
/// end of the initial events.
fn is_plain_bookmark(frame: &Json) -> bool {
    frame.member("type").and_then(Json::text) == Some("BOOKMARK") && !frame.to_string().contains("initial-events-end")
}
