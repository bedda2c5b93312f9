//! Small files that others write: tokens, certificates, keys.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, timeout_at};
use zeroize::Zeroizing;

/// The largest file: bundles of authorities have a quarter of a mebibyte.
const LARGEST: u64 = 4 << 20;
/// So long does a request wait for a file at most.
const PATIENCE: Duration = Duration::from_secs(5);

/// The content of a file, wiped when it is dropped. What is no regular file is refused: it could not be read again as it changes, a
/// pipe may have nobody who writes to it, and a device no end.
pub(crate) fn read(path: &Path) -> io::Result<Zeroizing<Vec<u8>>> {
    let refused = |why: String| Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    // It is looked at first: to open a pipe is to wait already.
    let found = fs::metadata(path)?;
    if !found.is_file() {
        return refused("it is no regular file".into());
    }
    // Room for all of it at once: a vector that grows leaves copies behind.
    let mut content = Zeroizing::new(Vec::with_capacity(found.len().min(LARGEST) as usize + 1));
    File::open(path)?.take(LARGEST + 1).read_to_end(&mut content)?;
    if content.len() as u64 > LARGEST {
        return refused(format!("it is larger than {LARGEST} bytes"));
    }
    Ok(content)
}

/// Reads files beside the requests: one reading at a time, which all who want one share, and which goes on when they give up. Nobody
/// waits long for it, since a network file system may hang, and no runtime waits for it at its end; what comes too late is there for the
/// next.
pub(crate) struct FileReader<T> {
    /// What is read, for the log.
    what: &'static str,
    reading: Mutex<Option<Reading>>,
    last: Arc<Mutex<Option<T>>>,
}

/// A reading under way.
#[derive(Clone)]
struct Reading {
    began: Instant,
    /// Its other side is dropped at the end.
    end: watch::Receiver<()>,
}

impl Reading {
    /// Waits for its end, though not for long. Whether it has come.
    async fn over(mut self) -> bool {
        // That the other side is gone is what is waited for.
        timeout_at(self.began + PATIENCE, self.end.changed()).await.is_ok()
    }
}

impl<T: Clone + Send + 'static> FileReader<T> {
    pub(crate) fn new(what: &'static str) -> Self {
        Self { what, reading: Mutex::default(), last: Arc::default() }
    }

    /// What `read` gives, or the reading that is under way. After a while, what was read before; if that is nothing, why.
    pub(crate) async fn read(&self, read: impl FnOnce() -> T + Send + 'static) -> Result<T, &'static str> {
        let (reading, is_own) = self.begin(read);
        let _standing = (is_own && is_clock_paused()).then(stand);
        let is_over = reading.over().await;
        if !is_over && is_own {
            tracing::warn!("{} cannot be read within {PATIENCE:?}; what was read before serves on", self.what);
        }
        let why = if is_over { "reading it broke off, as the log may tell" } else { "reading it takes too long" };
        lock(&self.last).clone().ok_or(why)
    }

    /// As [`read`](Self::read), but a reading that began before this is not enough.
    pub(crate) async fn read_anew(&self, read: impl FnOnce() -> T + Send + 'static) -> Result<T, &'static str> {
        let earlier = lock(&self.reading).clone();
        if let Some(earlier) = earlier {
            earlier.over().await;
        }
        self.read(read).await
    }

    /// The reading under way, and whether it was begun here.
    fn begin(&self, read: impl FnOnce() -> T + Send + 'static) -> (Reading, bool) {
        let mut reading = lock(&self.reading);
        if let Some(reading) = reading.as_ref().filter(|reading| reading.end.has_changed().is_ok()) {
            return (reading.clone(), false);
        }
        let (teller, end) = watch::channel(());
        let begun = reading.insert(Reading { began: Instant::now(), end }).clone();
        drop(reading);
        let last = self.last.clone();
        // Nobody can end what waits for the kernel, so it is no task of a runtime, which would wait for it at its end. There is never more
        // than one for each of these.
        let thread = thread::Builder::new().name("pintle-files".into()).spawn(move || {
            let content = read();
            *lock(&last) = Some(content);
            drop(teller);
        });
        if let Err(error) = thread {
            tracing::warn!("{} cannot be read without a thread for it: {error}", self.what);
        }
        (begun, true)
    }
}

/// Whether a test has paused tokio's clock. It shows the time of the system otherwise.
fn is_clock_paused() -> bool {
    let before = std::time::Instant::now();
    let shown = Instant::now().into_std();
    !(before..=std::time::Instant::now()).contains(&shown)
}

/// A clock that a test has paused stands still for as long as this is held, which a thread of our own would not make it do: else all
/// deadlines would pass while a file is read. A runtime waits at its end for the thread that holds the clock, but first drops the task
/// that this thread waits for.
fn stand() -> oneshot::Sender<()> {
    let (held, end) = mpsc::channel::<()>();
    drop(tokio::task::spawn_blocking(move || end.recv_timeout(PATIENCE)));
    let (guard, dropped) = oneshot::channel();
    drop(tokio::spawn(async move {
        let _held = held;
        dropped.await
    }));
    guard
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing panics half-way while one is held.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn no_more_is_read_than_a_token_or_a_bundle_can_have() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for (size, is_read) in [(0, true), (LARGEST, true), (LARGEST + 1, false), (1 << 33, false)] {
            file.as_file().set_len(size).unwrap();
            let content = read(file.path()).map(|content| content.len() as u64);
            assert_eq!(content.ok(), is_read.then_some(size));
        }
        read(Path::new("/dev/null")).unwrap_err();
        read(Path::new("/")).unwrap_err();
    }

    /// A reading that ends once it is told to, and who tells it.
    fn gated(value: u32) -> (mpsc::Sender<()>, impl FnOnce() -> u32 + Send) {
        let (go, gate) = mpsc::channel();
        let read = move || {
            // It ends as well when nobody is left to tell it.
            gate.recv().ok();
            value
        };
        (go, read)
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_long_for_a_reading_that_hangs_and_there_is_never_a_second() {
        let reader = FileReader::new("a file");
        let (go, first) = gated(1);
        let later = |time| tokio::time::advance(time);
        let (read, ()) = tokio::join!(reader.read(first), later(PATIENCE + Duration::from_secs(1)));
        assert_eq!(read, Err("reading it takes too long"));
        let read = reader.read_anew(|| panic!("a second one")).await;
        assert_eq!(read, Err("reading it takes too long"), "nor does the next wait once more");

        go.send(()).unwrap();
        while lock(&reader.reading).as_ref().unwrap().end.has_changed().is_ok() {
            tokio::task::yield_now().await;
        }
        let (_go, second) = gated(2);
        let (read, ()) = tokio::join!(reader.read(second), later(PATIENCE + Duration::from_secs(1)));
        assert_eq!(read, Ok(1), "what came too late");
    }

    #[test]
    fn a_runtime_ends_while_a_reading_hangs() {
        let (_go, read) = gated(1);
        let (told, ended) = mpsc::channel();
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let reader = FileReader::new("a file");
            let mut reading = Box::pin(reader.read(read));
            runtime.block_on(async {
                tokio::select! {
                    biased;
                    _ = &mut reading => panic!("it hangs"),
                    () = tokio::task::yield_now() => {}
                }
            });
            // What reads outlives it.
            drop(runtime);
            told.send(()).unwrap();
        });
        ended.recv_timeout(PATIENCE).expect("the runtime waits for the file");
    }

    #[tokio::test(start_paused = true)]
    async fn a_paused_clock_stands_still_while_a_file_is_read() {
        let reader = FileReader::new("a file");
        let read = || {
            // Time for the clock to be moved on, if it were.
            thread::sleep(Duration::from_millis(10));
            1
        };
        let started = Instant::now();
        assert_eq!(tokio::time::timeout(Duration::from_millis(1), reader.read(read)).await, Ok(Ok(1)));
        assert_eq!(started.elapsed(), Duration::ZERO);
    }

    #[tokio::test]
    async fn who_asks_meanwhile_shares_the_reading() {
        let reader = FileReader::new("a file");
        let (go, first) = gated(1);
        let tell = async { go.send(()).unwrap() };
        let (one, other, ()) = tokio::join!(reader.read(first), reader.read(|| panic!("a second one")), tell);
        assert_eq!((one, other), (Ok(1), Ok(1)));
        assert_eq!(reader.read(|| 2).await, Ok(2));
    }

    #[tokio::test]
    async fn who_wants_what_there_is_from_now_on_begins_once_the_reading_under_way_is_over() {
        let reader = FileReader::new("a file");
        let (go, first) = gated(1);
        let tell = async { go.send(()).unwrap() };
        let (one, other, ()) = tokio::join!(reader.read(first), reader.read_anew(|| 2), tell);
        assert!(one.is_ok(), "and what is told may be newer");
        assert_eq!(other, Ok(2));
    }

    #[tokio::test]
    async fn a_reading_that_breaks_off_is_not_told_as_a_slow_one() {
        let reader: FileReader<u32> = FileReader::new("a file");
        let read = reader.read(|| std::panic::resume_unwind(Box::new("on purpose"))).await;
        assert!(read.unwrap_err().contains("broke off"), "{read:?}");
    }
}
