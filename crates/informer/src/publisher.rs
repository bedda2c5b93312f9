//! The store of an informer and its audience: what is popped is stored, and then told.

use std::collections::BTreeSet;
use std::hash::RandomState;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use pintle_delta_fifo::{Batch, Delivery, Delta, Item};
use pintle_meta::{Object, ObjectKey};
use tokio::sync::{Mutex as Turns, Notify, OwnedMutexGuard};

use crate::cache::parts::{Demand, Parts, Told as Reached};
use crate::cache::version::is_older;
use crate::cache::{Written, last_of_each};
use crate::decode::{Decoded, Told};
use crate::guarded::Guarded;
use crate::namespaces::{Followed, Place};
use crate::subscription::{Aftermath, Entry, News, Queue, Seen, Walk};
use crate::user::User;
use crate::{Cache, IndexFailed, SubscriptionStatus, Undecodable};

/// The store of an informer, and those who want to hear of it.
///
/// Its drivers alone write, and remind, [in turns](Publisher::turn): one change after the other. A change goes to the store first, and then to all who
/// subscribed before. Who subscribes begins with a snapshot of the store: at once, or as soon as a write under way is done.
/// So everybody gets the store's content and then each later change, none of them twice; and no lock is held for longer than it
/// takes to go through the subscribers, however much there is to write or to tell.
pub(crate) struct Publisher<T> {
    /// The informer's name.
    name: String,
    pub(crate) cache: Arc<Cache<T>>,
    audience: Mutex<Audience<T>>,
    turns: Arc<Turns<()>>,
    /// Of uids.
    hasher: RandomState,
    /// Changed under the lock of `audience`, and read without: an index function may ask.
    has_synced: AtomicBool,
    /// A subscriber came whose resync may be due before all others.
    pub(crate) resyncs_changed: Arc<Notify>,
}

struct Audience<T> {
    queues: Vec<Weak<Queue<T>>>,
    /// Who came during a write: a snapshot taken now may or may not have it.
    joining: Vec<Weak<Queue<T>>>,
    is_writing: bool,
    is_closed: bool,
}

type Change<T> = Delta<ObjectKey, Told<Guarded<T>>>;

/// How many changes a subscriber is told in one go, during which it can take none.
const CHUNK: usize = 256;

/// What a delta makes of its key.
enum Next<T> {
    Present(Guarded<T>),
    Gone { last: Option<Guarded<T>>, final_state_known: bool },
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

    fn object(&self) -> Option<&Guarded<T>> {
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
    pub(crate) fn new(name: String, demand: Demand) -> Self {
        let audience = Audience { queues: Vec::new(), joining: Vec::new(), is_writing: false, is_closed: false };
        Self {
            name,
            cache: Arc::new(Cache::of(Parts::new(demand))),
            audience: Mutex::new(audience),
            turns: Arc::default(),
            hasher: RandomState::new(),
            has_synced: AtomicBool::new(false),
            resyncs_changed: Arc::default(),
        }
    }

    pub(crate) fn subscribe(&self, delivery: Delivery, resync: Option<Duration>, user: Option<User>) -> Arc<Queue<T>> {
        let queue = Arc::new(Queue::new(delivery, resync, user));
        let mut audience = self.lock();
        let is_writing = audience.is_writing;
        let audience_now = if is_writing { &mut audience.joining } else { &mut audience.queues };
        if audience_now.len() == audience_now.capacity() {
            // Instead of growing, as long as some have left.
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

    /// The right to change what is there. Who waits first comes first.
    pub(crate) async fn turn(&self) -> OwnedMutexGuard<()> {
        self.turns.clone().lock_owned().await
    }

    /// From now on this is all there is to follow: what is elsewhere is gone. Only in one's [turn](Self::turn).
    pub(crate) fn follow(&self, followed: &Followed) {
        let resource_version = self.cache.resource_version();
        let undecodable = self.cache.undecodable().into_iter().map(|entry| entry.key);
        let keys = self.cache.list_keys().into_iter().chain(undecodable);
        let gone: BTreeSet<ObjectKey> = keys.filter(|key| !followed.has(key.namespace())).collect();
        if !gone.is_empty() {
            let changes = gone.iter().map(|key| (key.clone(), None)).collect();
            let revision = resource_version.as_str().into();
            let ((written, _forgotten), queues) = self.write(|cache| {
                let written = cache.write_all(changes, Vec::new(), &revision);
                (written, cache.forget(&revision.newest))
            });
            let news = gone.into_iter().zip(written);
            let news = news.filter_map(|(key, written)| Some((key, self.gone_unseen(written.before?)))).collect();
            self.tell(Telling { queues, news, ..Telling::nothing() });
        }
        // Not before: who waits for the change finds nothing any more of what is gone.
        self.cache.change_parts(|parts| parts.follow(followed));
        // It may have been one that left whom the others waited for.
        let least = self.cache.parts().least();
        self.cache.bookmark(&least);
        self.sync();
    }

    /// Takes up what was popped from the queue of a part: first the store, all of it in one step, and then the subscribers. The last list
    /// was asked for by that choice of selectors. Only in one's [turn](Self::turn), which lasts until what is returned is done.
    pub(crate) fn apply(&self, place: &Place, choice: u64, batch: Batch<ObjectKey, Told<Guarded<T>>>) -> Telling<T> {
        let mut telling = Telling::nothing();
        let mut deltas = Vec::with_capacity(batch.items.len());
        for item in batch.items {
            match item {
                Item::One { key, delta } => deltas.push((key, delta)),
                // These come alone.
                Item::ReplacedAll { objects, resource_version } => {
                    telling = self.replace(place, choice, objects, &resource_version);
                }
                Item::Bookmark { resource_version } => {
                    let revision = self.cache.parts().reach(place, Reached::Change(&resource_version));
                    self.cache.parts().stored(place);
                    self.cache.bookmark(&revision.whole);
                }
                Item::SyncAll => {
                    let queues = self.lock().present();
                    queues.iter().for_each(|queue| queue.remind(self.cache.snapshot()));
                }
            }
        }
        if !deltas.is_empty() {
            telling = self.apply_deltas(place, deltas);
        }
        telling
    }

    fn replace(&self, place: &Place, choice: u64, listed: Vec<Told<Guarded<T>>>, resource_version: &str) -> Telling<T> {
        let mut objects = Vec::with_capacity(listed.len());
        let mut undecodable = Vec::new();
        for told in listed {
            match told.object {
                Decoded::Object(object) => objects.push(object),
                Decoded::Undecodable(entry) => {
                    // The last state of it that could be decoded stays, so that it is not taken for deleted.
                    let known = self.cache.store().get(&entry.0.key);
                    objects.extend(known.filter(|known| !is_succeeded(Some(&***known), &entry.0)));
                    undecodable.push(entry.0.clone());
                }
            }
        }
        let (is_first, goes_back, revision) = {
            let mut parts = self.cache.parts();
            let is_first = !self.has_synced() && parts.is_first(place);
            let goes_back = parts.is_ahead(place, resource_version);
            (is_first, goes_back, parts.reach(place, Reached::List(resource_version)))
        };
        let mut objects = last_of_each(objects);
        if !goes_back {
            // At one version of one history an object has one state, and the cache keeps the one that it told. Found out before the write,
            // under no lock: nobody else writes.
            for (key, listed) in &mut objects {
                let known = self.cache.store().get(key);
                if let Some(known) = known.filter(|known| is_same_state(&***known, &***listed)) {
                    *listed = known;
                }
            }
        }
        let (replaced, queues) =
            self.write(|cache| cache.replace_all(place.as_deref(), objects, undecodable, &revision));
        if goes_back {
            self.cache.history_went_back();
        }
        let unindexed = replaced.unindexed;
        let mut telling = Telling::nothing();
        if is_first {
            // Of this part nobody was told anything, so that everybody begins here, with what the list was.
            let listed: Arc<[Entry<T>]> = replaced.present.into_iter().map(|(key, _, new)| (key, new)).collect();
            queues.iter().for_each(|queue| drop(queue.begin(Walk::listed(listed.clone()))));
        } else {
            let deleted = replaced.deleted.into_iter().map(|(key, object)| (key, self.gone_unseen(object)));
            // A list brings much that is known, of which nobody is told.
            let is_news = |(_, old, new): &(_, Option<Guarded<T>>, Guarded<T>)| {
                old.as_ref().is_none_or(|old| !Arc::ptr_eq(old, new))
            };
            let present = replaced.present.into_iter().filter(is_news);
            let news = deleted.chain(present.map(|(key, old, new)| (key, self.present(old, new)))).collect();
            telling = Telling { queues, news, ..Telling::nothing() };
        }
        Telling { listed: Some((place.clone(), choice)), unindexed, ..telling }
    }

    /// How many changes may be written in one go, so that the functions of indices are not called more often than that.
    pub(crate) fn batch(&self, calls: usize) -> usize {
        // One of them is that of namespaces, which is no user's.
        let functions = self.cache.indices().len() - 1;
        calls.checked_div(functions).map_or(usize::MAX, |batch| batch.max(1))
    }

    /// Tells all that is left to tell.
    pub(crate) fn tell(&self, mut telling: Telling<T>) {
        while telling.step().is_some() {}
        self.told(telling);
    }

    /// Everybody knows everything.
    pub(crate) fn told(&self, telling: Telling<T>) {
        if let Some((place, choice)) = telling.listed {
            self.cache.change_parts(|parts| parts.listed(&place, choice));
            self.sync();
        }
    }

    /// The store has held all there is to follow, once all parts have been listed.
    fn sync(&self) {
        if self.has_synced() || !self.cache.parts().have_listed() {
            return;
        }
        let queues = {
            let mut audience = self.lock();
            self.has_synced.store(true, Ordering::Release);
            audience.present()
        };
        queues.iter().for_each(|queue| drop(queue.upstream_synced()));
    }

    fn apply_deltas(&self, place: &Place, deltas: Vec<(ObjectKey, Change<T>)>) -> Telling<T> {
        let last = deltas.last().and_then(|(_, delta)| delta.object());
        let resource_version = last.map(|told| told.resource_version().to_owned()).unwrap_or_default();
        let revision = self.cache.parts().reach(place, Reached::Change(&resource_version));
        let mut writes = Vec::with_capacity(deltas.len());
        let mut undecodable = Vec::new();
        for (key, delta) in deltas {
            if delta.object().is_some_and(|told| self.is_stale(&key, told)) {
                tracing::debug!(informer = %self.name, %key, "an event is older than what is there, and is left out");
                continue;
            }
            let next = Next::of(delta);
            if let Some(entry) = next.undecodable() {
                undecodable.push(entry.clone());
            }
            match next {
                // What was known of it stays, but for that of another object which is gone.
                Next::Undecodable(entry) if !self.cache.is_succeeded(&key, &entry) => {}
                next => writes.push((key, next)),
            }
        }
        let changes = writes.iter().map(|(key, next)| (key.clone(), next.object().cloned())).collect();
        let (written, queues) = self.write(|cache| cache.write_all(changes, undecodable, &revision));
        self.cache.parts().stored(place);
        let (mut news, mut failed) = (Vec::with_capacity(written.len()), Vec::new());
        for ((key, next), Written { before, unindexed, .. }) in writes.into_iter().zip(written) {
            failed.extend(unindexed);
            news.extend(self.news(next, before).map(|news| (key, news)));
        }
        Telling { queues, news, unindexed: failed, ..Telling::nothing() }
    }

    /// Whether the cache has a newer state, as after a watch that went on at a replica which lags behind.
    fn is_stale(&self, key: &ObjectKey, told: &Told<Guarded<T>>) -> bool {
        let told_version = told.object.resource_version();
        !told.is_reshaped && self.cache.version_of(key).is_some_and(|known| is_older(told_version, &known))
    }

    /// What there is to tell, if the store had that before.
    fn news(&self, next: Next<T>, before: Option<Guarded<T>>) -> Option<News<T>> {
        match (next, before) {
            (Next::Present(new), before) => Some(self.present(before, new)),
            // Nobody was told of it.
            (_, None) => None,
            (Next::Gone { last: Some(last), final_state_known }, Some(known)) => {
                Some(News::Deleted { known: self.seen(known), last: self.seen(last), final_state_known })
            }
            (_, Some(known)) => Some(self.gone_unseen(known)),
        }
    }

    /// Told at an equal version as well: what a watch brings has changed.
    fn present(&self, old: Option<Guarded<T>>, new: Guarded<T>) -> News<T> {
        let new = self.seen(new);
        match old {
            None => News::Added(new),
            Some(old) => News::Updated { old: self.seen(old), new },
        }
    }

    fn gone_unseen(&self, known: Guarded<T>) -> News<T> {
        let known = self.seen(known);
        News::Deleted { last: known.clone(), known, final_state_known: false }
    }

    fn seen(&self, object: Guarded<T>) -> Seen<T> {
        Seen::new(object, &self.hasher)
    }

    /// Writes to the store, and gives those who are to hear of it: all who subscribed before.
    fn write<R>(&self, write: impl FnOnce(&Cache<T>) -> R) -> (R, Vec<Arc<Queue<T>>>) {
        let present = {
            let mut audience = self.lock();
            audience.is_writing = true;
            audience.present()
        };
        let writing = Writing(self);
        let written = write(&self.cache);
        drop(writing);
        (written, present)
    }

    /// Who came during the write begins with what came of it.
    fn end_write(&self) {
        let mut audience = self.lock();
        audience.is_writing = false;
        let (joining, is_closed) = (std::mem::take(&mut audience.joining), audience.is_closed);
        let joined: Vec<Arc<Queue<T>>> = joining.iter().filter_map(Weak::upgrade).collect();
        audience.queues.extend(joined.iter().map(Arc::downgrade));
        let admitted: Vec<_> =
            joined.iter().map(|queue| (self.admit(queue), is_closed.then(|| queue.close()))).collect();
        drop(audience);
        // Only now: what is left of a queue is a user's, objects and a waker.
        drop(admitted);
    }

    /// Under the lock of the audience, so that no write comes between.
    fn admit<'a>(&self, queue: &'a Queue<T>) -> (Aftermath<'a, T>, Option<Aftermath<'a, T>>) {
        let begun = queue.begin(Walk::of(self.cache.snapshot()));
        (begun, self.has_synced().then(|| queue.upstream_synced()))
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

    /// How the subscribers are getting on, in the order in which they came.
    pub(crate) fn subscriptions(&self) -> Vec<SubscriptionStatus> {
        let queues = self.lock().present();
        queues.iter().map(|queue| queue.status()).collect()
    }

    /// When the next subscriber wants to be reminded of all objects.
    pub(crate) fn next_resync(&self) -> Option<Instant> {
        let queues = self.lock().present();
        queues.iter().filter_map(|queue| queue.next_resync()).min()
    }

    /// Reminds those who are due.
    pub(crate) fn resync(&self, now: Instant) {
        let queues = self.lock().present();
        for queue in queues.iter().filter(|queue| queue.is_resync_due(now)) {
            queue.remind(self.cache.snapshot());
        }
    }

    pub(crate) fn close(&self) {
        let mut audience = self.lock();
        audience.is_closed = true;
        let queues = audience.present();
        drop(audience);
        queues.iter().for_each(|queue| drop(queue.close()));
        self.cache.close();
    }

    /// Nothing panics under this lock but what has changed nothing yet, so poison says nothing.
    fn lock(&self) -> MutexGuard<'_, Audience<T>> {
        self.audience.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A write that is under way; it ends with a panic as well.
struct Writing<'a, T: Object>(&'a Publisher<T>);

impl<T: Object> Drop for Writing<'_, T> {
    fn drop(&mut self) {
        self.0.end_write();
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

/// What is left to tell of a change, which the store has.
#[must_use = "subscribers hear of a change by this alone"]
pub(crate) struct Telling<T> {
    queues: Vec<Arc<Queue<T>>>,
    news: Vec<(ObjectKey, News<T>)>,
    /// How many times a queue was told a chunk. All queues are told one chunk before the next one.
    told: usize,
    /// A list of that place by that choice of selectors, which counts once all subscribers know of it.
    listed: Option<(Place, u64)>,
    /// The index functions that failed on objects of the change.
    unindexed: Vec<IndexFailed>,
}

impl<T: Object> Telling<T> {
    fn nothing() -> Self {
        Self { queues: Vec::new(), news: Vec::new(), told: 0, listed: None, unindexed: Vec::new() }
    }

    /// Takes the failures of index functions out, to be reported.
    pub(crate) fn take_unindexed(&mut self) -> Vec<IndexFailed> {
        std::mem::take(&mut self.unindexed)
    }

    /// Tells one queue one chunk. Returns how many changes that were; `None`: everybody knows everything.
    pub(crate) fn step(&mut self) -> Option<usize> {
        let chunk = self.news.chunks(CHUNK).nth(self.told.checked_div(self.queues.len())?)?;
        self.queues[self.told % self.queues.len()].tell(chunk);
        self.told += 1;
        Some(chunk.len())
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
