//! Divides the objects of a program between its replicas, with exactly one replica for each object.
//!
//! ```
//! use pintle_leaderelect::{InvalidConfig, Leadership, Lease};
//! use pintle_meta::{DynamicObject, ListWatch, ObjectApi};
//! use pintle_sharding::{Shard, Sharded, Shards, ShardsConfig};
//! use tokio_util::sync::CancellationToken;
//!
//! async fn work<A, P>(leases: A, pods: P, stop: &CancellationToken) -> Result<(), InvalidConfig>
//! where
//!     A: ObjectApi<Lease> + ListWatch<Object = Lease> + Clone,
//!     P: ListWatch<Object = DynamicObject> + Clone,
//! {
//!     let mut shards = Shards::start(leases, "kube-system", "website-controller", ShardsConfig::default())?;
//!     let work = async |shard: Shard, leadership: Leadership| {
//!         // An informer with this source sees only the objects of the shard.
//!         let source = Sharded { source: pods.clone(), shard };
//!         # drop(source);
//!         leadership.cancelled().await;
//!     };
//!     shards.run(stop, work).await;
//!     Ok(())
//! }
//! ```
//!
//! # Overview
//!
//! - A [`Shards`] value represents one replica. Each replica contends for all shards, and works on the shards that it
//!   leads. See [`Shards`] for the guarantees.
//! - A [`Shard`] contains all objects whose hashes are in a certain range. Each object belongs to exactly one shard.
//! - A [`Sharded`] source lists and watches only the objects of one shard.
//! - A [`ShardsStatus`] shows the state of all elections, for example in health checks.
//!
//! `pintle-leaderelect` runs the elections. Each shard has a Lease, and the work on a shard gets the
//! [`Leadership`](pintle_leaderelect::Leadership) of this Lease.

mod config;
mod contender;
mod fleet;
mod members;
mod rivals;
mod shard;
mod sharded;
mod shards;
mod status;

pub use config::{SHARDS_LABEL, ShardsConfig};
pub use shard::Shard;
pub use sharded::{OfShard, Sharded};
pub use shards::Shards;
pub use status::ShardsStatus;

// Runs the examples in the README as doc tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
