//! The thread that writes a recording, and the channel to this thread.

#[cfg(test)]
mod tests;

use std::future::Future;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, TryRecvError, unbounded};
use pintle_meta::__private::Mutex;
use tokio::sync::watch;
use tracing::dispatcher;

use crate::line::{Line, Record};

/// The channel to the writer thread, which writes the remaining lines and ends after the channel is dropped.
pub(super) struct Lines {
    /// The sender to the writer thread, or `None` if the recording has stopped.
    sender: Mutex<Option<Sender<Line>>>,
    /// The number of bytes in the channel, which limits the channel's memory use.
    waiting: Arc<AtomicUsize>,
    /// The error that stopped the recording, in a channel that closes when the writer thread ends.
    end: watch::Receiver<Option<Arc<io::Error>>>,
}

/// Writes the lines of a recording to a file, on a separate thread.
struct Writer<W> {
    path: PathBuf,
    file: W,
    /// The maximum length of the recording file, in bytes.
    limit: u64,
    /// The number of bytes written to the file so far.
    written: u64,
    /// The lines that were not written to the file yet.
    buffer: Vec<u8>,
    /// The time of the last line, relative to the start of the recording.
    at: Duration,
}

/// The maximum number of bytes in the channel. A fast source sends this many bytes in about a second.
const WAITING: usize = 64 << 20;

/// The size of a write to the file in bytes, if enough lines are waiting.
const BUFFER: usize = 64 << 10;

/// The number of bytes reserved for the last entry of the recording.
const LAST: u64 = 64;

const TOO_SLOW: &str = "the disk is too slow";

impl Lines {
    /// Starts a thread that writes to `file`, which must be empty. Log messages contain the path `path`.
    pub(super) fn start(file: impl Write + Seek + Send + 'static, path: PathBuf, limit: u64) -> io::Result<Self> {
        let (sender, lines) = unbounded();
        let (ended, end) = watch::channel(None);
        let waiting = Arc::new(AtomicUsize::new(0));
        let left = waiting.clone();
        // Log to the `tracing` subscriber of the caller.
        let dispatch = dispatcher::get_default(Clone::clone);
        thread::Builder::new().name("informer-recorder".into()).spawn(move || {
            dispatcher::with_default(&dispatch, || {
                let mut writer = Writer { path, file, limit, written: 0, buffer: Vec::new(), at: Duration::ZERO };
                if let Err(error) = writer.run(&lines, &left) {
                    writer.give_up(&error);
                    ended.send_replace(Some(Arc::new(error)));
                }
            });
        })?;
        Ok(Self { sender: Mutex::new(Some(sender)), waiting, end })
    }

    /// Sends a line to the writer thread without waiting. If the thread falls too far behind, an entry with this
    /// reason ends the recording. Lines are sent in timestamp order.
    pub(super) fn write(&self, make: impl FnOnce() -> Line) {
        let mut sender = self.sender.lock();
        let Some(lines) = &*sender else { return };
        let line = make();
        let size = line.size();
        let waiting = self.waiting.fetch_add(size, Ordering::Relaxed);
        let is_behind = waiting > 0 && waiting.saturating_add(size) > WAITING;
        let line = if is_behind { Line { at: line.at, call: 0, record: Record::Lost(TOO_SLOW.into()) } } else { line };
        let is_taken = lines.send(line).is_ok();
        if is_behind || !is_taken {
            *sender = None;
        }
    }

    /// Returns a future that completes when the file contains all lines, or when the recording has stopped.
    pub(super) fn end(&self) -> impl Future<Output = Result<(), Arc<io::Error>>> + Send + use<> {
        let mut end = self.end.clone();
        async move {
            while end.changed().await.is_ok() {}
            let error = end.borrow().clone();
            error.map_or(Ok(()), Err)
        }
    }
}

impl<W: Write + Seek> Writer<W> {
    /// Writes lines until the channel closes or the recording ends.
    fn run(&mut self, lines: &Receiver<Line>, waiting: &AtomicUsize) -> io::Result<()> {
        while let Some(line) = self.next(lines)? {
            waiting.fetch_sub(line.size(), Ordering::Relaxed);
            self.at = line.at;
            let bytes = line.bytes();
            let length = self.written + (self.buffer.len() + bytes.len()) as u64;
            if length.saturating_add(LAST) > self.limit {
                tracing::warn!(path = %self.path.display(), "the recording has reached its size limit and stops");
                self.buffer.extend(Line { at: self.at, call: 0, record: Record::Full }.bytes());
                break;
            }
            if let Record::Lost(why) = line.record {
                self.flush()?;
                return Err(io::Error::other(why));
            }
            self.buffer.extend(bytes);
            if self.buffer.len() >= BUFFER {
                self.flush()?;
            }
        }
        self.flush()
    }

    /// Returns the next line, and flushes the buffer before it waits for one.
    fn next(&mut self, lines: &Receiver<Line>) -> io::Result<Option<Line>> {
        match lines.try_recv() {
            Err(TryRecvError::Empty) => {
                self.flush()?;
                Ok(lines.recv().ok())
            }
            next => Ok(next.ok()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.write_all(&self.buffer)?;
        self.file.flush()?;
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    /// Ends the recording with an entry that contains the reason. The entry overwrites the last incomplete entry, so
    /// that it fits even on a full disk.
    fn give_up(&mut self, error: &io::Error) {
        let path = self.path.display();
        tracing::warn!(%path, %error, "cannot write the recording, which stops here");
        // Write only the kind of an operating system error, to save space.
        let why = error.get_ref().map_or_else(|| error.kind().to_string(), ToString::to_string);
        let last = Line { at: self.at, call: 0, record: Record::Lost(why) }.bytes();
        let place = self.file.seek(SeekFrom::Start(self.written));
        if let Err(error) = place.and_then(|_| self.file.write_all(&last)).and_then(|()| self.file.flush()) {
            tracing::debug!(%path, %error, "cannot mark the end of the recording");
        }
    }
}
