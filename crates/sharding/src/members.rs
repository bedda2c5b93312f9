//! The members of a fleet, the assignment of shards to members, and the rivals of the fleet. A rival is a replica whose
//! configured number of shards differs from this replica's number.

use std::collections::BTreeMap;
use std::time::Duration;

use pintle_leaderelect::__private::machine::Preference;
use pintle_leaderelect::{LockState, Version};

use crate::shard::{fnv1a, fnv1a_from, mixed};

/// The live members and the live rivals of a fleet, according to their leases.
#[derive(Debug)]
pub(crate) struct Members {
    /// The common prefix of the names of all leases.
    prefix: String,
    shards: u32,
    leases: BTreeMap<String, Known>,
}

#[derive(Debug)]
struct Known {
    role: Role,
    state: LockState,
    /// The validity of the lease after each renewal.
    duration: Duration,
    /// The monotonic time at which this state was recorded.
    since: Duration,
    /// The monotonic time at which the lease expires unless it is renewed.
    expires: Duration,
    /// The monotonic time until which the holder of the previous lease object may work, if the object was replaced.
    held_until: Duration,
}

impl Known {
    fn identity(&self) -> &str {
        &self.state.record.holder_identity
    }

    /// Returns the time until which the lease counts as held.
    fn until(&self) -> Duration {
        if self.state.record.is_vacant() { self.held_until } else { self.expires.max(self.held_until) }
    }

    fn is_live(&self, now: Duration) -> bool {
        self.until() > now
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Role {
    Member,
    /// The membership lease of a rival, which is only tracked to delete it when it is no longer used.
    Stranger,
    /// The shard lease of a rival, whose holder may be working on objects in this replica's shards.
    Rival,
}

/// The number of lease durations after which the fleet deletes an expired membership lease.
const KEPT: u32 = 20;

impl Members {
    /// Creates an empty set of members. `name` is the name of the [`Shards`](crate::Shards).
    pub(crate) fn new(name: &str, shards: u32) -> Self {
        Self { prefix: format!("{name}-"), shards, leases: BTreeMap::new() }
    }

    pub(crate) fn lease_of_member(&self, identity: &str) -> String {
        format!("{}member-{:016x}-of-{}", self.prefix, fnv1a(identity.as_bytes()), self.shards)
    }

    pub(crate) fn lease_of_shard(&self, shard: u32) -> String {
        format!("{}{shard}-of-{}", self.prefix, self.shards)
    }

    /// Returns the role of the lease with this name. Returns `None` for this replica's shard leases, because the
    /// electors observe them. Also returns `None` for names that this crate never uses.
    fn role(&self, name: &str) -> Option<Role> {
        let name = name.strip_prefix(&self.prefix)?;
        // As in older versions of this crate, the name may lack the number of shards, which is then unknown.
        let (of_what, count) = name.rsplit_once("-of-").map_or((name, None), |(of_what, count)| (of_what, Some(count)));
        let is_ours = match count {
            Some(count) => count.parse::<u32>().ok()? == self.shards,
            None => false,
        };
        match (of_what.starts_with("member-"), is_ours) {
            (true, true) => Some(Role::Member),
            (true, false) => Some(Role::Stranger),
            (false, true) => None,
            (false, false) => of_what.parse::<u32>().ok().map(|_| Role::Rival),
        }
    }

    pub(crate) fn is_rival(&self, name: &str) -> bool {
        self.role(name) == Some(Role::Rival)
    }

    /// Records the current state of a lease. Returns `true` if the live members or rivals have changed, or if the lease
    /// now expires earlier than before. Returns `false` if the lease was only renewed.
    pub(crate) fn record(&mut self, name: &str, state: &LockState, own: Duration, now: Duration) -> bool {
        let Some(role) = self.role(name) else { return false };
        let duration = state.record.lease_duration(own);
        let expires = now.saturating_add(duration);
        let new = Known { role, state: state.clone(), duration, since: now, expires, held_until: Duration::ZERO };
        let Some(known) = self.leases.get_mut(name) else {
            self.leases.insert(name.into(), new);
            return true;
        };
        // Skip a write that changes only other data, such as a label, because it does not renew the lease.
        if state.repeats(&known.state) {
            known.state = state.clone();
            return false;
        }
        let is_same_object = state.version.uid == known.state.version.uid;
        // Skip an older state for some time, because a delayed state is not a renewal. Accept an older state
        // afterwards, because the server may have been restored from a backup. All later renewals then have older
        // versions as well. A delayed state can therefore revive an expired lease for one more duration. For a rival
        // that has released its lease, accept an older state at once, because the rival may have acquired the lease
        // again after a restore.
        let is_recent = role != Role::Rival && now < known.since.saturating_add(own);
        let may_be_delayed = is_same_object && (known.is_live(now) || is_recent);
        if may_be_delayed && state.version.is_before(&known.state.version) == Some(true) {
            return false;
        }
        let old = std::mem::replace(known, new);
        known.held_until = old.held_until;
        if role == Role::Rival && !is_same_object && !old.state.record.is_vacant() {
            // The holder of the previous object may not have noticed that it was replaced. Even if its lease seems to
            // have expired, its last renewals may not have been observed.
            known.held_until = now.saturating_add(old.duration.max(own));
        }
        let has_same_holder = old.is_live(now) == known.is_live(now) && old.identity() == known.identity();
        !has_same_holder || known.until() < old.until()
    }

    /// Records the deletion of a lease. A rival's shard lease counts as held for another lease duration, because its
    /// holder may not have noticed the deletion.
    pub(crate) fn is_gone(&mut self, name: &str, own: Duration, now: Duration) {
        match self.leases.get_mut(name) {
            Some(known) if known.role == Role::Rival && known.is_live(now) => {
                known.expires = now.saturating_add(known.duration.max(own));
            }
            _ => drop(self.leases.remove(name)),
        }
    }

    pub(crate) fn live(&self, now: Duration) -> Vec<String> {
        let live = self.leases.values().filter(|known| known.role == Role::Member && known.is_live(now));
        live.map(|member| member.identity().to_owned()).collect()
    }

    pub(crate) fn knows(&self, name: &str) -> bool {
        self.leases.contains_key(name)
    }

    /// Returns the time of the next expiry of a lease, or `None` if all leases have expired.
    pub(crate) fn next_expiry(&self, now: Duration) -> Option<Duration> {
        self.leases.values().flat_map(|known| [known.expires, known.held_until]).filter(|expires| *expires > now).min()
    }

    /// Returns the time at which the last rival's lease expires unless it is renewed, or `None` if no rival leads.
    pub(crate) fn rivals_until(&self, now: Duration) -> Option<Duration> {
        let rivals = self.leases.values().filter(|known| known.role == Role::Rival && known.is_live(now));
        rivals.map(Known::until).max()
    }

    /// Returns the names and versions of leases that have been without a holder for a long time.
    pub(crate) fn forgotten(&self, own: Duration, now: Duration) -> Vec<(String, Version)> {
        let old = self.leases.iter().filter(|(_, known)| now >= known.expires.saturating_add(own.saturating_mul(KEPT)));
        old.map(|(name, known)| (name.clone(), known.state.version.clone())).collect()
    }
}

/// Returns the preference of the replica `me` in a shard's election. The preference makes the replica wait until all
/// members with a greater weight had time to acquire the lock.
pub(crate) fn preference(members: &[String], me: &str, shard: u32, step: Duration) -> Preference {
    let own = (weight(me, shard), me);
    let others = members.iter().map(|member| (weight(member, shard), &**member));
    let (mut rank, mut first) = (0, None);
    for other in others.filter(|other| *other > own) {
        rank += 1;
        first = first.max(Some(other));
    }
    Preference { defer: step.saturating_mul(rank), yield_to: first.map(|(_, identity)| identity.to_owned()) }
}

/// Returns the weight of a replica for a shard. The preferred replica of a shard has the greatest weight. When a
/// replica joins or leaves, only the shards that it gains or loses move.
fn weight(identity: &str, shard: u32) -> u64 {
    mixed(fnv1a_from(fnv1a(identity.as_bytes()), &shard.to_le_bytes()))
}

#[cfg(test)]
mod tests {
    use pintle_leaderelect::LeaderElectionRecord;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn members(count: usize) -> Members {
        let mut members = Members::new("site", 16);
        for index in 0..count {
            members.record(&lease(index), &state(index, 1), 15 * SECOND, Duration::ZERO);
        }
        members
    }

    fn lease(index: usize) -> String {
        format!("site-member-{index}-of-16")
    }

    /// Returns the state of a member's lease. Each version has a different renew time, so that it counts as a renewal.
    fn state(index: usize, version_number: i64) -> LockState {
        let version = Version { uid: index.to_string(), resource_version: version_number.to_string() };
        let holder_identity = format!("host-{index}_x");
        let renew_time = jiff::Timestamp::from_second(version_number).ok().map(pintle_meta::MicroTime);
        LockState::new(version, LeaderElectionRecord { holder_identity, renew_time, ..Default::default() })
    }

    fn owners(members: &Members, of: &[usize], shards: u32, now: Duration) -> Vec<usize> {
        let live = members.live(now);
        let first = |shard: u32| {
            let owners = of
                .iter()
                .copied()
                .filter(|index| preference(&live, &format!("host-{index}_x"), shard, SECOND) == Preference::default());
            let owners: Vec<_> = owners.collect();
            let [owner] = owners[..] else { panic!("{owners:?} prefer shard {shard}") };
            owner
        };
        (0..shards).map(first).collect()
    }

    #[test]
    fn each_shard_has_one_preferred_replica() {
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
    fn joining_member_moves_only_its_own_share() {
        let (before, after) = (members(4), members(5));
        let before = owners(&before, &[0, 1, 2, 3], 1_000, SECOND);
        let after = owners(&after, &[0, 1, 2, 3, 4], 1_000, SECOND);
        let moved: Vec<_> = before.iter().zip(&after).filter(|(before, after)| before != after).collect();
        assert!(moved.iter().all(|(_, after)| **after == 4) && (150..=250).contains(&moved.len()), "{}", moved.len());
    }

    #[test]
    fn expired_and_departed_members_do_not_count() {
        let mut members = members(2);
        members.record(&lease(1), &state(1, 2), 15 * SECOND, 10 * SECOND);
        // An event with an older state than the known state is not a renewal.
        members.record(&lease(0), &state(0, 1), 15 * SECOND, 14 * SECOND);
        assert_eq!(members.next_expiry(SECOND), Some(15 * SECOND));
        assert!(owners(&members, &[1], 100, 15 * SECOND).len() == 100);
        let mut left = state(1, 3);
        left.record.holder_identity.clear();
        members.record(&lease(1), &left, 15 * SECOND, 11 * SECOND);
        assert!(owners(&members, &[0], 100, 12 * SECOND).len() == 100);
        assert_eq!(members.forgotten(15 * SECOND, 300 * SECOND), []);
        let forgotten = members.forgotten(15 * SECOND, 400 * SECOND);
        assert_eq!(forgotten.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), [lease(0), lease(1)]);
    }

    /// Otherwise, the replicas of a large fleet would compute all preferences hundreds of times per second.
    #[test]
    fn renewal_is_no_change_of_members() {
        let mut members = Members::new("site", 16);
        let mut record = |index: usize, version: i64, length: u32, at: u32| {
            let name = if index == 9 { "site-9-of-8".into() } else { lease(index) };
            members.record(&name, &state(index, version), length * SECOND, at * SECOND)
        };
        assert!(record(0, 1, 15, 1), "a new member");
        assert!(record(9, 1, 15, 1), "a new rival");
        assert!(!record(0, 2, 15, 3) && !record(9, 2, 15, 3), "renewals");
        assert!(!record(0, 2, 15, 4), "a known state");
        assert!(!record(0, 1, 15, 4), "an old state");
        assert!(record(0, 3, 5, 5), "the lease expires earlier");
        assert!(record(0, 4, 15, 11), "the member was dead");
        let mut other = state(0, 5);
        other.record.holder_identity = "other".into();
        assert!(members.record(&lease(0), &other, 15 * SECOND, 12 * SECOND), "another holder");
        other.version.resource_version = "6".into();
        other.record.holder_identity.clear();
        assert!(members.record(&lease(0), &other, 15 * SECOND, 13 * SECOND), "the member left");
    }

    /// A dead replica's lease must expire even while a controller keeps changing one of its labels.
    #[test]
    fn unrelated_write_does_not_renew_member_or_rival() {
        let mut members = members(1);
        members.record("site-7-of-8", &state(1, 1), 15 * SECOND, SECOND);
        let touched = |index: usize, version: &str| {
            let mut state = state(index, 1);
            state.version.resource_version = version.into();
            state
        };
        members.record(&lease(0), &touched(0, "8"), 15 * SECOND, 14 * SECOND);
        members.record("site-7-of-8", &touched(1, "9"), 15 * SECOND, 14 * SECOND);
        assert_eq!((members.next_expiry(SECOND), members.rivals_until(SECOND)), (Some(15 * SECOND), Some(16 * SECOND)));
        // Only the last observed version of the lease may be deleted.
        assert_eq!(members.forgotten(SECOND, 35 * SECOND), [(lease(0), touched(0, "8").version)]);
        // A new lease object with the same name counts as another lease.
        let next = LockState { version: Version { uid: "next".into(), resource_version: "10".into() }, ..state(1, 1) };
        members.record("site-7-of-8", &next, 15 * SECOND, 20 * SECOND);
        assert_eq!(members.rivals_until(20 * SECOND), Some(35 * SECOND));
    }

    /// After the server was restored from a backup, the leases have lower versions than before.
    #[test]
    fn renewal_after_a_restore_counts() {
        for uid in ["1", "restored"] {
            let mut members = members(2);
            let mut renewed = state(1, 500);
            renewed.version.uid = uid.into();
            for (state, at) in [(state(1, 1_000), SECOND), (renewed, 17 * SECOND)] {
                members.record(&lease(1), &state, 15 * SECOND, at);
                members.record("site-7-of-8", &state, 15 * SECOND, at);
            }
            assert_eq!(members.rivals_until(17 * SECOND), Some(32 * SECOND), "{uid}");
            assert_eq!(members.live(17 * SECOND), ["host-1_x"], "{uid}");
        }
    }

    /// A reopened watch may deliver the older states of a server whose cache is behind.
    #[test]
    fn replayed_state_does_not_bring_a_departed_member_back() {
        for at in [12, 25] {
            let mut members = members(2);
            let mut left = state(1, 3);
            left.record.holder_identity.clear();
            left.record.lease_duration_seconds = 1;
            members.record(&lease(1), &left, 15 * SECOND, 11 * SECOND);
            assert!(!members.record(&lease(1), &state(1, 2), 15 * SECOND, at * SECOND), "replayed at {at} s");
            // Later, a lower version means that the server was restored from a backup.
            assert!(members.record(&lease(1), &state(1, 2), 15 * SECOND, 26 * SECOND), "restored");
        }
    }

    /// Only the current version of a lease can be deleted.
    #[test]
    fn unchanged_lease_has_its_restored_version() {
        let mut members = Members::new("site", 16);
        members.record(&lease(0), &state(0, 1_000), 15 * SECOND, SECOND);
        let mut restored = state(0, 1_000);
        restored.version.resource_version = "500".into();
        assert!(!members.record(&lease(0), &restored, 15 * SECOND, 10 * SECOND), "not a renewal");
        assert_eq!(members.forgotten(15 * SECOND, 400 * SECOND), [(lease(0), restored.version)]);
    }

    /// The holder of the previous lease object may not have noticed that the object was replaced.
    #[test]
    fn rival_counts_after_its_lease_was_replaced() {
        for version_number in [500, 2_000] {
            let mut members = Members::new("site", 16);
            members.record("site-7-of-8", &state(1, 1_000), 15 * SECOND, SECOND);
            let mut vacant = state(1, version_number);
            vacant.version.uid = "restored".into();
            vacant.record.holder_identity.clear();
            members.record("site-7-of-8", &vacant, 15 * SECOND, 10 * SECOND);
            assert_eq!(members.rivals_until(10 * SECOND), Some(25 * SECOND), "{version_number}");
            assert_eq!(members.rivals_until(25 * SECOND), None, "{version_number}");
        }
    }

    /// Otherwise, both replicas could work at the same time.
    #[test]
    fn rival_counts_after_its_release_was_undone() {
        let mut members = Members::new("site", 16);
        let mut left = state(1, 1_000);
        left.record.holder_identity.clear();
        members.record("site-7-of-8", &left, 15 * SECOND, SECOND);
        members.record("site-7-of-8", &state(1, 500), 15 * SECOND, 2 * SECOND);
        assert_eq!(members.rivals_until(2 * SECOND), Some(17 * SECOND));
    }

    /// The watch may deliver the last renewal of the previous lease object late.
    #[test]
    fn rival_counts_after_its_expired_lease_was_replaced() {
        let mut members = Members::new("site", 16);
        members.record("site-7-of-8", &state(1, 1_000), 15 * SECOND, SECOND);
        let mut vacant = state(1, 2_000);
        vacant.version.uid = "restored".into();
        vacant.record.holder_identity.clear();
        vacant.record.lease_duration_seconds = 1;
        members.record("site-7-of-8", &vacant, 15 * SECOND, 20 * SECOND);
        assert_eq!(members.rivals_until(20 * SECOND), Some(35 * SECOND));
        assert_eq!(members.next_expiry(20 * SECOND), Some(21 * SECOND));
        assert_eq!(members.next_expiry(21 * SECOND), Some(35 * SECOND));
        // Both the previous and the new object have no holder.
        vacant.version.uid = "again".into();
        members.record("site-7-of-8", &vacant, 15 * SECOND, 22 * SECOND);
        assert_eq!(members.rivals_until(22 * SECOND), Some(35 * SECOND));
    }

    #[test]
    fn replica_with_other_shard_count_is_a_rival() {
        let mut members = members(1);
        members.record("site-member-1-of-8", &state(1, 1), 15 * SECOND, SECOND);
        members.record("site-7-of-16", &state(1, 1), 15 * SECOND, SECOND);
        members.record("other-7-of-8", &state(1, 1), 15 * SECOND, SECOND);
        members.record("site-x-of-8", &state(1, 1), 15 * SECOND, SECOND);
        assert_eq!(owners(&members, &[0], 100, SECOND), [0; 100]);
        assert_eq!(members.rivals_until(SECOND), None);
        members.record("site-7-of-8", &state(1, 1), 15 * SECOND, SECOND);
        members.record("site-3-of-32", &state(2, 1), 15 * SECOND, 2 * SECOND);
        assert_eq!(members.rivals_until(SECOND), Some(17 * SECOND));
        let mut left = state(2, 2);
        left.record.holder_identity.clear();
        members.record("site-3-of-32", &left, 15 * SECOND, 3 * SECOND);
        assert_eq!(members.rivals_until(3 * SECOND), Some(16 * SECOND));
        // The name of this lease lacks the number of shards, as in older versions of this crate.
        members.record("site-5", &state(2, 1), 15 * SECOND, 2 * SECOND);
        assert_eq!(members.rivals_until(3 * SECOND), Some(17 * SECOND));
        members.record("site-5", &left, 15 * SECOND, 3 * SECOND);
        assert_eq!(members.rivals_until(3 * SECOND), Some(16 * SECOND));
        // The holder of the deleted lease may continue to work for some time.
        members.is_gone("site-7-of-8", 15 * SECOND, 10 * SECOND);
        assert_eq!((members.rivals_until(24 * SECOND), members.rivals_until(25 * SECOND)), (Some(25 * SECOND), None));
        members.is_gone("site-7-of-8", 15 * SECOND, 400 * SECOND);
        assert!(!members.knows("site-7-of-8"));
    }

    #[test]
    fn deferral_grows_with_rank() {
        let live = members(4).live(SECOND);
        let rank = |index: usize| preference(&live, &format!("host-{index}_x"), 7, SECOND);
        let mut ranks: Vec<_> = (0..4).map(rank).collect();
        ranks.sort_by_key(|preference| preference.defer);
        assert_eq!(ranks.iter().map(|rank| rank.defer.as_secs()).collect::<Vec<_>>(), [0, 1, 2, 3]);
        // The first replica yields to no replica, and all other replicas yield to the same one.
        assert_eq!(ranks[0].yield_to, None);
        assert!(ranks[1].yield_to.is_some() && ranks[1..].iter().all(|rank| rank.yield_to == ranks[1].yield_to));
    }
}
