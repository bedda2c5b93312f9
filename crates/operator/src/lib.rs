//! Operators: a manager, controllers with a context, and everything else that a pod needs, such as probes, metrics and
//! signal handling.
//!
//! Most programs use this crate through the `pintle` crate. This crate builds on [`pintle_controller`]. The README
//! contains a complete operator. A smaller operator:
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
//! - A [`Context`] gives a reconciler access to cached reads, writes, conditions and Events.
//! - A [`Manager`] connects to a cluster, installs CustomResourceDefinitions, and runs the controllers under leader
//!   election. The manager also serves probes and metrics, and stops on a signal. A manager can also run [controllers
//!   in other clusters](Manager::controller_in) and [distribute objects among replicas](Manager::sharded).
//! - [`Manager::status`] explains why a key is queued, and returns the number of keys in each queue.
//!
//! # Writers that undo each other
//!
//! If this controller and another writer repeatedly change the same field, a log line and a `FieldContention` Event on
//! the reconciled object name the field and both field managers. An example is "website-controller and kubectl-edit
//! both write .spec.replicas of Deployment team-a/blog: 40 times in the last minute". Each conflict is reported at most
//! once per minute.
//!
//! - [`Context::apply`] and [`Context::apply_status`] count the fields that they revert.
//! - Writes that do not use [`Context::apply`] or [`Context::apply_status`] are detected if they use the controller's
//!   [field manager](Context::field_manager). If this controller has changed an object within the last minute, it
//!   counts the reconciliations that are caused by another writer's change to the same object. On the fifth such
//!   reconciliation in a minute, the controller reads the object before and after the reconciliation. The controller
//!   reports the fields whose ownership the reconciliation takes from the other writer. The controller reports nothing
//!   if the two writers change different fields.
//! - Outside of `apply`, a writer is not detected if it removes fields, deletes the object, or uses the `scale`
//!   subresource ([`ResourceEvent::writer`](pintle_informer::ResourceEvent::writer) is `None`). A conflict is also not
//!   detected if the key has had more than eight other causes since the controller's own change.
//!
//! # Features
//!
//! | feature | what it adds |
//! |---|---|
//! | `webhook` | `Manager::webhooks`, which serves admission and conversion webhooks on every replica |
//!
//! # Guarantees
//!
//! - [`Context::apply`] sends no request if the object equals the last applied object of this leadership term, and the
//!   cached object still has all applied fields.
//! - Reads through the context reflect the controller's own writes, even before the watch delivers them. The guarantee
//!   for reads covers up to 65,536 undelivered writes, and ends one minute after a write.
//! - A replica never replaces the CustomResourceDefinition of a newer build: see [`Manager::install`].
//! - The context sends writes only while this replica is the leader. Writes in flight are dropped when the leadership
//!   term ends.
//! - [`Context::apply_status`] applies only the conditions of the controller's field manager. An apply never resets a
//!   condition of another writer to an old value.
//! - A controller's finalizer is stored before the reconciler is called, and is removed after the cleanup is complete.
//! - A stop takes at most the [shutdown timeout](Manager::shutdown_timeout). After the timeout, the manager returns
//!   an error that names the unfinished keys.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod applied;
mod bound;
mod caches;
mod cleaned_up;
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
mod references;
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
pub use references::{ListFn, Reference};

/// The result type for reconcilers and for `main`. The `?` operator converts any error to this type.
pub type Result<T, E = ReconcileError> = std::result::Result<T, E>;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
