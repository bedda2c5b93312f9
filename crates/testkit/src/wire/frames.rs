//! The body of a watch response, which can delay events, and can end early as if the connection had failed.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use futures_util::stream;
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use pintle_apiserver::InProcessBody;
use pintle_restreq::TransportBody;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::Link;

struct Watched {
    body: Pin<Box<InProcessBody>>,
    link: Arc<Link>,
    broken: CancellationToken,
    lines: VecDeque<Bytes>,
    rest: BytesMut,
}

/// Returns a body that delivers the lines of a watch in order until the watch breaks. Each line of the watch can have a
/// different delay.
pub(super) fn watch_body(body: InProcessBody, link: Arc<Link>, broken: CancellationToken) -> TransportBody {
    let watched = Watched { body: Box::pin(body), link, broken, lines: VecDeque::new(), rest: BytesMut::new() };
    let frames = stream::unfold(Some(watched), |watched: Option<Watched>| async move {
        let mut watched = watched?;
        let broken = watched.broken.clone();
        let line = tokio::select! {
            biased;
            () = broken.cancelled() => Some(Err(io::Error::new(io::ErrorKind::ConnectionReset, "the test kit broke the watch"))),
            line = watched.next() => line,
        };
        match line? {
            Ok(line) => Some((Ok(Frame::data(line)), Some(watched))),
            Err(error) => Some((Err(error), None)),
        }
    });
    TransportBody::new(StreamBody::new(Box::pin(frames)))
}

impl Watched {
    /// Returns the next line of the watch. At the end of the body, returns the remaining bytes.
    async fn next(&mut self) -> Option<io::Result<Bytes>> {
        loop {
            if let Some(line) = self.lines.pop_front() {
                sleep(self.link.frame_delay()).await;
                return Some(Ok(line));
            }
            match self.body.as_mut().frame().await {
                None if self.rest.is_empty() => return None,
                None => return Some(Ok(self.rest.split().freeze())),
                Some(Err(error)) => return Some(Err(error)),
                Some(Ok(frame)) => self.split(frame.into_data().unwrap_or_default()),
            }
        }
    }

    fn split(&mut self, data: Bytes) {
        self.rest.extend_from_slice(&data);
        while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
            self.lines.push_back(self.rest.split_to(end + 1).freeze());
        }
    }
}
