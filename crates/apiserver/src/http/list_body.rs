//! The body of a list, made as it is sent: as JSON it is never whole anywhere.

use std::io::{self, Write};
use std::sync::Arc;
use std::vec;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures_util::stream;
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use jiff::Timestamp;
use pintle_schema::protobuf::ListEnvelope;
use serde_json::{Value, json};

use super::body::Body;
use super::encode::ZIPPED_FROM;
use crate::failure::{Failure, Outcome};
use crate::kinds::Kind;
use crate::object::Ordered;
use crate::registry::{LOOKS, ListReply, Selected, Served, Transform};

/// A list part by part, from the bytes of its objects.
///
/// Until it is dropped it keeps the objects as they were at its revision; a client that reads slowly is cut by its request's deadline.
pub(super) struct ListBody {
    items: Items,
    ready: Vec<u8>,
}

/// What is yet to come.
enum Items {
    /// Objects as JSON. Each is looked for, and laid out, when there is room for it.
    Json {
        kind: Arc<Kind>,
        transform: Transform,
        now: Timestamp,
        objects: Selected,
        is_first: bool,
    },
    /// Objects in protobuf, all of them: such a list begins with its length.
    Protobuf(vec::IntoIter<Arc<[u8]>>),
    Nothing,
}

impl ListBody {
    /// A list as JSON.
    pub(super) fn new(kind: Arc<Kind>, list: ListReply, transform: Transform, now: Timestamp) -> Self {
        let head = transform.list_head(&kind, metadata(&kind, &list, &transform));
        let mut ready = serde_json::to_vec(&Ordered(&head)).expect("memory takes any value, whose keys are texts");
        ready.pop();
        let is_table = matches!(transform, Transform::Table { .. });
        ready.extend_from_slice(if is_table { b",\"rows\":[" } else { b",\"items\":[" });
        Self { items: Items::Json { kind, transform, now, objects: list.objects, is_first: true }, ready }
    }

    /// A list in protobuf.
    pub(super) async fn protobuf(kind: &Kind, list: ListReply, transform: &Transform) -> Outcome<Self> {
        let unfit = |error: serde_json::Error| Failure::internal(format!("the list has no form in protobuf: {error}"));
        let mut messages = ListEnvelope::new(&metadata(kind, &list, transform)).map_err(unfit)?;
        let (mut objects, mut passed, mut made) = (list.objects, 0, 0);
        while let Some(found) = objects.look() {
            passed += 1;
            if let Some(stored) = found {
                let message = transform.enveloped(&Served::stored(kind, &stored))?.message;
                made += message.len();
                messages.push(message);
            }
            if passed == LOOKS || made > ZIPPED_FROM {
                (passed, made) = (0, 0);
                tokio::task::yield_now().await;
            }
        }
        let (api_version, list_kind) = transform.list_types(kind);
        let (ready, items) = messages.begin(&api_version, list_kind);
        Ok(Self { items: Items::Protobuf(items.into_iter()), ready })
    }

    /// Whether the last part has been given out.
    pub(super) fn is_over(&self) -> bool {
        matches!(self.items, Items::Nothing) && self.ready.is_empty()
    }

    /// The next part, larger than what is never compressed, or the last; empty at the end.
    pub(super) async fn next(&mut self) -> Bytes {
        let mut passed = 0;
        while self.ready.len() <= ZIPPED_FROM && !matches!(self.items, Items::Nothing) {
            if !self.add() {
                passed += 1;
            }
            if passed == LOOKS {
                passed = 0;
                tokio::task::yield_now().await;
            }
        }
        // The next part will be as long.
        let room = if matches!(self.items, Items::Nothing) { 0 } else { self.ready.capacity() };
        std::mem::replace(&mut self.ready, Vec::with_capacity(room)).into()
    }

    /// Appends the next object, or the end; answers false of an object that is not meant.
    fn add(&mut self) -> bool {
        let ready = &mut self.ready;
        match &mut self.items {
            Items::Json { kind, transform, now, objects, is_first } => match objects.look() {
                Some(Some(stored)) => {
                    if !std::mem::take(is_first) {
                        ready.push(b',');
                    }
                    transform.write_item(&Served::stored(kind, &stored), kind, *now, ready);
                    return true;
                }
                Some(None) => return false,
                None if *is_first && transform.is_null_if_empty(kind) => {
                    ready.pop();
                    ready.extend_from_slice(b"null}\n");
                }
                None => ready.extend_from_slice(b"]}\n"),
            },
            Items::Protobuf(items) => match items.next() {
                Some(message) => {
                    ListEnvelope::item(&message, ready);
                    return true;
                }
                None => ready.extend_from_slice(&ListEnvelope::END),
            },
            Items::Nothing => (),
        }
        self.items = Items::Nothing;
        true
    }

    /// All of it.
    pub(super) async fn whole(mut self) -> Vec<u8> {
        let mut whole = Vec::new();
        while !self.is_over() {
            whole.extend_from_slice(&self.next().await);
        }
        whole
    }

    /// `first`, which was the part before, and what follows, compressed or not. Each part is made when there is room for it.
    pub(super) fn stream(self, first: Bytes, zipped: bool) -> Body {
        let zip = zipped.then(|| GzEncoder::new(Vec::new(), Compression::fast()));
        let parts = stream::try_unfold(Sending { next: first, list: self, zip }, |mut sending| async move {
            let part = sending.part().await?;
            Ok(part.map(|part| (Frame::data(part), sending)))
        });
        StreamBody::new(parts).boxed_unsync()
    }
}

/// A list on its way out.
struct Sending {
    /// What was made already.
    next: Bytes,
    list: ListBody,
    zip: Option<GzEncoder<Vec<u8>>>,
}

impl Sending {
    async fn part(&mut self) -> io::Result<Option<Bytes>> {
        loop {
            let mut part = std::mem::take(&mut self.next);
            if part.is_empty() {
                if self.list.is_over() {
                    return self.zip.take().map(|zip| Ok(zip.finish()?.into())).transpose();
                }
                part = self.list.next().await;
            }
            let Some(zip) = &mut self.zip else { return Ok(Some(part)) };
            zip.write_all(&part)?;
            let zipped = std::mem::take(zip.get_mut());
            if !zipped.is_empty() {
                return Ok(Some(zipped.into()));
            }
        }
    }
}

fn metadata(kind: &Kind, list: &ListReply, transform: &Transform) -> Value {
    let mut metadata = json!({});
    if list.revision > 0 {
        metadata["resourceVersion"] = list.revision.to_string().into();
    }
    if kind.is_custom() && transform.is_none() || !list.continue_token.is_empty() {
        metadata["continue"] = list.continue_token.as_str().into();
    }
    if let Some(remaining) = list.remaining {
        metadata["remainingItemCount"] = remaining.into();
    }
    metadata
}
