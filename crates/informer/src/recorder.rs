//! A flight recorder: what a source told, and when, in a file from which it can be told once more.

pub(crate) mod line;
mod recording;

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use futures_core::Stream;
use pintle_meta::{ApiError, ApiResource, ListOptions, ListPart, ListWatch, RawObject, WatchEvent, WatchOptions};
use tokio::time::Instant;

use self::line::{Line, Record, Source};
pub use self::recording::{Recording, Replayed};

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
/// | `LIST`, `WATCH` | a request is sent: what it asks for, as JSON |
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
///
/// It is written by the task that asks, through a buffer, which is emptied into the file whenever nothing more is there for now. If that
/// fails, a warning says so, nothing more is written, and nobody else notices.
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
///     let informer = SharedInformer::new(Recorder::create(pods, &path, 64 << 20)?, InformerConfig::default());
///     informer.start();
///     informer.wait_for_sync().await?;
///     informer.shutdown().await;
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
    began: Instant,
    writer: Mutex<Writer>,
}

struct Writer {
    /// None when nothing more is to be written.
    file: Option<BufWriter<File>>,
    left: u64,
    calls: u64,
}

/// Room for the line that says that the bound is reached.
const LAST: u64 = 64;

impl<L: ListWatch> Recorder<L> {
    /// Records what `list_watch` tells into a new file, of `limit` bytes at most.
    ///
    /// # Errors
    ///
    /// The file cannot be made, or is there: no recording takes the place of another one.
    pub fn create(list_watch: L, path: impl AsRef<Path>, limit: u64) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = BufWriter::new(options.open(&path)?);
        let writer = Mutex::new(Writer { file: Some(file), left: limit, calls: 0 });
        let log = Log { path: path.as_ref().into(), began: Instant::now(), writer };
        log.write(0, Record::Source(Source::new(list_watch.api_resource(), list_watch.namespace())));
        Ok(Self { list_watch, log: Arc::new(log) })
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
        let call = self.log.call(Record::List(options.into()));
        let opened = self.log.opened(call, self.list_watch.list(options).await)?;
        let record = |part: &ListPart| match part {
            ListPart::Item(object) => Record::Item(object.clone()),
            ListPart::Metadata(metadata) => Record::Metadata(metadata.clone()),
        };
        Ok(Recorded { stream: opened, log: self.log.clone(), call, record })
    }

    async fn watch(&self, options: &WatchOptions) -> Result<Self::Events, ApiError> {
        let call = self.log.call(Record::Watch(options.into()));
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
        if !matches!(next, Poll::Ready(Some(Ok(_)))) {
            self.log.flush();
        }
        next
    }
}

impl Log {
    /// A new request.
    fn call(&self, record: Record) -> u64 {
        let call = {
            let mut writer = self.lock();
            writer.calls += 1;
            writer.calls
        };
        self.write(call, record);
        self.flush();
        call
    }

    /// What came of a request.
    fn opened<S>(&self, call: u64, answer: Result<S, ApiError>) -> Result<S, ApiError> {
        let record = match &answer {
            Ok(_) => Record::Opened,
            Err(error) => Record::Failed(Box::new(error.into())),
        };
        self.write(call, record);
        self.flush();
        answer
    }

    fn write(&self, call: u64, record: Record) {
        let line = Line { at: self.began.elapsed(), call, record }.bytes();
        let mut writer = self.lock();
        let size = line.len() as u64;
        let is_full = size.saturating_add(LAST) > writer.left;
        writer.left = writer.left.saturating_sub(size);
        let Some(file) = &mut writer.file else { return };
        if is_full {
            let full = Line { at: self.began.elapsed(), call: 0, record: Record::Full }.bytes();
            let written = file.write_all(&full).and_then(|()| file.flush());
            writer.file = None;
            drop(writer);
            tracing::warn!(path = %self.path.display(), "the recording has reached its bound, and goes no further");
            self.told(written);
        } else {
            let written = file.write_all(&line);
            drop(writer);
            self.told(written);
        }
    }

    fn flush(&self) {
        let flushed = self.lock().file.as_mut().map_or(Ok(()), Write::flush);
        self.told(flushed);
    }

    /// What fails once is given up: a recording with a hole in it would tell what never was.
    fn told(&self, written: io::Result<()>) {
        if let Err(error) = written {
            self.lock().file = None;
            tracing::warn!(path = %self.path.display(), %error, "the recording cannot be written, and goes no further");
        }
    }

    /// Nothing here panics half-way.
    fn lock(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Log").field("path", &self.path).finish_non_exhaustive()
    }
}
