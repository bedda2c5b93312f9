//! The observable state of shards.

use super::Shard;
use crate::ElectionStatus;

/// The state of the elections of [`Shards`](crate::Shards), for status pages. The status is only for information: work
/// must check its [`Leadership`](crate::Leadership) instead. The status can be read while the shards run, and after
/// they have ended.
#[derive(Clone, Debug)]
pub struct ShardsStatus {
    pub(super) name: String,
    pub(super) member: ElectionStatus,
    pub(super) shards: Vec<(Shard, ElectionStatus)>,
}

impl ShardsStatus {
    /// Returns the name of the set of shards.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the state of the election for this replica's membership lease. No other replica contends for this lease.
    pub fn member(&self) -> &ElectionStatus {
        &self.member
    }

    /// Returns all shards in order, each with the state of its election.
    pub fn shards(&self) -> &[(Shard, ElectionStatus)] {
        &self.shards
    }
}
