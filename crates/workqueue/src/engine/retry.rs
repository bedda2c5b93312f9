//! Operations for rate-limited adds and failure counts.

use std::time::Duration;

use super::Engine;
use super::record::State;
use crate::config::RetryAccounting;
use crate::key_state::{Added, DelayKind};
use crate::now::{Now, nanos};
use crate::order::Ticket;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failed {
    /// The worker that was processing the key has called `retry`.
    Held,
    /// A caller added the key with a rate limit.
    Added,
}

struct Verdict {
    deadline: u64,
    failures: u16,
}

impl<K: Eq> Engine<K> {
    /// Adds `key` after the limiter's delay or after `before`, whichever is shorter.
    pub(crate) fn add_rate_limited(
        &mut self,
        hash: u32,
        key: &mut Option<K>,
        before: Option<Duration>,
        priority: i32,
        now: &Now<'_>,
    ) -> Added {
        if self.mode.is_some() && self.charge == RetryAccounting::IfScheduled {
            return self.refuse();
        }
        let Some(new) = key.as_ref() else { unreachable!("the caller passes a key") };
        match self.find(hash, new, now) {
            Some(ticket) => self.retry(ticket, Failed::Added, before, priority, now),
            None => {
                let verdict = self.charge_limiter(Err(new), Failed::Added, before, now);
                let ticket = self.entry(hash, key, now);
                self.schedule_retry(ticket, verdict, priority, now)
            }
        }
    }

    pub(crate) fn forget(&mut self, hash: u32, key: &K) {
        self.limiter.forget(key);
        if let Some(ticket) = self.table.find(hash, key) {
            self.forget_failures(ticket);
        }
    }

    pub(crate) fn num_requeues(&self, hash: u32, key: &K, now: &Now<'_>) -> u32 {
        self.table.find(hash, key).map_or(0, |ticket| self.failures(ticket, now))
    }
}

impl<K> Engine<K> {
    /// Like [`add_rate_limited`](Self::add_rate_limited), but for a key that already has a record.
    pub(crate) fn retry(
        &mut self,
        ticket: Ticket,
        failed: Failed,
        before: Option<Duration>,
        priority: i32,
        now: &Now<'_>,
    ) -> Added {
        if self.mode.is_some() && self.charge == RetryAccounting::IfScheduled {
            return self.refuse();
        }
        self.fire_if_due(ticket, now);
        let verdict = self.charge_limiter(Ok(ticket), failed, before, now);
        self.schedule_retry(ticket, verdict, priority, now)
    }

    pub(crate) fn succeed(&mut self, ticket: Ticket) {
        self.limiter.forget(self.table[ticket].key());
        self.forget_failures(ticket);
    }

    pub(crate) fn revisit(&mut self, ticket: Ticket, after: Duration, priority: i32, now: &Now<'_>) -> Added {
        match self.mode {
            None => {
                self.fire_if_due(ticket, now);
                self.add_ticket_after(ticket, after, DelayKind::Reminder, priority, now)
            }
            Some(_) => self.refuse(),
        }
    }

    pub(crate) fn failures(&self, ticket: Ticket, now: &Now<'_>) -> u32 {
        let record = &self.table[ticket];
        let expired = record.state.is_idle() && record.failures > 0 && record.deadline <= now.nanos();
        if expired { 0 } else { u32::from(record.failures) }
    }

    pub(super) fn forget_failures(&mut self, ticket: Ticket) {
        let record = &mut self.table[ticket];
        record.failures = 0;
        if record.state.is_idle() {
            self.remove(ticket);
        }
    }

    /// Gets the delay from the limiter. For a new failure, also calls `charge` on the limiter. The record does not
    /// change here, because the limiter is user code and may panic.
    fn charge_limiter(
        &mut self,
        found: Result<Ticket, &K>,
        failed: Failed,
        before: Option<Duration>,
        now: &Now<'_>,
    ) -> Verdict {
        let failures = found.map_or(0, |ticket| self.failures(ticket, now));
        let key = match found {
            Ok(ticket) => self.table[ticket].key(),
            Err(key) => key,
        };
        let delay = self.limiter.delay(key, failures, now.instant());
        let wait = nanos(delay).min(before.map_or(u64::MAX, nanos));
        let deadline = now.nanos().saturating_add(wait);
        let is_new = match found {
            _ if self.mode.is_some() => false,
            Ok(ticket) => failed == Failed::Held || self.is_new_failure(ticket, deadline),
            Err(_) => true,
        };
        let charged = is_new || self.charge == RetryAccounting::Always;
        if charged {
            let key = match found {
                Ok(ticket) => self.table[ticket].key(),
                Err(key) => key,
            };
            self.limiter.charge(key, now.instant());
        }
        let counts = charged && self.limiter.counts_failures();
        if self.mode.is_none() {
            self.observe(|observer| {
                observer.retried(Duration::from_nanos(wait));
                observer.rate_limited(delay);
            });
        }
        let failures = u16::try_from(failures + u32::from(counts)).unwrap_or(u16::MAX);
        Verdict { deadline, failures }
    }

    /// Returns `true` if a rate-limited add reports a new failure. The failure is not new if the key already has an
    /// earlier retry, or if the key will be processed without this retry.
    fn is_new_failure(&self, ticket: Ticket, deadline: u64) -> bool {
        let record = &self.table[ticket];
        let joins_another_kind = record.state.has(State::WAITING) && record.kind != DelayKind::Retry;
        joins_another_kind || self.delay_would_change(ticket, deadline, DelayKind::Retry)
    }

    fn schedule_retry(&mut self, ticket: Ticket, verdict: Verdict, priority: i32, now: &Now<'_>) -> Added {
        self.table[ticket].failures = verdict.failures;
        if self.mode.is_some() {
            self.rest(ticket, now);
            return self.refuse();
        }
        self.delay(ticket, verdict.deadline, DelayKind::Retry, priority, now)
    }
}
