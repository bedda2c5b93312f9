//! The queue between threads: a lock, and a way to wait.

use std::fmt;
use std::hash::Hash;
use std::ops::{Deref, DerefMut};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

use crate::{DeltaFifo, FifoClosed, Popped};

/// A [`DeltaFifo`] between threads.
///
/// It has no task of its own: producers change the queue through [`lock`](Self::lock), and consumers wait in [`pop`](Self::pop).
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use std::thread;
///
/// use pintle_delta_fifo::{BlockingDeltaFifo, DeltaFifo, DeltaFifoConfig};
///
/// let fifo = DeltaFifo::new(|name: &String| Ok(name.clone()), DeltaFifoConfig::default());
/// let fifo = Arc::new(BlockingDeltaFifo::new(fifo));
/// let consumer = thread::spawn({
///     let fifo = fifo.clone();
///     move || {
///         let mut seen = Vec::new();
///         while fifo.pop(|_, popped| seen.push(popped.key)).is_ok() {}
///         seen
///     }
/// });
/// fifo.lock().add("a".to_owned())?;
/// fifo.lock().add("b".to_owned())?;
/// fifo.lock().close();
/// assert_eq!(consumer.join().unwrap(), ["a", "b"]);
/// # Ok::<(), pintle_delta_fifo::StoreError>(())
/// ```
pub struct BlockingDeltaFifo<K, T> {
    fifo: Mutex<DeltaFifo<K, T>>,
    /// Notified whenever something may have been put in, or the queue closed. A thread holds `fifo` from its look until it
    /// waits, so that no notification falls in between.
    changed: Condvar,
    /// The thread that processes what it popped, and so holds `fifo`.
    processing: Mutex<Option<ThreadId>>,
}

/// Exclusive use of the queue in a [`BlockingDeltaFifo`]. Its drop wakes the threads that wait for the queue to change.
pub struct Guard<'a, K, T> {
    fifo: MutexGuard<'a, DeltaFifo<K, T>>,
    changed: &'a Condvar,
}

impl<K: Clone + Eq + Hash, T: Clone> BlockingDeltaFifo<K, T> {
    /// Puts a queue between threads.
    pub fn new(fifo: DeltaFifo<K, T>) -> Self {
        Self { fifo: Mutex::new(fifo), changed: Condvar::new(), processing: Mutex::new(None) }
    }

    /// Waits for exclusive use of the queue: to put something in, to look something up, to close it.
    ///
    /// # Panics
    ///
    /// If it is called by the function that [`pop`](Self::pop) runs: it would wait for itself. That function gets the queue as an
    /// argument.
    pub fn lock(&self) -> Guard<'_, K, T> {
        Guard { fifo: self.lock_fifo(), changed: &self.changed }
    }

    /// Waits for a key, and calls `process` with the queue and with the changes of that key. Returns what `process` returns.
    ///
    /// The queue stays locked while `process` runs, and has to: between the moment a change leaves the queue and the moment it
    /// is among the known objects, a replacement would find it in neither, and would miss its deletion. So `process` should
    /// do no more than bring the known objects up to date. And when the queue [has synced](DeltaFifo::has_synced), the first
    /// list has been processed, not only taken out.
    ///
    /// If `process` panics, the changes are lost and the queue stays usable.
    ///
    /// # Errors
    ///
    /// [`FifoClosed`] once the queue is closed and empty.
    ///
    /// # Panics
    ///
    /// As for [`lock`](Self::lock).
    pub fn pop<R>(&self, process: impl FnOnce(&mut DeltaFifo<K, T>, Popped<K, T>) -> R) -> Result<R, FifoClosed> {
        let mut fifo = self.lock_fifo();
        loop {
            if let Some(popped) = fifo.pop() {
                let mut guard = Guard { fifo, changed: &self.changed };
                let _processing = Processing::begin(&self.processing);
                return Ok(process(&mut guard.fifo, popped));
            }
            if fifo.is_closed() {
                return Err(FifoClosed);
            }
            fifo = self.changed.wait(fifo).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits until the queue [has synced](DeltaFifo::has_synced) and its first list has been processed. Returns false if it was
    /// closed and emptied before that.
    ///
    /// # Panics
    ///
    /// As for [`lock`](Self::lock).
    pub fn wait_synced(&self) -> bool {
        let mut fifo = self.lock_fifo();
        while !fifo.has_synced() {
            if fifo.is_closed() && fifo.is_empty() {
                return false;
            }
            fifo = self.changed.wait(fifo).unwrap_or_else(PoisonError::into_inner);
        }
        true
    }

    /// A panic of the user's functions leaves the queue in order, so poison says nothing.
    fn lock_fifo(&self) -> MutexGuard<'_, DeltaFifo<K, T>> {
        let processing = *self.processing.lock().unwrap_or_else(PoisonError::into_inner);
        assert_ne!(
            processing,
            Some(thread::current().id()),
            "a function that processes what was popped holds the queue; it must use the one that it is given",
        );
        self.fifo.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K, T> Deref for Guard<'_, K, T> {
    type Target = DeltaFifo<K, T>;

    fn deref(&self) -> &DeltaFifo<K, T> {
        &self.fifo
    }
}

impl<K, T> DerefMut for Guard<'_, K, T> {
    fn deref_mut(&mut self) -> &mut DeltaFifo<K, T> {
        &mut self.fifo
    }
}

impl<K, T> Drop for Guard<'_, K, T> {
    fn drop(&mut self) {
        self.changed.notify_all();
    }
}

impl<K: fmt::Debug, T> fmt::Debug for Guard<'_, K, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fifo.fmt(f)
    }
}

impl<K, T> fmt::Debug for BlockingDeltaFifo<K, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlockingDeltaFifo").finish_non_exhaustive()
    }
}

/// Marks the thread that processes, for as long as it does.
struct Processing<'a>(&'a Mutex<Option<ThreadId>>);

impl<'a> Processing<'a> {
    fn begin(thread: &'a Mutex<Option<ThreadId>>) -> Self {
        *thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread::current().id());
        Self(thread)
    }
}

impl Drop for Processing<'_> {
    fn drop(&mut self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}
