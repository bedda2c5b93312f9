//! Observes the lock of a leader election, and reports leaders, periods without a leader, and unsafe events.
//!
//! The contenders can be written in any language. The auditor only reads and watches the lock.
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
//! - An [`Audit`] is the state machine that makes all decisions of the auditor, without I/O. An [`AuditSummary`]
//!   contains the totals of an audit.

mod audit;
mod auditor;
mod finding;

pub use audit::{Audit, AuditSummary};
pub use auditor::LockAuditor;
pub use finding::{AuditedEnd, Finding};

// Runs the examples in the README as doc tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
