//! Client-go for Rust: clients, informers, work queues, leader election, Events and the controller runtime for
//! Kubernetes.
//!
//! [`Cluster`] is the entry point. It makes clients, informers, recorders and electors, and shares connections and
//! caches between them. Each crate can also be used alone, as `pintle-workqueue` and so on. The lower crates do not
//! depend on Kubernetes or an async runtime.
//!
//! The example runs against an API server in the same process and needs the feature `apiserver`. Besides this crate it
//! needs serde with `derive`, and tokio with `macros` and `rt-multi-thread`. For a real cluster, use
//! [`Cluster::infer`]; nothing else changes.
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
//!             // `None` means that the object was deleted.
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
//! - **Defining**: [`crd`] makes CustomResourceDefinitions of your structs.
//! - **Connecting**: [`kubeconfig`] finds the server's address and credentials. [`restreq`] sends requests and keeps
//!   watches open.
//! - **Caching**: [`informer`] keeps a live, indexed copy of objects. [`delta_fifo`] is the queue below it.
//! - **Working**: [`controller`] turns changes into keys and passes them to a reconciler. [`workqueue`] and
//!   [`ratelimit`] deduplicate, delay and retry keys. [`leaderelect`] lets one replica work at a time. [`events`]
//!   records Events for users.
//! - **Shared**: [`meta`] has the common types. [`metrics`] is the interface to your metrics library:
//!   [`ClusterConfig::metrics`].
//! - **Tests and demos**: `apiserver` and `testing`, with the features of the same names; `schema`, `fieldmanager` and
//!   `store`, with the feature `schema`.
//!
//! # Coming from client-go
//!
//! | client-go | here |
//! |---|---|
//! | `rest.InClusterConfig`, `clientcmd`, `kubernetes.NewForConfig` | [`Cluster::infer`], [`Cluster::connect`] |
//! | `clientset.CoreV1().Pods(ns)`, `dynamic.Interface` | [`Cluster::namespaced`], [`restreq::Api::dynamic`] |
//! | `metadata.Interface`, `watchtools.RetryWatcher`, `retry.RetryOnConflict` | [`restreq::Api::metadata_only`], [`restreq::RetryWatch`], [`restreq::retry_on_conflict`] |
//! | `restmapper.NewDeferredDiscoveryRESTMapper` | [`restreq::RestMapper`] |
//! | `Pods(ns).GetLogs`, `EvictV1`, `Deployments(ns).GetScale`, `ServiceAccounts(ns).CreateToken` | [`restreq::Api::log_lines`], [`restreq::Api::evict`], [`restreq::Api::scale`], [`restreq::Api::create_token`] |
//! | `remotecommand.NewWebSocketExecutor`, `portforward.New` | `restreq::Api::exec`, `attach` and `port_forward`, with the feature `ws` |
//! | `Request.Throttle`, `Request.BackOff` | [`restreq::Request::limiter`], [`restreq::Request::backoff`] |
//! | `informers.NewSharedInformerFactory(…).Core().V1().Pods()` | [`Cluster::informer`], [`Cluster::informer_with`] |
//! | `record.NewBroadcaster`, `NewRecorder` | [`Cluster::recorder`] |
//! | `resourcelock.New`, `NewFromKubeconfig` | [`leaderelect::ResourceLock::new`], [`Cluster::lock`]; for Leases [`Cluster::elector`] |
//! | `leaderelection.RunOrDie` | [`Cluster::run_or_die`] |
//! | one elector for each of many Leases | [`Cluster::electors`] |
//! | replicas that share the objects by shards | [`Cluster::shards`] |
//! | `leaderelection.NewCandidate` | [`Cluster::candidate`] |
//!
//! # Coming from kube-rs
//!
//! | kube | here |
//! |---|---|
//! | `Client::try_default`, `Config::infer` | [`Cluster::infer`]; a client alone: [`Cluster::client`] |
//! | `Api::all`, `Api::namespaced`, `Api::default_namespaced` | [`Cluster::api`], [`Cluster::namespaced`] |
//! | `#[derive(CustomResource)]` | `#[derive(Resource)]` on your own struct of metadata, spec and status: [`crd`]; without a schema one line of [`meta::resource!`] |
//! | `Api<k8s_openapi::…::Pod>` | the same types, with the feature `k8s-openapi` |
//! | `DynamicObject`, `ApiResource`, `discovery` | [`meta::DynamicObject`], [`meta::ApiResource`], [`restreq::RestMapper`] |
//! | `Patch::Apply` with `PatchParams::apply("me").force()` | [`restreq::Api::apply`] with [`meta::WriteOptions::apply`] |
//! | `Api::entry`, `and_modify`, `commit` | [`restreq::Api::create_or_update`], [`restreq::retry_on_conflict`] |
//! | `await_condition`, `conditions::is_deleted` | [`restreq::Api::wait_for`], [`restreq::Api::wait_for_condition`], [`restreq::Api::wait_for_deletion`] |
//! | `Api::exec`, `attach`, `portforward`, with `ws` | `restreq::Api::exec`, `attach` and `port_forward` (one connection for each call), with the feature `ws` |
//! | `AttachedProcess::stdin`, `stdout`, `take_status`, `terminal_size` | the fields `stdin`, `stdout` and `terminal` of `restreq::AttachedProcess`, and its `status`, which has the exit code |
//! | `Api::logs`, `log_stream`, `LogParams` | [`restreq::Api::logs`], [`restreq::Api::log_lines`], [`restreq::LogOptions`] |
//! | `Api::evict`, `get_scale`, `patch_scale`, `restart`, `cordon`, `create_token_request` | [`restreq::Api::evict`], [`restreq::Api::scale`], [`restreq::Api::restart`], [`restreq::Api::cordon`], [`restreq::Api::create_token`] |
//! | `watcher`, with `applied_objects` or `touched_objects` | [`restreq::Api::watcher`], with [`applied`](restreq::Watcher::applied), `touched` or `deleted` |
//! | `reflector`, `Store` | [`Cluster::informer`]: [`informer::SharedInformer`], and [`informer::Lister`] |
//! | `metadata_watcher`, `Api::list_metadata` | [`restreq::Api::metadata_only`] |
//! | `watcher(…).reflect(…)`, then `touched_objects()` | [`informer::SharedInformer::subscribe`], `subscribe_newest` |
//! | `predicate_filter(predicates::generation)` | [`controller::Kind::when`] with [`controller::predicate`] |
//! | `Controller::new(api, cfg).owns(…).watches(…).run(reconcile, error_policy, ctx)` | [`controller::Controller::of`], `owns`, `watches`, `reconciler`, `run` |
//! | `reconcile(Arc<K>, Arc<Ctx>)` | a function of a [`controller::ReconcileRequest`], which has the key; get the object from a lister, which returns `None` after a deletion |
//! | `error_policy`, `Action::requeue` on errors | an error is retried with back-off: [`controller::ReconcileError`]; the delays: [`controller::ControllerConfig::queue`] |
//! | `Action::requeue`, `Action::await_change` | [`controller::Action::requeue_after`], [`controller::Action::await_change`] |
//! | `controller::Config::concurrency`, `debounce` | [`controller::ControllerConfig::max_concurrent_reconciles`]; no debounce: keys are deduplicated |
//! | `reconcile_on`, `reconcile_all_on` | [`controller::Trigger`] |
//! | `graceful_shutdown_on`, `shutdown_on_signal` | cancel the token that you pass to [`controller::Manager`] |
//! | `finalizer(…, Event::Apply, Event::Cleanup)` | [`controller::Finalizer`] |
//! | `events::Recorder`, `Reporter` | [`Cluster::recorder`] |
//! | `kube-leader-election` and others | [`Cluster::elector`] with [`controller::Manager::leader_election`] |
//! | `owner_ref`, `controller_owner_ref` | [`meta::OwnerReference::controller_of`], which converts to k8s-openapi's type |
//! | a mocked `tower::Service` in tests | `testing` and `Cluster::embedded`, with the features `testing` and `apiserver` |
//!
//! # Versions of other crates
//!
//! Types of two other crates are part of this crate's API, with the features of the same names: `k8s-openapi` 0.29 and
//! `prometheus-client` 0.25. They are re-exported as `pintle::k8s_openapi` and `pintle::prometheus_client`. A program that
//! depends on one of them directly needs the same version.
//!
//! # Further reading
//!
//! `Cluster::plan`, with the feature `apiserver`, shows what a controller would do to a cluster, without doing it.
//!
//! The site that `cargo xtask docs` builds also has the pages of the repository's docs folder, in `_documentation`.

pub mod prelude;

#[doc(inline)]
pub use pintle_cluster::{Cluster, ClusterConfig, Error};
#[cfg(feature = "operator")]
#[doc(inline)]
pub use pintle_operator::{Result, init_tracing};

/// Re-exports each crate as a module, so that compiler suggestions use the facade's paths.
macro_rules! facade {
    ($($(#[$attribute:meta])* $name:ident: $crate_name:ident;)*) => {$(
        $(#[$attribute])*
        #[doc = concat!("The items of [`", stringify!($crate_name), "`]. The page of that crate has an introduction.")]
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
    #[cfg(feature = "crd")]
    crd: pintle_crd;
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
    #[cfg(feature = "operator")]
    operator: pintle_operator;
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

/// The Kubernetes types, in the version that this crate uses. Your program also depends on `k8s-openapi`, to select a Kubernetes
/// release by a feature.
#[cfg(feature = "k8s-openapi")]
pub use k8s_openapi;
/// The Prometheus registry, in the version that this crate uses.
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

// Runs the examples of the README as doc tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

#[cfg(all(doctest, feature = "apiserver"))]
#[doc = include_str!("../../../README.md")]
struct FrontPage;
