//! Controllers: sources, handlers and predicates feed a queue, workers call the reconciler, and a manager starts and stops
//! all components.
//!
//! ```
//! use std::time::Duration;
//!
//! use pintle_controller::{Action, Controller, ControllerConfig, Kind, ReconcileRequest, predicate::GenerationChanged};
//! use pintle_informer::{InformerConfig, SharedInformer};
//! use pintle_meta::ObjectMeta;
//! use pintle_testing::Collection;
//! use serde::{Deserialize, Serialize};
//! use tokio_util::sync::CancellationToken;
//!
//! #[derive(Deserialize, Serialize)]
//! struct Website {
//!     metadata: ObjectMeta,
//! }
//! pintle_meta::resource!(Website, "example.com/v1", "Website", "websites", Namespaced);
//!
//! #[derive(Deserialize, Serialize)]
//! struct Deployment {
//!     metadata: ObjectMeta,
//! }
//! pintle_meta::resource!(Deployment, "apps/v1", "Deployment", "deployments", Namespaced);
//!
//! #[tokio::main(flavor = "current_thread")]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     // An informer needs an `ObjectSource`: a handle of a REST client, or objects in memory.
//!     let websites = Collection::from([Website { metadata: ObjectMeta::new("team-a", "blog") }]);
//!     let sites = SharedInformer::new(websites, InformerConfig::default());
//!     let deployments = SharedInformer::new(Collection::<Deployment>::default(), InformerConfig::default());
//!
//!     let stop = CancellationToken::new();
//!     let (lister, done) = (sites.lister(), stop.clone());
//!     let controller = Controller::of(Kind::of(&sites).when(GenerationChanged))
//!         .owns(&deployments)
//!         .config(ControllerConfig { max_concurrent_reconciles: 4, ..ControllerConfig::default() })
//!         .reconciler(move |request: ReconcileRequest| {
//!             let (lister, done) = (lister.clone(), done.clone());
//!             async move {
//!                 let Some(site) = lister.get(&request.key) else {
//!                     return Ok(Action::await_change()); // The object was deleted.
//!                 };
//!                 println!("{} needs a deployment", site.metadata.name);
//!                 done.cancel();
//!                 Ok(Action::requeue_after(Duration::from_secs(600)))
//!             }
//!         });
//!     controller.run(&stop).await?;
//!     Ok(())
//! }
//! ```
//!
//! # Concepts
//!
//! This crate uses controller-runtime's names.
//!
//! - A [`Controller`] calls a [`Reconciler`] with a [`ReconcileRequest`] for each key. The reconciler returns an
//!   [`Action`] or a [`ReconcileError`]. [`ControllerConfig`] sets the concurrency, timeouts and backoff.
//! - A key is usually the [`ObjectKey`](pintle_meta::ObjectKey) of an object. To reconcile several objects together,
//!   use another key type: see [`RequestKey`]. For a controller without objects, use [`Controller::singleton`].
//! - A [`Source`] adds keys to the queue. A [`Kind`] adds keys for the objects of an informer. A [`Trigger`] adds keys
//!   from the program. An [`Every`] adds keys periodically. A [`Predicate`](predicate::Predicate) selects events, and a
//!   [`Handler`] maps events to keys.
//! - A [`Finalizer`] blocks the deletion of objects until the controller has cleaned up after them.
//! - A [`Manager`] runs controllers together with their informers and services, and supports leader election.
//!   [`ManagerStatus`] provides health checks for probes.
//! - [`Controller::explain`] explains why a key is queued, delayed or in flight, and which field manager caused each
//!   change.
//! - [`ControllerConfig::metrics`] sets the metrics provider. The metrics have the same names as in controller-runtime
//!   and client-go.
//!
//! # Guarantees
//!
//! - Reconciliations of the same key never overlap. If a key changes during its reconciliation, the key is reconciled
//!   again afterwards.
//! - The first reconciliation starts after the caches of all sources have synced.
//! - Changed objects are processed before the objects of an initial list. Apart from the precedence of changed objects,
//!   keys are processed in first-in, first-out order, and no key starves.
//! - The controller also reconciles a deleted object's key if the object was deleted while the watch was disconnected.
//!   For a deletion that happens while no replica is the leader, this guarantee requires that a standby or an earlier
//!   run of the controller has received the object.
//! - An error, a panic or a timeout affects only the current reconciliation of one key. Each key has its own backoff,
//!   which increases with each failure. A success resets the backoff.
//! - A change to the reconciled object or a dependent does not end the backoff if a failed reconciliation may have
//!   caused the change. A reconciler that writes an object and then fails still backs off. Because another writer may
//!   have fixed the problem, each of the first ten changes that the failed reconciliation may have caused shortens the
//!   remaining delay to 30 s.
//! - Logs, metrics and the readiness check report reconciliations that block their thread. If a reconciliation still
//!   blocks its thread after a stop, the manager exits the process.
//! - A run that cannot continue, for example after a panic, returns an error that describes the reason. A run never
//!   hangs silently: it logs a message or returns an error.
//! - A key that a run did not finish is reconciled in the controller's next run, even if the object no longer exists.
//! - Dropping the future of [`Controller::run`] stops its reconciliations and its sources. After a stop request, the
//!   controller finishes its running reconciliations. A manager has one timeout for all its components.

mod attempts;
mod blocking;
mod builder;
mod concurrency;
mod config;
mod controller;
mod error;
mod explain;
mod finalizer;
mod handler;
mod history;
mod kept;
mod key;
mod manager;
mod metrics;
mod no_subscriber;
mod order;
mod panic;
pub mod predicate;
mod reconciler;
mod report;
mod requests;
mod singleton;
mod source;
mod stop;
mod worker;

pub use builder::Builder;
pub use concurrency::Concurrency;
pub use config::{ControllerConfig, LOW_PRIORITY, QueueSetup};
pub use controller::Controller;
pub use error::{ControllerError, ManagerError, UnfinishedKeys};
pub use explain::{Explanation, WorkState};
pub use finalizer::{Cleanup, Finalizer, add_finalizer, remove_finalizer};
#[doc(hidden)]
pub use finalizer::{check_finalizers, within_term};
pub use handler::{EnqueueMapped, EnqueueObject, EnqueueOwner, Handler};
pub use history::{CauseReason, EventChange, KeyCause, KeyHistory, LastCall};
pub use key::RequestKey;
pub use manager::{ControllerStatus, Health, HealthCheck, Manager, ManagerConfig, ManagerStatus, leader_events};
pub use reconciler::{Action, ReconcileError, ReconcileRequest, Reconciler};
pub use requests::Requests;
pub use singleton::Singleton;
pub use source::{Every, Feed, Kind, Source, Trigger};

/// Items for the other crates of this workspace.
#[doc(hidden)]
pub mod __private {
    pub use crate::report::report;
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
