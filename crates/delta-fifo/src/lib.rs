//! A queue of keyed changes, and the store contracts around it.
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
//! // One key at a time, with everything that happened to it.
//! let popped = fifo.pop().expect("two keys wait");
//! assert_eq!((popped.key, popped.is_in_initial_list), ("a", true));
//! assert_eq!(popped.deltas.oldest(), &Delta::Replaced(Pod { name: "a", phase: "Pending" }));
//! assert_eq!(popped.deltas.newest(), &Delta::Updated(Pod { name: "a", phase: "Running" }));
//! assert!(!fifo.has_synced());
//!
//! let popped = fifo.pop().expect("one key waits");
//! let deleted = DeletedObject::Observed(Pod { name: "b", phase: "Failed" });
//! assert_eq!(popped.deltas.newest(), &Delta::Deleted(deleted));
//! assert!(fifo.has_synced());
//! # Ok::<(), pintle_delta_fifo::StoreError>(())
//! ```
//!
//! # Nouns
//!
//! - A [`Delta`] is one change of one object; [`Deltas`] are all that wait for one key, oldest first.
//! - A [`DeletedFinalStateUnknown`] is a tombstone: the object is gone, and its last state was not seen.
//! - A [`DeltaFifo`] keeps each change, grouped by key. A [`RealFifo`] keeps each change in order. A [`CoalescingFifo`] keeps
//!   [`Change`]s for a listener that may be slow; its [`Delivery`] says what becomes of those that meet in it. A
//!   [`DeltaFifoConfig`] and a [`RealFifoConfig`] say what is to differ from the usual.
//! - *Known objects* are what the consumer holds, which the queue sees as a [`KeyListerGetter`].
//! - A [`MemoryStore`] holds objects by key, with indices over them.
//! - [`Store`], [`Indexer`] and [`Queue`] are the contracts of queues and caches.
//! - A [`BlockingDeltaFifo`] puts a [`DeltaFifo`] between threads.
//!
//! Nothing here knows Kubernetes or a runtime.

mod blocking;
mod coalescing;
mod config;
mod delta;
mod delta_fifo;
mod error;
mod keyed;
mod line;
mod memory_store;
mod real_fifo;
mod store;

pub use blocking::{BlockingDeltaFifo, Guard};
pub use coalescing::{Change, CoalescingFifo, Delivery};
pub use config::{DeltaFifoConfig, RealFifoConfig};
pub use delta::{DeletedFinalStateUnknown, DeletedObject, Delta, DeltaType, Deltas, ZeroLengthDeltas};
pub use delta_fifo::{DeltaFifo, Popped};
pub use error::{BoxError, FifoClosed, KeyError, StoreError};
pub use memory_store::{MemoryStore, Reindex, Replacement};
pub use real_fifo::{Batch, Item, RealFifo};
pub use store::{Indexer, KeyGetter, KeyLister, KeyListerGetter, Queue, Store};

// The examples of the README run as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
