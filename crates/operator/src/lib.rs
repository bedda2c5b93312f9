//! Operators: a manager, controllers with a context, and the probes, metrics and signal handling that a pod needs.
//!
//! Most programs use this crate through the facade crate `pintle`. This crate builds on [`pintle_controller`]. The
//! README shows a complete operator. A smaller operator:
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
//! - A [`Controller`] reconciles objects of one kind. A manager connects the controller to a cluster.
//! - A [`Context`] provides cached reads, writes, conditions and Events to a reconciler.
//! - A [`Manager`] connects to a cluster, installs CustomResourceDefinitions, and runs the controllers under leader
//!   election. The manager serves probes and metrics, and stops on a signal. A manager can also run [controllers in
//!   other clusters](Manager::controller_in), and [divide objects among the replicas](Manager::sharded).
//! - [`Manager::status`] explains why a key is queued, and counts the keys in each queue.
//!
//! # Writers that undo each other
//!
//! If this controller and another writer repeatedly change the same field, a log line and a `FieldContention` Event on the
//! reconciled object name both field managers and the field. For example: "website-controller and kubectl-edit both write
//! .spec.replicas of Deployment team-a/blog: 40 times in the last minute". The controller reports a fight at most once per
//! minute.
//!
//! - [`Context::apply`] and [`Context::apply_status`] count the fields that they take back.
//! - Other writes are detected if they use the controller's [field manager](Context::field_manager). The controller counts
//!   the reconciliations that another writer's change triggers, if the controller itself has changed the same object within
//!   the last minute. At the fifth such reconciliation in a minute, the controller reads the object before and after the
//!   reconciliation. It reports the fields that this reconciliation takes from the other writer. If two writers change only
//!   different fields, the controller reports nothing.
//! - Not detected outside of `apply`: a writer that removes fields, deletes the object, or uses the subresource `scale`
//!   ([`ResourceEvent::writer`](pintle_informer::ResourceEvent::writer) is `None`), and a fight in which the key had more
//!   than eight other causes since the controller's own change.
//!
//! # Guarantees
//!
//! - [`Context::apply`] sends no request if the object is unchanged since the last apply in this leadership term, and
//!   the cached object still has all applied fields.
//! - Reads through the context include the controller's own writes, even before the watch delivers them. This applies to
//!   the latest 65,536 written objects, and for one minute per write.
//! - A replica never replaces a newer build's CustomResourceDefinition: see [`Manager::install`].
//! - The context sends writes only while this replica leads. When the leadership term ends, writes in flight are
//!   dropped.
//! - [`Context::apply_status`] applies only the conditions of its own field manager. An apply never reverts another
//!   writer's condition to an old value.
//! - A controller's finalizer is stored before the reconciler is called, and removed after the cleanup is complete.
//! - Stopping takes at most the [shutdown timeout](Manager::shutdown_timeout). After this timeout, the manager returns
//!   an error that names the unfinished keys.

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
mod rivals;
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

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
