//! The observable state of a program's shards.

use pintle_leaderelect::ElectionStatus;

use crate::shard::Shard;

/// The state of the elections of [`Shards`](crate::Shards), for status pages. Do not use this status to decide whether
/// a replica may act: check the [`Leadership`](pintle_leaderelect::Leadership) instead. The status is readable while
/// the elections are running and after they have ended.
#[derive(Clone, Debug)]
pub struct ShardsStatus {
    pub(crate) name: String,
    pub(crate) member: ElectionStatus,
    pub(crate) shards: Vec<(Shard, ElectionStatus)>,
}

impl ShardsStatus {
    /// Returns the name of the [`Shards`](crate::Shards).
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the state of the election for the membership lease of this replica. Only this replica contends for its
    /// membership lease. If this replica cannot list the leases of the shards, the [last
    /// error](ElectionStatus::last_error) and the [check](ElectionStatus::check_lock) of this election report the
    /// failure.
    pub fn member(&self) -> &ElectionStatus {
        &self.member
    }

    /// Returns the state of the election for each shard, in order.
    pub fn shards(&self) -> &[(Shard, ElectionStatus)] {
        &self.shards
    }
}
