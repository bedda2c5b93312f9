//! The configuration of shards.

use pintle_leaderelect::LeaseGroupConfig;

/// The label on all leases of [`Shards`](crate::Shards), with the name of the [`Shards`](crate::Shards) as its value.
pub const SHARDS_LABEL: &str = "pintle-shards";

/// Configuration of [`Shards`](crate::Shards).
#[derive(Clone, Debug)]
pub struct ShardsConfig {
    /// The number of shards. Default: 16. The work is distributed more evenly if each replica has several shards. With
    /// 4 shards per replica, the largest share is about twice the average. With 16 shards per replica, the largest
    /// share is 1.3 times the average for 10 replicas, and 1.8 times the average for 100 replicas. Each shard costs one
    /// request per `retry_period`. The number of shards can be changed in a rollout. Replicas with the old number and
    /// replicas with the new number never work at the same time. Replicas with the new number wait until no replica
    /// with the old number leads a shard.
    ///
    /// Each number of shards has its own leases, so [fencing tokens](pintle_leaderelect::Token) of different numbers
    /// cannot be compared. If a program stamps objects with fencing tokens, remove all stamps after this number is
    /// changed, and also after the change is rolled back.
    pub shards: u32,
    /// The configuration of the electors. All leases also have the label [`SHARDS_LABEL`]. Replicas select leases by
    /// this label only. The other labels may have different values in different replicas. If the values differ, each
    /// lease has the values of the replica that wrote it last.
    pub electors: LeaseGroupConfig,
}

impl Default for ShardsConfig {
    fn default() -> Self {
        Self { shards: 16, electors: LeaseGroupConfig::default() }
    }
}
