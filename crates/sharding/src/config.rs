//! The configuration of shards.

use pintle_leaderelect::LeaseGroupConfig;

/// The label that each lease of [`Shards`](crate::Shards) has. The value of the label is the name of the [`Shards`](crate::Shards).
pub const SHARDS_LABEL: &str = "pintle-shards";

/// Configuration of [`Shards`](crate::Shards).
#[derive(Clone, Debug)]
pub struct ShardsConfig {
    /// The number of shards. Default: 16. If each replica has several shards, the work is distributed more evenly. With 4
    /// shards for each replica, the largest share is about twice the average, and with 16 shards, it is 1.3 times the
    /// average for 10 replicas and 1.8 times for 100. Each shard costs a request for each `retry_period`. A
    /// rollout may change the number of shards. Replicas with the old number and replicas with the new number never
    /// work at the same time. The new replicas wait until no replica with the old number leads a shard.
    pub shards: u32,
    /// The configuration of the electors. All leases also have the label [`SHARDS_LABEL`], and only this label is used
    /// to select the leases. Replicas may use different values for the other labels. If the values differ, a lease has
    /// the values of the replica that wrote the lease last.
    pub electors: LeaseGroupConfig,
}

impl Default for ShardsConfig {
    fn default() -> Self {
        Self { shards: 16, electors: LeaseGroupConfig::default() }
    }
}
