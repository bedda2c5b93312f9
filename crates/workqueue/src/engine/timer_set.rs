//! An ordered set of timers.

use std::collections::BTreeMap;

use crate::order::Ticket;

pub(super) type Timer = (u64, Ticket);

/// A set of timers, ordered by deadline. The set sorts only groups of timers, so that even a million random timers
/// cause few cache misses. The timers within a group are sorted when this group is the next to fire.
#[derive(Debug, Default)]
pub(super) struct TimerSet {
    /// The earliest timers, in descending order of their deadlines. The vector `next` is empty only if the set is
    /// empty.
    next: Vec<Timer>,
    /// All timers except those in `next`, in unordered groups. Every timer of a group is at or after the group's map
    /// key, and all timers of earlier groups are before this map key.
    later: BTreeMap<Timer, Vec<Timer>>,
}

/// The maximum size of a group. Each operation sorts, searches or splits at most one group.
const GROUP: usize = 128;

impl TimerSet {
    pub(super) fn first(&self) -> Option<Timer> {
        self.next.last().copied()
    }

    pub(super) fn pop_first(&mut self) -> Option<Timer> {
        let first = self.next.pop();
        self.refill();
        first
    }

    /// Adds a timer, which must not be in the set yet.
    pub(super) fn insert(&mut self, timer: Timer) {
        let Some((_, group)) = self.later.range_mut(..=timer).next_back() else {
            let at = self.next.partition_point(|other| *other > timer);
            self.next.insert(at, timer);
            if self.next.len() == GROUP {
                let soon = self.next.split_off(GROUP / 2);
                let later = std::mem::replace(&mut self.next, soon);
                self.later.insert(later[later.len() - 1], later);
            }
            return;
        };
        group.push(timer);
        if group.len() == GROUP {
            // Keep the lower group full if the new timer is the last timer of its group, because deadlines often
            // increase.
            let is_last = group.iter().max() == Some(&timer);
            let half = if is_last { GROUP - 1 } else { GROUP / 2 };
            group.select_nth_unstable(half);
            let upper = group.split_off(half);
            self.later.insert(upper[0], upper);
        }
    }

    /// Removes a timer, which must be in the set.
    pub(super) fn remove(&mut self, timer: Timer) {
        match self.later.range_mut(..=timer).next_back() {
            Some((start, group)) => {
                let start = *start;
                if let Some(at) = group.iter().position(|other| *other == timer) {
                    group.swap_remove(at);
                }
                if group.is_empty() {
                    self.later.remove(&start);
                } else if group.len() < group.capacity() / 4 {
                    group.shrink_to(group.capacity() / 2);
                }
            }
            None => {
                self.next.retain(|other| *other != timer);
                self.refill();
            }
        }
    }

    fn refill(&mut self) {
        if self.next.is_empty()
            && let Some((_, group)) = self.later.pop_first()
        {
            self.next = group;
            self.next.sort_unstable_by(|one, other| other.cmp(one));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::order::tests::{config, dice};

    proptest! {
        #![proptest_config(config())]

        #[test]
        fn timer_set_is_an_ordered_set(mut seed in any::<u64>(), spread in prop_oneof![Just(1), Just(100), Just(1 << 40)]) {
            let (mut timers, mut expected) = (TimerSet::default(), BTreeSet::new());
            for step in 0..6000_u32 {
                let inserts = [5, 3, 1][step as usize / 2000];
                let ascending = if spread == 100 { u64::from(step) } else { 0 };
                let timer = (ascending + dice(&mut seed, spread), Ticket(step));
                if dice(&mut seed, 6) < inserts {
                    timers.insert(timer);
                    expected.insert(timer);
                } else if dice(&mut seed, 2) == 0 {
                    prop_assert_eq!(timers.pop_first(), expected.pop_first());
                } else if let Some(removed) = expected.range(timer..).next().or(expected.last()).copied() {
                    expected.remove(&removed);
                    timers.remove(removed);
                }
                prop_assert_eq!(timers.first(), expected.first().copied());
                prop_assert!(timers.later.values().all(|group| (1..GROUP).contains(&group.len())));
            }
            while let Some(timer) = expected.pop_first() {
                prop_assert_eq!(timers.pop_first(), Some(timer));
            }
            prop_assert_eq!(timers.pop_first(), None);
        }
    }

    #[test]
    fn increasing_deadlines_fill_their_groups() {
        let mut timers = TimerSet::default();
        (0..100_000).for_each(|at| timers.insert((at, Ticket(0))));
        assert!(timers.later.len() <= 100_000 / (GROUP - 1) + 2, "{} groups", timers.later.len());
    }

    #[test]
    fn groups_of_removed_timers_shrink() {
        let mut timers = TimerSet::default();
        (0..100_000).for_each(|at| timers.insert((at, Ticket(0))));
        (0..100_000).filter(|at| at % 100 != 0).for_each(|at| timers.remove((at, Ticket(0))));
        let room: usize = timers.later.values().map(Vec::capacity).sum();
        assert!(room < 16_000, "room for {room} timers is left for 1,000");
    }
}
