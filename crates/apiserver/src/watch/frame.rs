//! Encodes watch events as frames.

use std::sync::Arc;

use bytes::Bytes;
use pintle_apimachinery::clock::Clock;
use pintle_apimachinery::failure::{Failure, Outcome};
use pintle_apimachinery::object::Ordered;
use pintle_apimachinery::request::accept::Media;
use pintle_kinds::Kind;
use pintle_meta::WatchEventType;
use pintle_schema::protobuf::Enveloped;
use pintle_storage::Stored;

use crate::registry::{Served, Transform};

#[derive(Clone, Debug)]
pub(crate) struct FrameShape {
    pub(crate) transform: Transform,
    pub(crate) media: Media,
    clock: Arc<Clock>,
    columns_sent: bool,
}

impl FrameShape {
    pub(crate) fn new(transform: Transform, media: Media, clock: Arc<Clock>) -> Self {
        Self { transform, media, clock, columns_sent: false }
    }

    pub(crate) fn object(&mut self, event: WatchEventType, object: &Served, kind: &Kind) -> Outcome<Bytes> {
        if self.media == Media::Protobuf {
            return Ok(self.transform.enveloped(object)?.frame(event.as_str()).into());
        }
        let columns = !std::mem::replace(&mut self.columns_sent, true);
        let now = self.clock.now();
        Ok(line(event, |frame| self.transform.write_one(object, kind, columns, now, frame)))
    }

    /// Returns the cost of encoding an object. A cost of 1 corresponds to the time to process one byte of a request
    /// body.
    pub(super) fn weight(&self, stored: &Stored, kind: &Kind) -> usize {
        let shown = kind.conversion_cost(stored);
        let is_plain = self.transform.is_none() && self.media != Media::Protobuf;
        if is_plain { shown } else { shown.max(stored.weight()) }
    }

    /// Encodes a bookmark: an object of the watched kind with only
    /// a resourceVersion and, if `end_mark` is set, an annotation.
    pub(crate) fn bookmark(&mut self, revision: u64, end_mark: bool, kind: &Kind) -> Outcome<Bytes> {
        let mut value = kind.empty();
        let metadata = pintle_apimachinery::object::metadata_mut(&mut value);
        metadata.set("resourceVersion", revision.to_string());
        if end_mark {
            metadata["annotations"]["k8s.io/initial-events-end"] = "true".into();
        }
        self.object(WatchEventType::Bookmark, &Served::value(kind, value), kind)
    }

    pub(super) fn error(&self, failure: &Failure) -> Bytes {
        let event = WatchEventType::Error;
        if self.media != Media::Protobuf {
            let status = failure.value();
            return line(event, |frame| frame.extend(pintle_json::to_vec(&Ordered(&status)).unwrap_or_default()));
        }
        let status = Enveloped::document(&failure.value()).expect("a Status matches its protobuf type");
        status.frame(event.as_str()).into()
    }
}

fn line(event: WatchEventType, write_object: impl FnOnce(&mut Vec<u8>)) -> Bytes {
    let mut frame = format!("{{\"type\":\"{event}\",\"object\":").into_bytes();
    write_object(&mut frame);
    frame.extend_from_slice(b"}\n");
    frame.into()
}
