//! Reads small files that may change over time, such as tokens, certificates and keys.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use pintle_meta::__private::Mutex;
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, timeout_at};
use zeroize::Zeroizing;

/// The maximum size of a file in bytes. A typical CA bundle is about 256 KiB large.
const MAX_SIZE: u64 = 4 << 20;
/// The maximum time for which a request waits for a file.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Returns the content of a file. Dropping the content erases it from memory. Returns an error for pipes and devices,
/// because a pipe cannot be read twice, and reading a pipe or device may never end.
pub fn read(path: &Path) -> io::Result<Zeroizing<Vec<u8>>> {
    let refused = |why: String| Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    // Check the file type before opening the file, because opening a pipe blocks.
    let found = fs::metadata(path)?;
    if !found.is_file() {
        return refused("it is not a regular file".into());
    }
    // Reserve the full capacity, because a vector that grows would leave copies of the file in memory.
    let mut content = Zeroizing::new(Vec::with_capacity(found.len().min(MAX_SIZE) as usize + 1));
    File::open(path)?.take(MAX_SIZE + 1).read_to_end(&mut content)?;
    if content.len() as u64 > MAX_SIZE {
        return refused(format!("it is larger than {MAX_SIZE} bytes"));
    }
    Ok(content)
}

/// Reads files on a background thread. At most one read is in progress at a time, and all callers share its result.
/// Cancelling a caller does not cancel the read.
///
/// With a network file system, a read may block forever. Callers therefore wait only for a limited time, and the
/// shutdown of a tokio runtime does not wait for reads. The next caller gets the result of a read that finishes after
/// the timeout.
pub struct FileReader<T> {
    /// Names the files in log messages.
    what: &'static str,
    reading: Mutex<Option<Reading>>,
    last: Arc<Mutex<Option<T>>>,
}

#[derive(Clone)]
struct Reading {
    began: Instant,
    end: watch::Receiver<()>,
}

impl Reading {
    /// Waits for the end of the read, or for the timeout. Returns `true` if the read has ended.
    async fn over(mut self) -> bool {
        timeout_at(self.began + TIMEOUT, self.end.changed()).await.is_ok()
    }
}

impl<T: Clone + Send + 'static> FileReader<T> {
    /// Creates a reader. `what` describes the files in log messages.
    pub fn new(what: &'static str) -> Self {
        Self { what, reading: Mutex::default(), last: Arc::default() }
    }

    /// Runs `read` on the background thread and returns its result. If another read is in progress, waits for the
    /// result of that read instead. If the timeout expires, returns the result of the previous read, or an error if
    /// there was no previous read.
    pub async fn read(&self, read: impl FnOnce() -> T + Send + 'static) -> Result<T, &'static str> {
        let (reading, is_own) = self.begin(read);
        let _held = (is_own && is_clock_paused()).then(hold_paused_clock);
        let is_over = reading.over().await;
        if !is_over && is_own {
            tracing::warn!("{} cannot be read within {TIMEOUT:?}; the previous content stays in use", self.what);
        }
        let why = if is_over { "reading it panicked; the log may have details" } else { "reading it takes too long" };
        self.last.lock().clone().ok_or(why)
    }

    /// Works like [`read`](Self::read), but ignores the result of a read that was started before this call.
    pub async fn read_again(&self, read: impl FnOnce() -> T + Send + 'static) -> Result<T, &'static str> {
        let earlier = self.reading.lock().clone();
        if let Some(earlier) = earlier {
            earlier.over().await;
        }
        self.read(read).await
    }

    /// Returns the read in progress, or starts a read. The returned boolean is `true` if this call started the read.
    fn begin(&self, read: impl FnOnce() -> T + Send + 'static) -> (Reading, bool) {
        let mut reading = self.reading.lock();
        if let Some(reading) = reading.as_ref().filter(|reading| reading.end.has_changed().is_ok()) {
            return (reading.clone(), false);
        }
        let (teller, end) = watch::channel(());
        let begun = reading.insert(Reading { began: Instant::now(), end }).clone();
        drop(reading);
        let last = self.last.clone();
        // Use a separate thread, because a blocked system call cannot be cancelled, and a blocking task would delay the
        // shutdown of the tokio runtime. Each reader has at most one thread.
        let thread = thread::Builder::new().name("pintle-files".into()).spawn(move || {
            let content = read();
            *last.lock() = Some(content);
            drop(teller);
        });
        if let Err(error) = thread {
            tracing::warn!("cannot start the thread that reads {}: {error}", self.what);
        }
        (begun, true)
    }
}

fn is_clock_paused() -> bool {
    let before = std::time::Instant::now();
    let shown = Instant::now().into_std();
    !(before..=std::time::Instant::now()).contains(&shown)
}

/// Keeps a paused tokio clock from advancing until the returned sender is dropped. If the clock advanced during a file
/// read, all deadlines would expire, because tokio does not know about the reading thread.
///
/// The sender ends a blocking task when it is dropped. The shutdown of a runtime waits for blocking tasks. The shutdown
/// does not deadlock, because the runtime first drops the task that owns the sender.
fn hold_paused_clock() -> oneshot::Sender<()> {
    let (held, end) = mpsc::channel::<()>();
    drop(tokio::task::spawn_blocking(move || end.recv_timeout(TIMEOUT)));
    let (guard, dropped) = oneshot::channel();
    drop(tokio::spawn(async move {
        let _held = held;
        dropped.await
    }));
    guard
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn file_read_is_bounded() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for (size, is_read) in [(0, true), (MAX_SIZE, true), (MAX_SIZE + 1, false), (1 << 33, false)] {
            file.as_file().set_len(size).unwrap();
            let content = read(file.path()).map(|content| content.len() as u64);
            assert_eq!(content.ok(), is_read.then_some(size));
        }
        read(Path::new("/dev/null")).unwrap_err();
        read(Path::new("/")).unwrap_err();
    }

    /// Returns a function that blocks until a value is sent with the returned sender, or until the sender is dropped.
    fn gated(value: u32) -> (mpsc::Sender<()>, impl FnOnce() -> u32 + Send) {
        let (go, gate) = mpsc::channel();
        let read = move || {
            gate.recv().ok();
            value
        };
        (go, read)
    }

    #[tokio::test(start_paused = true)]
    async fn hanging_read_times_out_and_is_not_repeated() {
        let reader = FileReader::new("a file");
        let (go, first) = gated(1);
        let later = |time| tokio::time::advance(time);
        let (read, ()) = tokio::join!(reader.read(first), later(TIMEOUT + Duration::from_secs(1)));
        assert_eq!(read, Err("reading it takes too long"));
        let read = reader.read_again(|| panic!("a second read")).await;
        assert_eq!(read, Err("reading it takes too long"), "the next call does not wait either");

        go.send(()).unwrap();
        while reader.reading.lock().as_ref().unwrap().end.has_changed().is_ok() {
            tokio::task::yield_now().await;
        }
        let (_go, second) = gated(2);
        let (read, ()) = tokio::join!(reader.read(second), later(TIMEOUT + Duration::from_secs(1)));
        assert_eq!(read, Ok(1), "the late result");
    }

    #[test]
    fn runtime_shuts_down_while_a_read_hangs() {
        let (_go, read) = gated(1);
        let (sender, ended) = mpsc::channel();
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let reader = FileReader::new("a file");
            let mut reading = Box::pin(reader.read(read));
            runtime.block_on(async {
                tokio::select! {
                    biased;
                    _ = &mut reading => panic!("the test timed out"),
                    () = tokio::task::yield_now() => {}
                }
            });
            // The file reader must outlive the runtime.
            drop(runtime);
            sender.send(()).unwrap();
        });
        ended.recv_timeout(TIMEOUT).expect("the runtime waits for the file");
    }

    #[tokio::test(start_paused = true)]
    async fn paused_clock_does_not_advance_during_a_read() {
        let reader = FileReader::new("a file");
        let read = || {
            // Without the sender from `hold_paused_clock`, the paused clock would advance during this sleep.
            thread::sleep(Duration::from_millis(10));
            1
        };
        let started = Instant::now();
        assert_eq!(tokio::time::timeout(Duration::from_millis(1), reader.read(read)).await, Ok(Ok(1)));
        assert_eq!(started.elapsed(), Duration::ZERO);
    }

    #[tokio::test]
    async fn concurrent_callers_share_one_read() {
        let reader = FileReader::new("a file");
        let (go, first) = gated(1);
        let tell = async { go.send(()).unwrap() };
        let (one, other, ()) = tokio::join!(reader.read(first), reader.read(|| panic!("a second read")), tell);
        assert_eq!((one, other), (Ok(1), Ok(1)));
        assert_eq!(reader.read(|| 2).await, Ok(2));
    }

    #[tokio::test]
    async fn read_again_starts_after_the_read_in_flight() {
        let reader = FileReader::new("a file");
        let (go, first) = gated(1);
        let tell = async { go.send(()).unwrap() };
        let (one, other, ()) = tokio::join!(reader.read(first), reader.read_again(|| 2), tell);
        assert!(one.is_ok(), "the result may be newer");
        assert_eq!(other, Ok(2));
    }

    #[tokio::test]
    async fn panicking_read_is_not_reported_as_a_timeout() {
        let reader: FileReader<u32> = FileReader::new("a file");
        let read = reader.read(|| std::panic::resume_unwind(Box::new("on purpose"))).await;
        assert!(read.unwrap_err().contains("panicked"), "{read:?}");
    }
}
