//! Operators: a manager, controllers with a context, and the probes, metrics and signal handling that a pod needs.
//!
//! Most programs use this crate directly. This crate is built on [`pintle_controller`]. The README has a complete
//! operator. The following operator is smaller:
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use pintle_meta::ObjectMeta;
//! use pintle_operator::{Action, Context, Controller, Manager, Result};
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Deserialize, Serialize)]
//! struct ConfigMap {
//!     metadata: ObjectMeta,
//! }
//! pintle_meta::resource!(ConfigMap, "v1", "ConfigMap", "configmaps", Namespaced);
//!
//! async fn audit(map: Arc<ConfigMap>, _cx: Context<ConfigMap>) -> Result<Action> {
//!     println!("{} exists", map.metadata.name);
//!     Ok(Action::await_change())
//! }
//!
//! #[tokio::main]
//! async fn main() -> Result<()> {
//!     let controller = Controller::<ConfigMap>::new().reconcile(audit);
//!     Manager::infer("auditor")?.controller(controller).run_until_signal().await
//! }
//! ```
//!
//! # Main types
//!
//! - A [`Controller`] reconciles objects of one kind. The controller needs no cluster until a manager runs it.
//! - A [`Context`] provides cached reads, writes, conditions and Events to a reconciliation.
//! - A [`Manager`] connects to a cluster, installs CustomResourceDefinitions, and runs the controllers under leader
//!   election. The manager serves health, readiness and metrics, and stops on a signal. It also runs
//!   [controllers of other clusters](Manager::controller_in), and controllers whose objects are
//!   [divided among the replicas](Manager::sharded).
//! - [`Manager::status`] explains why a key is queued, and counts the keys of each queue.
//!
//! # Guarantees
//!
//! - [`Context::apply`] sends no request if the object is the same as in the last apply of this leadership term, and
//!   the cached object still has all applied fields.
//! - Reads through the context include the writes of the same controller, before the watch delivers them.
//! - A replica never replaces the CustomResourceDefinition of a newer build: see [`Manager::install`].
//! - A write through the context is sent only while this replica leads. If the leadership term ends, a write in flight
//!   is dropped.
//! - [`Context::apply_status`] applies only the conditions of its own field manager. It never reverts the condition of
//!   another writer to an old value.
//! - The finalizer of a controller is stored before its reconciler is called, and is removed after the cleanup is complete.
//! - Stopping takes at most the [shutdown timeout](Manager::shutdown_timeout). If this time is exceeded, the error of
//!   the manager names the unfinished keys.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod applied;
mod bound;
mod caches;
mod configuration;
mod contention;
mod context;
mod controller;
mod debug;
mod error;
mod install;
mod leader_service;
mod logging;
mod manager;
mod names;
mod own_conditions;
mod reconciler;
mod serve;
mod shared;
mod signal;

pub use context::Context;
pub use controller::{Controller, ControllerBuilder, FinishedController};
pub use error::OperatorError;
pub use logging::init_tracing;
pub use manager::Manager;
pub use pintle_controller::{Action, Cleanup, Concurrency, ReconcileError};
pub use reconciler::{ReconcileFuture, Reconciler};

/// The result type of reconcilers, and of a program's `main`. The `?` operator converts every error.
pub type Result<T, E = ReconcileError> = std::result::Result<T, E>;

// Runs the example of the README as a doc test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
