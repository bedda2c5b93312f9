//! Queues for changes to keyed objects, and traits for object stores.
//!
//! ```
//! use pintle_delta_fifo::{DeletedObject, Delta, DeltaFifo, DeltaFifoConfig};
//!
//! #[derive(Clone, Debug, PartialEq)]
//! struct Pod {
//!     name: &'static str,
//!     phase: &'static str,
//! }
//!
//! let config = DeltaFifoConfig { emit_replaced: true, ..DeltaFifoConfig::default() };
//! let mut fifo = DeltaFifo::new(|pod: &Pod| Ok(pod.name), config);
//! fifo.replace(vec![Pod { name: "a", phase: "Pending" }, Pod { name: "b", phase: "Pending" }], "17")?;
//! fifo.update(Pod { name: "a", phase: "Running" })?;
//! fifo.delete(Pod { name: "b", phase: "Failed" })?;
//!
//! // Pop one key with all its changes.
//! let popped = fifo.pop().expect("two keys wait");
//! assert_eq!((popped.key, popped.is_in_initial_list), ("a", true));
//! assert_eq!(popped.deltas.oldest(), &Delta::Replaced(Pod { name: "a", phase: "Pending" }));
//! assert_eq!(popped.deltas.newest(), &Delta::Updated(Pod { name: "a", phase: "Running" }));
//! assert!(!fifo.has_synced());
//!
//! let popped = fifo.pop().expect("one key waits");
//! let deleted = DeletedObject::Observed(Pod { name: "b", phase: "Failed" });
//! assert_eq!(popped.deltas.newest(), &Delta::Deleted(deleted));
//! fifo.processed();
//! assert!(fifo.has_synced());
//! # Ok::<(), pintle_delta_fifo::StoreError>(())
//! ```
//!
//! # Main types
//!
//! - A [`Delta`] is one change to an object. [`Deltas`] are the queued changes for one key, oldest first.
//! - A [`DeletedFinalStateUnknown`] is a tombstone for a deleted object whose final state was not observed.
//! - A [`DeltaFifo`] keeps each change, grouped by key. A [`RealFifo`] keeps each change in order. A [`LatestFifo`] keeps the latest
//!   object of each key. A [`Heap`] pops the smallest object first. [`DeltaFifoConfig`] and [`RealFifoConfig`] configure `DeltaFifo`
//!   and `RealFifo`.
//! - A [`CoalescingFifo`] queues [`Change`]s for a slow listener. The [`Delivery`] setting of the queue determines how
//!   queued changes are merged.
//! - A [`SharedFifo`] shares any [`Queue`] between threads or tasks, bounds it, and reports its [`FifoMetrics`].
//! - *Known objects* are the objects that the consumer already has. A queue reads the known objects through a
//!   [`KeyListerGetter`].
//! - A [`Store`] keeps objects by key. An [`Indexer`] also finds objects by index. A [`MemoryStore`] is both a store and an indexer.
//!   Objects in an [`ExpirationStore`] expire. An [`UndeltaStore`] passes all its objects to a function after each change.
//! - A [`MutationCache`] keeps the client's own writes until the client's store contains them.
//!
//! The crate does not depend on Kubernetes or an async runtime. A [`Wait`] works with any runtime and without a
//! runtime. Except for `SharedFifo`, no type takes a lock. No type reads a clock: callers pass the current time.

mod budget;
mod coalescing;
mod config;
mod delta;
mod delta_fifo;
mod error;
mod expiration_store;
mod heap;
mod keyed;
mod latest_fifo;
mod line;
mod memory_store;
mod mutation_cache;
mod panic;
mod progress;
mod queue;
mod real_fifo;
mod shared_fifo;
mod store;
mod undelta_store;
mod wait;

pub use coalescing::{Change, CoalescingFifo, Delivery, Overtaken};
pub use config::{DeltaFifoConfig, RealFifoConfig};
pub use delta::{DeletedFinalStateUnknown, DeletedObject, Delta, DeltaType, Deltas, ZeroLengthDeltas};
pub use delta_fifo::{DeltaFifo, Popped};
pub use error::{BoxError, FifoClosed, KeyError, StoreError, TransactionError};
pub use expiration_store::ExpirationStore;
pub use heap::Heap;
pub use latest_fifo::{Latest, LatestFifo};
pub use memory_store::{MemoryStore, Replacement};
pub use mutation_cache::{MutationCache, MutationCacheConfig, ObjectVersion};
pub use queue::Queue;
pub use real_fifo::{Batch, Item, PoppedItem, RealFifo};
pub use shared_fifo::{FifoMetrics, Guard, SharedFifo, SharedFifoConfig, Taken};
pub use store::{Indexer, KeyGetter, KeyLister, KeyListerGetter, Store, Transaction};
pub use undelta_store::UndeltaStore;
pub use wait::Wait;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
