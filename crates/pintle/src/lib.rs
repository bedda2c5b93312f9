//! client-go for Rust: clients, informers, work queues, leader election, Events and a controller runtime for
//! Kubernetes.
//!
//! A complete operator:
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use k8s_openapi::api::core::v1::ConfigMap;
//! use pintle::prelude::*;
//! use schemars::JsonSchema;
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Resource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
//! #[resource(group = "example.com", version = "v1", column("URL", ".status.url"))]
//! struct Website { metadata: ObjectMeta, spec: Spec, status: Option<Status> }
//!
//! #[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
//! struct Spec { #[schemars(length(max = 253))] domain: String }
//!
//! #[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
//! struct Status { url: String, conditions: Conditions }
//!
//! async fn publish(site: Arc<Website>, cx: Context<Website>) -> pintle::Result<Action> {
//!     let url = format!("https://{}", site.spec.domain);
//!     let mut map = ConfigMap::default();
//!     map.metadata.name = Some(site.name().into());
//!     map.data = Some([("url".into(), url.clone())].into());
//!     cx.apply(map).await?; // adds namespace and owner; sends no request if nothing would change
//!     cx.apply_status(Status { url, conditions: cx.ready("Published") }).await?;
//!     Ok(Action::await_change())
//! }
//!
//! async fn retire(site: Arc<Website>, _: Context<Website>) -> pintle::Result<Cleanup> {
//!     println!("the DNS record of {} is removed", site.spec.domain);
//!     Ok(Cleanup::Done)
//! }
//!
//! #[tokio::main]
//! async fn main() -> pintle::Result<()> {
//!     Manager::infer("website-controller")? // the name of the Lease, the field manager and the source of Events
//!         .leader_election()
//!         .serve(([0, 0, 0, 0], 8080)) // /healthz, /readyz and /metrics
//!         .install::<Website>() // applies the CustomResourceDefinition, and waits until it is Established
//!         .controller(Controller::new().owns::<ConfigMap>().cleanup("example.com/dns", retire).reconcile(publish))
//!         .run_until_signal()
//!         .await
//! }
//! ```
//!
//! The example above requires the feature `k8s-openapi` and the crates k8s-openapi, schemars, serde with `derive`, and
//! tokio with `macros` and `rt-multi-thread`. The `examples` directory contains an example for each task. All examples
//! run without a cluster. `cargo xtask new-operator` creates a new operator project.
//!
//! # Main types
//!
//! - A [`Manager`](operator::Manager) runs [`Controller`](operator::Controller)s. A reconciler uses its
//!   [`Context`](operator::Context) to read and write objects. The [prelude] exports `Manager`, `Controller` and
//!   `Context`.
//! - A [`Cluster`] is a connection to one Kubernetes cluster. A `Cluster` creates clients, informers, recorders and
//!   electors, which share connections and caches. `Cluster::embedded` starts an API server in the same process
//!   (feature `apiserver`).
//! - The lower layers can be used without the `operator` module. For example, use [`controller::Controller`] and
//!   [`controller::Manager`], or individual crates such as `pintle-workqueue`. [`ratelimit`], [`workqueue`] and
//!   [`delta_fifo`] do not depend on Kubernetes or an async runtime.
//!
//! # The crates
//!
//! - **Operators**: [`operator`] provides the manager, controllers with a context, probes and metrics. `webhook`
//!   provides admission and conversion webhooks (feature `webhook`).
//! - **Custom resources**: [`crd`] derives CustomResourceDefinitions from Rust structs.
//! - **Expressions**: `cel` evaluates validation rules and other CEL expressions (feature `cel`).
//! - **Clients**: [`kubeconfig`] loads the server's address and credentials. [`restreq`] sends requests and watches.
//! - **Caches**: [`informer`] maintains an up-to-date, indexed copy of objects. [`delta_fifo`] provides the informer's
//!   queue.
//! - **Controllers**: [`controller`] maps changes to keys and calls a reconciler with the keys. [`workqueue`] and
//!   [`ratelimit`] deduplicate, delay and retry keys. [`leaderelect`] elects one leader among the replicas.
//!   [`sharding`] distributes objects among all replicas. [`events`] records Events for users.
//! - **Diagnostics**: [`recorder`] records what an informer receives, and replays the recording in a test.
//!   [`lock_audit`] observes an election's lock.
//! - **Common types**: [`meta`] contains types that several crates use. [`metrics`] reports metrics to your metrics
//!   library, which you set in [`ClusterConfig::metrics`].
//! - **Tests and demos**: `apiserver` is an API server that runs in the same process (feature `apiserver`). `testkit`
//!   tests entire operators, and `testing` provides tools to test their components. `testkit` and `testing` require the
//!   feature `testing`. The feature `schema` adds the crates `schema`, `fieldmanager` and `store`.
//!
//! # Features
//!
//! | feature | what it adds |
//! |---|---|
//! | `operator` | operators, as `pintle::operator`; enabled by default; enables `crd` |
//! | `apiserver` | the API server for tests and demos, as `pintle::apiserver` |
//! | `cel` | the Common Expression Language (CEL) as in kube-apiserver, as `pintle::cel` |
//! | `crd` | CustomResourceDefinitions from structs with `#[derive(Resource)]`, as `pintle::crd` |
//! | `gzip` | gzip-compressed responses, with `RestClientConfig::gzip` |
//! | `k8s-openapi` | implements `Object` and `Resource` for the types of the crate k8s-openapi |
//! | `memory` | a metrics provider that keeps the series in memory, as `pintle::metrics::InMemoryProvider` |
//! | `prometheus-client` | registers the metrics provider with a `prometheus_client` registry; enables `memory` |
//! | `schema` | the schemas of built-in kinds, server-side apply, JSON types and the store |
//! | `testing` | `pintle::testing` and `pintle::testkit`; enables `apiserver` and `operator` |
//! | `webhook` | admission and conversion webhooks, as `pintle::webhook`; enables `operator` |
//! | `ws` | `exec`, `attach` and `port_forward` for pods, over WebSocket |
//!
//! # Coming from controller-runtime
//!
//! | controller-runtime | here |
//! |---|---|
//! | `ctrl.GetConfigOrDie`, `ctrl.NewManager` | [`operator::Manager::infer`], [`operator::Manager::connect`] |
//! | `Options.LeaderElection`, `LeaderElectionID` | [`operator::Manager::leader_election`]; the Lease has the name of the manager |
//! | `Options.HealthProbeBindAddress`, `Metrics.BindAddress`, `AddHealthzCheck`, `AddReadyzCheck` | [`operator::Manager::serve`], [`liveness`](operator::Manager::liveness), [`readiness`](operator::Manager::readiness) |
//! | `mgr.Add(manager.RunnableFunc(…))` | [`operator::Manager::service`]; on the leader [`leader_service`](operator::Manager::leader_service), or [`every`](operator::Manager::every) with a timer |
//! | `cluster.New`, multicluster-runtime | [`operator::Manager::controller_in`], [`install_in`](operator::Manager::install_in) |
//! | `mgr.Start(ctrl.SetupSignalHandler())` | [`operator::Manager::run_until_signal`], [`run`](operator::Manager::run) |
//! | `NewControllerManagedBy(mgr).For(&Website{}).Owns(…).Watches(…).Complete(r)` | [`operator::Controller::new`], [`owns`](operator::ControllerBuilder::owns), [`references`](operator::ControllerBuilder::references), [`watches`](operator::ControllerBuilder::watches), [`watches_with`](operator::ControllerBuilder::watches_with), [`reconcile`](operator::ControllerBuilder::reconcile) |
//! | `WithEventFilter`, `builder.WithPredicates(predicate.…)` | [`operator::ControllerBuilder::when`] with [`controller::predicate`]. The default ignores changes of the status |
//! | `MaxConcurrentReconciles`, `RateLimiter`, `CacheSyncTimeout` | [`operator::ControllerBuilder::concurrency`], [`config`](operator::ControllerBuilder::config). By default, a controller waits for missing kinds and clusters, and the readiness check names them |
//! | `cache.Options.ByObject`, `DefaultNamespaces` | [`operator::ControllerBuilder::labels`], [`fields`](operator::ControllerBuilder::fields), [`labels_of`](operator::ControllerBuilder::labels_of) for other kinds, [`namespace`](operator::ControllerBuilder::namespace) |
//! | `Reconcile(ctx, req ctrl.Request)` | [`operator::Reconciler`]: it receives the object. [`gone`](operator::Reconciler::gone) receives the key of an object that no longer exists |
//! | `ctrl.Result{}`, `Result{RequeueAfter: d}`, an error, `reconcile.TerminalError` | [`controller::Action::await_change`], [`requeue_after`](controller::Action::requeue_after), an error, [`controller::ReconcileError::terminal`] |
//! | `client.Client`: `Get`, `List`; `mgr.GetAPIReader()` | [`operator::Context::get`], [`list`](operator::Context::list), [`get_in`](operator::Context::get_in); [`get_live`](operator::Context::get_live) |
//! | `client.Reader` | [`Reader`](pintle_cluster::Reader): [`Cluster::reader`], [`Cluster::live_reader`] |
//! | `mgr.GetFieldIndexer().IndexField`, `client.MatchingFields` | to reconcile the objects that name a changed object: [`operator::ControllerBuilder::references`]; otherwise [`add_index`](informer::SharedInformer::add_index) on the informer that the controller shares, from [`operator::Manager::cluster`] (ignore `Exists` if several controllers add the same index); [`informer::Lister::by_index`] in the mapping function |
//! | `controllerutil.CreateOrUpdate`, `client.Apply`, `Status().Update` | [`operator::Context::apply`], [`apply_status`](operator::Context::apply_status) |
//! | `controllerutil.SetControllerReference` | done by [`operator::Context::apply`]; [`owner_reference`](operator::Context::owner_reference) |
//! | `controllerutil.AddFinalizer`, `RemoveFinalizer` | [`operator::ControllerBuilder::cleanup`] |
//! | `meta.SetStatusCondition` | [`operator::Context::ready`], [`set_condition`](operator::Context::set_condition) |
//! | `mgr.GetEventRecorderFor` | [`operator::Context::event`] |
//! | `source.Channel`; `cache.Options.SyncPeriod` | [`controller::Trigger`]; [`operator::ControllerBuilder::every`], [`controller::Every`] |
//! | `// +kubebuilder:…` markers, controller-gen | `#[derive(Resource)]`: [`crd`]; [`operator::Manager::install`] |
//! | `kubebuilder init` | `cargo xtask new-operator NAME` in the repository |
//! | `TypedControllerManagedBy[K]`, `TypedReconciler` | [`controller::Controller::named`] with keys of any type; [`operator::Manager::plain_controller`] runs it |
//! | `builder.WebhookManagedBy(mgr)`, `CustomDefaulter`, `CustomValidator`, `conversion.Hub` | `webhook::Webhook::mutate`, `validate` and `webhook::Hub`, with the feature `webhook`; `Manager::webhooks` serves and registers them |
//! | `envtest.Environment` | `Cluster::embedded`, with the feature `apiserver`: no binaries, and faults on demand |
//! | Gomega's `Eventually` and `Consistently` | `testkit::eventually` and `consistently`, on a paused clock; `testkit::Kit` runs the whole operator |
//!
//! # Coming from client-go
//!
//! | client-go | here |
//! |---|---|
//! | `rest.InClusterConfig`, `clientcmd`, `kubernetes.NewForConfig` | [`Cluster::infer`], [`Cluster::connect`] |
//! | `clientset.CoreV1().Pods(ns)`, `dynamic.Interface` | [`Cluster::namespaced`], [`restreq::Api::dynamic`], [`Context::apply_dynamic`](operator::Context::apply_dynamic) |
//! | `RESTClient().Get().Namespace(ns).Resource("pods").Do(ctx)` | [`restreq::RestClient::get`] and similar methods, [`restreq::Request`] |
//! | `metadata.Interface`, `watchtools.RetryWatcher`, `retry.RetryOnConflict` | [`restreq::Api::metadata_only`], [`restreq::RetryWatch`], [`restreq::retry_on_conflict`] |
//! | `restmapper.NewDeferredDiscoveryRESTMapper` | [`restreq::RestMapper`] |
//! | `apierrors.IsNotFound`, `IsConflict`, `IsTooManyRequests` | [`is_not_found`](meta::ApiError::is_not_found) and similar methods of [`meta::ApiError`], which every request returns |
//! | `Pods(ns).GetLogs`, `EvictV1`, `Deployments(ns).GetScale`, `ServiceAccounts(ns).CreateToken` | [`restreq::Api::log_lines`], [`restreq::Api::evict`] (a blocked eviction is an [outcome](restreq::EvictionOutcome), no error), [`restreq::Api::scale`], [`restreq::Api::create_token`] |
//! | `remotecommand.NewWebSocketExecutor`, `portforward.New` | `restreq::Api::exec`, `attach` and `port_forward`, with the feature `ws` |
//! | `Request.Throttle`, `Request.BackOff` | [`restreq::Request::limiter`], [`restreq::Request::backoff`] |
//! | `informers.NewSharedInformerFactory(…).Core().V1().Pods()` | [`Cluster::informer`], [`Cluster::informer_with`] |
//! | `AddEventHandler`, `workqueue.NewTypedRateLimitingQueue`, workers by hand | [`informer::SharedInformer::add_event_handler`] returns a guard that removes the handler when it is dropped; [`workqueue::WorkQueue`], whose items have `forget` and `retry` (`AddRateLimited`); an [`operator::Controller`] does all of this |
//! | `cache.NewDeltaFIFOWithOptions`, `cache.NewIndexer` | [`delta_fifo::DeltaFifo`], [`delta_fifo::MemoryStore`] |
//! | `flowcontrol.NewTokenBucketRateLimiter` | [`ratelimit::Throttle`] |
//! | `record.NewBroadcaster`, `NewRecorder` | [`Cluster::recorder`] |
//! | `resourcelock.New`, `NewFromKubeconfig` | [`leaderelect::ResourceLock::new`], [`Cluster::lock`]; for Leases, [`Cluster::elector`] |
//! | `leaderelection.RunOrDie` | [`Cluster::run_or_die`]; for an operator, [`operator::Manager::leader_election`] |
//! | one elector for each of many Leases | [`Cluster::electors`] |
//! | replicas that divide the objects into shards | [`operator::Manager::sharded`], [`Cluster::shards`] |
//! | `leaderelection.NewCandidate` | [`Cluster::candidate`] |
//!
//! # Coming from kube-rs
//!
//! | kube | here |
//! |---|---|
//! | `Client::try_default`, `Config::infer` | [`operator::Manager::infer`], [`Cluster::infer`]; a client alone: [`Cluster::client`] |
//! | `Api::all`, `Api::namespaced`, `Api::default_namespaced` | [`Cluster::api`], [`Cluster::namespaced`] |
//! | `#[derive(CustomResource)]` | `#[derive(Resource)]` on your own struct with metadata, spec and status: [`crd`]; without a schema, one line of [`meta::resource!`] |
//! | types that `CustomResource` derives | one line of [`meta::resource!`], and [`crd::CustomResourceDefinition::from_foreign`] for `Foo::crd()`; see `crates/operator/examples/kube_types` |
//! | `Foo::crd()`, applied by hand, `conditions::is_crd_established` | [`operator::Manager::install`] |
//! | `Api<k8s_openapi::…::Pod>` | the same types, with the feature `k8s-openapi` |
//! | `kube::Error`, `ErrorResponse` | [`meta::ApiError`], [`meta::Status`]; [`cause`](meta::ApiError::cause) returns the typed cause |
//! | `Api::get_opt` | [`restreq::Api::get_opt`]; a 404 response that is not from an API server is an error |
//! | `ListParams::default().labels("app=web")` | [`meta::ListOptions`] with `label_selector: "app=web".parse()?` |
//! | `DynamicObject`, `ApiResource`, `discovery` | [`meta::DynamicObject`], [`meta::ApiResource`], [`restreq::RestMapper`] |
//! | `Patch::Apply` with `PatchParams::apply("me").force()` | in a reconciler [`operator::Context::apply`]; otherwise [`restreq::Api::apply`] with [`meta::WriteOptions::apply`] |
//! | `Api::entry`, `and_modify`, `commit` | [`restreq::Api::create_or_update`], [`restreq::retry_on_conflict`] |
//! | `await_condition`, `conditions::is_deleted` | [`restreq::Api::wait_for`], [`restreq::Api::wait_for_condition`], [`restreq::Api::wait_for_deletion`] |
//! | `Api::exec`, `attach`, `portforward`, with `ws` | `restreq::Api::exec`, `attach` and `port_forward` (one connection for each call), with the feature `ws` |
//! | `AttachedProcess::stdin`, `stdout`, `take_status`, `terminal_size` | the fields `stdin`, `stdout` and `terminal` of `restreq::AttachedProcess`, and its `status`, which has the exit code |
//! | `Api::logs`, `log_stream`, `LogParams` | [`restreq::Api::logs`], [`restreq::Api::log_lines`], [`restreq::LogOptions`] |
//! | `Api::evict`, `get_scale`, `patch_scale`, `restart`, `cordon`, `create_token_request` | [`restreq::Api::evict`], which returns `Ok` with [`Blocked`](restreq::EvictionOutcome::Blocked) if a PodDisruptionBudget blocks the eviction; [`restreq::Api::scale`], [`restreq::Api::restart`], [`restreq::Api::cordon`], [`restreq::Api::create_token`] |
//! | `watcher`, with `applied_objects` or `touched_objects` | [`restreq::Api::watcher`], with [`applied`](restreq::Watcher::applied), `touched` or `deleted` |
//! | `reflector`, `Store` | [`Cluster::informer`]: [`informer::SharedInformer`], and [`informer::Lister`] |
//! | `metadata_watcher`, `Api::list_metadata` | [`restreq::Api::metadata_only`] |
//! | `watcher(…).reflect(…)`, then `touched_objects()` | [`informer::SharedInformer::subscribe`], `subscribe_newest` |
//! | `Controller::new(api, cfg).owns(…).watches(…).run(reconcile, error_policy, ctx)` | [`operator::Controller::new`], [`owns`](operator::ControllerBuilder::owns), [`watches`](operator::ControllerBuilder::watches), [`watches_with`](operator::ControllerBuilder::watches_with), [`reconcile`](operator::ControllerBuilder::reconcile); a [`Manager`](operator::Manager) runs it |
//! | `watches` with a mapper that scans a `Store` for references | [`operator::ControllerBuilder::references`] |
//! | `watcher::Config::default().labels(…).fields(…)` for a controller | [`operator::ControllerBuilder::labels`], [`fields`](operator::ControllerBuilder::fields); for other kinds [`labels_of`](operator::ControllerBuilder::labels_of) |
//! | `reconcile(Arc<K>, Arc<Ctx>)` | the same with an [`operator::Context`]; to keep your own state, implement [`operator::Reconciler`] for a type |
//! | `error_policy`, `Action::requeue` on errors | an error is retried with backoff: [`controller::ReconcileError`]; [`controller::ControllerConfig::queue`] sets the delays |
//! | `Action::requeue`, `Action::await_change` | [`controller::Action::requeue_after`], [`controller::Action::await_change`] |
//! | `predicate_filter(predicates::generation)` | [`operator::ControllerBuilder::when`] with [`controller::predicate`] |
//! | `controller::Config::concurrency`, `debounce` | [`operator::ControllerBuilder::concurrency`]; no debounce: keys are deduplicated |
//! | `reconcile_on`, `reconcile_all_on` | [`operator::ControllerBuilder::source`] with a [`controller::Trigger`] |
//! | `graceful_shutdown_on`, `shutdown_on_signal` | [`operator::Manager::run`] with a token, [`run_until_signal`](operator::Manager::run_until_signal) |
//! | `finalizer(…, Event::Apply, Event::Cleanup)` | [`operator::ControllerBuilder::cleanup`] |
//! | `events::Recorder`, `Reporter` | [`operator::Context::event`], [`Cluster::recorder`] |
//! | `kube-leader-election` and others | [`operator::Manager::leader_election`], [`Cluster::elector`] |
//! | `owner_ref`, `controller_owner_ref` | done by [`operator::Context::apply`]; [`meta::OwnerReference::controller_of`] converts to k8s-openapi's type |
//! | `kube::core::admission`, with a web framework | `webhook::Webhook`, with the feature `webhook` |
//! | a mocked `tower::Service` in tests | `testkit::Kit`, `testing` and `Cluster::embedded`, with the feature `testing` |
//!
//! # Versions of other crates
//!
//! The API of this crate contains types of `k8s-openapi` 0.29 and `prometheus-client` 0.25, if the features of the same
//! names are enabled. This crate re-exports both crates, as `pintle::k8s_openapi` and `pintle::prometheus_client`. If
//! your program depends directly on `k8s-openapi` or `prometheus-client`, it must use the same version.
//!
//! # Further reading
//!
//! `Cluster::plan` shows which writes a controller would send to a cluster, without executing them (feature
//! `apiserver`).
//!
//! `cargo xtask docs` builds a site that also includes the repository's `docs` directory, as the module
//! `_documentation`.

#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod prelude;

#[doc(inline)]
pub use pintle_cluster::{Cluster, ClusterConfig, Error};
#[cfg(feature = "operator")]
#[doc(inline)]
pub use pintle_operator::{Result, init_tracing};

/// Re-exports each crate as a module, so that the compiler's suggestions name paths in this crate.
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
    #[cfg(feature = "cel")]
    cel: pintle_cel;
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
    lock_audit: pintle_lock_audit;
    meta: pintle_meta;
    metrics: pintle_metrics;
    #[cfg(feature = "operator")]
    operator: pintle_operator;
    ratelimit: pintle_ratelimit;
    recorder: pintle_recorder;
    restreq: pintle_restreq;
    #[cfg(feature = "schema")]
    schema: pintle_schema;
    sharding: pintle_sharding;
    #[cfg(feature = "schema")]
    store: pintle_store;
    #[cfg(feature = "testing")]
    testing: pintle_testing;
    #[cfg(feature = "testing")]
    testkit: pintle_testkit;
    #[cfg(feature = "webhook")]
    webhook: pintle_webhook;
    workqueue: pintle_workqueue;
}

/// The `k8s-openapi` version that this crate uses. Your program must also depend on `k8s-openapi`, and enable one of
/// its version features, such as `v1_37`.
#[cfg(feature = "k8s-openapi")]
pub use k8s_openapi;
/// The `prometheus-client` version that this crate uses.
#[cfg(feature = "prometheus-client")]
pub use prometheus_client;

/// The pages in the repository's `docs` directory.
#[cfg(pintle_docs)]
pub mod _documentation {
    #[doc = include_str!("../../../docs/ARCHITECTURE.md")]
    pub mod architecture {}

    #[doc = include_str!("../../../docs/ELECTION.md")]
    pub mod election {}

    #[doc = include_str!("../../../docs/OPERATORS.md")]
    pub mod operators {}

    #[doc = include_str!("../../../docs/STYLE.md")]
    pub mod style {}
}

// Runs the examples in the README as doc tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

#[cfg(all(doctest, feature = "apiserver"))]
#[doc = include_str!("../../../README.md")]
struct FrontPage;
