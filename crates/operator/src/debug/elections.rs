//! The leases and shards in `/debug.json`.

use pintle_leaderelect::ElectionStatus;
use pintle_sharding::ShardsStatus;
use serde_json::{Value, json};

use super::parts::{MOST, of_most};
use super::text::{seconds, shortened};

/// Returns a lease. An empty `holder` means that no replica holds the lease, and null means that the lease has not been
/// read yet.
pub(super) fn lease(election: &ElectionStatus) -> Value {
    let left = election.leadership().and_then(|leadership| leadership.check().ok());
    json!({
        "lease": shortened(election.lock().as_str()),
        "holder": election.leader().as_deref().map(shortened),
        "is_leader": left.is_some(),
        "seconds_left": left.map(seconds),
        "last_error": election.last_error().as_deref().map(shortened),
    })
}

/// Returns the shards of all groups, and the number of omitted shards.
pub(super) fn shards(groups: &[ShardsStatus]) -> (Vec<Value>, usize) {
    const LIMIT: usize = 4 * MOST;
    let mut left = LIMIT;
    let shown = of_most(groups, |group| {
        let listed = group.shards().iter().take(left);
        let shards: Vec<_> = listed
            .map(|(shard, election)| {
                let mut lease = lease(election);
                lease["index"] = shard.index().into();
                lease
            })
            .collect();
        left -= shards.len();
        json!({"name": shortened(group.name()), "member": lease(group.member()), "shards": shards})
    });
    let total: usize = groups.iter().map(|group| group.shards().len()).sum();
    (shown, total - (LIMIT - left))
}
