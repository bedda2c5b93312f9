use crate::engine::Engine;
use crate::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use crate::sync::{Mutex, MutexGuard};

/// Adds on their way into a busy queue.
///
/// Where many threads add while many take, the lock of the queue, and all that it guards, would travel between the processors
/// with each step. So once adds have met a held lock often enough the inbox opens, and adds are left here, under a lock that
/// is held for a moment only; whoever locks the queue next takes all of them along, before it does anything else. Nobody can
/// look at the queue without having done that, so nobody can tell. When there is nothing to take along any more it closes.
///
/// # How no add is left lying
///
/// Those who wait in `get` do not lock the queue. A waiter announces itself in `sleepers` and then looks at `len` once more; an
/// add is counted in `len` and then looks at `sleepers`. With a fence between the two steps of each, at least one of them sees
/// the other: the waiter takes the add along, or the add goes and locks the queue.
#[derive(Debug)]
pub(super) struct Inbox<K> {
    content: Mutex<Content<K>>,
    /// How many adds there are. Written under the lock of `content`.
    len: AtomicUsize,
    /// What `content.open` was a moment ago.
    open: AtomicBool,
    /// Whether somebody waits in `get`. Written under the lock of the queue.
    sleepers: AtomicBool,
}

#[derive(Debug)]
struct Content<K> {
    open: bool,
    adds: Vec<Late<K>>,
}

/// An add that has been accepted.
#[derive(Debug)]
pub(super) struct Late<K> {
    pub(super) hash: u64,
    pub(super) key: K,
    pub(super) priority: i32,
}

/// The side of the inbox that the lock of the queue guards.
pub(super) struct Collector<K> {
    /// How to apply adds to the engine; `None` while the inbox is closed. A pointer, since those who lock the queue need not
    /// know how keys are compared.
    apply: Option<Apply<K>>,
    /// Empty, with room.
    batch: Vec<Late<K>>,
    contended: u32,
    quiet: u32,
    sleepers: bool,
}

type Apply<K> = fn(&mut Engine<K>, Late<K>, u64);

/// So many adds have to have met a held lock.
const OPEN_AT: u32 = if cfg!(pintle_shuttle) { 1 } else { 64 };
/// So often there has to have been nothing to take along.
const CLOSE_AT: u32 = if cfg!(pintle_shuttle) { 4 } else { 1024 };
/// When that many have been left, the next add takes them along itself.
const ROOM: usize = if cfg!(pintle_shuttle) { 2 } else { 256 };

impl<K> Inbox<K> {
    pub(super) fn new() -> Self {
        Self {
            content: Mutex::new(Content { open: false, adds: Vec::new() }),
            len: AtomicUsize::new(0),
            open: AtomicBool::new(false),
            sleepers: AtomicBool::new(false),
        }
    }

    /// Whether an add may be left here now. That can change at any time.
    pub(super) fn is_open(&self) -> bool {
        self.open.load(Ordering::Relaxed) && !self.sleepers.load(Ordering::Relaxed)
    }

    /// Leaves an add, or gives it back if there is no room, or the inbox is closed. Then says whether somebody sleeps, for whose
    /// sake the caller has to lock the queue.
    pub(super) fn leave(&self, late: Late<K>) -> Result<bool, Late<K>> {
        let mut content = self.content.lock();
        if !content.open || content.adds.len() >= ROOM {
            return Err(late);
        }
        content.adds.push(late);
        self.len.store(content.adds.len(), Ordering::Relaxed);
        drop(content);
        fence(Ordering::SeqCst);
        Ok(self.sleepers.load(Ordering::Relaxed))
    }

    fn take(&self, batch: &mut Vec<Late<K>>) -> MutexGuard<'_, Content<K>> {
        let mut content = self.content.lock();
        std::mem::swap(&mut content.adds, batch);
        self.len.store(0, Ordering::Relaxed);
        content
    }
}

impl<K> Collector<K> {
    pub(super) fn new() -> Self {
        Self { apply: None, batch: Vec::new(), contended: 0, quiet: 0, sleepers: false }
    }

    pub(super) fn is_open(&self) -> bool {
        self.apply.is_some()
    }

    /// Whether there is anything to take along. Every so many times that there is not, the inbox is closed.
    pub(super) fn look(&mut self, inbox: &Inbox<K>, engine: &mut Engine<K>, now: impl FnOnce(&Engine<K>) -> u64) {
        if inbox.len.load(Ordering::Relaxed) > 0 {
            self.quiet = 0;
            let now = now(engine);
            self.collect(inbox, engine, now);
            return;
        }
        self.quiet += 1;
        if self.quiet >= CLOSE_AT {
            let now = now(engine);
            self.close(inbox, engine, now);
        }
    }

    fn collect(&mut self, inbox: &Inbox<K>, engine: &mut Engine<K>, now: u64) {
        if let Some(apply) = self.apply {
            drop(inbox.take(&mut self.batch));
            self.batch.drain(..).for_each(|late| apply(engine, late, now));
        }
    }

    /// Takes the last ones along. From then on adds go their ordinary way.
    pub(super) fn close(&mut self, inbox: &Inbox<K>, engine: &mut Engine<K>, now: u64) {
        if let Some(apply) = self.apply.take() {
            let mut content = inbox.take(&mut self.batch);
            content.open = false;
            content.adds = Vec::new();
            inbox.open.store(false, Ordering::Relaxed);
            drop(content);
            std::mem::take(&mut self.batch).into_iter().for_each(|late| apply(engine, late, now));
        }
    }

    /// Somebody begins to wait, or nobody does any more. A waiter has to look for mail afterwards.
    pub(super) fn set_sleepers(&mut self, inbox: &Inbox<K>, sleepers: bool) {
        if self.sleepers != sleepers {
            self.sleepers = sleepers;
            inbox.sleepers.store(sleepers, Ordering::Relaxed);
        }
        if sleepers {
            fence(Ordering::SeqCst);
        }
    }
}

impl<K: Eq> Collector<K> {
    /// An add has met a held lock.
    pub(super) fn contended(&mut self, inbox: &Inbox<K>) {
        self.contended += 1;
        if self.contended >= OPEN_AT && self.apply.is_none() {
            (self.contended, self.quiet) = (0, 0);
            self.apply = Some(|engine, late, now| drop(engine.add(late.hash, late.key, late.priority, now)));
            inbox.content.lock().open = true;
            inbox.open.store(true, Ordering::Relaxed);
        }
    }
}
