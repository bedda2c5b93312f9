//! A step under the lock, and what comes after it.

use std::ops::{Deref, DerefMut};

use pintle_ratelimit::Sleep;

use crate::alarm::{Arm, Source};
use crate::engine::{Engine, Handout, Now};
use crate::inbox::{Inbox, Late};
use crate::metrics::Depth;
use crate::order::Ticket;
use crate::panic::{Panic, pass_on};
use crate::sync::MutexGuard;
use crate::waiters::{Supply, Waiter, Waiters};
use crate::wakers::{WaiterId, Wakers, Wakes};

/// What the lock is for.
pub(crate) struct State<K> {
    pub(crate) engine: Engine<K>,
    pub(crate) waiters: Waiters,
    pub(crate) drainers: Wakers,
    /// On their way from the inbox to the engine.
    late: Vec<Late<K>>,
    take_late: fn(&mut Engine<K>, Late<K>, &Now<'_>),
    pub(crate) is_inbox_open: bool,
    /// The latest time that the clock told, for a step whose clock panics.
    latest: u64,
}

/// A step under the lock. Its end, which comes also if the step panics, wakes whom it concerns and drops what the step has left,
/// without the lock.
pub(crate) struct Section<'a, K> {
    /// `None` when it is over.
    state: Option<MutexGuard<'a, State<K>>>,
    inbox: &'a Inbox<K>,
    pub(crate) now: Now<'a>,
    outside: &'a dyn Outside,
    /// It is the poll of a task that waits, so a panic of the timer is its own.
    pub(crate) is_poll: bool,
}

/// What a section has the queue do when the lock is free. Both return a panic of the user's code.
pub(crate) trait Outside {
    /// Sets the alarm.
    fn arm(&self, arm: Arm) -> Option<Panic>;

    /// Asks the provider of metrics for the gauge of a depth.
    fn register(&self, depth: Depth) -> Option<Panic>;
}

/// Whom a section has to wake, and what to do about the alarm.
#[derive(Default)]
struct Settled {
    wakes: Wakes,
    old_sleep: Option<Sleep>,
    arm: Option<Arm>,
}

impl<K: Eq> State<K> {
    pub(crate) fn new(engine: Engine<K>) -> Self {
        let (waiters, drainers) = (Waiters::default(), Wakers::default());
        let (late, take_late) = (Vec::new(), Engine::take_late);
        Self { engine, waiters, drainers, late, take_late, is_inbox_open: true, latest: 0 }
    }
}

impl<K> State<K> {
    /// Takes the steps that are in the inbox, which may be opened or closed with it.
    #[cold]
    fn empty_inbox(&mut self, inbox: &Inbox<K>, open: Option<bool>, now: &Now<'_>) {
        let mut late = std::mem::take(&mut self.late);
        match open {
            None => inbox.take(&mut late),
            Some(open) => {
                self.is_inbox_open = open;
                inbox.set_open(open, &mut late);
            }
        }
        late.drain(..).for_each(|late| (self.take_late)(&mut self.engine, late, now));
        self.late = late;
    }

    /// Whether nobody waits, so that there is nobody to be woken.
    #[inline]
    fn is_settled(&self) -> bool {
        // The inbox is open while nobody waits, or stays closed to the end.
        let nobody_waits = self.is_inbox_open || self.waiters.is_empty() && self.engine.mode().is_some();
        nobody_waits && self.drainers.is_empty() && !self.waiters.alarm.is_set()
    }

    /// Finds out whom to wake, and when the alarm has to ring.
    #[cold]
    fn settle(&mut self, inbox: &Inbox<K>, now: &Now<'_>) -> Settled {
        let Self { engine, waiters, drainers, .. } = self;
        let mut wakes = Wakes::default();
        let mut alarm = None;
        if engine.is_exhausted() {
            waiters.notify_all(&mut wakes);
        } else if !waiters.is_empty() {
            let supply = Supply { available: engine.available(now), next: engine.next_wake(now) };
            alarm = waiters.settle(supply, now.nanos(), &mut wakes);
        }
        let (old_sleep, arm) = waiters.alarm.plan(alarm);
        if engine.is_drained() {
            drainers.notify_all(&mut wakes);
        }
        if !self.is_inbox_open && self.waiters.is_empty() && self.engine.mode().is_none() {
            self.empty_inbox(inbox, Some(true), now);
        }
        Settled { wakes, old_sleep, arm }
    }
}

/// What few sections have to do without the lock. All of it is done, and the first panic is the answer.
#[cold]
fn conclude(settled: Option<Settled>, depths: Vec<Depth>, outside: &dyn Outside, is_poll: bool) -> Option<Panic> {
    let panic = settled.and_then(|settled| settled.finish(outside, is_poll));
    depths.into_iter().fold(panic, |panic, depth| panic.or(outside.register(depth)))
}

impl Settled {
    /// Must be called without the lock.
    fn finish(self, outside: &dyn Outside, is_poll: bool) -> Option<Panic> {
        let Self { wakes, old_sleep, arm } = self;
        let panic = wakes.wake();
        drop(old_sleep);
        // Without a timer, all who wait come to bring theirs: the panic is theirs if it happens there too.
        let of_timer = arm.and_then(|arm| outside.arm(arm)).filter(|_| is_poll);
        panic.or(of_timer)
    }
}

impl<'a, K> Section<'a, K> {
    /// Takes first what is in the inbox.
    #[inline]
    pub(crate) fn new(
        mut state: MutexGuard<'a, State<K>>,
        inbox: &'a Inbox<K>,
        mut now: Now<'a>,
        outside: &'a dyn Outside,
    ) -> Self {
        now.set_fallback(state.latest);
        if !inbox.is_empty() {
            state.empty_inbox(inbox, None, &now);
        }
        Self { state: Some(state), inbox, now, outside, is_poll: false }
    }

    #[inline]
    pub(crate) fn parts(&mut self) -> (&mut State<K>, &Now<'a>) {
        match &mut self.state {
            Some(state) => (state, &self.now),
            None => unreachable!("only the drop takes it"),
        }
    }

    pub(crate) fn done(mut self, ticket: Ticket) {
        let (state, now) = self.parts();
        state.engine.done(ticket, now);
    }

    /// Lists one that found nothing. Returns the time until which a thread has to park, and what must be dropped without the lock.
    pub(crate) fn wait(&mut self, id: Option<WaiterId>, waiter: Waiter) -> (WaiterId, Option<u64>, Option<Source>) {
        match waiter {
            Waiter::Task(waker, source) => {
                self.is_poll = true;
                let old = self.waiters.alarm.set_source(source);
                (self.waiters.join_task(id, waker), None, old)
            }
            Waiter::Thread(waker) => {
                let (state, now) = self.parts();
                let next = state.engine.next_wake(now);
                let (id, keeps_time) = state.waiters.join_thread(id, waker, next);
                (id, next.filter(|_| keeps_time), None)
            }
        }
    }

    pub(crate) fn set_inbox_open(&mut self, open: bool) {
        let inbox = self.inbox;
        let (state, now) = self.parts();
        state.empty_inbox(inbox, Some(open), now);
    }
}

impl<K: Eq> Section<'_, K> {
    pub(crate) fn add(mut self, hash: u32, key: &mut Option<K>) {
        let (state, now) = self.parts();
        state.engine.add(hash, key, 0, now);
    }
}

impl<K: Clone> Section<'_, K> {
    pub(crate) fn hand_out(&mut self) -> Option<Handout<K>> {
        let (state, now) = self.parts();
        state.engine.hand_out(now)
    }
}

impl<K> Drop for Section<'_, K> {
    #[inline]
    fn drop(&mut self) {
        let (inbox, outside, is_poll) = (self.inbox, self.outside, self.is_poll);
        let (state, now) = self.parts();
        let settled = if state.is_settled() { None } else { Some(state.settle(inbox, now)) };
        let trash = state.engine.take_trash();
        let depths = state.engine.take_new_depths();
        state.latest = now.latest();
        let mut panic = now.take_panic();
        self.state = None;
        if settled.is_some() || !depths.is_empty() {
            panic = panic.or(conclude(settled, depths, outside, is_poll));
        }
        if let Some(trash) = trash {
            panic = panic.or(trash.empty());
        }
        if panic.is_some() {
            pass_on(panic);
        }
    }
}

impl<K> Deref for Section<'_, K> {
    type Target = State<K>;

    #[inline]
    fn deref(&self) -> &State<K> {
        match &self.state {
            Some(state) => state,
            None => unreachable!("only the drop takes it"),
        }
    }
}

impl<K> DerefMut for Section<'_, K> {
    #[inline]
    fn deref_mut(&mut self) -> &mut State<K> {
        self.parts().0
    }
}
