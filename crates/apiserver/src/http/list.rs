//! The body of a list, made as it is sent: it is never whole anywhere.

use std::io::{self, Write};
use std::sync::Arc;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures_util::stream;
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use serde_json::json;

use super::body::Body;
use super::encode::ZIPPED_FROM;
use crate::kinds::Kind;
use crate::registry::{LOOKS, ListReply, Selected, Served};

/// A list as JSON, part by part, from the bytes of its objects. Those of built-in kinds carry neither version nor kind there.
///
/// Until it is dropped it keeps the objects as they were at its revision; a client that reads slowly is cut by its request's deadline.
pub(super) struct ListBody {
    kind: Arc<Kind>,
    /// None once all is told.
    objects: Option<Selected>,
    is_first: bool,
    ready: Vec<u8>,
}

impl ListBody {
    pub(super) fn new(kind: Arc<Kind>, list: ListReply) -> Self {
        let mut metadata = json!({});
        if list.revision > 0 {
            metadata["resourceVersion"] = list.revision.to_string().into();
        }
        if kind.custom || !list.continue_token.is_empty() {
            metadata["continue"] = list.continue_token.into();
        }
        if let Some(remaining) = list.remaining {
            metadata["remainingItemCount"] = remaining.into();
        }
        let head = json!({"kind": kind.list_kind, "apiVersion": kind.api_version(), "metadata": metadata}).to_string();
        let mut ready = head.into_bytes();
        ready.pop();
        ready.extend_from_slice(b",\"items\":[");
        Self { kind, objects: Some(list.objects), is_first: true, ready }
    }

    /// Whether the last part has been given out.
    pub(super) fn is_over(&self) -> bool {
        self.objects.is_none() && self.ready.is_empty()
    }

    /// The next part, larger than what is never compressed, or the last; empty at the end.
    pub(super) async fn next(&mut self) -> Bytes {
        let mut passed = 0;
        while self.ready.len() <= ZIPPED_FROM
            && let Some(objects) = &mut self.objects
        {
            match objects.look() {
                Some(Some(stored)) => {
                    if !std::mem::take(&mut self.is_first) {
                        self.ready.push(b',');
                    }
                    Served::stored(&self.kind, &stored).write(self.kind.custom, &mut self.ready);
                }
                Some(None) => passed += 1,
                None => {
                    self.ready.extend_from_slice(b"]}\n");
                    self.objects = None;
                }
            }
            if passed == LOOKS {
                passed = 0;
                tokio::task::yield_now().await;
            }
        }
        // The next part will be as long.
        let room = if self.objects.is_some() { self.ready.capacity() } else { 0 };
        std::mem::replace(&mut self.ready, Vec::with_capacity(room)).into()
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
