//! Observes the lock of a leader election, and reports leaders, times without a leader, and unsafe events.
//!
//! The contenders can be programs in any language. The auditor only reads and watches the lock.
//!
//! ```
//! use pintle_leaderelect::Lock;
//! use pintle_lock_audit::LockAuditor;
//! use tokio_util::sync::CancellationToken;
//!
//! /// Works with a lock of any kind, for example a `ResourceLock`.
//! async fn observe(lock: impl Lock, stop: &CancellationToken) {
//!     let seen = LockAuditor::new(lock).run(stop, |finding| println!("{finding}")).await;
//!     println!("{} terms, {} unsafe findings", seen.terms, seen.unsafe_findings);
//! }
//! ```
//!
//! # Overview
//!
//! - A [`LockAuditor`] reads and watches a lock of any kind, and reports each [`Finding`].
//! - An [`Audit`] makes all decisions of the auditor, as a state machine without I/O. An [`AuditSummary`] contains its totals.

mod audit;
mod auditor;
mod finding;

pub use audit::{Audit, AuditSummary};
pub use auditor::LockAuditor;
pub use finding::{AuditedEnd, Finding};

// The examples of the README run as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
