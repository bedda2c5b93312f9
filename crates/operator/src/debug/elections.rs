//! The leases and shards in `/debug.json`.

use pintle_leaderelect::ElectionStatus;
use pintle_sharding::ShardsStatus;

use super::document::{Lease, MOST, Shard, Shards, of_most};
use super::text::{seconds, shortened};

pub(super) fn lease(election: &ElectionStatus) -> Lease {
    let left = election.leadership().and_then(|leadership| leadership.check().ok());
    Lease {
        lease: shortened(election.lock().as_str()),
        holder: election.leader().as_deref().map(shortened),
        is_leader: left.is_some(),
        seconds_left: left.map(seconds),
        last_error: election.last_error().as_deref().map(shortened),
    }
}

/// Returns the shards of all groups, and the number of omitted shards.
pub(super) fn shards(groups: &[ShardsStatus]) -> (Vec<Shards>, usize) {
    let mut left = 4 * MOST;
    let shown = of_most(groups, |group| {
        let shown = group
            .shards()
            .iter()
            .take(left)
            .map(|(shard, election)| Shard { index: shard.index(), lease: lease(election) });
        let shards: Vec<_> = shown.collect();
        left -= shards.len();
        Shards { name: shortened(group.name()), member: lease(group.member()), shards }
    });
    let total: usize = groups.iter().map(|group| group.shards().len()).sum();
    let listed: usize = shown.iter().map(|group| group.shards.len()).sum();
    (shown, total - listed)
}
