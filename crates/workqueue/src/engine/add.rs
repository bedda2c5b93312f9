//! Operations that add keys and set delays.

use std::time::Duration;

use super::handout::UndoAdd;
use super::record::{NEVER, Record, State};
use super::{Engine, queued};
use crate::config::DelayPolicy;
use crate::inbox::{Late, LateStep};
use crate::key_state::{Added, DelayKind};
use crate::now::Now;
use crate::order::Ticket;
use crate::panic::catch;

// The methods below receive the key in an `Option`. If a method does not store the key, for example because user code
// panics, the caller finds the key in the `Option` and drops it outside the lock.
impl<K: Eq> Engine<K> {
    pub(crate) fn add(&mut self, hash: u32, key: &mut Option<K>, priority: i32, now: &Now<'_>) -> Added {
        if self.mode.is_some() {
            return self.refuse();
        }
        let ticket = self.entry(hash, key, now);
        self.add_ticket(ticket, priority, now)
    }

    pub(crate) fn apply_late(&mut self, late: Late<K>, now: &Now<'_>) {
        let made = late.at.map(|at| now.at(at));
        let now = made.as_ref().unwrap_or(now);
        let mut unused = None;
        let taken = catch(|| match late.step {
            LateStep::Add { hash, key } => {
                unused = Some(key);
                self.add(hash, &mut unused, 0, now);
            }
            LateStep::Done(ticket) => self.done(ticket, now),
        });
        if let Some(key) = unused {
            self.trash.push(key);
        }
        if let Err(panic) = taken {
            self.trash.keep_panic(panic);
        }
    }

    pub(crate) fn add_after(
        &mut self,
        hash: u32,
        key: &mut Option<K>,
        after: Duration,
        kind: DelayKind,
        priority: i32,
        now: &Now<'_>,
    ) -> Added {
        if self.mode.is_some() {
            return self.refuse();
        }
        let ticket = self.entry(hash, key, now);
        self.add_ticket_after(ticket, after, kind, priority, now)
    }

    pub(crate) fn replace_after(
        &mut self,
        hash: u32,
        key: &mut Option<K>,
        after: Duration,
        kind: DelayKind,
        now: &Now<'_>,
    ) -> Added {
        if self.mode.is_some() {
            return self.refuse();
        }
        let ticket = self.entry(hash, key, now);
        self.observe(|observer| observer.retried(after));
        if after.is_zero() {
            self.stop_waiting(ticket);
            return self.add_ticket(ticket, 0, now);
        }
        let record = &mut self.table[ticket];
        if !record.state.has(State::WAITING) && !record.state.has(State::DIRTY) {
            record.priority = 0;
        }
        self.wait(ticket, now.after(after), kind);
        Added::Scheduled
    }

    pub(crate) fn postpone(&mut self, hash: u32, key: &K, after: Duration, now: &Now<'_>) -> bool {
        let Some(ticket) = self.find(hash, key, now) else { return false };
        let Record { state, kind, deadline: current, .. } = self.table[ticket];
        let deadline = now.after(after);
        let later = state.has(State::WAITING) && deadline > current;
        if later {
            self.wait(ticket, deadline, kind);
        }
        later
    }

    /// Fires the key's timer if it is due, and returns the ticket of `key`. Returns `None` if the key has no record, or
    /// if its record is idle and has no failures.
    pub(super) fn find(&mut self, hash: u32, key: &K, now: &Now<'_>) -> Option<Ticket> {
        let ticket = self.table.find(hash, key)?;
        self.fire_if_due(ticket, now);
        let record = &self.table[ticket];
        if record.state.is_idle() && record.failures == 0 {
            self.remove(ticket);
            return None;
        }
        Some(ticket)
    }

    /// Returns the ticket of `key`. If the key has no record, creates an idle record from the key in the `Option`.
    #[inline]
    pub(super) fn entry(&mut self, hash: u32, key: &mut Option<K>, now: &Now<'_>) -> Ticket {
        let ticket = self.table.entry(hash, key);
        match key {
            None => self.counts.idle += 1,
            Some(_) => self.fire_if_due(ticket, now),
        }
        ticket
    }
}

impl<K> Engine<K> {
    fn add_ticket(&mut self, ticket: Ticket, priority: i32, now: &Now<'_>) -> Added {
        let Record { state, kind, priority: pending, .. } = self.table[ticket];
        if !state.has(State::WAITING) {
            return self.make_dirty(ticket, priority, now);
        }
        let priority = priority.max(pending);
        match self.policy(kind) {
            DelayPolicy::Respect if !state.has(State::DIRTY) => {
                self.table[ticket].priority = priority;
                return Added::Merged;
            }
            DelayPolicy::Absorb => {
                self.stop_waiting(ticket);
            }
            _ => {}
        }
        self.make_dirty(ticket, priority, now)
    }

    pub(super) fn add_ticket_after(
        &mut self,
        ticket: Ticket,
        after: Duration,
        kind: DelayKind,
        priority: i32,
        now: &Now<'_>,
    ) -> Added {
        self.observe(|observer| observer.retried(after));
        if after.is_zero() {
            self.add_ticket(ticket, priority, now)
        } else {
            self.delay(ticket, now.after(after), kind, priority, now)
        }
    }

    pub(super) fn delay(
        &mut self,
        ticket: Ticket,
        deadline: u64,
        kind: DelayKind,
        priority: i32,
        now: &Now<'_>,
    ) -> Added {
        if deadline <= now.nanos() {
            return self.add_ticket(ticket, priority, now);
        }
        let kind = self.merged_kind(ticket, kind);
        if !self.delay_would_change(ticket, deadline, kind) {
            self.table[ticket].kind = kind;
            self.raise(ticket, priority, now);
            return Added::Merged;
        }
        let record = &mut self.table[ticket];
        if record.state.has(State::WAITING) || record.state.has(State::DIRTY) {
            self.raise(ticket, priority, now);
        } else {
            record.priority = priority;
        }
        self.wait(ticket, deadline, kind);
        Added::Scheduled
    }

    /// Returns the kind of a key's delay after a delay of kind `kind` was added. If the key already has a pending
    /// retry, the delay remains a retry, so that [`DelayPolicy::Respect`] still applies. If the key already has a
    /// pending reminder, a requeue does not change the kind, because the caller of the reminder relies on the delay.
    fn merged_kind(&self, ticket: Ticket, kind: DelayKind) -> DelayKind {
        let record = &self.table[ticket];
        match (record.kind, kind) {
            _ if !record.state.has(State::WAITING) => kind,
            (DelayKind::Retry, _) => DelayKind::Retry,
            (DelayKind::Reminder, DelayKind::Requeue) => DelayKind::Reminder,
            _ => kind,
        }
    }

    pub(super) fn delay_would_change(&self, ticket: Ticket, deadline: u64, kind: DelayKind) -> bool {
        let record = &self.table[ticket];
        if record.state.has(State::WAITING) {
            return deadline < record.deadline;
        }
        !(record.state.has(State::DIRTY) && self.policy(kind) == DelayPolicy::Absorb)
    }

    pub(super) fn make_dirty(&mut self, ticket: Ticket, priority: i32, now: &Now<'_>) -> Added {
        let record = &mut self.table[ticket];
        if record.state.has(State::DIRTY) {
            self.raise(ticket, priority, now);
            return Added::Merged;
        }
        let idle = record.state.is_idle();
        record.priority = priority;
        record.state.set(State::DIRTY);
        if idle {
            self.counts.idle -= 1;
            if record.deadline != NEVER {
                self.stop_timer(ticket);
            }
        }
        self.observe(|observer| observer.added(ticket, priority, now.nanos()));
        if self.table[ticket].state.has(State::RUNNING) {
            self.counts.dirty_in_flight += 1;
        } else {
            self.enqueue(ticket, now);
        }
        Added::Scheduled
    }

    /// Pushes a dirty key to the [`Order`](crate::Order). The key must not be in flight. If the `Order` panics, the key
    /// is no longer dirty, and its record may be gone.
    pub(super) fn enqueue(&mut self, ticket: Ticket, now: &Now<'_>) {
        let undo_on_panic = UndoAdd { engine: self, ticket, now };
        let Engine { table, order, timed, .. } = &mut *undo_on_panic.engine;
        let place = order.push(queued(ticket, &table[ticket], *timed, now));
        std::mem::forget(undo_on_panic);
        self.table[ticket].place = place;
        self.counts.queued += 1;
        self.is_withheld = false;
    }

    fn raise(&mut self, ticket: Ticket, priority: i32, now: &Now<'_>) {
        let record = &self.table[ticket];
        let (from, to) = (record.priority, record.priority.max(priority));
        if record.state.is_queued() {
            let place = record.place;
            let key = queued(ticket, record, self.timed, now);
            let place = self.order.touch(key, place, to);
            self.table[ticket].place = place;
            self.is_withheld = false;
        }
        let record = &mut self.table[ticket];
        record.priority = to;
        if record.state.has(State::DIRTY) && from != to {
            self.observe(|observer| observer.raised(from, to));
        }
    }

    fn wait(&mut self, ticket: Ticket, deadline: u64, kind: DelayKind) {
        let record = &mut self.table[ticket];
        self.counts.idle -= usize::from(record.state.is_idle());
        self.counts.delayed += usize::from(!record.state.has(State::WAITING));
        record.state.set(State::WAITING);
        record.kind = kind;
        self.set_timer(ticket, deadline);
    }
}
