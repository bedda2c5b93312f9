//! The start times of all keys in one state, from which the queue computes the ages of the keys.

use std::collections::BTreeSet;

use crate::chunks::Chunks;
use crate::order::Ticket;

/// The start times of all keys in one state. Most keys are in a linked list that is sorted by start time. A tree
/// contains the keys that started earlier than the last key of the list.
#[derive(Debug)]
pub(crate) struct Ages {
    links: Chunks<Link>,
    first: u32,
    last: u32,
    /// The keys that started earlier than the last key of the list, because the queue noticed the end of their delay
    /// late.
    early: BTreeSet<(u64, Ticket)>,
    count: usize,
    sum: u128,
}

#[derive(Clone, Copy, Debug)]
struct Link {
    since: u64,
    /// The previous key in the list, or [`IN_TREE`] if the key is in the tree.
    before: u32,
    after: u32,
}

const NONE: u32 = u32::MAX;
const IN_TREE: u32 = u32::MAX - 1;

impl Ages {
    pub(super) fn enter(&mut self, ticket: Ticket, since: u64) {
        let is_early = self.last != NONE && since < self.links[self.last as usize].since;
        let before = if is_early { IN_TREE } else { self.last };
        let link = Link { since, before, after: NONE };
        self.links.fill(ticket.index(), link);
        self.links[ticket.index()] = link;
        if is_early {
            self.early.insert((since, ticket));
        } else {
            match self.last {
                NONE => self.first = ticket.0,
                last => self.links[last as usize].after = ticket.0,
            }
            self.last = ticket.0;
        }
        self.count += 1;
        self.sum += u128::from(since);
    }

    pub(super) fn leave(&mut self, ticket: Ticket) -> u64 {
        let Link { since, before, after } = self.links[ticket.index()];
        if before == IN_TREE {
            self.early.remove(&(since, ticket));
        } else {
            match before {
                NONE => self.first = after,
                before => self.links[before as usize].after = after,
            }
            match after {
                NONE => self.last = before,
                after => self.links[after as usize].before = before,
            }
        }
        self.count -= 1;
        self.sum -= u128::from(since);
        since
    }

    pub(super) fn oldest(&self, now: u64) -> u64 {
        let listed = if self.first == NONE { None } else { Some(self.links[self.first as usize].since) };
        let early = self.early.first().map(|(since, _)| *since);
        listed.into_iter().chain(early).min().map_or(0, |since| now.saturating_sub(since))
    }

    pub(super) fn total(&self, now: u64) -> u64 {
        let sum = (u128::from(now) * self.count as u128).saturating_sub(self.sum);
        u64::try_from(sum).unwrap_or(u64::MAX)
    }
}

impl Default for Ages {
    fn default() -> Self {
        Self { links: Chunks::default(), first: NONE, last: NONE, early: BTreeSet::new(), count: 0, sum: 0 }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::order::tests::{config, dice};

    proptest! {
        #![proptest_config(config())]

        #[test]
        fn ages_match_a_plain_map(mut seed in any::<u64>()) {
            let (mut ages, mut expected, mut now) = (Ages::default(), BTreeMap::<u32, u64>::new(), 1000u64);
            for _ in 0..2000 {
                now += dice(&mut seed, 3);
                let ticket = dice(&mut seed, 100) as u32;
                match expected.remove(&ticket) {
                    Some(since) => prop_assert_eq!(ages.leave(Ticket(ticket)), since),
                    None => {
                        let late = if dice(&mut seed, 3) == 0 { dice(&mut seed, 1000) } else { 0 };
                        ages.enter(Ticket(ticket), now - late);
                        expected.insert(ticket, now - late);
                    }
                }
                prop_assert_eq!(ages.oldest(now), expected.values().min().map_or(0, |since| now - since));
                prop_assert_eq!(ages.total(now), expected.values().map(|since| now - since).sum::<u64>());
            }
        }
    }
}
