//! Encodes the body of a list while the response is being sent. The server never keeps the complete body in memory.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream;
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use jiff::Timestamp;
use pintle_apimachinery::failure::{Failure, Outcome};
use pintle_apimachinery::object::Ordered;
use pintle_json::{Json, Map, json};
use pintle_kinds::{Form, Kind};
use pintle_schema::protobuf::ListEnvelope;
use pintle_serving::body::ResponseBody;
use pintle_serving::gzip::{self, GZIP_THRESHOLD, Gzip};
use pintle_serving::indent::Indent;
use pintle_serving::offload::{self, Offload, OffloadPermits};
use pintle_storage::{Neighbours, Stored};

use crate::registry::{ListReply, SCAN_BATCH, Selected, Served, Transform};

/// The approximate uncompressed size of a segment of a compressed body, in bytes.
const GZIP_PART: usize = 16 * 1024;

/// An encoder that writes a list's body in segments.
///
/// The encoder keeps the listed objects at the revision of the list in memory until it is dropped. Even for a slow
/// client, the request deadline limits the lifetime of the encoder.
pub(super) struct ListBody {
    kind: Arc<Kind>,
    transform: Transform,
    encoding: ListEncoding,
    now: Timestamp,
    is_first: bool,
    /// The objects that have not been sent yet, or `None` at the end of the list. The encoder reads each object from
    /// the store just before it sends the object.
    objects: Option<Selected>,
    ready: Vec<u8>,
    /// If `true`, the body is compressed, and [`next_compressed`](Self::next_compressed) encodes groups of neighbouring
    /// objects.
    gzipped: bool,
}

enum ListEncoding {
    Json {
        indent: Option<Indent>,
    },
    /// A YAML list. The encoder writes the text `end` after the last item.
    Yaml {
        end: String,
    },
    Protobuf,
}

impl ListBody {
    pub(super) fn json(kind: Arc<Kind>, list: ListReply, transform: Transform, now: Timestamp, pretty: bool) -> Self {
        let head = transform.list_head(&kind, metadata(&kind, &list, &transform));
        let mut ready = pintle_json::to_vec(&Ordered(&head)).expect("a value with text keys can be serialized");
        ready.pop();
        ready.extend_from_slice(format!(",\"{}\":[", items(&transform)).as_bytes());
        let encoding = ListEncoding::Json { indent: pretty.then(Indent::default) };
        Self { kind, transform, encoding, now, is_first: true, objects: Some(list.objects), ready, gzipped: false }
    }

    pub(super) fn yaml(kind: Arc<Kind>, list: ListReply, transform: Transform, now: Timestamp) -> Self {
        let head = transform.list_head(&kind, metadata(&kind, &list, &transform));
        let head = head.members("").map(|(key, value)| (key.clone(), value.clone()));
        let (before, behind): (Map, Map) = head.partition(|(key, _)| key.as_str() < items(&transform));
        let end = if behind.is_empty() { String::new() } else { pintle_schema::write_yaml(&behind.into()) };
        let encoding = ListEncoding::Yaml { end };
        let ready = pintle_schema::write_yaml(&before.into()).into_bytes();
        Self { kind, transform, encoding, now, is_first: true, objects: Some(list.objects), ready, gzipped: false }
    }

    /// Creates a protobuf body. Encodes all objects before the response starts, because the length of the list comes
    /// before the objects. Objects whose encoding does not fit into the cache are encoded a second time for the
    /// response.
    pub(super) async fn protobuf(kind: Arc<Kind>, list: ListReply, transform: Transform) -> Outcome<Self> {
        let unfit =
            |error: serde_json::Error| Failure::internal(format!("cannot encode the list as protobuf: {error}"));
        let mut head = ListEnvelope::new(&metadata(&kind, &list, &transform)).map_err(unfit)?;
        let (mut objects, mut effort) = (list.objects.clone(), ListEffort::default());
        loop {
            effort.add(objects.weight(Stored::weight)).await;
            let Some(found) = objects.scan_next() else { break };
            if let Some(stored) = found {
                head.announce(&transform.enveloped(&Served::stored(&kind, &stored))?.message);
            }
        }
        let (api_version, list_kind) = transform.list_types(&kind);
        let ready = head.begin(&api_version, list_kind);
        let (encoding, objects) = (ListEncoding::Protobuf, Some(list.objects));
        Ok(Self {
            kind,
            transform,
            encoding,
            now: Timestamp::UNIX_EPOCH,
            is_first: true,
            objects,
            ready,
            gzipped: false,
        })
    }

    pub(super) fn is_over(&self) -> bool {
        self.objects.is_none() && self.ready.is_empty()
    }

    /// Returns the next segment, which is empty at the end of the list. Each segment except the last is long enough to
    /// be worth compressing.
    pub(super) async fn next(&mut self) -> Bytes {
        let mut effort = ListEffort::default();
        while self.ready.len() <= GZIP_THRESHOLD && self.objects.is_some() && self.neighbours().is_none() {
            effort.add(self.weight()).await;
            self.add();
        }
        // Reserve the capacity of the current segment, because the next segment probably has a similar length.
        let room = if self.objects.is_some() { self.ready.capacity() } else { 0 };
        let part = std::mem::replace(&mut self.ready, Vec::with_capacity(room));
        match &mut self.encoding {
            ListEncoding::Json { indent: Some(indent) } => {
                offload::work_on(gzip::weight(&part)).await;
                indent.part(&part).into()
            }
            _ => part.into(),
        }
    }

    /// Returns the cost of adding the next object to the segment. A cost of 1 corresponds to the time to process one
    /// byte of a request body.
    fn weight(&self) -> usize {
        let is_plain = self.transform.is_none() && matches!(self.encoding, ListEncoding::Json { indent: None });
        let shown = |stored: &Stored| {
            let shown = self.kind.conversion_cost(stored);
            if is_plain { shown } else { shown.max(stored.weight()) }
        };
        self.objects.as_ref().map_or(0, |objects| objects.weight(shown))
    }

    fn add(&mut self) {
        let Some(objects) = &mut self.objects else { return };
        match objects.scan_next() {
            Some(Some(stored)) => self.add_item(&stored),
            Some(None) => (),
            None => self.add_end(),
        }
    }

    fn add_item(&mut self, stored: &Arc<Stored>) {
        let (object, ready) = (Served::stored(&self.kind, stored), &mut self.ready);
        let is_first = std::mem::take(&mut self.is_first);
        match &self.encoding {
            ListEncoding::Json { .. } => {
                if !is_first {
                    ready.push(b',');
                }
                self.transform.write_item(&object, &self.kind, self.now, ready);
            }
            ListEncoding::Yaml { .. } => {
                if is_first {
                    ready.extend_from_slice(format!("{}:\n", items(&self.transform)).as_bytes());
                }
                let mut json = Vec::new();
                self.transform.write_item(&object, &self.kind, self.now, &mut json);
                let item: Json = serde_json::from_slice(&json).expect("stored objects are valid");
                ready.extend_from_slice(pintle_schema::write_yaml(&vec![item].into()).as_bytes());
            }
            ListEncoding::Protobuf => {
                let enveloped = self.transform.enveloped(&object).expect("the object was encoded before");
                ListEnvelope::item(&enveloped.message, ready);
            }
        }
    }

    fn add_end(&mut self) {
        let ready = &mut self.ready;
        let is_null = self.is_first && self.transform.is_null_if_empty(&self.kind);
        match &self.encoding {
            ListEncoding::Json { .. } if is_null => {
                ready.pop();
                ready.extend_from_slice(b"null}\n");
            }
            ListEncoding::Json { .. } => ready.extend_from_slice(b"]}\n"),
            ListEncoding::Yaml { end } => {
                if self.is_first {
                    let nothing = if is_null { "null" } else { "[]" };
                    ready.extend_from_slice(format!("{}: {nothing}\n", items(&self.transform)).as_bytes());
                }
                ready.extend_from_slice(end.as_bytes());
            }
            ListEncoding::Protobuf => ready.extend_from_slice(&ListEnvelope::END),
        }
        self.objects = None;
    }

    /// Returns a compressed segment of the next objects. The store caches the compressed segment for other list
    /// responses.
    fn next_compressed(&mut self, gzip: &mut Gzip) -> io::Result<Option<Arc<[u8]>>> {
        let Some(neighbours) = self.neighbours() else { return Ok(None) };
        let encoding =
            pintle_storage::Encoding::Zipped(self.kind.api_version(), matches!(self.encoding, ListEncoding::Protobuf));
        let gzipped = neighbours.encode(encoding, || {
            neighbours.iter().for_each(|stored| self.add_item(stored));
            let items = std::mem::take(&mut self.ready);
            gzip.precompress(&items)
        })?;
        self.objects.iter_mut().for_each(Selected::pass_neighbours);
        Ok(Some(gzipped))
    }

    /// Returns the next group of neighbouring objects if its encoding is the same for all clients. Returns `None` for
    /// the first group of the list, because no comma comes before the first object. Also returns `None` for a large
    /// group, because compressing it would block other tasks.
    fn neighbours(&self) -> Option<Neighbours> {
        let is_plain = match self.encoding {
            ListEncoding::Json { indent: None } | ListEncoding::Protobuf => self.transform.is_none(),
            ListEncoding::Json { .. } | ListEncoding::Yaml { .. } => false,
        };
        if !self.gzipped || self.is_first || !is_plain || self.kind.strategy.form() != Form::Stored {
            return None;
        }
        let neighbours = self.objects.as_ref()?.neighbours()?;
        (neighbours.iter().map(|stored| stored.weight()).sum::<usize>() <= 2 * GZIP_THRESHOLD).then_some(neighbours)
    }

    /// Streams `first` and then all other segments. Encodes each segment only when the connection can send it.
    pub(super) fn stream(mut self, turns: &OffloadPermits, first: Bytes, gzipped: bool) -> ResponseBody {
        self.gzipped = gzipped;
        let (turns, zip) = (turns.clone(), gzipped.then(Gzip::default));
        let parts = stream::try_unfold(Sending { next: first, list: self, zip }, move |mut sending| {
            Offload::new(&turns, async move {
                let part = sending.part().await?;
                Ok(part.map(|part| (Frame::data(part), sending)))
            })
        });
        StreamBody::new(parts).boxed_unsync()
    }
}

#[derive(Default)]
struct ListEffort {
    looks: usize,
    bytes: usize,
}

impl ListEffort {
    /// Adds the cost of checking one object and processing `bytes` bytes. First yields to other tasks if the
    /// accumulated cost is already too high.
    async fn add(&mut self, bytes: usize) {
        if self.looks == SCAN_BATCH || self.bytes > GZIP_THRESHOLD {
            *self = Self::default();
            tokio::task::yield_now().await;
        }
        self.looks += 1;
        self.bytes = self.bytes.saturating_add(bytes);
        offload::work_on(bytes).await;
    }
}

struct Sending {
    next: Bytes,
    list: ListBody,
    zip: Option<Gzip>,
}

impl Sending {
    async fn part(&mut self) -> io::Result<Option<Bytes>> {
        let Some(zip) = &mut self.zip else {
            let part = if self.next.is_empty() { self.list.next().await } else { std::mem::take(&mut self.next) };
            return Ok((!part.is_empty()).then_some(part));
        };
        while zip.ready() <= GZIP_PART {
            let next = std::mem::take(&mut self.next);
            if !next.is_empty() {
                offload::work_on(gzip::weight(&next)).await;
                zip.add(&next)?;
            } else if let Some(compressed) = self.list.next_compressed(zip)? {
                zip.add_precompressed(&compressed);
                tokio::task::yield_now().await;
            } else if self.list.is_over() {
                return Ok(self.zip.take().map(|zip| zip.finish().into()));
            } else {
                let next = self.list.next().await;
                offload::work_on(gzip::weight(&next)).await;
                zip.add(&next)?;
            }
        }
        Ok(Some(zip.take().into()))
    }
}

fn items(transform: &Transform) -> &'static str {
    if matches!(transform, Transform::Table { .. }) { "rows" } else { "items" }
}

fn metadata(kind: &Kind, list: &ListReply, transform: &Transform) -> Json {
    let mut metadata = json!({});
    if list.revision > 0 {
        metadata["resourceVersion"] = list.revision.to_string().into();
    }
    if kind.lists_in_full() && transform.is_none() || !list.continue_token.is_empty() {
        metadata["continue"] = list.continue_token.as_str().into();
    }
    if let Some(remaining) = list.remaining {
        metadata["remainingItemCount"] = remaining.into();
    }
    metadata
}
