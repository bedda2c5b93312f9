//! The observable state of shards.

use pintle_leaderelect::ElectionStatus;

use crate::shard::Shard;

/// The state of the elections that belong to [`Shards`](crate::Shards), for status pages. The status is only for
/// information. To decide whether to act, work must check its [`Leadership`](pintle_leaderelect::Leadership). The status can be read
/// while the elections run, and after they have ended.
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

    /// Returns the state of the election for the membership lease of this replica. No other replica contends for the
    /// membership lease. If this replica cannot list the leases of the shards, the [last
    /// error](ElectionStatus::last_error) and the [check](ElectionStatus::check_lock) of this election show the
    /// failure.
    pub fn member(&self) -> &ElectionStatus {
        &self.member
    }

    /// Returns all shards in order, together with the states of their elections.
    pub fn shards(&self) -> &[(Shard, ElectionStatus)] {
        &self.shards
    }
}
