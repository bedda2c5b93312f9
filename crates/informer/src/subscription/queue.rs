//! The shared side of a subscription: an informer puts in, one listener takes out.

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use pintle_delta_fifo::{Change, CoalescingFifo, Delivery};
use pintle_meta::{Object, ObjectKey};
use tokio::sync::watch;

use crate::driver::now;
use crate::factory::User;
use crate::guarded::Guarded;
use crate::snapshot::Iter;
use crate::{Snapshot, SubscriptionStatus, SyncHandle};

/// The shared side of a subscription.
///
/// What was there at its beginning, it reads from a snapshot when the listener asks, so that to begin costs the same however
/// much there is. Until the listener is through with that, changes wait; where one waits for an object that was not told yet, that
/// object is told in its newest state, and the change is not, unless each change is wanted.
pub(crate) struct Queue<T> {
    state: Mutex<State<T>>,
    pub(super) synced: watch::Sender<bool>,
    /// Who has it.
    _user: Option<Arc<User>>,
}

/// What happened to an object, as all listeners are told.
pub(crate) enum News<T> {
    Added(Guarded<T>),
    Updated {
        old: Guarded<T>,
        new: Guarded<T>,
    },
    /// `known` is what the cache had, `last` the last state that was seen.
    Deleted {
        known: Guarded<T>,
        last: Guarded<T>,
        final_state_known: bool,
    },
}

struct State<T> {
    has_begun: bool,
    beginning: Option<Beginning<T>>,
    /// What follows it.
    more: VecDeque<Walk<T>>,
    done: Done<T>,
    pending: CoalescingFifo<ObjectKey, Guarded<T>>,
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
    /// States that the listener knew, and will not be told of.
    untold: Vec<Guarded<T>>,
}

/// What was there at the beginning, and was not told yet.
struct Beginning<T> {
    /// In its newest state.
    next: Guarded<T>,
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

/// Objects, one after the other.
pub(crate) struct Walk<T> {
    objects: Objects<T>,
    left: usize,
}

enum Objects<T> {
    Snapshot(Iter<T>),
    /// Those of a list, in its order.
    Listed(Arc<[Guarded<T>]>),
}

impl<T: Object> Queue<T> {
    /// `resync` is how often to remind the listener of all objects.
    pub(crate) fn new(delivery: Delivery, resync: Option<Duration>, user: Option<Arc<User>>) -> Self {
        let mut state = State {
            has_begun: false,
            beginning: None,
            more: VecDeque::new(),
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
    pub(crate) fn begin(&self, walk: Walk<T>) {
        self.change(|state| {
            if state.is_closed && state.has_begun {
                return;
            }
            state.has_begun = true;
            match state.beginning {
                None => state.go_on(walk),
                Some(_) => state.more.push_back(walk),
            }
        });
    }

    pub(crate) fn tell(&self, news: &[(ObjectKey, News<T>)]) {
        self.change(|state| {
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
    }

    /// Tells the listener of all these again, unless it is still busy with such a round, or with its beginning.
    pub(crate) fn remind(&self, snapshot: Snapshot<T>) {
        let rest = Walk::of(snapshot);
        self.change(|state| {
            if !state.is_closed && state.beginning.is_none() && state.reminder.is_none() && rest.left > 0 {
                state.reminder = Some(Reminder { rest, changed: HashSet::new() });
            }
        });
    }

    /// All initial events are in.
    pub(crate) fn upstream_synced(&self) {
        self.change(|state| state.upstream_synced = true);
    }

    /// Nothing more will come.
    pub(crate) fn close(&self) {
        self.change(|state| state.is_closed = true);
    }

    /// The listener is gone: what waits is for nobody.
    pub(crate) fn hang_up(&self) {
        let mut left = None;
        self.change(|state| {
            let none = pending(Delivery::Coalesced);
            let (beginning, more) = (state.beginning.take(), std::mem::take(&mut state.more));
            left = Some((beginning, more, state.reminder.take(), std::mem::replace(&mut state.pending, none)));
            state.is_gone = true;
        });
        // The objects are a user's, and are dropped here, under no lock.
        drop(left);
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
        let mut state = self.lock();
        let told = self.pop(&mut state);
        let done = std::mem::take(&mut state.done);
        drop(state);
        drop(done);
        told
    }

    pub(super) fn poll_next(&self, context: &mut Context<'_>) -> Poll<Option<Told<T>>> {
        let mut state = self.lock();
        let told = self.pop(&mut state);
        let done = std::mem::take(&mut state.done);
        let has_ended = state.is_gone || (state.is_closed && state.has_begun);
        if told.is_none() && !has_ended {
            state.waker = Some(context.waker().clone());
        }
        drop(state);
        drop(done);
        if told.is_none() && !has_ended { Poll::Pending } else { Poll::Ready(told) }
    }

    fn pop(&self, state: &mut State<T>) -> Option<Told<T>> {
        let event = state.pop();
        state.waits_since = if state.len() == 0 { None } else { Some(now()) };
        self.note_synced(state);
        event
    }

    fn change(&self, change: impl FnOnce(&mut State<T>)) {
        let mut state = self.lock();
        if state.is_gone {
            return;
        }
        change(&mut state);
        state.renew();
        self.note_synced(&state);
        let has_news = state.len() > 0;
        if has_news && state.waits_since.is_none() {
            state.waits_since = Some(now());
        }
        let waker = if has_news || state.is_closed || state.is_gone { state.waker.take() } else { None };
        let done = std::mem::take(&mut state.done);
        drop(state);
        drop(done);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn note_synced(&self, state: &State<T>) {
        let is_through = state.has_begun && state.beginning.is_none() && !state.initial_in_hand;
        if state.upstream_synced && is_through && !state.is_gone {
            self.synced.send_if_modified(|synced| !std::mem::replace(synced, true));
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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
        self.done.untold.extend(untold);
    }

    /// The beginning first, then what has changed, and only then reminders.
    fn pop(&mut self) -> Option<Told<T>> {
        if let Some(Beginning { next, rest }) = self.beginning.take() {
            self.go_on(rest);
            self.renew();
            self.initial_in_hand = true;
            return Some((next.key(), Change::Added { object: next, is_initial: true }));
        }
        self.initial_in_hand = false;
        let Some(reminder) = &mut self.reminder else { return self.pending.pop() };
        if let Some((key, change)) = self.pending.pop() {
            reminder.leave_out(&key);
            return Some((key, change));
        }
        let object = reminder.rest.find(|object| !reminder.changed.contains(&object.key()));
        if reminder.rest.left == 0 {
            self.done.walks.extend(self.reminder.take().map(|reminder| reminder.rest));
        }
        object.map(|object| (object.key(), Change::Updated { old: Some(object.clone()), new: object }))
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
    /// long as there is a beginning; and another object by the same name is none of the beginning.
    fn renew(&mut self) {
        while let Some(beginning) = &mut self.beginning {
            match self.pending.overtake(&beginning.next.key()) {
                None => return,
                Some(Some(newest)) => return beginning.next = newest,
                Some(None) => {
                    if let Some(beginning) = self.beginning.take() {
                        self.go_on(beginning.rest);
                    }
                }
            }
        }
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
        Self { walks: Vec::new(), untold: Vec::new() }
    }
}

fn pending<T: Object>(delivery: Delivery) -> CoalescingFifo<ObjectKey, Guarded<T>> {
    CoalescingFifo::new(|old, new| old.uid() == new.uid(), delivery)
}

impl<T> Walk<T> {
    pub(crate) fn of(snapshot: Snapshot<T>) -> Self {
        let left = snapshot.len();
        Self { objects: Objects::Snapshot(snapshot.into_iter()), left }
    }

    pub(crate) fn listed(list: Arc<[Guarded<T>]>) -> Self {
        let left = list.len();
        Self { objects: Objects::Listed(list), left }
    }

    /// Whether it may come by an object of that key, or has.
    fn has(&self, key: &ObjectKey) -> bool {
        match &self.objects {
            Objects::Snapshot(objects) => objects.has(key),
            Objects::Listed(_) => true,
        }
    }
}

impl<T> Iterator for Walk<T> {
    type Item = Guarded<T>;

    fn next(&mut self) -> Option<Guarded<T>> {
        let object = match &mut self.objects {
            Objects::Snapshot(objects) => objects.next_guarded(),
            Objects::Listed(list) => list.get(list.len() - self.left).cloned(),
        };
        self.left -= usize::from(object.is_some());
        object
    }
}

#[cfg(test)]
mod tests {
    use pintle_meta::{ObjectMeta, PartialObject};

    use super::*;
    use crate::Cache;

    fn pod(name: u32) -> Guarded<PartialObject> {
        let metadata = ObjectMeta { uid: name.to_string(), ..ObjectMeta::new("ns", name.to_string()) };
        Arc::new(PartialObject { metadata, ..PartialObject::default() }).into()
    }

    /// However long it does not come, and however many objects come and go meanwhile.
    #[test]
    fn a_listener_that_is_to_be_reminded_holds_no_more_than_what_was_there() {
        let cache = Cache::new();
        for name in 0..2 {
            cache.upsert(pod(name).into_arc()).unwrap();
        }
        let queue = Queue::new(Delivery::Coalesced, None, None);
        queue.begin(Walk::of(cache.snapshot()));
        while queue.try_next().is_some() {}
        queue.remind(cache.snapshot());
        for name in 1..1000 {
            let object = pod(name);
            let gone = News::Deleted { known: object.clone(), last: object.clone(), final_state_known: true };
            let news = [(object.key(), News::Added(object.clone())), (object.key(), gone)];
            queue.tell(if name == 1 { &news[1..] } else { &news });
        }
        let changed = queue.lock().reminder.as_ref().map(|reminder| reminder.changed.len());
        assert_eq!(changed, Some(1));
        let told: Vec<String> = std::iter::from_fn(|| queue.try_next()).map(|(key, _)| key.to_string()).collect();
        assert_eq!(told, ["ns/1", "ns/0"]);
    }
}
