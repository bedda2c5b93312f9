//! Records the responses of a `ListWatch` in a file, which a test can replay.

use std::fs::OpenOptions;
use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use futures_core::Stream;
use pintle_meta::{ApiError, ApiResource, ListOptions, ListPart, ListWatch, RawObject, WatchEvent, WatchOptions};
use tokio::time::Instant;

use crate::line::{Line, Record, Requested, Source};
use crate::writer::Lines;

/// A [`ListWatch`] that wraps another `ListWatch` and records its responses. The recorder stores each request, each raw
/// object and each error, together with the time. A [`Recording`](crate::Recording) replays these responses to an
/// informer, so that an incident can become a test.
///
/// **The file contains all objects as the server sent them, including the data of Secrets.** If the platform supports
/// file permissions, only the owner of the file can read it. Copies of the file need the same protection.
///
/// # The file
///
/// The file consists of header lines, each followed by a body. A header line has the format `MICROSECONDS REQUEST TYPE
/// BYTES`: the time since the start of the recording, the number of the request (starting from 1), the type of the
/// entry, and the length of the body. Each body ends with a line feed.
///
/// | type | body |
/// |---|---|
/// | `SOURCE` | the resource, as JSON; always the first entry |
/// | `LIST`, `WATCH` | the options of a request, as JSON, with its namespace if that differs from the source's |
/// | `OPENED` | the server accepted the request |
/// | `ITEM` | an object of a list, as it arrived |
/// | `METADATA` | the metadata of the list, as JSON |
/// | `ADDED`, `MODIFIED`, `DELETED` | the object of an event, as it arrived |
/// | `OVERSIZED-ITEM`, `OVERSIZED-ADDED` and so on | the known fields of an object that was too large, as JSON |
/// | `BOOKMARK`, `INITIAL-EVENTS-END` | the revision |
/// | `ERROR` | the status of the server, as JSON |
/// | `FAILED` | the error of the request or its stream, as JSON |
/// | `END` | the stream ended normally; without this entry, the informer abandoned the request |
/// | `FULL` | the size limit was reached, and recording stopped |
/// | `LOST` | why recording stopped, in a few words; ignore all entries after it |
///
/// A dedicated thread writes the entries to a buffer, and flushes the buffer if no more entries are queued. The source
/// does not wait for this thread. The recording stops if a write fails, for example because the disk is full, or if 64
/// MiB of entries are queued. A recording therefore has no gaps. When the recording stops, the recorder logs one
/// warning, and writes the reason as the last entry if the disk has enough space. [`written`](Self::written) returns
/// the error that stopped the recording. The informer continues without the recording.
///
/// # Examples
///
/// See the [crate documentation](crate) for an example.
#[derive(Debug)]
pub struct Recorder<L> {
    list_watch: L,
    log: Arc<Log>,
}

struct Log {
    path: PathBuf,
    resource: ApiResource,
    /// The namespace of the source that created the recording file.
    namespace: Option<String>,
    began: Instant,
    calls: AtomicU64,
    lines: Lines,
}

impl<L: ListWatch> Recorder<L> {
    /// Records the responses of `list_watch` in a new file of at most `limit` bytes.
    ///
    /// # Errors
    ///
    /// Returns an error if the file already exists, because a recording does not overwrite files. Returns an error if
    /// the file cannot be created or the operating system cannot start a thread.
    pub fn create(list_watch: L, path: impl AsRef<Path>, limit: u64) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(&path)?;
        let path = path.as_ref().to_owned();
        let lines = Lines::start(file, path.clone(), limit)?;
        let (resource, namespace) = (list_watch.api_resource(), list_watch.namespace().map(str::to_owned));
        let log = Log { path, resource, namespace, began: Instant::now(), calls: AtomicU64::new(0), lines };
        log.write(0, Record::Source(Source::new(log.resource.clone(), list_watch.namespace())));
        Ok(Self { list_watch, log: Arc::new(log) })
    }

    /// Records the responses of another source of the same resource in the same file. Use this method for each further
    /// source of an informer of several namespaces. [`Recording::in_namespace`](crate::Recording::in_namespace) replays
    /// the responses of one source.
    ///
    /// ```
    /// use pintle_informer::{InformerConfig, Namespaces, SharedInformer};
    /// use pintle_meta::ObjectMeta;
    /// use pintle_recorder::Recorder;
    /// use pintle_testing::Client;
    /// use serde::{Deserialize, Serialize};
    ///
    /// #[derive(Deserialize, Serialize)]
    /// struct Website {
    ///     metadata: ObjectMeta,
    /// }
    /// pintle_meta::resource!(Website, "example.com/v1", "Website", "websites", Namespaced);
    ///
    /// fn recorded(
    ///     sites: Client<Website>,
    ///     recorder: Recorder<Client<Website>>,
    ///     namespaces: &Namespaces,
    /// ) -> SharedInformer<Website> {
    ///     let source = move |namespace: Option<&str>| match namespace {
    ///         Some(namespace) => recorder.record(sites.in_namespace(namespace)),
    ///         None => recorder.record(sites.clone()),
    ///     };
    ///     SharedInformer::of_namespaces(namespaces, source, InformerConfig::default())
    /// }
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if `list_watch` is a source of another resource, because a file contains only one resource.
    pub fn record<M: ListWatch<Object = L::Object>>(&self, list_watch: M) -> Recorder<M> {
        let (known, other) = (self.log.resource.gvr(), list_watch.api_resource().gvr());
        assert!(known == other, "a recording of {known} cannot contain {other}");
        Recorder { list_watch, log: self.log.clone() }
    }

    /// Returns a future that completes when all recorders of the file have been dropped and the file contains all
    /// entries. An informer drops its recorder when it ends.
    ///
    /// # Errors
    ///
    /// The future returns the error that stopped the recording, if any. Reaching the size limit is not an error.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future does not affect the recording.
    pub fn written(&self) -> impl Future<Output = Result<(), Arc<io::Error>>> + Send + use<L> {
        self.log.lines.end()
    }
}

impl<L: ListWatch> ListWatch for Recorder<L> {
    type Object = L::Object;
    type Page = Recorded<L::Page, ListPart>;
    type Events = Recorded<L::Events, WatchEvent<RawObject>>;

    fn api_resource(&self) -> ApiResource {
        self.list_watch.api_resource()
    }

    fn namespace(&self) -> Option<&str> {
        self.list_watch.namespace()
    }

    async fn list(&self, options: &ListOptions) -> Result<Self::Page, ApiError> {
        let call = self.log.call(Record::List(self.log.request(options.into(), self.namespace())));
        let opened = self.log.opened(call, self.list_watch.list(options).await)?;
        let record = |part: &ListPart| match part {
            ListPart::Item(object) => Record::Item(object.clone()),
            ListPart::Metadata(metadata) => Record::Metadata(metadata.clone()),
        };
        Ok(Recorded { stream: opened, log: self.log.clone(), call, record })
    }

    async fn watch(&self, options: &WatchOptions) -> Result<Self::Events, ApiError> {
        let call = self.log.call(Record::Watch(self.log.request(options.into(), self.namespace())));
        let opened = self.log.opened(call, self.list_watch.watch(options).await)?;
        Ok(Recorded { stream: opened, log: self.log.clone(), call, record: |event| Record::Event(event.clone()) })
    }
}

/// A page or a watch that a [`Recorder`] returns. Each item that the informer reads from the stream is recorded.
#[derive(Debug)]
pub struct Recorded<S, I> {
    stream: S,
    log: Arc<Log>,
    call: u64,
    record: fn(&I) -> Record,
}

impl<S: Stream<Item = Result<I, ApiError>> + Unpin, I> Stream for Recorded<S, I> {
    type Item = Result<I, ApiError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = Pin::new(&mut self.stream).poll_next(context);
        match &next {
            Poll::Ready(Some(Ok(item))) => self.log.write(self.call, (self.record)(item)),
            Poll::Ready(Some(Err(error))) => self.log.write(self.call, Record::Failed(Box::new(error.into()))),
            Poll::Ready(None) => self.log.write(self.call, Record::End),
            Poll::Pending => {}
        }
        next
    }
}

impl Log {
    fn request(&self, mut request: Requested, namespace: Option<&str>) -> Requested {
        let is_other = namespace != self.namespace.as_deref();
        request.namespace = is_other.then(|| namespace.unwrap_or_default().to_owned());
        request
    }

    fn call(&self, record: Record) -> u64 {
        let mut call = 0;
        self.lines.write(|| {
            call = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
            Line { at: self.began.elapsed(), call, record }
        });
        call
    }

    /// Records the response to a request, and wraps the stream in the response.
    fn opened<S>(&self, call: u64, answer: Result<S, ApiError>) -> Result<S, ApiError> {
        let record = match &answer {
            Ok(_) => Record::Opened,
            Err(error) => Record::Failed(Box::new(error.into())),
        };
        self.write(call, record);
        answer
    }

    fn write(&self, call: u64, record: Record) {
        self.lines.write(|| Line { at: self.began.elapsed(), call, record });
    }
}

pintle_meta::debug_struct!(Log { path, .. });
