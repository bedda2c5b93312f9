//! Tracks the last commit whose undecodable objects have been recorded.

use std::sync::PoisonError;

use pintle_meta::Object;

use super::Cache;
use crate::store::Writer;
use crate::stored::Stored;
use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use crate::sync::{Condvar, Mutex};

/// The stamp (number) of the last commit whose undecodable objects have been recorded. A writer records the undecodable
/// objects of a commit immediately after the commit becomes visible.
///
/// A write takes no lock if no reader is waiting. The order of the following operations ensures that no wake-up is
/// lost. A reader increments `waiting` *before* it reads `stamp`, and a writer reads `waiting` *after* it has changed
/// `stamp`. As a result, the reader sees the new stamp, or the writer sees the incremented `waiting`.
#[derive(Default)]
pub(super) struct CommitSignal {
    stamp: AtomicU64,
    waiting: AtomicUsize,
    lock: Mutex<()>,
    moved: Condvar,
}

/// A guard of the store's writer lock. When the guard is dropped, even during a panic, the undecodable objects of its
/// commits are marked as recorded. Dropping the guard also drops superseded versions in the store, which can take as
/// long as the commits themselves.
pub(super) struct CommitGuard<'a, T: Object> {
    signal: &'a CommitSignal,
    pub(super) writer: Writer<'a, Stored<T>>,
}

impl CommitSignal {
    fn reach(&self, stamp: u64) {
        self.stamp.store(stamp, Ordering::SeqCst);
        if self.waiting.load(Ordering::SeqCst) > 0 {
            let _lock = self.lock.lock();
            self.moved.notify_all();
        }
    }

    fn wait(&self, stamp: u64) {
        if self.stamp.load(Ordering::Acquire) >= stamp {
            return;
        }
        let mut lock = self.lock.lock();
        self.waiting.fetch_add(1, Ordering::SeqCst);
        while self.stamp.load(Ordering::SeqCst) < stamp {
            lock = self.moved.wait(lock).unwrap_or_else(PoisonError::into_inner);
        }
        self.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}

impl<T: Object> Cache<T> {
    /// Acquires the writer lock. Before the caller drops the guard, it must record the undecodable objects of its
    /// commits.
    pub(super) fn begin_commit(&self) -> CommitGuard<'_, T> {
        CommitGuard { signal: &self.commit_signal, writer: self.store.writer() }
    }

    pub(super) fn wait_for_commit(&self) {
        self.commit_signal.wait(self.store.stamp());
    }
}

impl<T: Object> Drop for CommitGuard<'_, T> {
    fn drop(&mut self) {
        self.signal.reach(self.writer.stamp());
    }
}

#[cfg(all(test, not(any(pintle_loom, pintle_shuttle))))]
mod tests {
    use std::sync::mpsc::TryRecvError;
    use std::sync::{Arc, mpsc};
    use std::thread;
    use std::time::Duration;

    use pintle_meta::{ObjectKey, PartialObject};

    use super::*;
    use crate::cache::writes::take;

    /// A reader must not wait for a writer that has recorded its commit but is still dropping superseded versions or
    /// has started the next commit.
    #[test]
    fn reader_waits_only_for_the_record_of_a_commit() {
        let cache: Arc<Cache<PartialObject>> = Arc::default();
        let (sender, receiver) = mpsc::channel();
        let mut guard = cache.begin_commit();
        guard.writer.write_all(vec![take(&ObjectKey::new("ns", "a"))], |current| current.push('5'));
        let read_cache = cache.clone();
        let reader = thread::spawn(move || sender.send(read_cache.undecodable().len()));
        while cache.commit_signal.waiting.load(Ordering::SeqCst) == 0 {
            assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty), "the commit is not recorded yet");
            thread::yield_now();
        }
        cache.commit_signal.reach(guard.writer.stamp());
        assert_eq!(receiver.recv_timeout(Duration::from_secs(10)).expect("the reader still waits"), 0);
        drop(guard);
        reader.join().unwrap().unwrap();
    }

    #[test]
    fn panicked_writer_blocks_no_reader() {
        let cache: Arc<Cache<PartialObject>> = Arc::default();
        let writing = cache.clone();
        let writes = thread::spawn(move || {
            let mut guard = writing.begin_commit();
            guard.writer.write_all(vec![take(&ObjectKey::new("ns", "a"))], |_| {});
            panic!("expected by the test");
        });
        assert!(writes.join().is_err());
        assert!(cache.undecodable().is_empty() && cache.store.stamp() == 1);
    }
}
