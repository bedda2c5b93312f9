//! Priority order, with or without ageing.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Order, Queued, Ticket};
use crate::now::nanos;

/// An [`Order`] that dequeues the highest priority first, and keys of equal priority in FIFO order. With
/// [ageing](Priority::with_ageing), no key starves.
///
/// # Examples
///
/// ```
/// use pintle_workqueue::{AddOptions, Priority, QueueConfig, WorkQueue};
///
/// let config = QueueConfig { order: Box::new(Priority::strict()), ..QueueConfig::default() };
/// let queue: WorkQueue<&str> = WorkQueue::new(config);
/// queue.add_with("resync", AddOptions { priority: -100, ..AddOptions::default() });
/// queue.add("change");
/// assert_eq!(queue.blocking_get().as_deref(), Some(&"change"));
/// ```
#[derive(Debug)]
pub struct Priority {
    /// The time after which the priority of a waiting key rises by one level.
    step: Option<i64>,
    /// The queued keys, of which the key with the smallest rank is dequeued first.
    queued: BTreeMap<Rank, Ticket>,
    /// The smallest unused place. Each place is used only once: places are times if the order has ageing, and
    /// consecutive numbers otherwise.
    next: u64,
    /// With ageing, a key's place is normally the time when it was queued. If an earlier push had the same or a later
    /// time, the key gets a later place, and this map contains the key's time by its place.
    since: BTreeMap<u64, u64>,
}

/// The rank of a queued key, which determines when the key is dequeued. With ageing, the first number is the time when
/// the key was queued, minus one `step` per priority level. Without ageing, the first number is the negated priority.
/// The second number is the key's place. All keys age at the same rate, so the relative order of two keys never
/// changes, and ranks need no updates.
type Rank = (i64, u64);

impl Priority {
    /// Creates an order without ageing. A key starves if keys with a higher priority keep arriving, as in
    /// controller-runtime. If the priority of a queued key is raised, the key moves behind all keys that already have
    /// the new priority.
    pub fn strict() -> Self {
        Self { step: None, queued: BTreeMap::new(), next: 0, since: BTreeMap::new() }
    }

    /// Creates an order with ageing. A key gains one priority level for each `step` of waiting. The key keeps the
    /// gained levels if its priority is raised.
    ///
    /// Let `t` be the time when a key of priority `p` was queued or when its delay ended. The key is dequeued before
    /// any key of priority `q > p` that is queued after `t + (q - p) * step`.
    pub fn with_ageing(step: Duration) -> Self {
        Self { step: Some(i64::try_from(nanos(step)).unwrap_or(i64::MAX)), ..Self::strict() }
    }

    fn rank(&self, place: u64, priority: i32) -> Rank {
        let priority = i64::from(priority);
        let rank = match self.step {
            None => -priority,
            Some(step) => {
                let since = self.since.get(&place).copied().unwrap_or(place);
                i64::try_from(since).unwrap_or(i64::MAX).saturating_sub(step.saturating_mul(priority))
            }
        };
        (rank, place)
    }

    fn queue(&mut self, ticket: Ticket, priority: i32, now: u64) -> u64 {
        let place = now.max(self.next);
        self.next = place + 1;
        if self.step.is_some() && place != now {
            self.since.insert(place, now);
        }
        self.queued.insert(self.rank(place, priority), ticket);
        place
    }
}

impl<K> Order<K> for Priority {
    fn push(&mut self, key: Queued<'_, K>) -> u64 {
        self.queue(key.ticket, key.priority, key.now)
    }

    fn pop(&mut self) -> Option<Ticket> {
        let ((_, place), ticket) = self.queued.pop_first()?;
        self.since.remove(&place);
        Some(ticket)
    }

    fn remove(&mut self, key: Queued<'_, K>, place: u64) {
        self.queued.remove(&self.rank(place, key.priority));
        self.since.remove(&place);
    }

    fn touch(&mut self, key: Queued<'_, K>, place: u64, priority: i32) -> u64 {
        if priority == key.priority {
            return place;
        }
        self.queued.remove(&self.rank(place, key.priority));
        if self.step.is_none() {
            return self.queue(key.ticket, priority, 0);
        }
        self.queued.insert(self.rank(place, priority), key.ticket);
        place
    }

    fn len(&self) -> usize {
        self.queued.len()
    }

    fn needs_time(&self) -> bool {
        self.step.is_some()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::tests::{Naive, compare, config};
    use super::*;

    struct Queued {
        ticket: Ticket,
        priority: i32,
        since: u64,
    }

    /// The queued keys in the order of their push or last change of priority, and the `step` of an order with ageing.
    struct List(Vec<Queued>, Option<u64>);

    impl Naive for List {
        fn push(&mut self, ticket: Ticket, _key: u32, priority: i32, now: u64) {
            self.0.push(Queued { ticket, priority, since: now });
        }

        fn pop(&mut self) -> Option<Ticket> {
            let rank = |queued: &Queued| match self.1 {
                None => -i128::from(queued.priority),
                Some(step) => i128::from(queued.since) - i128::from(queued.priority) * i128::from(step),
            };
            let first = (0..self.0.len()).min_by_key(|at| rank(&self.0[*at]))?;
            Some(self.0.remove(first).ticket)
        }

        fn remove(&mut self, ticket: Ticket) {
            self.0.retain(|queued| queued.ticket != ticket);
        }

        fn touch(&mut self, ticket: Ticket, priority: i32) {
            let Some(at) = self.0.iter().position(|queued| queued.ticket == ticket) else { return };
            if self.0[at].priority == priority {
                return;
            }
            self.0[at].priority = priority;
            if self.1.is_none() {
                let raised = self.0.remove(at);
                self.0.push(raised);
            }
        }
    }

    proptest! {
        #![proptest_config(config())]

        #[test]
        fn strict_priority_matches_a_plain_list(seed in any::<u64>()) {
            compare(Priority::strict(), List(Vec::new(), None), seed);
        }

        #[test]
        fn ageing_raises_one_level_per_step(seed in any::<u64>(), step in prop_oneof![0..100u64, Just(u64::MAX >> 33)]) {
            compare(Priority::with_ageing(Duration::from_nanos(step)), List(Vec::new(), Some(step)), seed);
        }
    }
}
