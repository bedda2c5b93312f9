//! Controllers: sources, handlers and predicates feed a queue; workers reconcile; a manager starts and stops it all.
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
//!     // Anything that lists and watches a resource will do: what a REST client makes, or objects in memory.
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
//!                     return Ok(Action::await_change()); // It was deleted.
//!                 };
//!                 println!("{} is to have a deployment", site.metadata.name);
//!                 done.cancel();
//!                 Ok(Action::requeue_after(Duration::from_secs(600)))
//!             }
//!         });
//!     controller.run(&stop).await?;
//!     Ok(())
//! }
//! ```
//!
//! # Nouns
//!
//! The words are those of controller-runtime.
//!
//! - A [`Controller`] has a [`Reconciler`] called for each key, with a [`ReconcileRequest`]; it answers with an [`Action`] or a
//!   [`ReconcileError`]. [`ControllerConfig`] says how many at a time, how long, and how soon after an error.
//! - A [`Source`] feeds keys: [`Kind`] is the objects of an informer, [`Trigger`] is fed by hand. A [`Predicate`](predicate::Predicate) says which
//!   events count, a [`Handler`] which keys they mean.
//! - A [`Finalizer`] keeps objects until the controller has cleaned up after them.
//! - A [`Manager`] runs controllers under leader election, with the informers below them and services beside them;
//!   [`ManagerStatus`] answers probes.
//! - [`ControllerConfig::metrics`] says who is told of all that, by controller-runtime's and client-go's names.
//!
//! # What is guaranteed
//!
//! - No two reconciliations of one key overlap, and a change during one is followed by another.
//! - Nothing is reconciled before the caches of all sources are complete.
//! - Changes are served before the keys of a first list, and otherwise first come, first served; none starves.
//! - A deleted object's key is reconciled: also where the deletion was missed while disconnected, and where nobody led when it
//!   happened, as long as a standby, or an earlier run of the same controller, had seen the object.
//! - A panic, an error and a timeout cost one key one try. Retries are delayed for each key by itself, longer each time, and a
//!   success ends that.
//! - A change that a failed call may have caused itself waits for the retry, so a reconciler that writes and fails backs off.
//! - A reconciliation that blocks its thread is named in logs, metrics and readiness. Where nothing else can end it, a stop ends the
//!   process.
//! - A run that cannot go on ends with an error that says why, whatever panicked; it is never idle in silence.
//! - A key that a run leaves undone comes in the next one of the same controller, though its object may be gone.
//! - Dropping a run ends everything that belongs to it; so does a stop, within a time for the whole manager.

mod attempts;
mod blocking;
mod builder;
mod config;
mod controller;
mod error;
mod finalizer;
mod handler;
mod kept;
mod manager;
mod metrics;
mod order;
mod panic;
pub mod predicate;
mod reconciler;
mod requests;
mod source;
mod stop;
mod unheard;
mod worker;

pub use builder::Builder;
pub use config::{ControllerConfig, LOW_PRIORITY, QueueSetup};
pub use controller::Controller;
pub use error::{ControllerError, Leftover, ManagerError};
pub use finalizer::{Cleanup, Finalizer, add_finalizer, remove_finalizer};
pub use handler::{EnqueueMapped, EnqueueObject, EnqueueOwner, Handler};
pub use manager::{Health, HealthCheck, Manager, ManagerConfig, ManagerStatus, leader_events};
pub use reconciler::{Action, ReconcileError, ReconcileRequest, Reconciler};
pub use requests::Requests;
pub use source::{Feed, Kind, Source, Trigger};

// The examples of the README run as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
