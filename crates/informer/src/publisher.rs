//! Stores changes in the cache and notifies subscribers.

use std::collections::BTreeSet;
use std::hash::RandomState;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use pintle_delta_fifo::{Batch, Delivery, Delta, Item};
use pintle_meta::__private::Mutex;
use pintle_meta::{Object, ObjectKey};
use tokio::sync::{Mutex as Turns, Notify, OwnedMutexGuard};

use crate::cache::parts::{Demand, Parts, Progress};
use crate::cache::{Cache, WriteResult, last_of_each, was_replaced};
use crate::decode::{Decoded, Observed};
use crate::error::IndexFailed;
use crate::index::Index;
use crate::namespaces::{Followed, Place};
use crate::stored::{Found, Source, Stored};
use crate::subscription::{DeferredDrops, Entry, HashedState, Notification, Queue, SubscriptionStatus, Walk};
use crate::undecodable::Undecodable;
use crate::user::User;
use crate::version::is_older;

/// Only the informer's drivers may write to the cache and start resyncs. A driver must first get the
/// [turn](Publisher::turn), the exclusive right to change the cache. A change is first stored and then sent to all
/// current subscribers. A new subscriber starts with a snapshot of the cache that is not taken during a write. Each
/// subscriber therefore receives the cached objects, and then each later change exactly once. The list of subscribers
/// stays locked for at most one pass over the subscribers.
pub(crate) struct Publisher<T> {
    name: String,
    pub(crate) cache: Arc<Cache<T>>,
    audience: Mutex<Audience<T>>,
    turns: Arc<Turns<()>>,
    hasher: RandomState,
    /// Whether every watched namespace has been listed. The flag is written while `audience` is locked, but read
    /// without the lock, because an index function may call `has_synced`.
    has_synced: AtomicBool,
    /// Notifies the task that starts resyncs when a subscriber is added or changes its resync period, because this
    /// subscriber's resync may be due first.
    pub(crate) resyncs_changed: Arc<Notify>,
    writes: AtomicU64,
}

struct Audience<T> {
    queues: Vec<Weak<Queue<T>>>,
    /// Subscribers that were added while a write was in progress. New subscribers start after the write, because a
    /// snapshot that is taken during the write may or may not contain the written changes.
    joining: Vec<Weak<Queue<T>>>,
    is_writing: bool,
    is_closed: bool,
}

type ObservedDelta<T> = Delta<ObjectKey, Observed<Stored<T>>>;

/// The maximum number of changes that are added to a subscriber's queue while its lock is held.
const CHUNK: usize = 256;

enum NewState<T> {
    Present(Stored<T>),
    Gone { last: Option<Stored<T>>, final_state_known: bool },
    Undecodable(Undecodable),
}

impl<T: Object> NewState<T> {
    fn of(delta: ObservedDelta<T>) -> Self {
        match delta {
            Delta::Deleted(deleted) => {
                let is_tombstone = deleted.is_tombstone();
                match deleted.into_object().map(|observed| observed.object) {
                    Some(Decoded::Object(last)) => Self::Gone { last: Some(last), final_state_known: !is_tombstone },
                    Some(Decoded::Undecodable(_)) | None => Self::Gone { last: None, final_state_known: false },
                }
            }
            Delta::Added(observed) | Delta::Updated(observed) | Delta::Replaced(observed) | Delta::Sync(observed) => {
                match observed.object {
                    Decoded::Object(object) => Self::Present(object),
                    Decoded::Undecodable(entry) => Self::Undecodable(entry.0.clone()),
                }
            }
        }
    }

    fn object(&self) -> Option<&Stored<T>> {
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

impl<T: Object> Publisher<T> {
    pub(crate) fn new(name: String, demand: Demand, source: Option<Arc<Source<T>>>) -> Self {
        let audience = Audience { queues: Vec::new(), joining: Vec::new(), is_writing: false, is_closed: false };
        Self {
            name,
            cache: Arc::new(Cache::of(Parts::new(demand), source)),
            audience: Mutex::new(audience),
            turns: Arc::default(),
            hasher: RandomState::new(),
            has_synced: AtomicBool::new(false),
            resyncs_changed: Arc::default(),
            writes: AtomicU64::new(0),
        }
    }

    pub(crate) fn subscribe(&self, delivery: Delivery, resync: Option<Duration>, user: Option<User>) -> Arc<Queue<T>> {
        let queue = Arc::new(Queue::new(delivery, resync, user));
        let mut audience = self.audience.lock();
        let is_writing = audience.is_writing;
        let audience_now = if is_writing { &mut audience.joining } else { &mut audience.queues };
        if audience_now.len() == audience_now.capacity() {
            // Remove dropped subscribers before the vector grows.
            audience_now.retain(|queue| queue.strong_count() > 0);
        }
        audience_now.push(Arc::downgrade(&queue));
        let admitted = (!is_writing).then(|| self.admit(&queue));
        let closed = audience.is_closed.then(|| queue.close());
        drop(audience);
        drop((admitted, closed));
        self.resyncs_changed.notify_one();
        queue
    }

    /// Waits for the turn, the exclusive right to change the cache. Tasks get their turns in the order of their calls.
    pub(crate) async fn turn(&self) -> OwnedMutexGuard<()> {
        self.turns.clone().lock_owned().await
    }

    /// Sets the namespaces to watch, and deletes the objects of other namespaces. The caller must have the
    /// [turn](Self::turn).
    pub(crate) fn follow(&self, followed: &Followed) {
        let resource_version = self.cache.resource_version();
        let undecodable = self.cache.undecodable().into_iter().map(|entry| entry.key);
        let keys = self.cache.list_keys().into_iter().chain(undecodable);
        let gone: BTreeSet<ObjectKey> = keys.filter(|key| !followed.has(key.namespace())).collect();
        if !gone.is_empty() {
            let changes = gone.iter().map(|key| (key.clone(), None)).collect();
            let (written, queues) = self.write(|cache| cache.write_all(changes, Vec::new(), &resource_version));
            let changes = gone.into_iter().zip(written);
            let changes =
                changes.filter_map(|(key, written)| Some((key, self.unobserved_deletion(written.before?)))).collect();
            self.notify(Notifications { queues, changes, ..Notifications::nothing() });
        }
        // Call `change_parts` only after the objects in removed namespaces are deleted, because `change_parts` wakes
        // tasks that wait for the new namespaces.
        self.cache.change_parts(|parts| parts.follow(followed));
        // Removing the namespace with the oldest revision advances the cache's revision.
        let least = self.cache.parts().least();
        self.cache.bookmark(&least);
        self.sync();
    }

    /// Stores a batch of changes from one driver in one atomic step. Returns the changes to deliver to the subscribers.
    /// `choice` is the number of times the selectors had changed when the last list began. The caller must keep the
    /// [turn](Self::turn) until it has delivered the changes.
    pub(crate) fn apply(
        &self,
        place: &Place,
        choice: u64,
        batch: Batch<ObjectKey, Observed<Stored<T>>>,
    ) -> Notifications<T> {
        let mut notifications = Notifications::nothing();
        let mut deltas = Vec::with_capacity(batch.items.len());
        for item in batch.items {
            match item {
                Item::One { key, delta } => deltas.push((key, delta)),
                // A batch that contains a replacement contains no other items.
                Item::ReplacedAll { objects, resource_version } => {
                    notifications = self.replace(place, choice, objects, &resource_version);
                }
                Item::Bookmark { resource_version } => {
                    let revision = self.cache.parts().reach(place, Progress::Change(&resource_version));
                    self.cache.parts().stored(place);
                    self.cache.bookmark(&revision);
                }
                Item::SyncAll => {
                    let queues = self.audience.lock().present();
                    queues.iter().for_each(|queue| queue.remind(self.cache.snapshot()));
                }
            }
        }
        if !deltas.is_empty() {
            notifications = self.apply_deltas(place, deltas);
        }
        if let Some(source) = self.cache.source() {
            source.stored_unchecked();
        }
        notifications
    }

    fn replace(
        &self,
        place: &Place,
        choice: u64,
        listed: Vec<Observed<Stored<T>>>,
        resource_version: &str,
    ) -> Notifications<T> {
        let mut objects = Vec::with_capacity(listed.len());
        let mut undecodable = Vec::new();
        for observed in listed {
            let entry = match observed.object {
                // Another task may have found that a state is undecodable after the list had read this state from the
                // cache.
                Decoded::Object(object) => match self.cache.entry_of(&object) {
                    Some(entry) => entry,
                    None => {
                        objects.push(object);
                        continue;
                    }
                },
                Decoded::Undecodable(entry) => entry.0.clone(),
            };
            // Keep a decodable state in the cache, so that the object does not appear to be deleted.
            let known = self.cache.store.get(&entry.key);
            objects.extend(known.filter(|known| !was_replaced(Some(known), &entry)));
            undecodable.push(entry);
        }
        let (is_first, goes_back, revision) = {
            let mut parts = self.cache.parts();
            let is_first = !self.has_synced() && parts.is_first(place);
            let goes_back = parts.is_ahead(place, resource_version);
            (is_first, goes_back, parts.reach(place, Progress::List(resource_version)))
        };
        let mut objects = last_of_each(objects);
        // Keep the cached object if the list contains the same version. After a restore of the server, an object with
        // the same version may have another state. Comparing the objects needs no lock, because only the current task
        // writes to the cache.
        for (key, listed) in &mut objects {
            let Some(known) = self.cache.store.get(key) else { continue };
            if !goes_back && is_same_state(&known, listed) { *listed = known } else { fall_back(listed, &known) }
        }
        let (replaced, queues) =
            self.write(|cache| cache.replace_all(place.as_deref(), objects, undecodable, &revision));
        if goes_back {
            self.cache.history_went_back();
        }
        let unindexed = replaced.unindexed;
        let mut notifications = Notifications::nothing();
        if is_first {
            // Subscribers have not received any objects of this namespace yet, so they all start with this list.
            let listed: Arc<[Entry<T>]> = replaced.present.into_iter().map(|(key, _, new)| (key, new)).collect();
            queues.iter().for_each(|queue| drop(queue.begin(Walk::listed(listed.clone()))));
        } else {
            let deleted = replaced.deleted.into_iter().map(|(key, object)| (key, self.unobserved_deletion(object)));
            let is_change =
                |(_, old, new): &(_, Option<Stored<T>>, Stored<T>)| old.as_ref().is_none_or(|old| !old.is_same(new));
            let present = replaced.present.into_iter().filter(is_change);
            let changes = deleted.chain(present.map(|(key, old, new)| (key, self.present(old, new)))).collect();
            notifications = Notifications { queues, changes, ..Notifications::nothing() };
        }
        Notifications { listed: Some((place.clone(), choice)), unindexed, ..notifications }
    }

    /// Handles stored objects that could not be decoded: lists them as undecodable and restores their earlier decodable
    /// states. An object without an earlier decodable state is deleted. A restored state is sent only to subscribers
    /// that have not received it yet. A subscriber has not received the state if no earlier state was known to be
    /// decodable when the change was delivered. The caller must have the [turn](Self::turn).
    pub(crate) fn restore(&self, found: Vec<Found<T>>) {
        let (mut mended, mut entries) = (Vec::with_capacity(found.len()), Vec::with_capacity(found.len()));
        for Found { record, entry } in found {
            let Some(bad) = record.upgrade().map(Stored::Lazy) else { continue };
            // A newer state may have replaced the undecodable state.
            if self.cache.store.get(&entry.key).is_some_and(|known| known.is_same(&bad)) {
                let good = bad.good_state();
                mended.push((entry.key.clone(), bad, good));
                entries.push(self.cache.entry(&entry.key).unwrap_or(entry));
            }
        }
        if mended.is_empty() {
            return;
        }
        let changes = mended.iter().map(|(key, _, good)| (key.clone(), good.clone())).collect();
        let (_, queues) = self.write(|cache| cache.write_all(changes, entries, ""));
        let changes = mended.into_iter().filter_map(|(key, bad, good)| match good {
            Some(good) => bad.was_unreadable().then(|| (key, self.present(Some(bad), good))),
            None => Some((key, self.unobserved_deletion(bad))),
        });
        self.notify(Notifications { queues, changes: changes.collect(), ..Notifications::nothing() });
    }

    pub(crate) fn writes(&self) -> u64 {
        self.writes.load(Ordering::Relaxed)
    }

    /// Returns `true` if a write may decode objects that are stored as JSON, because an index function reads them. A
    /// write that decodes objects must not run on a runtime thread.
    pub(crate) fn decodes_on_write(&self) -> bool {
        self.cache.source().is_some() && self.cache.indices().iter().any(Index::reads_objects)
    }

    /// Returns the maximum batch size that requires at most `calls` calls to index functions.
    pub(crate) fn batch(&self, calls: usize) -> usize {
        let functions = self.cache.indices().iter().filter(|index| index.calls_user_code()).count();
        calls.checked_div(functions).map_or(usize::MAX, |batch| batch.max(1))
    }

    pub(crate) fn notify(&self, mut notifications: Notifications<T>) {
        while notifications.step().is_some() {}
        self.delivered(notifications);
    }

    /// Records that all changes were delivered to the subscribers. If the changes came from a list, the list is now
    /// complete.
    pub(crate) fn delivered(&self, notifications: Notifications<T>) {
        if let Some((place, choice)) = notifications.listed {
            self.cache.change_parts(|parts| parts.listed(&place, choice));
            self.sync();
        }
    }

    fn sync(&self) {
        if self.has_synced() || !self.cache.parts().have_listed() {
            return;
        }
        let queues = {
            let mut audience = self.audience.lock();
            self.has_synced.store(true, Ordering::Release);
            audience.present()
        };
        queues.iter().for_each(|queue| drop(queue.upstream_synced()));
    }

    fn apply_deltas(&self, place: &Place, deltas: Vec<(ObjectKey, ObservedDelta<T>)>) -> Notifications<T> {
        let last = deltas.last().and_then(|(_, delta)| delta.object());
        let resource_version = last.map(|observed| observed.resource_version().to_owned()).unwrap_or_default();
        let revision = self.cache.parts().reach(place, Progress::Change(&resource_version));
        let mut writes = Vec::with_capacity(deltas.len());
        let mut undecodable = Vec::new();
        for (key, delta) in deltas {
            if delta.object().is_some_and(|observed| self.is_stale(&key, observed)) {
                tracing::debug!(informer = %self.name, %key, "ignoring an event that is older than the cached object");
                continue;
            }
            let next = NewState::of(delta);
            if let Some(entry) = next.undecodable() {
                undecodable.push(entry.clone());
            }
            if let NewState::Present(object @ Stored::Lazy(_))
            | NewState::Gone { last: Some(object @ Stored::Lazy(_)), .. } = &next
                && let Some(known) = self.cache.store.get(&key)
            {
                match next {
                    // Subscribers receive the deletion of the known object in any case, so its uid does not matter
                    // here.
                    NewState::Gone { .. } => object.falls_back_to(&known),
                    _ => fall_back(object, &known),
                }
            }
            match next {
                // Keep the last decodable state, unless the undecodable object is a new object with the same name.
                NewState::Undecodable(entry) if !self.cache.was_replaced(&key, &entry) => {}
                next => writes.push((key, next)),
            }
        }
        let changes = writes.iter().map(|(key, next)| (key.clone(), next.object().cloned())).collect();
        let (written, queues) = self.write(|cache| cache.write_all(changes, undecodable, &revision));
        self.cache.parts().stored(place);
        let (mut changes, mut failed) = (Vec::with_capacity(written.len()), Vec::new());
        for ((key, next), WriteResult { before, unindexed, .. }) in writes.into_iter().zip(written) {
            failed.extend(unindexed);
            changes.extend(self.notification(next, before).map(|change| (key, change)));
        }
        Notifications { queues, changes, unindexed: failed, ..Notifications::nothing() }
    }

    /// Returns `true` if the cache contains a newer state of the object. The cache can be newer if a server replica
    /// with an older state continues a watch.
    fn is_stale(&self, key: &ObjectKey, observed: &Observed<Stored<T>>) -> bool {
        let observed_version = observed.object.resource_version();
        !observed.is_reshaped && self.cache.version_of(key).is_some_and(|known| is_older(observed_version, &known))
    }

    /// Returns the change to deliver to subscribers when the cached object changes from `before` to `next`, or `None`
    /// if nothing changed.
    fn notification(&self, next: NewState<T>, before: Option<Stored<T>>) -> Option<Notification<T>> {
        match (next, before) {
            (NewState::Present(new), before) => Some(self.present(before, new)),
            // Subscribers never received the object, because it was not in the cache.
            (_, None) => None,
            (NewState::Gone { last: Some(last), final_state_known }, Some(known)) => {
                Some(Notification::Deleted { known: self.seen(known), last: self.seen(last), final_state_known })
            }
            (_, Some(known)) => Some(self.unobserved_deletion(known)),
        }
    }

    /// Returns the change to deliver to subscribers after an object was added or updated. An update is delivered even
    /// if the version is unchanged, because a watch event always means that the object has changed.
    fn present(&self, old: Option<Stored<T>>, new: Stored<T>) -> Notification<T> {
        let new = self.seen(new);
        match old {
            None => Notification::Added(new),
            Some(old) => Notification::Updated { old: self.seen(old), new },
        }
    }

    fn unobserved_deletion(&self, known: Stored<T>) -> Notification<T> {
        let known = self.seen(known);
        Notification::Deleted { last: known.clone(), known, final_state_known: false }
    }

    fn seen(&self, object: Stored<T>) -> HashedState<T> {
        HashedState::new(object, &self.hasher)
    }

    fn write<R>(&self, write: impl FnOnce(&Cache<T>) -> R) -> (R, Vec<Arc<Queue<T>>>) {
        let present = {
            let mut audience = self.audience.lock();
            audience.is_writing = true;
            audience.present()
        };
        let writing = Writing(self);
        let written = write(&self.cache);
        self.writes.fetch_add(1, Ordering::Relaxed);
        drop(writing);
        (written, present)
    }

    fn end_write(&self) {
        let mut audience = self.audience.lock();
        audience.is_writing = false;
        let (joining, is_closed) = (std::mem::take(&mut audience.joining), audience.is_closed);
        let joined: Vec<Arc<Queue<T>>> = joining.iter().filter_map(Weak::upgrade).collect();
        audience.queues.extend(joined.iter().map(Arc::downgrade));
        let admitted: Vec<_> =
            joined.iter().map(|queue| (self.admit(queue), is_closed.then(|| queue.close()))).collect();
        drop(audience);
        // Drop these guards after releasing the lock, because dropping them drops objects and wakes tasks.
        drop(admitted);
    }

    /// Gives a new subscriber its initial snapshot. The caller must hold the lock of `audience` until it has added the
    /// subscriber, so that no write begins in the meantime.
    fn admit<'a>(&self, queue: &'a Queue<T>) -> (DeferredDrops<'a, T>, Option<DeferredDrops<'a, T>>) {
        let started = queue.begin(Walk::of(self.cache.snapshot()));
        (started, self.has_synced().then(|| queue.upstream_synced()))
    }

    pub(crate) fn has_synced(&self) -> bool {
        self.has_synced.load(Ordering::Acquire)
    }

    pub(crate) fn pending(&self) -> usize {
        let queues = self.audience.lock().present();
        queues.iter().map(|queue| queue.len()).sum()
    }

    pub(crate) fn subscriptions(&self) -> Vec<SubscriptionStatus> {
        let queues = self.audience.lock().present();
        queues.iter().map(|queue| queue.status()).collect()
    }

    pub(crate) fn next_resync(&self) -> Option<Instant> {
        let queues = self.audience.lock().present();
        queues.iter().filter_map(|queue| queue.next_resync()).min()
    }

    pub(crate) fn resync(&self, now: Instant) {
        let queues = self.audience.lock().present();
        for queue in queues.iter().filter(|queue| queue.is_resync_due(now)) {
            queue.remind(self.cache.snapshot());
        }
    }

    pub(crate) fn close(&self) {
        let mut audience = self.audience.lock();
        audience.is_closed = true;
        let queues = audience.present();
        drop(audience);
        queues.iter().for_each(|queue| drop(queue.close()));
        self.cache.close();
    }
}

/// A guard for a write in progress. Dropping the `Writing` ends the write, even during a panic.
struct Writing<'a, T: Object>(&'a Publisher<T>);

impl<T: Object> Drop for Writing<'_, T> {
    fn drop(&mut self) {
        self.0.end_write();
    }
}

impl<T: Object> Audience<T> {
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

#[must_use = "subscribers receive a change only through this"]
pub(crate) struct Notifications<T> {
    queues: Vec<Arc<Queue<T>>>,
    changes: Vec<(ObjectKey, Notification<T>)>,
    /// The number of chunks that [`step`](Self::step) has delivered to all queues.
    delivered: usize,
    /// The listed namespace, and the number of times the selectors had changed when the list began. The list is
    /// complete when all subscribers have received it.
    listed: Option<(Place, u64)>,
    unindexed: Vec<IndexFailed>,
}

impl<T: Object> Notifications<T> {
    fn nothing() -> Self {
        Self { queues: Vec::new(), changes: Vec::new(), delivered: 0, listed: None, unindexed: Vec::new() }
    }

    pub(crate) fn take_unindexed(&mut self) -> Vec<IndexFailed> {
        std::mem::take(&mut self.unindexed)
    }

    /// Delivers one chunk of changes to the queue of one subscriber. Returns the length of the chunk, or `None` if all
    /// changes are delivered.
    pub(crate) fn step(&mut self) -> Option<usize> {
        let chunk = self.changes.chunks(CHUNK).nth(self.delivered.checked_div(self.queues.len())?)?;
        self.queues[self.delivered % self.queues.len()].notify(chunk);
        self.delivered += 1;
        Some(chunk.len())
    }
}

/// Sets `known` as the state that reads return if `new` cannot be decoded. Does nothing if `new` and `known` are
/// different objects.
fn fall_back<T: Object>(new: &Stored<T>, known: &Stored<T>) {
    if new.uid() == known.uid() {
        new.falls_back_to(known);
    }
}

/// Returns `true` if `old` and `new` have the same uid and version. Returns `false` for an object without a
/// resourceVersion.
fn is_same_state<T: Object>(old: &T, new: &T) -> bool {
    let (old, new) = (old.metadata(), new.metadata());
    !new.resource_version().is_empty() && old.resource_version() == new.resource_version() && old.uid() == new.uid()
}
