//! The store of an informer and its audience: what is popped is stored, and then told.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use pintle_delta_fifo::{Batch, Delta, Item};
use pintle_meta::{Object, ObjectKey};
use tokio::sync::Notify;

use crate::decode::{Decoded, Told};
use crate::subscription::Queue;
use crate::{Cache, Subscription, Undecodable};

/// The store of an informer, and those who want to hear of it.
///
/// A change goes to the store first and then to all subscribers, both under the lock of `audience`. So who subscribes gets
/// the store's content and then each later change, none of them twice.
pub(crate) struct Publisher<T> {
    pub(crate) cache: Arc<Cache<T>>,
    audience: Mutex<Audience<T>>,
    /// Changed under the lock of `audience`, and read without: an index function may ask.
    has_synced: AtomicBool,
    /// A subscriber came whose resync may be due before all others.
    pub(crate) resyncs_changed: Arc<Notify>,
}

type Change<T> = Delta<ObjectKey, Told<Arc<T>>>;

/// What a delta makes of its key.
enum Next<T> {
    Present(Arc<T>),
    Gone { last: Option<Arc<T>>, final_state_known: bool },
    Undecodable(Undecodable),
}

impl<T: Object> Next<T> {
    fn of(delta: Change<T>) -> Self {
        match delta {
            Delta::Deleted(deleted) => {
                let is_tombstone = deleted.is_tombstone();
                match deleted.into_object().map(|told| told.object) {
                    Some(Decoded::Object(last)) => Self::Gone { last: Some(last), final_state_known: !is_tombstone },
                    Some(Decoded::Undecodable(_)) | None => Self::Gone { last: None, final_state_known: false },
                }
            }
            Delta::Added(told) | Delta::Updated(told) | Delta::Replaced(told) | Delta::Sync(told) => {
                match told.object {
                    Decoded::Object(object) => Self::Present(object),
                    Decoded::Undecodable(entry) => Self::Undecodable(entry.0.clone()),
                }
            }
        }
    }

    fn object(&self) -> Option<&Arc<T>> {
        match self {
            Self::Present(object) => Some(object),
            _ => None,
        }
    }

    fn undecodable(&self) -> Option<&Undecodable> {
        match self {
            Self::Undecodable(entry) => Some(entry),
            _ => None,
        }
    }
}

struct Audience<T> {
    queues: Vec<Weak<Queue<T>>>,
    is_closed: bool,
}

impl<T: Object> Publisher<T> {
    pub(crate) fn new() -> Self {
        let audience = Audience { queues: Vec::new(), is_closed: false };
        Self {
            cache: Arc::default(),
            audience: Mutex::new(audience),
            has_synced: AtomicBool::new(false),
            resyncs_changed: Arc::default(),
        }
    }

    pub(crate) fn subscribe(&self, now: Instant, resync: Option<Duration>) -> Subscription<T> {
        let mut audience = self.lock();
        let queue = Arc::new(Queue::new(now, resync));
        queue.replay(self.cache.list());
        if self.has_synced() {
            queue.upstream_synced();
        }
        if audience.is_closed {
            queue.close();
        }
        audience.queues.push(Arc::downgrade(&queue));
        self.resyncs_changed.notify_one();
        Subscription::new(queue, self.resyncs_changed.clone())
    }

    /// Takes up what was popped from the queue: first the store, all of it in one step, and then the subscribers.
    pub(crate) fn apply(&self, batch: Batch<ObjectKey, Told<Arc<T>>>) {
        let mut audience = self.lock();
        let queues = audience.present();
        let mut deltas = Vec::with_capacity(batch.items.len());
        for item in batch.items {
            match item {
                Item::One { key, delta } => deltas.push((key, delta)),
                // These come alone.
                Item::ReplacedAll { objects, resource_version } => {
                    self.replace(&queues, objects, &resource_version);
                }
                Item::Bookmark { resource_version } => self.cache.bookmark(&resource_version),
                Item::SyncAll => queues.iter().for_each(|queue| queue.remind(self.cache.list())),
            }
        }
        self.apply_deltas(&queues, deltas);
    }

    fn replace(&self, queues: &[Arc<Queue<T>>], listed: Vec<Told<Arc<T>>>, resource_version: &str) {
        let mut objects = Vec::with_capacity(listed.len());
        let mut undecodable = Vec::new();
        for told in listed {
            match told.object {
                Decoded::Object(object) => objects.push(object),
                Decoded::Undecodable(entry) => {
                    // The last state of it that could be decoded stays, so that it is not taken for deleted.
                    let known = self.cache.get(&entry.0.key);
                    objects.extend(known.filter(|known| !is_succeeded(Some(&**known), &entry.0)));
                    undecodable.push(entry.0.clone());
                }
            }
        }
        let replacement = self.cache.replace_all(objects, undecodable, resource_version);
        let is_initial = !self.has_synced();
        for object in replacement.deleted {
            for queue in queues {
                queue.deleted(object.key(), object.clone(), object.clone(), false);
            }
        }
        for (old, new) in replacement.present {
            tell(queues, &new.key(), old, &new, is_initial);
        }
        self.has_synced.store(true, Ordering::Release);
        queues.iter().for_each(|queue| queue.upstream_synced());
    }

    fn apply_deltas(&self, queues: &[Arc<Queue<T>>], deltas: Vec<(ObjectKey, Change<T>)>) {
        let last = deltas.last().and_then(|(_, delta)| delta.object());
        let resource_version = last.map(|told| told.resource_version().to_owned()).unwrap_or_default();
        let mut writes = Vec::with_capacity(deltas.len());
        let mut undecodable = Vec::new();
        for (key, delta) in deltas {
            let next = Next::of(delta);
            if let Some(entry) = next.undecodable() {
                undecodable.push(entry.clone());
            }
            match next {
                // What was known of it stays, but for that of another object which is gone.
                Next::Undecodable(entry) if !is_succeeded(self.cache.get(&key).as_deref(), &entry) => {}
                next => writes.push((key, next)),
            }
        }
        let changes = writes.iter().map(|(key, next)| (key.clone(), next.object().cloned())).collect();
        let before = self.cache.write_all(changes, undecodable, &resource_version);
        for ((key, next), old) in writes.into_iter().zip(before) {
            // What an index function fails on shows elsewhere, and changes nothing.
            let Ok(old) = old else { continue };
            match (next, old) {
                (Next::Present(new), old) => tell(queues, &key, old, &new, false),
                // Nobody was told of it.
                (_, None) => {}
                (next, Some(old)) => {
                    let (last, final_state_known) = match next {
                        Next::Gone { last: Some(last), final_state_known } => (last, final_state_known),
                        _ => (old.clone(), false),
                    };
                    for queue in queues {
                        queue.deleted(key.clone(), old.clone(), last.clone(), final_state_known);
                    }
                }
            }
        }
    }

    /// Whether the store has held the whole resource at least once.
    pub(crate) fn has_synced(&self) -> bool {
        self.has_synced.load(Ordering::Acquire)
    }

    /// How many events wait for subscribers, of all of them together.
    pub(crate) fn pending(&self) -> usize {
        let queues = self.lock().present();
        queues.iter().map(|queue| queue.len()).sum()
    }

    /// When the next subscriber wants to be reminded of all objects.
    pub(crate) fn next_resync(&self) -> Option<Instant> {
        self.lock().present().iter().filter_map(|queue| queue.next_resync()).min()
    }

    /// Reminds those who are due.
    pub(crate) fn resync(&self, now: Instant) {
        let mut audience = self.lock();
        for queue in audience.present() {
            if queue.is_resync_due(now) {
                queue.remind(self.cache.list());
            }
        }
    }

    pub(crate) fn close(&self) {
        let mut audience = self.lock();
        audience.is_closed = true;
        audience.present().iter().for_each(|queue| queue.close());
        self.cache.close();
    }

    /// Nothing panics under this lock but what has changed nothing yet, so poison says nothing.
    fn lock(&self) -> MutexGuard<'_, Audience<T>> {
        self.audience.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Object> Audience<T> {
    /// Those who still listen.
    fn present(&mut self) -> Vec<Arc<Queue<T>>> {
        let mut present = Vec::with_capacity(self.queues.len());
        self.queues.retain(|queue| match queue.upgrade() {
            Some(queue) => {
                present.push(queue);
                true
            }
            None => false,
        });
        present
    }
}

fn tell<T: Object>(queues: &[Arc<Queue<T>>], key: &ObjectKey, old: Option<Arc<T>>, new: &Arc<T>, is_initial: bool) {
    match old {
        None => queues.iter().for_each(|queue| queue.added(key.clone(), new.clone(), is_initial)),
        Some(old) if is_same_state(&*old, &**new) => {}
        Some(old) => queues.iter().for_each(|queue| queue.updated(key.clone(), old.clone(), new.clone())),
    }
}

/// Whether a relist brought what is known. Without a resourceVersion nothing can be said, and all counts as news.
fn is_same_state<T: Object>(old: &T, new: &T) -> bool {
    let (old, new) = (old.metadata(), new.metadata());
    !new.resource_version().is_empty() && old.resource_version() == new.resource_version() && old.uid() == new.uid()
}

/// Whether the object that was known was made anew since, and what is there now cannot be decoded.
pub(crate) fn is_succeeded<T: Object>(known: Option<&T>, entry: &Undecodable) -> bool {
    known.is_some_and(|known| !entry.uid.is_empty() && !known.uid().is_empty() && known.uid() != entry.uid)
}
