//! Who shares the shards, and who should have which.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::machine::Preference;
use crate::shards::shard::fnv1a;
use crate::{LeaderElectionRecord, LockState, Version};

/// The replicas that are there, by what their leases say.
#[derive(Debug, Default)]
pub(super) struct Members {
    leases: BTreeMap<String, Member>,
}

#[derive(Debug)]
struct Member {
    version: Version,
    identity: String,
    /// When it counts as gone, unless it changes before.
    expires: Duration,
}

/// For so many of its durations the lease of a member that is gone is kept.
const KEPT: u32 = 20;

impl Members {
    /// Takes in what the lease of that name says now.
    pub(super) fn saw(&mut self, name: &str, state: &LockState, own: Duration, now: Duration) {
        let known = self.leases.get(name);
        let is_newer = known.is_none_or(|known| {
            known.version != state.version && state.version.is_before(&known.version) != Some(true)
        });
        if is_newer {
            let LeaderElectionRecord { holder_identity, .. } = &state.record;
            let expires = now + state.record.lease_duration(own);
            let member = Member { version: state.version.clone(), identity: holder_identity.clone(), expires };
            self.leases.insert(name.into(), member);
        }
    }

    pub(super) fn is_gone(&mut self, name: &str) {
        self.leases.remove(name);
    }

    pub(super) fn knows(&self, name: &str) -> bool {
        self.leases.contains_key(name)
    }

    /// When the next one counts as gone.
    pub(super) fn next_expiry(&self, now: Duration) -> Option<Duration> {
        self.leases.values().map(|member| member.expires).filter(|expires| *expires > now).min()
    }

    /// Leases that nobody has held for long.
    pub(super) fn forgotten(&self, own: Duration, now: Duration) -> Vec<(String, Version)> {
        let old = self.leases.iter().filter(|(_, member)| now >= member.expires + own * KEPT);
        old.map(|(name, member)| (name.clone(), member.version.clone())).collect()
    }

    /// What `me` is to do about the shard of that number: the others come first that should rather have it.
    pub(super) fn preference(&self, me: &str, shard: u32, step: Duration, now: Duration) -> Preference {
        let live = self.leases.values().filter(|member| member.expires > now && !member.identity.is_empty());
        let mine = (weight(me, shard), me);
        let before: Vec<_> = live
            .map(|member| (weight(&member.identity, shard), member.identity.as_str()))
            .filter(|theirs| *theirs > mine)
            .collect();
        let rank = u32::try_from(before.len()).unwrap_or(u32::MAX);
        let yield_to = before.into_iter().max().map(|(_, identity)| identity.to_owned());
        Preference { defer: step.saturating_mul(rank), yield_to }
    }
}

/// The claim of a replica to a shard: who has the greatest should have it. Whoever comes or goes moves only what is, or was, its own.
fn weight(identity: &str, shard: u32) -> u64 {
    let bytes = [identity.as_bytes(), &shard.to_le_bytes()].concat();
    // The last bytes move few bits of FNV-1a, so these are mixed once more, as SplitMix64 does.
    let mixed = fnv1a(&bytes);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn members(count: usize) -> Members {
        let mut members = Members::default();
        for index in 0..count {
            members.saw(&format!("m-{index}"), &state(index, 1), 15 * SECOND, Duration::ZERO);
        }
        members
    }

    fn state(index: usize, version: u64) -> LockState {
        let version = Version { uid: index.to_string(), resource_version: version.to_string() };
        let record = LeaderElectionRecord { holder_identity: format!("host-{index}_x"), ..Default::default() };
        LockState { version, record }
    }

    /// Who should have each of so many shards.
    fn owners(members: &Members, of: &[usize], shards: u32, now: Duration) -> Vec<usize> {
        let first = |shard: u32| {
            let owners = of.iter().copied().filter(|index| {
                members.preference(&format!("host-{index}_x"), shard, SECOND, now) == Preference::default()
            });
            let owners: Vec<_> = owners.collect();
            let [owner] = owners[..] else { panic!("{owners:?} want shard {shard}") };
            owner
        };
        (0..shards).map(first).collect()
    }

    #[test]
    fn each_shard_has_one_whose_it_should_be_and_they_are_spread() {
        for count in [1, 2, 5, 10] {
            let all: Vec<_> = (0..count).collect();
            let owners = owners(&members(count), &all, 1_000, SECOND);
            let even = 1_000 / count;
            for member in all {
                let own = owners.iter().filter(|owner| **owner == member).count();
                assert!((even * 7 / 10..=even * 13 / 10).contains(&own), "{member} of {count} has {own}");
            }
        }
    }

    #[test]
    fn who_comes_takes_its_share_and_moves_nothing_between_the_others() {
        let (before, after) = (members(4), members(5));
        let before = owners(&before, &[0, 1, 2, 3], 1_000, SECOND);
        let after = owners(&after, &[0, 1, 2, 3, 4], 1_000, SECOND);
        let moved: Vec<_> = before.iter().zip(&after).filter(|(before, after)| before != after).collect();
        assert!(moved.iter().all(|(_, after)| **after == 4) && (150..=250).contains(&moved.len()), "{}", moved.len());
    }

    #[test]
    fn who_has_not_renewed_for_its_duration_or_has_left_counts_no_more() {
        let mut members = members(2);
        members.saw("m-1", &state(1, 2), 15 * SECOND, 10 * SECOND);
        // An old event that comes late makes nobody young.
        members.saw("m-0", &state(0, 1), 15 * SECOND, 14 * SECOND);
        assert_eq!(members.next_expiry(SECOND), Some(15 * SECOND));
        assert!(owners(&members, &[1], 100, 15 * SECOND).len() == 100);
        let mut left = state(1, 3);
        left.record.holder_identity.clear();
        members.saw("m-1", &left, 15 * SECOND, 11 * SECOND);
        assert!(owners(&members, &[0], 100, 12 * SECOND).len() == 100);
        assert_eq!(members.forgotten(15 * SECOND, 300 * SECOND), []);
        let forgotten = members.forgotten(15 * SECOND, 400 * SECOND);
        assert_eq!(forgotten.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["m-0", "m-1"]);
    }

    #[test]
    fn the_next_best_waits_for_longer_the_farther_behind_it_is() {
        let members = members(4);
        let rank = |index: usize| members.preference(&format!("host-{index}_x"), 7, SECOND, SECOND);
        let mut ranks: Vec<_> = (0..4).map(rank).collect();
        ranks.sort_by_key(|preference| preference.defer);
        assert_eq!(ranks.iter().map(|rank| rank.defer.as_secs()).collect::<Vec<_>>(), [0, 1, 2, 3]);
        // All yield to the same one.
        assert_eq!(ranks[0].yield_to, None);
        assert!(ranks[1].yield_to.is_some() && ranks[1..].iter().all(|rank| rank.yield_to == ranks[1].yield_to));
    }
}
