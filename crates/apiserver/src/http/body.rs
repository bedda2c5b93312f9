//! Bodies: those that come and those that go.

use std::error::Error;
use std::io;

use bytes::Bytes;
use futures_util::stream;
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use pintle_meta::{Reason, StatusDetails};
use tokio::sync::OwnedSemaphorePermit;

use super::Call;
use crate::failure::{Failure, Outcome};
use crate::watch::{Frame as Sent, Watcher};

/// The body of a request, whichever way it came.
pub(crate) type Incoming = UnsyncBoxBody<Bytes, Box<dyn Error + Send + Sync>>;

/// The body of an answer. An error in it breaks the connection off.
pub(crate) type Body = UnsyncBoxBody<Bytes, io::Error>;

/// The largest body of a request.
const LARGEST: usize = 3 * 1024 * 1024;
/// How much of a body that is too large is read, so that the client gets to see why it is refused.
const READ_ON: usize = 16 * 1024 * 1024;

/// Longer bodies are sent in chunks, as Go does, and do not say how long they are.
const LONGEST_WITH_LENGTH: usize = 2048;

/// A body that is known in full.
pub(super) fn full(bytes: impl Into<Bytes>) -> Body {
    let bytes = bytes.into();
    if bytes.len() > LONGEST_WITH_LENGTH {
        return StreamBody::new(stream::iter([Ok(Frame::data(bytes))])).boxed_unsync();
    }
    Full::new(bytes).map_err(|never| match never {}).boxed_unsync()
}

/// The frames of a watch, as they come. Dropping the body ends the watch.
pub(super) fn frames(watcher: Watcher) -> Body {
    let frames = stream::unfold(watcher, |mut watcher| async {
        let frame = watcher.next().await?;
        let frame = frame.map(|Sent { bytes, torn }| {
            let end = if torn { bytes.len() / 2 } else { bytes.len() };
            Frame::data(bytes.slice(..end))
        });
        let frame = frame.map_err(|cut| {
            tracing::debug!(%cut, "a watch was cut");
            io::Error::new(io::ErrorKind::ConnectionAborted, cut)
        });
        Some((frame, watcher))
    });
    StreamBody::new(frames).boxed_unsync()
}

/// A body, and the room that it takes until it is dropped.
struct Held {
    bytes: Vec<u8>,
    _room: Option<OwnedSemaphorePermit>,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Reads a request's body in full, as long as there is room for it beside those of others: nobody waits for that, since those who have
/// sent half of theirs would wait for each other.
pub(super) async fn read(call: &Call, mut incoming: Incoming) -> Outcome<Bytes> {
    let (mut bytes, mut room) = (Vec::new(), None::<OwnedSemaphorePermit>);
    let mut size = 0;
    while let Some(frame) = incoming.frame().await {
        let frame = frame.map_err(|error| Failure::bad_request(format!("the body broke off: {error}")))?;
        let Ok(data) = frame.into_data() else { continue };
        size += data.len();
        if size > READ_ON {
            break;
        }
        if size <= LARGEST {
            // It is no larger than the largest body.
            let more = call.bodies.clone().try_acquire_many_owned(data.len() as u32).map_err(|_| too_many())?;
            match &mut room {
                Some(room) => room.merge(more),
                None => room = Some(more),
            }
            bytes.extend_from_slice(&data);
        }
    }
    if size > LARGEST {
        let message = format!("Request entity too large: limit is {LARGEST}");
        return Err(Failure::new(413, Reason::RequestEntityTooLarge, message));
    }
    Ok(Bytes::from_owner(Held { bytes, _room: room }))
}

/// As a server that has enough to do says it. Clients try again.
fn too_many() -> Failure {
    let details = StatusDetails { retry_after_seconds: 1, ..StatusDetails::default() };
    Failure::new(429, Reason::TooManyRequests, "Too many requests, please try again later.").with(details)
}
