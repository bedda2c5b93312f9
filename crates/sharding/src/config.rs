//! The configuration of shards.

use pintle_leaderelect::LeaseGroupConfig;

/// The label on all leases of [`Shards`](crate::Shards), with the name of the [`Shards`](crate::Shards) as its value.
pub const SHARDS_LABEL: &str = "pintle-shards";

/// The configuration of [`Shards`](crate::Shards).
#[derive(Clone, Debug)]
pub struct ShardsConfig {
    /// The number of shards, by default 16. With more shards per replica, the work is distributed more evenly. With 4
    /// shards per replica, the busiest replica has about twice the average work. With 16 shards per replica, the
    /// busiest replica has 1.3 times the average for 10 replicas, and 1.8 times the average for 100 replicas. Each
    /// shard costs one request per `retry_period`. A rollout can change the number of shards. Replicas with the new
    /// number of shards wait until no replica with the old number leads a shard, so that the old and the new replicas
    /// never work at the same time.
    ///
    /// A program with another number of shards uses other leases, so its [fencing tokens](pintle_leaderelect::Token) cannot be compared
    /// with the tokens of this program. If your program stamps objects with fencing tokens, remove all stamps after changing the number of
    /// shards, and also after rolling the change back.
    pub shards: u32,
    /// The configuration of the electors. All leases also have the label [`SHARDS_LABEL`], which is the only label by
    /// which replicas select leases. Other labels may have different values in different replicas. A label of a lease
    /// then has the value from the replica that last wrote the lease.
    pub electors: LeaseGroupConfig,
}

impl Default for ShardsConfig {
    fn default() -> Self {
        Self { shards: 16, electors: LeaseGroupConfig::default() }
    }
}
