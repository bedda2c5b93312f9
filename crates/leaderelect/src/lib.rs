//! Leader election on a Lease, in which leadership is a guard with a deadline.
//!
//! The elector releases the lock only after the work of the leadership term has ended.
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
//!   for many leases but needs only one task, one watch and one client. [`Shards`] divide the work between replicas.
//! - The most common lock is a [`LeaseLock`]. An [`AnnotationLock`] is for clusters and programs that do not use
//!   Leases. A [`MultiLock`] is for the migration from an annotation to a Lease. A [`ResourceLock`] is one of these
//!   locks, chosen by the name of its [kind](LockKind).
//! - A [`Candidate`] takes part in a coordinated election, in which the control plane chooses the leader.
//! - [`Leadership`] is the right to act until a [`Deadline`], and a [`Permit`] is the right to perform one action. A
//!   [`Term`] is one period of leadership, and a [`TermEnd`] describes its end. A fencing [`Token`] orders terms.
//! - The elector calls the functions in [`LeaderCallbacks`] and reports [`LeaderEvent`]s. An [`ElectionStatus`] shows
//!   the state of an election, for example to health checks. Metrics are reported to [`LeaderElectionConfig::metrics`].
//! - [`machine::Machine`] makes all decisions and does no I/O.
//! - A [`LockAuditor`] observes a lock and reports unsafe events.
//!
//! # What is guaranteed, and what is not
//!
//! The work of two electors with different identities does not overlap if their clocks run at similar rates. The rates
//! must differ by a factor of less than `lease_duration / renew_deadline` (1.5 by default). Clock offsets do not
//! matter. The deadline is computed from the time when the elector *sent* the last renewal that the lock stored. While
//! the response to a renewal is pending, the renewal does not extend the deadline. In this guarantee, work means code
//! that runs [inside](Leadership::run) a leadership or holds a [permit](Leadership::permit), in any task or thread. The
//! deadline has passed when any of the three [clocks](Now) reaches it. As a result, the leadership term is already over
//! when a machine wakes from a long suspend. The leadership term is also over after a paused virtual machine resumes
//! and its time of day is corrected.
//!
//! In a [coordinated](LeaderElectionConfig::coordinated) election, the control plane decides whether a lease has
//! expired. The decision is based on the time of day. In a coordinated election, the clocks of the machines must
//! therefore also show similar times.
//!
//! If a held lock is deleted, its holder continues to work for less than `renew_deadline`. A candidate that has
//! observed the lock waits for a lease duration after it has observed the deletion. A new candidate that finds no lock
//! does not wait before it leads.
//!
//! A lock cannot reject requests that arrive after a leadership term has ended. The server may still execute a request
//! that was sent before the end of the leadership term. The server may also execute a request of a process that was
//! frozen after it had checked its leadership. To reject such requests, the resource must compare [fencing
//! tokens](Leadership::token). If the lock is deleted or written manually, or if two processes have the same identity,
//! two leaders can work at the same time.

mod annotation;
mod audit;
mod auditor;
mod callbacks;
mod candidate;
mod caught;
mod clocks;
mod config;
mod elector;
mod electors;
mod leadership;
mod lease;
mod lock;
pub mod machine;
mod metrics;
mod multi;
mod record;
mod resource_lock;
mod shards;
mod shell;
mod status;
mod term;
mod token;
mod watching;

pub use annotation::{AnnotationLock, LEADER_ANNOTATION};
pub use audit::{Audit, AuditSummary, AuditedEnd, Finding};
pub use auditor::LockAuditor;
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
pub use shards::{OfShard, SHARDS_LABEL, Shard, Sharded, Shards, ShardsConfig, ShardsStatus};
pub use status::{ElectionStatus, LockUnavailable, RenewalOverdue};
pub use term::{EndReason, Term, TermEnd};
pub use token::{InvalidToken, StaleToken, TOKEN_ANNOTATION, Token};

// The examples of the README run as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
