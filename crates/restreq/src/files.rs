//! Small files that others write: tokens, certificates, keys.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
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
/// waits long for it, since a network file system may hang; what comes too late is there for the next.
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

impl<T: Clone + Send + 'static> FileReader<T> {
    pub(crate) fn new(what: &'static str) -> Self {
        Self { what, reading: Mutex::default(), last: Arc::default() }
    }

    /// What `read` gives, or the reading that is under way. After a while, what was read before; none if that is nothing.
    pub(crate) async fn read(&self, read: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        let (Reading { began, mut end }, is_own) = self.begin(read);
        // That the other side is gone is what is waited for.
        if timeout_at(began + PATIENCE, end.changed()).await.is_err() && is_own {
            tracing::warn!("{} cannot be read within {PATIENCE:?}; what was read before serves on", self.what);
        }
        lock(&self.last).clone()
    }

    /// The reading under way, and whether it was begun here.
    fn begin(&self, read: impl FnOnce() -> T + Send + 'static) -> (Reading, bool) {
        let mut reading = lock(&self.reading);
        match &*reading {
            Some(reading) if reading.end.has_changed().is_ok() => (reading.clone(), false),
            _ => {
                let (teller, end) = watch::channel(());
                let last = self.last.clone();
                // Nobody can end what waits for the kernel. There is never more than one for each of these.
                drop(tokio::task::spawn_blocking(move || {
                    let content = read();
                    *lock(&last) = Some(content);
                    drop(teller);
                }));
                let begun = Reading { began: Instant::now(), end };
                (reading.insert(begun).clone(), true)
            }
        }
    }
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
        assert_eq!(read, None);
        assert_eq!(reader.read(|| panic!("a second one")).await, None, "nor does the next wait once more");

        go.send(()).unwrap();
        while lock(&reader.reading).as_ref().unwrap().end.has_changed().is_ok() {
            tokio::task::yield_now().await;
        }
        let (_go, second) = gated(2);
        let (read, ()) = tokio::join!(reader.read(second), later(PATIENCE + Duration::from_secs(1)));
        assert_eq!(read, Some(1), "what came too late");
    }

    #[tokio::test]
    async fn who_asks_meanwhile_shares_the_reading() {
        let reader = FileReader::new("a file");
        let (go, first) = gated(1);
        let tell = async { go.send(()).unwrap() };
        let (one, other, ()) = tokio::join!(reader.read(first), reader.read(|| panic!("a second one")), tell);
        assert_eq!((one, other), (Some(1), Some(1)));
        assert_eq!(reader.read(|| 2).await, Some(2));
    }
}
