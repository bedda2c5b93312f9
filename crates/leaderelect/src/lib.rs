//! Leader election on a Lease: leadership is a guard with a deadline, drained before it is released.
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
//!             // What only one replica may do. It is dropped, at whatever await it is, when the term is over.
//!             tokio::time::sleep(Duration::from_secs(1)).await;
//!         }
//!     });
//!     let callbacks = LeaderCallbacks { on_new_leader: Box::new(|identity| println!("{identity} leads")), ..work };
//!     elector.run(&stop, callbacks).await;
//!     Ok(())
//! }
//! ```
//!
//! # Nouns
//!
//! - A [`LeaderElector`] contends for a [`Lock`], which holds a [`LeaderElectionRecord`]. [`LeaseGroup`] contend for many with one
//!   task, one watch and one client; [`Shards`] are shared by replicas, each with its own. Use a [`LeaseLock`]; an
//!   [`AnnotationLock`] is for clusters and programs from before there were leases, and a [`MultiLock`] leads from there to here.
//!   A [`ResourceLock`] is any of them, by the name of its [kind](LockKind).
//! - A [`Candidate`] stands in an election in which the control plane chooses.
//! - [`Leadership`] is the right to act, until a [`Deadline`], and a [`Permit`] the right to do one thing; a [`Term`] is one stretch
//!   of it, and a [`TermEnd`] says how that ended. A [`Token`] tells terms apart for those who are acted upon.
//! - [`LeaderCallbacks`] are what the elector calls, [`LeaderEvent`]s what it reports for people; [`ElectionStatus`] is what
//!   others may ask. The metrics go where [`LeaderElectionConfig::metrics`] says.
//! - [`machine::Machine`] decides everything, and does nothing.
//! - A [`LockAuditor`] looks on at a lock, whoever contends for it, and tells what cannot be safe.
//!
//! # What is guaranteed, and what is not
//!
//! The work of two electors of different identity does not overlap, as long as their clocks' rates differ by less than
//! `lease_duration / renew_deadline` (1.5 by default); offsets do not matter. The deadline counts from the moment at which the
//! last stored renewal was *sent*, and no request can delay it. Work is what runs [inside](Leadership::run) a leadership or
//! has a [permit](Leadership::permit), in whichever task or thread. Of three [clocks](Now), the one counts that leaves the least, so
//! a machine that was suspended, or a virtual one that was paused and has its time of day again, finds its term over.
//!
//! In a [coordinated](LeaderElectionConfig::coordinated) election the control plane says when a lease has expired, by the time of day,
//! so there offsets matter, too.
//!
//! When a lock is deleted that is held, its holder works for less than `renew_deadline` after that, and a candidate that had seen
//! the lock takes it no sooner than a lease duration after it knows. One that comes anew, and finds nothing, does not wait.
//!
//! A lock does not fence: a request that was sent before the term ended may still be done, and so may one of a process that
//! was frozen between its check and its send. To stop these, let the resource compare [tokens](Leadership::token). Deleting
//! the lock, writing it by hand, or giving two processes one identity breaks the exclusion.

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
pub use shards::{OfShard, SHARDS_LABEL, Shard, Sharded, Shards, ShardsConfig};
pub use status::{ElectionStatus, RenewalOverdue};
pub use term::{EndReason, Term, TermEnd};
pub use token::{InvalidToken, StaleToken, TOKEN_ANNOTATION, Token};

// The examples of the README run as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
