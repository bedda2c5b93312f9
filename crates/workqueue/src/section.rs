//! Critical sections: the time during which a thread holds the queue's lock.

use std::ops::{Deref, DerefMut};

use crate::alarm::{Arm, Planned, Source};
use crate::engine::{Engine, Handout, Trash};
use crate::inbox::{Inbox, Late};
use crate::metrics::Depth;
use crate::now::Now;
use crate::order::Ticket;
use crate::panic::{Panic, catch, discard, first, pass_on};
use crate::sync::MutexGuard;
use crate::waiters::{Supply, Waiter, Waiters};
use crate::wakers::{WaiterId, Wakers, Wakes};

pub(crate) struct State<K> {
    pub(crate) engine: Engine<K>,
    pub(crate) waiters: Waiters,
    pub(crate) drainers: Wakers,
    /// The buffer for operations from the inbox, which is empty between two critical sections.
    late: Vec<Late<K>>,
    apply_late: fn(&mut Engine<K>, Late<K>, &Now<'_>),
    pub(crate) is_inbox_open: bool,
    /// The latest known time, which operations use if the clock panics.
    latest: u64,
}

/// A critical section, during which a thread holds the queue's lock. Dropping a `Section` releases the lock, wakes
/// waiters, and then drops unused values, even while the thread panics.
pub(crate) struct Section<'a, K> {
    /// The locked state, or `None` after the lock was released.
    state: Option<MutexGuard<'a, State<K>>>,
    inbox: &'a Inbox<K>,
    pub(crate) now: Now<'a>,
    outside: &'a dyn Outside,
    /// Whether this critical section belongs to the poll of a waiting task. In the poll of a waiting task, a panic of
    /// the timer propagates to the caller.
    pub(crate) is_poll: bool,
}

/// The actions that follow a critical section, after the lock was released. Each action catches and returns panics from
/// user code.
pub(crate) trait Outside {
    fn arm(&self, arm: Arm) -> Option<Panic>;

    fn register(&self, depth: Depth) -> Option<Panic>;
}

#[derive(Default)]
struct Settled {
    wakes: Wakes,
    alarm: Planned,
}

impl<K: Eq> State<K> {
    pub(crate) fn new(engine: Engine<K>) -> Self {
        let (waiters, drainers) = (Waiters::default(), Wakers::default());
        let (late, apply_late) = (Vec::new(), Engine::apply_late);
        Self { engine, waiters, drainers, late, apply_late, is_inbox_open: true, latest: 0 }
    }
}

impl<K> State<K> {
    /// Applies the operations in the inbox, and then opens (`Some(true)`) or closes (`Some(false)`) the inbox if `open`
    /// is set.
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
        late.drain(..).for_each(|late| (self.apply_late)(&mut self.engine, late, now));
        self.late = late;
    }

    /// Returns `true` only if no waiter has to be woken and the alarm is not set.
    #[inline]
    fn is_settled(&self) -> bool {
        // The inbox is open while no worker is waiting, and stays closed after the beginning of a shutdown.
        let nobody_waits = self.is_inbox_open || self.waiters.is_empty() && self.engine.mode().is_some();
        nobody_waits && self.drainers.is_empty() && !self.waiters.alarm.is_set()
    }

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
        let alarm = waiters.alarm.plan(alarm);
        if engine.is_drained() {
            drainers.notify_all(&mut wakes);
        }
        if !self.is_inbox_open && self.waiters.is_empty() && self.engine.mode().is_none() {
            self.empty_inbox(inbox, Some(true), now);
        }
        Settled { wakes, alarm }
    }
}

/// Wakes waiters, sets the alarm and registers gauges. The caller must not hold the lock. Returns the first panic of
/// these actions.
#[cold]
fn conclude(settled: Option<Settled>, depths: Vec<Depth>, outside: &dyn Outside, is_poll: bool) -> Option<Panic> {
    let panic = settled.and_then(|settled| settled.finish(outside, is_poll));
    depths.into_iter().fold(panic, |panic, depth| first(panic, outside.register(depth)))
}

impl Settled {
    fn finish(self, outside: &dyn Outside, is_poll: bool) -> Option<Panic> {
        let Self { wakes, alarm: Planned { arm, unused } } = self;
        let panic = wakes.wake();
        // A task sets the timer of its own executor, so a panic of this timer propagates from the task's poll. In
        // critical sections outside of a task's poll, a panic of the timer is discarded. If the alarm's timer cannot be
        // set, all waiting tasks are woken.
        let mut of_timer = arm.and_then(|arm| outside.arm(arm));
        if !is_poll {
            discard(of_timer.take());
        }
        first(first(panic, of_timer), catch(|| drop(unused)).err())
    }
}

impl<'a, K> Section<'a, K> {
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
            None => unreachable!("the lock is released only on drop"),
        }
    }

    /// Ends the critical section, and returns a panic of user code instead of resuming it.
    #[inline]
    pub(crate) fn end(mut self) -> Option<Panic> {
        self.close()
    }

    #[inline]
    fn close(&mut self) -> Option<Panic> {
        let (inbox, outside, is_poll) = (self.inbox, self.outside, self.is_poll);
        let (state, now) = self.parts();
        let settled = if state.is_settled() { None } else { Some(state.settle(inbox, now)) };
        let mut trash = state.engine.take_trash();
        let depths = state.engine.take_new_depths();
        state.latest = now.latest();
        let of_clock = now.take_panic();
        self.state = None;
        let mut panic = first(trash.as_mut().and_then(Trash::take_panic), of_clock);
        if settled.is_some() || !depths.is_empty() {
            panic = first(panic, conclude(settled, depths, outside, is_poll));
        }
        if let Some(trash) = trash {
            panic = first(panic, trash.empty());
        }
        panic
    }

    pub(crate) fn done(mut self, ticket: Ticket) {
        let (state, now) = self.parts();
        state.engine.done(ticket, now);
    }

    /// Registers a waiter that found no key. Returns the waiter's ID, the latest wake-up time of a waiting thread, and
    /// a timer that the caller must drop outside the lock.
    pub(crate) fn wait(&mut self, id: Option<WaiterId>, waiter: Waiter) -> (WaiterId, Option<u64>, Option<Source>) {
        match waiter {
            Waiter::Task { waker, source, executor } => {
                self.is_poll = true;
                let (id, old) = self.waiters.join_task(id, executor, waker, source);
                (id, None, old)
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
        if self.state.is_some()
            && let Some(panic) = self.close()
        {
            pass_on(Some(panic));
        }
    }
}

impl<K> Deref for Section<'_, K> {
    type Target = State<K>;

    #[inline]
    fn deref(&self) -> &State<K> {
        match &self.state {
            Some(state) => state,
            None => unreachable!("the lock is released only on drop"),
        }
    }
}

impl<K> DerefMut for Section<'_, K> {
    #[inline]
    fn deref_mut(&mut self) -> &mut State<K> {
        self.parts().0
    }
}
