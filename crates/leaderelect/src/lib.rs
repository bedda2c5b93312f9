//! Leader election with a Lease, where leadership is a guard with a deadline.
//!
//! The elector releases the lock only after the leader's work has ended.
//!
//! ```
//! use std::time::Duration;
//!
//! use pintle_leaderelect::{LeaderCallbacks, LeaderElectionConfig, LeaderElector, Lease, LeaseLock};
//! use pintle_meta::{ListWatch, ObjectApi};
//! use tokio_util::sync::CancellationToken;
//!
//! async fn lead<A>(leases: A, stop: CancellationToken) -> Result<(), Box<dyn std::error::Error>>
//! where
//!     A: ObjectApi<Lease> + ListWatch<Object = Lease>,
//! {
//!     let lock = LeaseLock::new(leases, "kube-system", "website-controller");
//!     let mut elector = LeaderElector::new(lock, LeaderElectionConfig::default())?;
//!     let work = LeaderCallbacks::new(async |leadership| {
//!         while !leadership.is_cancelled() {
//!             // Work for only one replica. It is dropped at an await point when the term is over.
//!             tokio::time::sleep(Duration::from_secs(1)).await;
//!         }
//!     });
//!     let callbacks = LeaderCallbacks { on_new_leader: Box::new(|identity| println!("{identity} leads")), ..work };
//!     elector.run(&stop, callbacks).await;
//!     Ok(())
//! }
//! ```
//!
//! # Concepts
//!
//! - A [`LeaderElector`] contends for a [`Lock`], which stores a [`LeaderElectionRecord`]. A [`LeaseGroup`] contends
//!   for many leases with one task, at most one watch and one client.
//! - A [`LeaseLock`] is the most common lock. An [`AnnotationLock`] is for clusters and programs without Leases. A
//!   [`MultiLock`] migrates from an annotation to a Lease. A [`ResourceLock`] is one of these locks, selected by its
//!   [kind](LockKind).
//! - A [`Candidate`] takes part in a coordinated election, where the control plane chooses the leader.
//! - [`Leadership`] is the right to act as the leader until a [`Deadline`], and a [`Permit`] is the right to perform
//!   one action. A [`Term`] is one period of leadership, and a [`TermEnd`] describes its end. Fencing [`Token`]s show
//!   which of two terms began later.
//! - The elector calls the functions in [`LeaderCallbacks`] and reports [`LeaderEvent`]s. An [`ElectionStatus`] shows
//!   the state of an election, for example in health checks. [`LeaderElectionConfig::metrics`] sets the metrics
//!   provider.
//! - A state machine makes all decisions, without I/O.
//!
//! # Guarantees and limits
//!
//! Two electors with different identities never work at the same time if the rates of their clocks differ by a factor
//! of less than `lease_duration / renew_deadline` (1.5 by default). Offsets between the clocks do not matter. In this
//! guarantee, work is any code that runs [inside](Leadership::run) a leadership or holds a
//! [permit](Leadership::permit), in any task or thread.
//!
//! The deadline is measured from the moment when the last successful renewal was *sent*. The deadline is extended when
//! the response to a renewal arrives. The deadline has passed as soon as any of the three [clocks](Now) reaches it.
//! When a machine wakes up after a long suspend, the term is already over. For a virtual machine that resumes after a
//! long pause, the term is over once the time of day is corrected.
//!
//! In a [coordinated](LeaderElectionConfig::coordinated) election, the control plane uses its wall clock to decide
//! whether a lease has expired. In a coordinated election, the wall clocks of all machines must also be roughly in
//! sync.
//!
//! The holder of a deleted lock stops working less than `renew_deadline` after the deletion. A candidate that has
//! observed the lock waits for a lease duration after it has noticed the deletion. A new candidate that finds no lock
//! leads immediately.
//!
//! An election cannot prevent delayed requests. A server may execute a request after the sender's term has ended,
//! because the request was delayed or because the sender was frozen after it had checked its leadership. To reject
//! delayed requests, the resource must compare [fencing tokens](Leadership::token). Two leaders can also be active at
//! the same time if the lock is deleted or edited manually, or if two processes share an identity.

#[doc(hidden)]
pub mod __private;
mod annotation;
mod callbacks;
mod candidate;
mod clocks;
mod config;
mod elector;
mod electors;
mod leadership;
mod lease;
mod lock;
mod machine;
mod metrics;
mod multi;
mod record;
mod resource_lock;
mod shell;
mod status;
mod term;
mod token;
mod watching;

pub use annotation::{AnnotationLock, LEADER_ANNOTATION};
pub use callbacks::{LeaderCallbacks, LeaderEvent, LeaderEventKind, StoppedHook};
pub use candidate::{Candidate, LeaseCandidate, LeaseCandidateSpec, OLDEST_EMULATION_VERSION};
pub use clocks::{Clocks, Deadline, Now, SystemClocks};
pub use config::{InvalidConfig, LeaderElectionConfig, Observers, unique_identity};
pub use elector::LeaderElector;
pub use electors::{LeaseGroup, LeaseGroupConfig};
pub use leadership::{Leadership, LeadershipLost, Permit};
pub use lease::{Lease, LeaseSpec};
pub use lock::{LeaseLock, Lock, LockEvent, LockEvents, LockSnapshot};
pub use multi::{MultiLock, UNKNOWN_LEADER};
pub use record::{LeaderElectionRecord, LockState, TimePrecision, Version};
pub use resource_lock::{LockKind, LockObject, ResourceLock, UnknownLockKind};
pub use status::{ElectionStatus, LockUnavailable, RenewalOverdue};
pub use term::{EndReason, Term, TermEnd};
pub use token::{InvalidToken, StaleToken, TOKEN_ANNOTATION, Token};

// Runs the examples in the README as doc tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
