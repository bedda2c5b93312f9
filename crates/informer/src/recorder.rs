//! A flight recorder: what a source told, and when, in a file from which it can be told once more.

pub(crate) mod line;
mod recording;
mod writer;

use std::fmt;
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

use self::line::{Asked, Line, Record, Source};
pub use self::recording::{Recording, Replayed};
use self::writer::Lines;

/// A [`ListWatch`] that writes down all that another one tells: each request, each object as it came, each error, and when. A
/// [`Recording`] of it tells the same once more, to an informer in a test. So an incident becomes a test.
///
/// **The file holds the objects, all of them, as they came: of Secrets, all that they say.** It is readable by its owner alone, as far
/// as the platform has such a thing; where it goes from there is yours to look after.
///
/// # The file
///
/// Lines of text, and what they announce. Each line is `MICROSECONDS REQUEST WHAT BYTES`: the time since the recording began, the
/// number of the request, from 1 on, what came, and how many bytes follow behind the line, which a line feed ends.
///
/// | what | what follows |
/// |---|---|
/// | `SOURCE` | the resource, as JSON; it comes first |
/// | `LIST`, `WATCH` | a request is sent: what it asks for, as JSON, with its namespace if that is another than the source's |
/// | `OPENED` | the server has taken it up |
/// | `ITEM` | an object of a list, as it came |
/// | `METADATA` | the list's own metadata, as JSON |
/// | `ADDED`, `MODIFIED`, `DELETED` | the object of an event, as it came |
/// | `OVERSIZED-ITEM`, `OVERSIZED-ADDED` and so on | of an object that was too large to be held, what was found, as JSON |
/// | `BOOKMARK`, `INITIAL-EVENTS-END` | the revision |
/// | `ERROR` | the server's status, as JSON |
/// | `FAILED` | why the request or its stream failed, as JSON |
/// | `END` | the stream ended well; of a request without it, nobody wanted to hear the rest |
/// | `FULL` | the bound is reached, and nothing more was written |
/// | `LOST` | why nothing more could be written, in a few words; what may stand behind it is left over |
///
/// It is written by a thread of its own, through a buffer, which is emptied into the file whenever nothing more is there for now. No source
/// waits for it. If the disk fails or is full, or so slow that 64 MiB are on the way to it, the recording ends there: it has no holes. A
/// warning says so once, as do its last line, unless the disk has no room for that either, and [`written`](Self::written); nobody else
/// notices.
///
/// # Examples
///
/// ```
/// use pintle_informer::{InformerConfig, Recorder, Recording, SharedInformer};
/// use pintle_meta::{ApiResource, PartialObject, Scope};
/// use pintle_testing::{Collection, CollectionConfig};
/// use serde_json::json;
///
/// #[tokio::main(flavor = "current_thread")]
/// async fn main() -> Result<(), Box<dyn std::error::Error>> {
///     let resource = ApiResource::new("v1", "Pod", "pods", Scope::Namespaced);
///     let pods = Collection::<PartialObject>::dynamic(resource, CollectionConfig::default());
///     pods.put_raw(json!({"metadata": {"namespace": "a", "name": "web"}}));
///     let directory = tempfile::tempdir()?;
///     let path = directory.path().join("pods.recording");
///
///     let recorder = Recorder::create(pods, &path, 64 << 20)?;
///     let written = recorder.written();
///     let informer = SharedInformer::new(recorder, InformerConfig::default());
///     informer.start();
///     informer.wait_for_sync().await?;
///     informer.shutdown().await;
///     written.await?;
///
///     let informer = SharedInformer::new(Recording::<PartialObject>::open(&path)?, InformerConfig::default());
///     informer.start();
///     informer.wait_for_sync().await?;
///     assert_eq!(informer.lister().list()[0].metadata.name, "web");
///     Ok(())
/// }
/// ```
#[derive(Debug)]
pub struct Recorder<L> {
    list_watch: L,
    log: Arc<Log>,
}

struct Log {
    path: PathBuf,
    resource: ApiResource,
    /// That of the first source.
    namespace: Option<String>,
    began: Instant,
    calls: AtomicU64,
    lines: Lines,
}

impl<L: ListWatch> Recorder<L> {
    /// Records what `list_watch` tells into a new file, of `limit` bytes at most.
    ///
    /// # Errors
    ///
    /// The file cannot be made, or is there: no recording takes the place of another one. Or the operating system gives no thread.
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

    /// Records what another source of the same resource tells into the same file: that of each namespace, for an informer
    /// [of several](crate::SharedInformer::of_namespaces). [`Recording::in_namespace`] tells it once more.
    ///
    /// ```
    /// use pintle_informer::{InformerConfig, Namespaces, Recorder, SharedInformer};
    /// use pintle_meta::ObjectMeta;
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
    /// If it is a source of another resource: the file says of one alone what its objects are.
    pub fn record<M: ListWatch<Object = L::Object>>(&self, list_watch: M) -> Recorder<M> {
        let (known, other) = (self.log.resource.gvr(), list_watch.api_resource().gvr());
        assert!(known == other, "a recording of {known} cannot have {other} in it");
        Recorder { list_watch, log: self.log.clone() }
    }

    /// Ready when the recording is complete: its recorders are gone, as with the end of their informer, and all that they told is in the file.
    ///
    /// # Errors
    ///
    /// Why the recording ends before that, unless it has reached its bound.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future stops the wait and has no other effect.
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
        let call = self.log.call(Record::List(self.log.asked(options.into(), self.namespace())));
        let opened = self.log.opened(call, self.list_watch.list(options).await)?;
        let record = |part: &ListPart| match part {
            ListPart::Item(object) => Record::Item(object.clone()),
            ListPart::Metadata(metadata) => Record::Metadata(metadata.clone()),
        };
        Ok(Recorded { stream: opened, log: self.log.clone(), call, record })
    }

    async fn watch(&self, options: &WatchOptions) -> Result<Self::Events, ApiError> {
        let call = self.log.call(Record::Watch(self.log.asked(options.into(), self.namespace())));
        let opened = self.log.opened(call, self.list_watch.watch(options).await)?;
        Ok(Recorded { stream: opened, log: self.log.clone(), call, record: |event| Record::Event(event.clone()) })
    }
}

/// A stream that is written down as it is read.
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
    fn asked(&self, mut asked: Asked, namespace: Option<&str>) -> Asked {
        let is_other = namespace != self.namespace.as_deref();
        asked.namespace = is_other.then(|| namespace.unwrap_or_default().to_owned());
        asked
    }

    /// A new request.
    fn call(&self, record: Record) -> u64 {
        let mut call = 0;
        self.lines.write(|| {
            call = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
            Line { at: self.began.elapsed(), call, record }
        });
        call
    }

    /// What came of a request.
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

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Log").field("path", &self.path).finish_non_exhaustive()
    }
}
