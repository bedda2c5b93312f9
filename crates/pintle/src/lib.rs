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
//!     cluster.api().create(&map, &WriteOptions::default()).await?;
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
//! - **For tests and demos**: `apiserver` and `testing`, with the features of those names; `schema`, `fieldmanager` and `store`, with the
//!   feature `schema`.
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
//! # Coming from kube-rs
//!
//! | kube | here |
//! |---|---|
//! | `Client::try_default`, `Config::infer` | [`Cluster::infer`]; a client alone: [`Cluster::client`] |
//! | `Api::all`, `Api::namespaced`, `Api::default_namespaced` | [`Cluster::api`], [`Cluster::namespaced`] |
//! | `#[derive(CustomResource)]` | a struct of your own and one line of [`meta::resource!`] |
//! | `Api<k8s_openapi::…::Pod>` | the same types, with the feature `k8s-openapi` |
//! | `DynamicObject`, `ApiResource`, `discovery` | [`meta::DynamicObject`], [`meta::ApiResource`], [`restreq::RestMapper`] |
//! | `Patch::Apply` with `PatchParams::apply("me").force()` | [`restreq::Api::apply`] with [`meta::WriteOptions::apply`] |
//! | `Api::entry`, `and_modify`, `commit` | [`restreq::Api::create_or_update`], [`restreq::retry_on_conflict`] |
//! | `await_condition`, `conditions::is_deleted` | [`restreq::Api::wait_for`], [`restreq::Api::wait_for_condition`], [`restreq::Api::wait_for_deletion`] |
//! | `watcher`, `reflector`, `Store` | [`Cluster::informer`]: [`informer::SharedInformer`], and [`informer::Lister`] |
//! | `metadata_watcher`, `Api::list_metadata` | [`restreq::Api::metadata_only`] |
//! | `watcher(…).touched_objects()`, `applied_objects()` | [`informer::SharedInformer::subscribe`], `subscribe_newest` |
//! | `predicate_filter(predicates::generation)` | [`controller::Kind::when`] with [`controller::predicate`] |
//! | `Controller::new(api, cfg).owns(…).watches(…).run(reconcile, error_policy, ctx)` | [`controller::Controller::of`], `owns`, `watches`, `reconciler`, `run` |
//! | `reconcile(Arc<K>, Arc<Ctx>)` | a function of a [`controller::ReconcileRequest`], which has the key; the object comes from a lister, and is gone after a deletion |
//! | `error_policy`, `Action::requeue` on errors | an error is retried with back-off: [`controller::ReconcileError`]; the delays: [`controller::ControllerConfig::queue`] |
//! | `Action::requeue`, `Action::await_change` | [`controller::Action::requeue_after`], [`controller::Action::await_change`] |
//! | `controller::Config::concurrency`, `debounce` | [`controller::ControllerConfig::max_concurrent_reconciles`]; no debounce: keys are deduplicated |
//! | `reconcile_on`, `reconcile_all_on` | [`controller::Trigger`] |
//! | `graceful_shutdown_on`, `shutdown_on_signal` | cancel the token that a [`controller::Manager`] runs with |
//! | `finalizer(…, Event::Apply, Event::Cleanup)` | [`controller::Finalizer`] |
//! | `events::Recorder`, `Reporter` | [`Cluster::recorder`] |
//! | `kube-leader-election` and others | [`Cluster::elector`] with [`controller::Manager::leader_election`] |
//! | `owner_ref`, `controller_owner_ref` | [`meta::OwnerReference::controller_of`], which converts to k8s-openapi's type |
//! | a mocked `tower::Service` in tests | `testing` and `Cluster::embedded`, with the features `testing` and `apiserver` |
//!
//! # Versions of other crates
//!
//! Types of these crates are part of this crate's API: `k8s-openapi` 0.29 and `prometheus-client` 0.25, with the features of those names.
//! They are re-exported, as `pintle::k8s_openapi` and `pintle::prometheus_client`. A program that depends on one of them itself needs
//! the same version.
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

/// Re-exports each crate in a module, so that a compiler that suggests a path suggests that of the facade.
macro_rules! facade {
    ($($(#[$attribute:meta])* $name:ident: $crate_name:ident;)*) => {$(
        $(#[$attribute])*
        #[doc = concat!("The items of [`", stringify!($crate_name), "`], whose page introduces them.")]
        pub mod $name {
            #[doc(inline)]
            pub use $crate_name::*;
        }
    )*};
}

facade! {
    #[cfg(feature = "apiserver")]
    apiserver: pintle_apiserver;
    controller: pintle_controller;
    delta_fifo: pintle_delta_fifo;
    events: pintle_events;
    #[cfg(feature = "schema")]
    fieldmanager: pintle_fieldmanager;
    informer: pintle_informer;
    #[cfg(any(feature = "apiserver", feature = "schema"))]
    json: pintle_json;
    kubeconfig: pintle_kubeconfig;
    leaderelect: pintle_leaderelect;
    meta: pintle_meta;
    metrics: pintle_metrics;
    ratelimit: pintle_ratelimit;
    restreq: pintle_restreq;
    #[cfg(feature = "schema")]
    schema: pintle_schema;
    #[cfg(feature = "schema")]
    store: pintle_store;
    #[cfg(feature = "testing")]
    testing: pintle_testing;
    workqueue: pintle_workqueue;
}

/// The types of Kubernetes, of the version that this crate works with. Your program depends on the crate as well, to choose a release of
/// Kubernetes by a feature.
#[cfg(feature = "k8s-openapi")]
pub use k8s_openapi;
/// The registry that metrics are collected by, of the version that this crate works with.
#[cfg(feature = "prometheus-client")]
pub use prometheus_client;

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
