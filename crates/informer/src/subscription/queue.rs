//! The shared side of a subscription: an informer puts in, one listener takes out.

use std::collections::{HashSet, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};
use std::time::{Duration, Instant};

use pintle_delta_fifo::{Change, CoalescingFifo, Delivery, Overtaken};
use pintle_meta::{Object, ObjectKey};
use tokio::sync::watch;
use tokio::task::coop::poll_proceed;

use crate::driver::now;
use crate::guarded::Guarded;
use crate::panic::wake;
use crate::user::User;
use crate::{Snapshot, SubscriptionStatus, SyncHandle};

use super::walk::{Entry, Spent, Walk};

/// The shared side of a subscription.
///
/// What was there at its beginning, it reads from a snapshot when the listener asks, so that to begin costs the same however
/// much there is. Until the listener is through with that, changes wait; where one waits for an object that was not told yet, that
/// object is told in its newest state, and the change is not, unless each change is wanted.
pub(crate) struct Queue<T> {
    state: Mutex<State<T>>,
    pub(super) synced: watch::Sender<bool>,
    /// Who has it.
    _user: Option<User>,
}

/// What happened to an object, as all listeners are told.
pub(crate) enum News<T> {
    Added(Seen<T>),
    Updated {
        old: Seen<T>,
        new: Seen<T>,
    },
    /// `known` is what the cache had, `last` the last state that was seen.
    Deleted {
        known: Seen<T>,
        last: Seen<T>,
        final_state_known: bool,
    },
}

/// A state of an object, and a hash of its uid. So nobody asks the object, whose `Metadata` is a user's, under the lock of a queue. Of
/// two that bear one name in turn, hashes are the same once in 2^64 times, and then the one becomes the other by an update.
pub(crate) struct Seen<T> {
    pub(super) object: Guarded<T>,
    uid: u64,
}

struct State<T> {
    has_begun: bool,
    beginning: Option<Beginning<T>>,
    /// What follows it.
    more: VecDeque<Walk<T>>,
    /// What is next of it may have changed since, or be gone.
    is_behind: bool,
    done: Done<T>,
    pending: CoalescingFifo<ObjectKey, Seen<T>>,
    reminder: Option<Reminder<T>>,
    /// Who waits for an entry. There is one at most, since taking needs `&mut Subscription`.
    waker: Option<Waker>,
    upstream_synced: bool,
    /// An initial event was handed out, and the listener has not asked for the next: it is still at work on it.
    initial_in_hand: bool,
    is_closed: bool,
    /// The listener is gone, and what comes is for nobody.
    is_gone: bool,
    resync: Option<(Duration, Instant)>,
    /// When something came for a listener that had taken everything, or when it last took something and left more.
    waits_since: Option<Instant>,
}

/// What nobody wants any more. To drop it may drop objects, which are a user's, and is done under no lock.
struct Done<T> {
    /// The walks that have come to their end.
    walks: Vec<Walk<T>>,
    /// The pages that walks have left behind. A page may be the last place of objects that were superseded meanwhile.
    pages: Vec<Spent<T>>,
    /// States of which the listener will not be told.
    untold: Vec<Guarded<T>>,
}

/// What is left to do after a change of a queue, under no lock of ours: it drops objects and wakes the listener, and both may run a
/// user's code. It does so when it is dropped.
#[must_use = "dropping it runs a user's code, so it has to be dropped under no lock"]
pub(crate) struct Aftermath<'a, T> {
    queue: &'a Queue<T>,
    done: Done<T>,
    waker: Option<Waker>,
    has_synced: bool,
}

/// What was there at the beginning, and was not told yet.
struct Beginning<T> {
    /// In its newest state, unless the queue is behind.
    next: Entry<T>,
    rest: Walk<T>,
}

/// What the listener is to be reminded of.
struct Reminder<T> {
    rest: Walk<T>,
    /// What has changed since, of which it hears anyway.
    changed: HashSet<ObjectKey>,
}

/// What a listener is told: a change of the object of that key.
pub(super) type Told<T> = (ObjectKey, Change<Guarded<T>>);

/// What there is to take out.
enum Popped<T> {
    Told(Told<T>),
    Nothing,
    /// Much was passed over, and there is more to look at.
    Unfinished,
}

/// So much is passed over under the lock at a time.
const SECTION: usize = 32;

impl<T: Object> Queue<T> {
    /// `resync` is how often to remind the listener of all objects.
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
        Self { state: Mutex::new(state), synced: watch::Sender::new(false), _user: user }
    }

    /// Tells the listener what is there, before all changes and after what it began with before. Nothing may have been told to it of
    /// these objects before.
    pub(crate) fn begin(&self, walk: Walk<T>) -> Aftermath<'_, T> {
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

    pub(crate) fn tell(&self, news: &[(ObjectKey, News<T>)]) {
        let aftermath = self.change(|state| {
            // Who was told of the end is told nothing after it. A write that was under way as the runtime went may end later.
            if state.is_closed {
                return;
            }
            for (key, news) in news {
                state.push(key.clone(), news);
                if let Some(reminder) = &mut state.reminder {
                    reminder.leave_out(key);
                }
            }
        });
        drop(aftermath);
    }

    /// Tells the listener of all these again, unless it is still busy with such a round, or with its beginning.
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

    /// All initial events are in.
    pub(crate) fn upstream_synced(&self) -> Aftermath<'_, T> {
        self.change(|state| state.upstream_synced = true)
    }

    /// Nothing more will come.
    pub(crate) fn close(&self) -> Aftermath<'_, T> {
        self.change(|state| state.is_closed = true)
    }

    /// The listener is gone: what waits is for nobody.
    pub(crate) fn hang_up(&self) {
        let mut left = None;
        let aftermath = self.change(|state| {
            let none = pending(Delivery::Coalesced);
            let (beginning, more) = (state.beginning.take(), std::mem::take(&mut state.more));
            left = Some((beginning, more, state.reminder.take(), std::mem::replace(&mut state.pending, none)));
            state.is_gone = true;
        });
        // The objects are a user's, and are dropped here, under no lock.
        drop((left, aftermath));
    }

    pub(super) fn sync_handle(&self) -> SyncHandle {
        SyncHandle { synced: self.synced.subscribe() }
    }

    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }

    pub(crate) fn status(&self) -> SubscriptionStatus {
        let has_synced = *self.synced.borrow();
        let state = self.lock();
        SubscriptionStatus {
            depth: state.len(),
            age: state.waits_since.map(|since| now().saturating_duration_since(since)),
            joined: state.pending.joined(),
            has_synced,
        }
    }

    pub(crate) fn next_resync(&self) -> Option<Instant> {
        self.lock().resync.map(|(_, next)| next)
    }

    /// Whether the time has come; and if so, sets the next one.
    pub(crate) fn is_resync_due(&self, now: Instant) -> bool {
        let mut state = self.lock();
        let Some((period, _)) = state.resync.filter(|(_, next)| *next <= now) else { return false };
        state.resync = now.checked_add(period).map(|next| (period, next));
        true
    }

    pub(super) fn set_resync(&self, period: Option<Duration>) {
        self.lock().set_resync(period);
    }

    pub(super) fn try_next(&self) -> Option<Told<T>> {
        loop {
            match self.pop(None).0 {
                Popped::Told(told) => return Some(told),
                Popped::Nothing => return None,
                Popped::Unfinished => {}
            }
        }
    }

    /// It takes part in tokio's budget, and comes back for the rest where it has much to pass over, so that other tasks get their turn.
    pub(super) fn poll_next(&self, context: &mut Context<'_>) -> Poll<Option<Told<T>>> {
        let coop = ready!(poll_proceed(context));
        match self.pop(Some(context.waker())) {
            (Popped::Told(told), _) => {
                coop.made_progress();
                Poll::Ready(Some(told))
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

    /// What is next, and whether nothing will be. If it may be, that is who waits for it.
    fn pop(&self, waker: Option<&Waker>) -> (Popped<T>, bool) {
        // A waker is a user's code, and is cloned and dropped under no lock.
        let waker = waker.cloned();
        let mut state = self.lock();
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

    fn change(&self, change: impl FnOnce(&mut State<T>)) -> Aftermath<'_, T> {
        let mut state = self.lock();
        if state.is_gone {
            return self.leave(state, None);
        }
        change(&mut state);
        state.renew();
        let has_news = state.len() > 0;
        if has_news && state.waits_since.is_none() {
            state.waits_since = Some(now());
        }
        let waker = if has_news || state.is_closed || state.is_gone { state.waker.take() } else { None };
        self.leave(state, waker)
    }

    /// Releases the lock.
    fn leave(&self, mut state: MutexGuard<'_, State<T>>, waker: Option<Waker>) -> Aftermath<'_, T> {
        state.take_spent();
        let (done, has_synced) = (std::mem::take(&mut state.done), state.has_synced());
        Aftermath { queue: self, done, waker, has_synced }
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Drop for Aftermath<'_, T> {
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
    /// A period so long that the clock cannot count it is never.
    fn set_resync(&mut self, period: Option<Duration>) {
        self.resync = period.and_then(|period| Some((period, now().checked_add(period)?)));
    }

    fn push(&mut self, key: ObjectKey, news: &News<T>) {
        let untold = match news {
            News::Added(object) => self.pending.added(key, object.clone(), false),
            News::Updated { old, new } => self.pending.updated(key, old.clone(), new.clone()),
            News::Deleted { known, last, final_state_known } => {
                self.pending.deleted(key, known.clone(), last.clone(), *final_state_known)
            }
        };
        self.done.untold.extend(untold.map(|untold| untold.object));
    }

    /// The beginning first, then what has changed, and only then reminders.
    fn pop(&mut self) -> Popped<T> {
        self.initial_in_hand = false;
        if self.is_behind {
            self.renew();
        }
        if self.is_behind {
            return Popped::Unfinished;
        }
        if let Some(Beginning { next: (key, object), rest }) = self.beginning.take() {
            self.go_on(rest);
            self.renew();
            self.initial_in_hand = true;
            return Popped::Told((key, Change::Added { object, is_initial: true }));
        }
        if let Some((key, change)) = self.pending.pop() {
            if let Some(reminder) = &mut self.reminder {
                reminder.leave_out(&key);
            }
            return Popped::Told((key, told(change)));
        }
        let Some(reminder) = &mut self.reminder else { return Popped::Nothing };
        let next = reminder.rest.by_ref().take(SECTION).find(|(key, _)| !reminder.changed.contains(key));
        let is_over = reminder.rest.left == 0;
        if is_over {
            self.done.walks.extend(self.reminder.take().map(|reminder| reminder.rest));
        }
        match next {
            Some((key, object)) => Popped::Told((key, Change::Updated { old: Some(object.clone()), new: object })),
            None if is_over => Popped::Nothing,
            None => Popped::Unfinished,
        }
    }

    fn go_on(&mut self, mut rest: Walk<T>) {
        loop {
            if let Some(next) = rest.next() {
                return self.beginning = Some(Beginning { next, rest });
            }
            self.done.walks.push(rest);
            let Some(more) = self.more.pop_front() else { return };
            rest = more;
        }
    }

    /// Brings what is next of the beginning to its newest state. What is gone is left out, so that there is something to tell as
    /// long as there is a beginning, unless the queue is behind; and another object by the same name is none of the beginning.
    fn renew(&mut self) {
        self.is_behind = false;
        for _ in 0..SECTION {
            let Some(Beginning { next: (key, object), .. }) = &mut self.beginning else { return };
            let Some(Overtaken { newest, untold }) = self.pending.overtake(key) else { return };
            self.done.untold.extend(untold.map(|untold| untold.object));
            if let Some(newest) = newest {
                return self.done.untold.push(std::mem::replace(object, newest.object));
            }
            if let Some(Beginning { next: (_, object), rest }) = self.beginning.take() {
                self.done.untold.push(object);
                self.go_on(rest);
            }
        }
        self.is_behind = self.beginning.is_some();
    }

    /// Moves what has been read of the walks to what is dropped under no lock.
    fn take_spent(&mut self) {
        let walks = self.beginning.iter_mut().map(|beginning| &mut beginning.rest);
        let walks = walks.chain(self.reminder.iter_mut().map(|reminder| &mut reminder.rest));
        walks.for_each(|walk| self.done.pages.extend(walk.take_spent()));
    }

    /// Whether the listener is through with its beginning, of which all is there.
    fn has_synced(&self) -> bool {
        let is_through = self.has_begun && self.beginning.is_none() && !self.initial_in_hand;
        self.upstream_synced && is_through && !self.is_gone
    }

    /// How much waits: an upper bound as long as there is a beginning or a reminder, of which some may have changed.
    fn len(&self) -> usize {
        let beginning = self.beginning.as_ref().map_or(0, |beginning| 1 + beginning.rest.left);
        let more: usize = self.more.iter().map(|walk| walk.left).sum();
        let reminder = self.reminder.as_ref().map_or(0, |reminder| reminder.rest.left);
        beginning + more + self.pending.len() + reminder
    }
}

impl<T> Reminder<T> {
    /// It hears of that object anyway. Of others there may be any number by the time that it is through.
    fn leave_out(&mut self, key: &ObjectKey) {
        if self.rest.has(key) {
            self.changed.insert(key.clone());
        }
    }
}

impl<T> Default for Done<T> {
    fn default() -> Self {
        Self { walks: Vec::new(), pages: Vec::new(), untold: Vec::new() }
    }
}

fn pending<T>(delivery: Delivery) -> CoalescingFifo<ObjectKey, Seen<T>> {
    CoalescingFifo::new(|old, new| old.uid == new.uid, delivery)
}

fn told<T>(change: Change<Seen<T>>) -> Change<Guarded<T>> {
    match change {
        Change::Added { object, is_initial } => Change::Added { object: object.object, is_initial },
        Change::Updated { old, new } => Change::Updated { old: old.map(|old| old.object), new: new.object },
        Change::Deleted { object, final_state_known } => Change::Deleted { object: object.object, final_state_known },
    }
}

impl<T: Object> Seen<T> {
    /// To be compared with those that were hashed in the same way.
    pub(crate) fn new(object: Guarded<T>, hasher: &RandomState) -> Self {
        let uid = hasher.hash_one(object.uid());
        Self { object, uid }
    }
}

impl<T> Clone for Seen<T> {
    fn clone(&self) -> Self {
        Self { object: self.object.clone(), uid: self.uid }
    }
}

#[cfg(test)]
mod tests;
