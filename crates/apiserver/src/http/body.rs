//! Bodies: those that come and those that go.

use std::error::Error;
use std::io;

use bytes::Bytes;
use futures_util::stream;
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use pintle_meta::{Reason, StatusDetails};

use super::Call;
use crate::apart;
use crate::failure::{Failure, Outcome};
use crate::registry::{LARGEST_BODY, Unread};
use crate::watch::{Frame as Sent, Watcher};

/// The body of a request, whichever way it came.
pub(crate) type Incoming = UnsyncBoxBody<Bytes, Box<dyn Error + Send + Sync>>;

/// The body of an answer. An error in it breaks the connection off.
pub(crate) type ResponseBody = UnsyncBoxBody<Bytes, io::Error>;

/// Longer bodies are sent in chunks, as Go does, and do not say how long they are.
const LONGEST_WITH_LENGTH: usize = 2048;

/// A body that is known in full.
pub(super) fn full(bytes: impl Into<Bytes>) -> ResponseBody {
    let bytes = bytes.into();
    if bytes.len() > LONGEST_WITH_LENGTH {
        return StreamBody::new(stream::iter([Ok(Frame::data(bytes))])).boxed_unsync();
    }
    Full::new(bytes).map_err(|never| match never {}).boxed_unsync()
}

/// The frames of a watch, as they come, those that are there together in one piece. Dropping the body ends the watch.
pub(super) fn frames(watcher: Watcher) -> ResponseBody {
    let frames = stream::unfold(watcher, |mut watcher| async {
        let frame = watcher.next_piece().await?;
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

/// The body of a request: one that is still coming, or one that had to be read before its turn.
pub(super) enum Delivery {
    Coming(Incoming),
    Come(Bytes),
}

/// Reads a request's body in full, and waits until it can be worked on; if it, the object that it is for or its
/// schema is large, what is done with it is done apart.
pub(super) async fn read(call: &Call, delivery: Delivery) -> Outcome<Bytes> {
    let bytes = match delivery {
        Delivery::Coming(incoming) => take(call, incoming).await?,
        Delivery::Come(bytes) => bytes,
    };
    let bytes = call.bodies.turn(bytes).await;
    apart::work_on(bytes.len().max(call.weight).max(call.schema_weight)).await;
    Ok(bytes)
}

/// Reads a request's body in full. It can be kept so, and not be worked on.
pub(super) async fn take(call: &Call, incoming: Incoming) -> Outcome<Bytes> {
    call.bodies.read(incoming).await.map_err(|unread| match unread {
        Unread::Broken(why) => Failure::bad_request(format!("the body broke off: {why}")),
        Unread::TooLarge => {
            let message = format!("Request entity too large: limit is {LARGEST_BODY}");
            Failure::new(413, Reason::RequestEntityTooLarge, message)
        }
        Unread::NoRoom => too_many(),
    })
}

/// As a server that has enough to do says it. Clients try again.
fn too_many() -> Failure {
    let details = StatusDetails { retry_after_seconds: 1, ..StatusDetails::default() };
    Failure::new(429, Reason::TooManyRequests, "Too many requests, please try again later.").with(details)
}
