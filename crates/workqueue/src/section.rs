//! A step under the lock, and what comes after it.

use std::ops::{Deref, DerefMut};
use std::panic::resume_unwind;
use std::thread;

use crate::engine::{Engine, Handout, Now};
use crate::inbox::{Inbox, Late};
use crate::order::Ticket;
use crate::sync::MutexGuard;
use crate::waiters::{Waiters, Wakers, Wakes};

/// What the lock is for.
pub(crate) struct State<K> {
    pub(crate) engine: Engine<K>,
    pub(crate) waiters: Waiters,
    pub(crate) drainers: Wakers,
    /// On their way from the inbox to the engine.
    late: Vec<Late<K>>,
    take_late: fn(&mut Engine<K>, Late<K>, &Now<'_>),
    pub(crate) is_inbox_open: bool,
}

/// A step under the lock. Its end, which comes also if the step panics, wakes whom it concerns and drops what the step has left,
/// without the lock.
pub(crate) struct Section<'a, K> {
    /// `None` when it is over.
    state: Option<MutexGuard<'a, State<K>>>,
    inbox: &'a Inbox<K>,
    pub(crate) now: Now<'a>,
}

impl<K: Eq> State<K> {
    pub(crate) fn new(engine: Engine<K>) -> Self {
        let (waiters, drainers) = (Waiters::default(), Wakers::default());
        Self { engine, waiters, drainers, late: Vec::new(), take_late: Engine::take_late, is_inbox_open: true }
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

    /// Finds out who is to be woken.
    #[cold]
    fn settle(&mut self, inbox: &Inbox<K>, now: &Now<'_>) -> Wakes {
        let Self { engine, waiters, drainers, .. } = self;
        let mut wakes = Wakes::default();
        if !waiters.is_empty() {
            if engine.is_exhausted() {
                waiters.notify_all(&mut wakes);
            } else {
                let available = engine.is_available(now);
                let next_wake = if available { None } else { engine.next_wake(now) };
                waiters.settle(available, next_wake, || now.nanos(), &mut wakes);
            }
        }
        if engine.is_drained() {
            drainers.notify_all(&mut wakes);
        }
        if !self.is_inbox_open && self.waiters.is_empty() && self.engine.mode().is_none() {
            self.empty_inbox(inbox, Some(true), now);
        }
        wakes
    }
}

impl<'a, K> Section<'a, K> {
    /// Takes first what is in the inbox.
    #[inline]
    pub(crate) fn new(mut state: MutexGuard<'a, State<K>>, inbox: &'a Inbox<K>, now: Now<'a>) -> Self {
        if !inbox.is_empty() {
            state.empty_inbox(inbox, None, &now);
        }
        Self { state: Some(state), inbox, now }
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
        let inbox = self.inbox;
        let (state, now) = self.parts();
        // Either the inbox is open, and nobody waits, or it stays closed to the end.
        let nobody_waits = state.is_inbox_open || state.waiters.is_empty() && state.engine.mode().is_some();
        let settled = nobody_waits && state.drainers.is_empty();
        let wakes = if settled { None } else { Some(state.settle(inbox, now)) };
        let trash = state.engine.take_trash();
        self.state = None;
        let panic = wakes.and_then(Wakes::wake);
        if let Some(trash) = trash {
            trash.empty();
        }
        if let Some(panic) = panic
            && !thread::panicking()
        {
            resume_unwind(panic);
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
