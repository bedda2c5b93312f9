//! What client-go gives Go, for Rust: the machinery that every Kubernetes controller stands on.
//!
//! [`Cluster`] is the front door: it makes clients, informers, recorders and electors that share what is to be shared. Behind it,
//! each crate can be used alone, as `pintle-workqueue` and so on; the lower ones know nothing of Kubernetes or of an async runtime.
//!
//! The example runs against an API server within the process, with the feature `apiserver`; beside this crate it needs serde with
//! `derive`, and tokio with `macros` and `rt-multi-thread`. On a cluster, take [`Cluster::infer`] instead; nothing else changes.
//!
//! ```
//! use pintle::prelude::*;
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Clone, Debug, Deserialize, Serialize)]
//! struct ConfigMap {
//!     metadata: ObjectMeta,
//! }
//! resource!(ConfigMap, "v1", "ConfigMap", "configmaps", Namespaced);
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let cluster = Cluster::embedded().await?;
//!     let map = ConfigMap { metadata: ObjectMeta::new("default", "settings") };
//!     cluster.api().create(&map, &PostOptions::default()).await?;
//!
//!     let maps = cluster.informer::<ConfigMap>();
//!     let (lister, stop) = (maps.lister(), CancellationToken::new());
//!     let done = stop.clone();
//!     let controller = Controller::of(&maps).reconciler(move |request: ReconcileRequest| {
//!         let (found, done) = (lister.get(&request.key), done.clone());
//!         async move {
//!             // `None` here means that the object was deleted.
//!             println!("{}: {found:?}", request.key);
//!             done.cancel();
//!             Ok(Action::await_change())
//!         }
//!     });
//!     controller.run(&stop).await?;
//!     cluster.shutdown().await;
//!     Ok(())
//! }
//! ```
//!
//! # The crates
//!
//! - **On the wire**: [`kubeconfig`] finds out how to reach a server; [`restreq`] sends requests and holds watches.
//! - **In the cache**: [`informer`] keeps a live, indexed copy of objects; [`delta_fifo`] is the queue beneath it.
//! - **At work**: [`controller`] turns changes into keys and hands them to a reconciler; [`workqueue`] and [`ratelimit`] hold
//!   keys back and hand them out; [`leaderelect`] lets one replica work; [`events`] tells users what happened.
//! - **In common**: [`meta`] is the vocabulary; [`metrics`] are handed out by a provider of yours: [`ClusterConfig::metrics`].
//! - **For tests and demos**: [`apiserver`] and [`testing`], with the features of those names; [`schema`], [`fieldmanager`] and [`store`], with the feature `schema`.
//!
//! # Coming from client-go
//!
//! | client-go | here |
//! |---|---|
//! | `rest.InClusterConfig`, `clientcmd`, `kubernetes.NewForConfig` | [`Cluster::infer`], [`Cluster::connect`] |
//! | `clientset.CoreV1().Pods(ns)`, `dynamic.Interface` | [`Cluster::namespaced`], [`restreq::Api::dynamic`] |
//! | `metadata.Interface`, `watchtools.RetryWatcher`, `retry.RetryOnConflict` | [`restreq::Api::metadata_only`], [`restreq::RetryWatch`], [`restreq::retry_on_conflict`] |
//! | `restmapper.NewDeferredDiscoveryRESTMapper` | [`restreq::RestMapper`] |
//! | `informers.NewSharedInformerFactory(…).Core().V1().Pods()` | [`Cluster::informer`], [`Cluster::select`] |
//! | `record.NewBroadcaster`, `NewRecorder` | [`Cluster::recorder`] |
//! | `resourcelock.New`, `NewFromKubeconfig` | [`leaderelect::ResourceLock::new`], [`Cluster::lock`]; of Leases [`Cluster::elector`] |
//! | `leaderelection.RunOrDie` | [`Cluster::lead`] |
//! | an elector for each of many leases | [`Cluster::electors`] |
//! | replicas that share the objects, with a sharder | [`Cluster::shards`] |
//! | `leaderelection.NewCandidate` | [`Cluster::candidate`] |
//!
//! What a controller would do to a cluster, before it does: `Cluster::plan`, with the feature `apiserver`.
//!
//! # Reading on
//!
//! The site that `cargo xtask docs` builds has the pages of the repository's docs folder as well, in `_documentation`.

mod cluster;
mod config;
mod error;
#[cfg(feature = "apiserver")]
mod plan;
pub mod prelude;

pub use cluster::Cluster;
pub use config::ClusterConfig;
pub use error::Error;

#[doc(inline)]
#[cfg(feature = "apiserver")]
pub use pintle_apiserver as apiserver;
#[doc(inline)]
pub use pintle_controller as controller;
#[doc(inline)]
pub use pintle_delta_fifo as delta_fifo;
#[doc(inline)]
pub use pintle_events as events;
#[doc(inline)]
#[cfg(feature = "schema")]
pub use pintle_fieldmanager as fieldmanager;
#[doc(inline)]
pub use pintle_informer as informer;
#[doc(inline)]
#[cfg(feature = "schema")]
pub use pintle_json as json;
#[doc(inline)]
pub use pintle_kubeconfig as kubeconfig;
#[doc(inline)]
pub use pintle_leaderelect as leaderelect;
#[doc(inline)]
pub use pintle_meta as meta;
#[doc(inline)]
pub use pintle_metrics as metrics;
#[doc(inline)]
pub use pintle_ratelimit as ratelimit;
#[doc(inline)]
pub use pintle_restreq as restreq;
#[doc(inline)]
#[cfg(feature = "schema")]
pub use pintle_schema as schema;
#[doc(inline)]
#[cfg(feature = "schema")]
pub use pintle_store as store;
#[doc(inline)]
#[cfg(feature = "testing")]
pub use pintle_testing as testing;
#[doc(inline)]
pub use pintle_workqueue as workqueue;

/// The pages of the repository's docs folder.
#[cfg(pintle_docs)]
pub mod _documentation {
    #[doc = include_str!("../../../docs/ARCHITECTURE.md")]
    pub mod architecture {}

    #[doc = include_str!("../../../docs/ELECTION.md")]
    pub mod election {}

    #[doc = include_str!("../../../docs/STYLE.md")]
    pub mod style {}
}

// The examples of the README run as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

#[cfg(all(doctest, feature = "apiserver"))]
#[doc = include_str!("../../../README.md")]
struct FrontPage;
