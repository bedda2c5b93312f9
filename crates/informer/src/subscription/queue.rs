//! The queue between an informer and one subscriber.

use std::collections::{HashSet, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::MutexGuard;
use std::task::{Context, Poll, Waker, ready};
use std::time::{Duration, Instant};

use pintle_delta_fifo::{Change, CoalescingFifo, Delivery, Overtaken};
use pintle_meta::__private::Mutex;
use pintle_meta::{Object, ObjectKey};
use tokio::sync::watch;
use tokio::task::coop::poll_proceed;

use crate::clock::now;
use crate::panic::wake;
use crate::snapshot::Snapshot;
use crate::stored::Stored;
use crate::subscription::{SubscriptionStatus, SyncHandle};
use crate::user::User;

use super::unknown::Unknown;
use super::walk::{Entry, ReadPage, Walk};

/// Initial objects are read from a snapshot one at a time, when the subscriber requests them, so the cost of starting a
/// subscription does not depend on the number of objects. Changes are queued until the subscriber has read all initial
/// objects. If an initial object changes before it is delivered, the object is delivered in its newest state. Only
/// subscribers that requested every change also receive the change itself.
pub(crate) struct Queue<T> {
    state: Mutex<State<T>>,
    pub(super) synced: watch::Sender<bool>,
    pub(super) unknown: Unknown,
    _user: Option<User>,
}

pub(crate) enum Notification<T> {
    Added(HashedState<T>),
    Updated {
        old: HashedState<T>,
        new: HashedState<T>,
    },
    /// `known` is the cached state, and `last` is the state that the watch or the list delivered.
    Deleted {
        known: HashedState<T>,
        last: HashedState<T>,
        final_state_known: bool,
    },
}

/// The state of an object, and a hash of the object's uid. Comparing hashes avoids calls to the object's `Metadata`,
/// which is user code, while the queue is locked. Two objects with the same name but different uids have equal hashes
/// with a probability of 1 in 2^64. If the hashes of two objects are equal, the subscriber receives an update instead
/// of a deletion and an addition.
pub(crate) struct HashedState<T> {
    pub(super) object: Stored<T>,
    uid: u64,
}

struct State<T> {
    has_begun: bool,
    beginning: Option<InitialObjects<T>>,
    more: VecDeque<Walk<T>>,
    /// Whether the next initial object may have changed or been deleted since the snapshot was taken.
    is_behind: bool,
    done: Done<T>,
    pending: CoalescingFifo<ObjectKey, HashedState<T>>,
    reminder: Option<Reminder<T>>,
    /// The waker of the waiting task. There is at most one waiting task, because receiving an event requires
    /// `&mut Subscription`.
    waker: Option<Waker>,
    upstream_synced: bool,
    /// Whether the subscriber is still handling an initial object. The subscriber has finished an event when it
    /// requests the next event.
    initial_in_hand: bool,
    is_closed: bool,
    /// Whether the subscriber was dropped, so that the queue drops new changes.
    is_gone: bool,
    resync: Option<(Duration, Instant)>,
    /// The time at which the oldest queued event arrived or the subscriber last received an event, whichever is later.
    waits_since: Option<Instant>,
}

/// Values that the queue no longer needs. The values are dropped without holding locks, because dropping them may run
/// user-defined `Drop` code.
struct Done<T> {
    walks: Vec<Walk<T>>,
    /// The pages that were read for initial objects and resyncs. A page may contain the last reference to an object
    /// that has been superseded.
    pages: Vec<ReadPage<T>>,
    undelivered: Vec<Stored<T>>,
}

/// Dropping a `DeferredDrops` drops objects that the queue no longer needs and wakes the subscriber. Both actions may run
/// user code, so drop a `DeferredDrops` only while the thread holds none of this crate's locks.
#[must_use = "dropping it runs user code, so drop it without locks"]
pub(crate) struct DeferredDrops<'a, T> {
    queue: &'a Queue<T>,
    done: Done<T>,
    waker: Option<Waker>,
    has_synced: bool,
}

struct InitialObjects<T> {
    /// The next initial object, in its newest state unless `is_behind` is set.
    next: Entry<T>,
    rest: Walk<T>,
}

struct Reminder<T> {
    rest: Walk<T>,
    /// The keys that have changed since the resync began. The resync skips the changed keys, because the subscriber
    /// receives their changes.
    changed: HashSet<ObjectKey>,
}

pub(super) type KeyedChange<T> = (ObjectKey, Change<Stored<T>>);

enum Popped<T> {
    Change(KeyedChange<T>),
    Nothing,
    /// The queue has skipped many entries in one call, and must release the lock before it continues.
    Unfinished,
}

const SECTION: usize = 32;

impl<T: Object> Queue<T> {
    pub(crate) fn new(delivery: Delivery, resync: Option<Duration>, user: Option<User>) -> Self {
        let mut state = State {
            has_begun: false,
            beginning: None,
            more: VecDeque::new(),
            is_behind: false,
            done: Done::default(),
            pending: pending(delivery),
            reminder: None,
            waker: None,
            upstream_synced: false,
            initial_in_hand: false,
            is_closed: false,
            is_gone: false,
            resync: None,
            waits_since: None,
        };
        state.set_resync(resync);
        Self { state: Mutex::new(state), synced: watch::Sender::new(false), unknown: Unknown::default(), _user: user }
    }

    /// Adds initial objects that have not been delivered before. The queue delivers them after earlier initial objects
    /// and before all changes.
    pub(crate) fn begin(&self, walk: Walk<T>) -> DeferredDrops<'_, T> {
        self.change(|state| {
            if state.is_closed && state.has_begun {
                state.done.walks.push(walk);
                return;
            }
            state.has_begun = true;
            match state.beginning {
                None => state.go_on(walk),
                Some(_) => state.more.push_back(walk),
            }
        })
    }

    pub(crate) fn notify(&self, notifications: &[(ObjectKey, Notification<T>)]) {
        let aftermath = self.change(|state| {
            // Do not deliver anything after the queue has ended, because a write that is in progress when the runtime
            // shuts down may finish later.
            if state.is_closed {
                return;
            }
            for (key, notifications) in notifications {
                state.push(key.clone(), notifications);
                if let Some(reminder) = &mut state.reminder {
                    reminder.leave_out(key);
                }
            }
        });
        drop(aftermath);
    }

    /// Starts a resync, which delivers all objects of the snapshot again. Does nothing if a resync is in progress or
    /// the subscriber is still reading the initial objects.
    pub(crate) fn remind(&self, snapshot: Snapshot<T>) {
        let rest = Walk::of(snapshot);
        let aftermath = self.change(|state| {
            if !state.is_closed && state.beginning.is_none() && state.reminder.is_none() && rest.left > 0 {
                state.reminder = Some(Reminder { rest, changed: HashSet::new() });
            } else {
                state.done.walks.push(rest);
            }
        });
        drop(aftermath);
    }

    pub(crate) fn upstream_synced(&self) -> DeferredDrops<'_, T> {
        self.change(|state| state.upstream_synced = true)
    }

    pub(crate) fn close(&self) -> DeferredDrops<'_, T> {
        self.change(|state| state.is_closed = true)
    }

    pub(crate) fn disconnect(&self) {
        let mut left = None;
        let aftermath = self.change(|state| {
            let none = pending(Delivery::Coalesced);
            let (beginning, more) = (state.beginning.take(), std::mem::take(&mut state.more));
            left = Some((beginning, more, state.reminder.take(), std::mem::replace(&mut state.pending, none)));
            state.is_gone = true;
        });
        // Drop the values after releasing the lock, because dropping them can run user-defined `Drop` code.
        drop((left, aftermath));
    }

    pub(super) fn sync_handle(&self) -> SyncHandle {
        SyncHandle { synced: self.synced.subscribe() }
    }

    pub(crate) fn len(&self) -> usize {
        self.state.lock().len()
    }

    pub(crate) fn status(&self) -> SubscriptionStatus {
        let has_synced = *self.synced.borrow();
        let state = self.state.lock();
        SubscriptionStatus {
            depth: state.len(),
            age: state.waits_since.map(|since| now().saturating_duration_since(since)),
            joined: state.pending.joined(),
            has_synced,
        }
    }

    pub(crate) fn next_resync(&self) -> Option<Instant> {
        self.state.lock().resync.map(|(_, next)| next)
    }

    /// Returns `true` if a resync is due, and then schedules the next resync.
    pub(crate) fn is_resync_due(&self, now: Instant) -> bool {
        let mut state = self.state.lock();
        let Some((period, _)) = state.resync.filter(|(_, next)| *next <= now) else { return false };
        state.resync = now.checked_add(period).map(|next| (period, next));
        true
    }

    pub(super) fn set_resync(&self, period: Option<Duration>) {
        self.state.lock().set_resync(period);
    }

    pub(super) fn try_next(&self) -> Option<KeyedChange<T>> {
        loop {
            match self.pop(None).0 {
                Popped::Change(change) => return Some(change),
                Popped::Nothing => return None,
                Popped::Unfinished => {}
            }
        }
    }

    /// Polls for the next event, and consumes tokio's cooperative budget. If many entries must be skipped, this method
    /// wakes its own task and returns `Pending` to let other tasks run.
    pub(super) fn poll_next(&self, context: &mut Context<'_>) -> Poll<Option<KeyedChange<T>>> {
        let coop = ready!(poll_proceed(context));
        match self.pop(Some(context.waker())) {
            (Popped::Change(change), _) => {
                coop.made_progress();
                Poll::Ready(Some(change))
            }
            (Popped::Nothing, has_ended) => {
                if has_ended {
                    Poll::Ready(None)
                } else {
                    Poll::Pending
                }
            }
            (Popped::Unfinished, _) => {
                context.waker().wake_by_ref();
                Poll::Pending
            }
        }
    }

    /// Removes the next event, and returns it together with a flag that is `true` if the queue has ended. Stores
    /// `waker` if the queue is empty and has not ended.
    fn pop(&self, waker: Option<&Waker>) -> (Popped<T>, bool) {
        // Wakers are user code, so clone and drop them without holding the lock.
        let waker = waker.cloned();
        let mut state = self.state.lock();
        let popped = state.pop();
        if !matches!(popped, Popped::Unfinished) {
            state.waits_since = if state.len() == 0 { None } else { Some(now()) };
        }
        let has_ended = state.is_gone || (state.is_closed && state.has_begun);
        let waits = matches!(popped, Popped::Nothing) && !has_ended;
        let before = waker.filter(|_| waits).and_then(|waker| state.waker.replace(waker));
        let aftermath = self.leave(state, None);
        drop((before, aftermath));
        (popped, has_ended)
    }

    fn change(&self, change: impl FnOnce(&mut State<T>)) -> DeferredDrops<'_, T> {
        let mut state = self.state.lock();
        if state.is_gone {
            return self.leave(state, None);
        }
        change(&mut state);
        state.renew();
        let has_events = state.len() > 0;
        if has_events && state.waits_since.is_none() {
            state.waits_since = Some(now());
        }
        let waker = if has_events || state.is_closed || state.is_gone { state.waker.take() } else { None };
        self.leave(state, waker)
    }

    fn leave(&self, mut state: MutexGuard<'_, State<T>>, waker: Option<Waker>) -> DeferredDrops<'_, T> {
        state.take_read_pages();
        let (done, has_synced) = (std::mem::take(&mut state.done), state.has_synced());
        DeferredDrops { queue: self, done, waker, has_synced }
    }
}

impl<T> Drop for DeferredDrops<'_, T> {
    fn drop(&mut self) {
        drop(std::mem::take(&mut self.done));
        if self.has_synced {
            self.queue.synced.send_if_modified(|synced| !std::mem::replace(synced, true));
        }
        if let Some(waker) = self.waker.take() {
            wake(|| waker.wake());
        }
    }
}

impl<T: Object> State<T> {
    /// Sets the resync period. If the clock cannot represent the end of the period, this method disables resyncs.
    fn set_resync(&mut self, period: Option<Duration>) {
        self.resync = period.and_then(|period| Some((period, now().checked_add(period)?)));
    }

    fn push(&mut self, key: ObjectKey, notifications: &Notification<T>) {
        match notifications {
            Notification::Added(object) => self.pending.added(key, object.clone(), false),
            Notification::Updated { old, new } => self.pending.updated(key, old.clone(), new.clone()),
            Notification::Deleted { known, last, final_state_known } => {
                self.pending.deleted(key, known.clone(), last.clone(), *final_state_known);
            }
        }
    }

    /// Removes and returns the next event: first initial objects, then changes, then objects of a resync.
    fn pop(&mut self) -> Popped<T> {
        self.initial_in_hand = false;
        if self.is_behind {
            self.renew();
        }
        if self.is_behind {
            return Popped::Unfinished;
        }
        if let Some(InitialObjects { next: (key, object), rest }) = self.beginning.take() {
            self.go_on(rest);
            self.renew();
            self.initial_in_hand = true;
            return Popped::Change((key, Change::Added { object, is_initial: true }));
        }
        if let Some((key, change)) = self.pending.pop() {
            if let Some(reminder) = &mut self.reminder {
                reminder.leave_out(&key);
            }
            return Popped::Change((key, unhashed(change)));
        }
        let Some(reminder) = &mut self.reminder else { return Popped::Nothing };
        let next = reminder.rest.by_ref().take(SECTION).find(|(key, _)| !reminder.changed.contains(key));
        let is_over = reminder.rest.left == 0;
        if is_over {
            self.done.walks.extend(self.reminder.take().map(|reminder| reminder.rest));
        }
        match next {
            Some((key, object)) => Popped::Change((key, Change::Updated { old: Some(object.clone()), new: object })),
            None if is_over => Popped::Nothing,
            None => Popped::Unfinished,
        }
    }

    fn go_on(&mut self, mut rest: Walk<T>) {
        loop {
            if let Some(next) = rest.next() {
                return self.beginning = Some(InitialObjects { next, rest });
            }
            self.done.walks.push(rest);
            let Some(more) = self.more.pop_front() else { return };
            rest = more;
        }
    }

    /// Skips deleted initial objects, and replaces the next initial object with its newest state. After skipping
    /// [`SECTION`] objects, this method sets `is_behind`, and the next call continues after these objects. An object
    /// that was deleted and recreated with the same name does not count as an initial object.
    fn renew(&mut self) {
        self.is_behind = false;
        for _ in 0..SECTION {
            let Some(InitialObjects { next: (key, object), .. }) = &mut self.beginning else { return };
            let Some(Overtaken { newest, undelivered }) = self.pending.overtake(key) else { return };
            self.done.undelivered.extend(undelivered.map(|undelivered| undelivered.object));
            if let Some(newest) = newest {
                return self.done.undelivered.push(std::mem::replace(object, newest.object));
            }
            if let Some(InitialObjects { next: (_, object), rest }) = self.beginning.take() {
                self.done.undelivered.push(object);
                self.go_on(rest);
            }
        }
        self.is_behind = self.beginning.is_some();
    }

    /// Collects the pages that were read for initial objects and resyncs, so that the caller can drop them after
    /// releasing the lock.
    fn take_read_pages(&mut self) {
        let walks = self.beginning.iter_mut().map(|beginning| &mut beginning.rest);
        let walks = walks.chain(self.reminder.iter_mut().map(|reminder| &mut reminder.rest));
        walks.for_each(|walk| self.done.pages.extend(walk.take_read_pages()));
    }

    fn has_synced(&self) -> bool {
        let is_through = self.has_begun && self.beginning.is_none() && !self.initial_in_hand;
        self.upstream_synced && is_through && !self.is_gone
    }

    /// Returns the number of queued events. While the subscriber reads initial objects or a resync, this number is an
    /// upper bound, because objects that change may be skipped.
    fn len(&self) -> usize {
        let beginning = self.beginning.as_ref().map_or(0, |beginning| 1 + beginning.rest.left);
        let more: usize = self.more.iter().map(|walk| walk.left).sum();
        let reminder = self.reminder.as_ref().map_or(0, |reminder| reminder.rest.left);
        beginning + more + self.pending.len() + reminder
    }
}

impl<T> Reminder<T> {
    /// Excludes a changed object from the resync, because the subscriber will receive the change.
    fn leave_out(&mut self, key: &ObjectKey) {
        if self.rest.has(key) {
            self.changed.insert(key.clone());
        }
    }
}

impl<T> Default for Done<T> {
    fn default() -> Self {
        Self { walks: Vec::new(), pages: Vec::new(), undelivered: Vec::new() }
    }
}

fn pending<T>(delivery: Delivery) -> CoalescingFifo<ObjectKey, HashedState<T>> {
    CoalescingFifo::new(|old, new| old.uid == new.uid, delivery)
}

fn unhashed<T>(change: Change<HashedState<T>>) -> Change<Stored<T>> {
    match change {
        Change::Added { object, is_initial } => Change::Added { object: object.object, is_initial },
        Change::Updated { old, new } => Change::Updated { old: old.map(|old| old.object), new: new.object },
        Change::Deleted { object, final_state_known } => Change::Deleted { object: object.object, final_state_known },
    }
}

impl<T: Object> HashedState<T> {
    /// States can be compared only if they were created with the same `hasher`.
    pub(crate) fn new(object: Stored<T>, hasher: &RandomState) -> Self {
        let uid = hasher.hash_one(object.uid());
        Self { object, uid }
    }
}

impl<T> Clone for HashedState<T> {
    fn clone(&self) -> Self {
        Self { object: self.object.clone(), uid: self.uid }
    }
}

#[cfg(test)]
mod tests;
