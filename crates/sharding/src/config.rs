//! The configuration of shards.

use pintle_leaderelect::LeaseGroupConfig;

/// The label on all leases of [`Shards`](crate::Shards), with the name of the [`Shards`](crate::Shards) as its value.
pub const SHARDS_LABEL: &str = "pintle-shards";

/// Configuration of [`Shards`](crate::Shards).
#[derive(Clone, Debug)]
pub struct ShardsConfig {
    /// The number of shards, by default 16. The work is distributed more evenly if there are several shards per
    /// replica. With 4 shards per replica, the replica with the most work has about twice the average. With 16 shards
    /// per replica, this maximum is 1.3 times the average for 10 replicas, and 1.8 times the average for 100 replicas.
    /// Each shard costs one request per `retry_period`. A rollout can change the number of shards. Replicas with the
    /// old number of shards and replicas with the new number do not work at the same time. Replicas with the new number
    /// wait until no replica with the old number leads a shard.
    ///
    /// A program with another number of shards uses other leases, so its [fencing tokens](pintle_leaderelect::Token)
    /// cannot be compared with the tokens of this program. If a program stamps objects with fencing tokens, remove all stamps after changing this
    /// number, and also after rolling the change back.
    pub shards: u32,
    /// The configuration of the electors. All leases also have the label [`SHARDS_LABEL`]. Replicas select leases only
    /// by this label. Other labels may have different values in different replicas. If replicas have different values
    /// for a label, each lease has the value of the replica that wrote it last.
    pub electors: LeaseGroupConfig,
}

impl Default for ShardsConfig {
    fn default() -> Self {
        Self { shards: 16, electors: LeaseGroupConfig::default() }
    }
}
