//! The manager of an operator.

mod debug;
mod definitions;
mod replicas;
mod run;
#[cfg(feature = "webhook")]
mod webhooks;

use std::error::Error;
use std::fmt;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use pintle_cluster::{Cluster, ClusterConfig};
use pintle_controller::{Manager as Engine, ManagerConfig, ManagerStatus, RequestKey};
use pintle_crd::{CustomResource, CustomResourceDefinition};
use pintle_leaderelect::{LeaderElectionConfig, ShardsStatus};
use pintle_metrics::InMemoryProvider;
use tokio_util::sync::CancellationToken;

use crate::Result;
use crate::controller::{FinishedController, Surroundings};
use crate::error::OperatorError;
use crate::leader_service::LeaderService;
use crate::logging::init_tracing;
use crate::serve::Check;
use crate::signal::StopOnSignal;

/// Runs the controllers of an operator. The manager also provides the probes, metrics, leader election and signal
/// handling that the operator's pod needs.
///
/// The manager has a single name, such as `website-controller`. The name is used for the Lease, the field manager, the
/// user agent, the source of Events and the metrics of the election.
///
/// [`run`](Self::run) performs these steps in order:
///
/// 1. The manager serves probes and metrics, so that the probes show why the pod is not ready.
/// 2. The manager installs the CustomResourceDefinitions, and waits until the API server serves them. If another cluster
///    cannot be reached, the manager does not wait for it.
/// 3. The manager fills the caches, even on a standby.
/// 4. The manager runs the controllers while this replica leads. Without a leader election, the manager runs them
///    immediately.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
///
/// use pintle_cluster::Cluster;
/// use pintle_meta::{ObjectMeta, WriteOptions};
/// use pintle_operator::{Action, Context, Controller, Manager, Result};
/// use serde::{Deserialize, Serialize};
/// use tokio_util::sync::CancellationToken;
///
/// #[derive(Deserialize, Serialize)]
/// struct ConfigMap {
///     metadata: ObjectMeta,
/// }
/// pintle_meta::resource!(ConfigMap, "v1", "ConfigMap", "configmaps", Namespaced);
///
/// #[tokio::main]
/// async fn main() -> Result<()> {
///     let cluster = Cluster::embedded().await?; // or `Manager::infer("auditor")?`
///     let map = ConfigMap { metadata: ObjectMeta::new("default", "settings") };
///     cluster.api().create(&map, &WriteOptions::default()).await?;
///
///     let stop = CancellationToken::new();
///     let done = stop.clone();
///     let audit = move |map: Arc<ConfigMap>, _: Context<ConfigMap>| {
///         println!("{} exists", map.metadata.name);
///         done.cancel();
///         async { Ok(Action::await_change()) }
///     };
///     Manager::new("auditor", cluster).controller(Controller::new().reconcile(audit)).run(&stop).await?;
///     Ok(())
/// }
/// ```
#[must_use = "a manager does nothing until it runs"]
pub struct Manager {
    name: String,
    cluster: Cluster,
    /// Whether the manager shuts the cluster down when the manager has stopped.
    owns_cluster: bool,
    metrics: InMemoryProvider,
    election: Option<LeaderElectionConfig>,
    address: Option<SocketAddr>,
    has_debug: bool,
    shards: Vec<ShardsStatus>,
    definitions: Vec<CustomResourceDefinition>,
    /// Whether definitions of newer builds are replaced.
    replaces_newer: bool,
    /// The definitions for other clusters.
    other_definitions: Vec<(Cluster, CustomResourceDefinition)>,
    /// The other clusters whose informers are on the debug page.
    other_clusters: Vec<Cluster>,
    controllers: Vec<Bind>,
    sharded: Vec<replicas::Sharded>,
    services: Vec<(String, Service)>,
    leader_services: Vec<(String, LeaderService)>,
    live_checks: Vec<(String, Check)>,
    ready_checks: Vec<(String, Check)>,
    #[cfg(feature = "webhook")]
    webhooks: Option<webhooks::Setup>,
    config: ManagerConfig,
    engine: Engine,
    /// The first configuration error of a controller, which was found before the start.
    fault: Option<OperatorError>,
}

/// A function that adds a controller to the underlying `pintle_controller::Manager`.
type Bind = Box<dyn FnOnce(Engine, &Surroundings) -> Engine + Send>;
type ServiceFuture = Pin<Box<dyn Future<Output = Result<(), Box<dyn Error + Send + Sync>>> + Send>>;
type Service = Box<dyn FnOnce(CancellationToken) -> ServiceFuture + Send>;

impl Manager {
    /// Creates a manager for the cluster that the environment configures. If there is a kubeconfig, the manager uses
    /// the cluster of the kubeconfig. Otherwise, the manager uses the cluster of the pod's service account. This
    /// function reads files, but sends no request yet.
    ///
    /// # Errors
    ///
    /// Returns an error if no configuration names a cluster, or if the configuration is invalid.
    pub fn infer(name: impl Into<String>) -> Result<Self, OperatorError> {
        Self::connect(name, ClusterConfig::default())
    }

    /// Creates a manager for the cluster that `config` describes. If `config` has no metrics provider, the manager's
    /// own provider is used.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`Cluster::connect`].
    pub fn connect(name: impl Into<String>, config: impl Into<ClusterConfig>) -> Result<Self, OperatorError> {
        let name = name.into();
        let metrics = InMemoryProvider::new();
        let mut config = config.into();
        let mut client = match config.client {
            Some(client) => client,
            None => Cluster::infer()?.config().clone(),
        };
        client.user_agent.get_or_insert_with(|| name.clone());
        config.client = Some(client);
        config.metrics = config.metrics.or_else(|| Some(Arc::new(metrics.clone())));
        Ok(Self { owns_cluster: true, ..Self::with(name, Cluster::connect(config)?, metrics) })
    }

    /// Creates a manager for a cluster that is already connected, for example for an embedded cluster. The caller must
    /// shut the cluster down. The client uses the user agent in the cluster's configuration. The client and the
    /// informers report to the cluster's metrics provider.
    pub fn new(name: impl Into<String>, cluster: Cluster) -> Self {
        Self::with(name.into(), cluster, InMemoryProvider::new())
    }

    fn with(name: String, cluster: Cluster, metrics: InMemoryProvider) -> Self {
        Self {
            name,
            cluster,
            owns_cluster: false,
            metrics,
            election: None,
            address: None,
            has_debug: true,
            shards: Vec::new(),
            definitions: Vec::new(),
            replaces_newer: false,
            other_definitions: Vec::new(),
            other_clusters: Vec::new(),
            controllers: Vec::new(),
            sharded: Vec::new(),
            services: Vec::new(),
            leader_services: Vec::new(),
            live_checks: Vec::new(),
            ready_checks: Vec::new(),
            #[cfg(feature = "webhook")]
            webhooks: None,
            config: ManagerConfig::default(),
            engine: Engine::new(),
            fault: None,
        }
    }

    /// Returns the cluster of this manager.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Returns the metrics provider of this manager. Tests and additional exporters can read the metrics from this
    /// provider.
    pub fn metrics(&self) -> &InMemoryProvider {
        &self.metrics
    }

    /// Returns a handle to the state of the controllers and of the leader election. Take the handle before
    /// [`run`](Self::run), which adds the controllers. The handle explains why a key is queued or delayed, and returns the
    /// number of keys in each queue.
    ///
    /// # Examples
    ///
    /// ```
    /// use pintle_operator::Manager;
    ///
    /// fn with_explanations(manager: Manager) -> Manager {
    ///     let status = manager.status();
    ///     manager.service("explain", async move |stop| {
    ///         while stop.run_until_cancelled(tokio::time::sleep(std::time::Duration::from_secs(60))).await.is_some() {
    ///             if let Some(sites) = status.controller("website") {
    ///                 println!("{:?}", sites.queue_counts());
    ///                 println!("{:?}", sites.explain("team-a/blog").map(|why| why.to_string()));
    ///             }
    ///         }
    ///         Ok(())
    ///     })
    /// }
    /// ```
    pub fn status(&self) -> ManagerStatus {
        self.engine.status()
    }

    /// Runs the controllers only on the leader. The Lease has the name of the manager, so the name must be a DNS
    /// subdomain. The Lease is in the namespace of the cluster configuration. In a pod, this is the pod's namespace. The
    /// lease duration is 15 s, the renew deadline 10 s and the retry period 2 s, as in client-go.
    pub fn leader_election(self) -> Self {
        self.leader_election_with(LeaderElectionConfig::default())
    }

    /// Runs the controllers only on the leader, with these settings for the election. The defaults are described at
    /// [`leader_election`](Self::leader_election).
    pub fn leader_election_with(mut self, config: LeaderElectionConfig) -> Self {
        self.election = Some(config);
        self
    }

    /// Serves probes, metrics and a debug page over HTTP on this address.
    ///
    /// | path | response |
    /// |---|---|
    /// | `/healthz`, `/livez` | 200, or 500 if this replica leads (also a shard) and hangs, or a [check](Self::liveness) fails |
    /// | `/readyz` | 200 once the resources are installed and the caches are filled; 500 with the reasons, also if a Lease cannot be used for longer than the lease duration |
    /// | `/metrics` | the metrics of the manager, its controllers and its client, as OpenMetrics text |
    /// | `/debug`, `/debug.json` | a page for people, and its data: see [`debug`](Self::debug) |
    ///
    /// With the query `?verbose`, a successful probe also lists its checks.
    pub fn serve(mut self, address: impl Into<SocketAddr>) -> Self {
        self.address = Some(address.into());
        self
    }

    /// Removes the address that [`serve`](Self::serve) has set. The manager then does not serve probes, metrics or the
    /// debug page. If the manager has webhooks, it serves them on a free port of the loopback interface. Use this
    /// method in tests that run several managers at the same time.
    pub fn without_server(mut self) -> Self {
        self.address = None;
        #[cfg(feature = "webhook")]
        if let Some(webhooks) = &mut self.webhooks {
            webhooks.use_free_port();
        }
        self
    }

    /// Adds a liveness check. If a liveness check fails, Kubernetes restarts the pod.
    pub fn liveness(
        mut self,
        name: impl Into<String>,
        check: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        self.live_checks.push((name.into(), Arc::new(check)));
        self
    }

    /// Adds a readiness check. While a readiness check fails, Kubernetes sends the pod no traffic, and a rollout waits.
    pub fn readiness(
        mut self,
        name: impl Into<String>,
        check: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        self.ready_checks.push((name.into(), Arc::new(check)));
        self
    }

    /// Installs the CustomResourceDefinition of `K` with server-side apply when the manager starts. While the API server
    /// cannot be reached, the manager retries. After the server has stored the definition, the manager waits up to a
    /// minute until the server serves the resource. If the program does not install the resource, the controllers of this
    /// kind wait until the resource exists. While the manager or a controller waits, the readiness check names the
    /// resource, and a warning is logged once a minute.
    ///
    /// Each replica installs the definition. During an upgrade, replicas of two builds may therefore install different
    /// definitions. The manager stores the [version](CustomResourceDefinition::package_version) of your package in an
    /// annotation of the definition, and compares it with the version of the installed definition:
    ///
    /// - If this build has a greater version, it replaces the installed definition.
    /// - If this build has a smaller version, it keeps the installed definition.
    /// - If the versions are equal, or one of them is unknown, this build replaces the installed definition, unless the
    ///   replacement would remove a served version.
    ///
    /// So raise the version in `Cargo.toml` with each release that changes the schema. After a rollback to an older
    /// build, the newer definition stays. To install the older definition, see
    /// [`replace_newer_definitions`](Self::replace_newer_definitions). If the installed definition lacks a version that
    /// this build serves, the manager fails with [`OperatorError::Definition`].
    ///
    /// The service account needs the verbs `get`, `list`, `watch`, `create` and `patch` for
    /// `customresourcedefinitions`.
    pub fn install<K: CustomResource>(self) -> Self {
        self.install_definition(K::crd())
    }

    /// Installs a definition, for example a definition that was [merged](CustomResourceDefinition::merge) from several
    /// versions. See [`install`](Self::install). If the definition does not come from `#[derive(Resource)]`, set its
    /// version with [`with_package_version`](CustomResourceDefinition::with_package_version).
    pub fn install_definition(mut self, definition: CustomResourceDefinition) -> Self {
        self.definitions.push(with_version(definition));
        self
    }

    /// Sets whether this build replaces definitions, and configurations of webhooks, that a newer build has
    /// [installed](Self::install). The default is false. Set this to true for a rollback, for example with a flag of the program, and remove the flag afterwards.
    ///
    /// The next write of an object prunes the fields that the older schema lacks. The API server rejects the older
    /// definition if stored objects use a version that the definition lacks.
    ///
    /// # Examples
    ///
    /// ```
    /// use pintle_operator::Manager;
    ///
    /// /// With `ROLLBACK=true` in the Deployment, the older build installs its definitions.
    /// fn with_rollback(manager: Manager) -> Manager {
    ///     manager.replace_newer_definitions(std::env::var("ROLLBACK").is_ok_and(|value| value == "true"))
    /// }
    /// ```
    pub fn replace_newer_definitions(mut self, replaces: bool) -> Self {
        self.replaces_newer = replaces;
        self
    }

    /// Adds a controller. The controller runs on the leader, or on every replica if there is no leader election.
    pub fn controller(mut self, controller: impl FinishedController) -> Self {
        let controller = controller.finished();
        self.fault = self.fault.or_else(|| controller.fault());
        self.controllers.push(Box::new(|engine, surroundings| engine.controller(controller.bind(surroundings, None))));
        self
    }

    /// Adds a controller of the crate `pintle-controller`. The keys of this controller can have any type: see
    /// [`RequestKey`](pintle_controller::RequestKey). The informers of such a controller come from the
    /// [cluster](Self::cluster) of this manager.
    ///
    /// The controller has no [`Context`](crate::Context), so its writes are not bound to the leadership term.
    pub fn plain_controller<K: RequestKey>(mut self, controller: pintle_controller::Controller<K>) -> Self {
        self.controllers.push(Box::new(|engine, _| engine.controller(controller)));
        self
    }

    /// Runs a service on every replica while the manager runs. The service should end when its token is cancelled. If
    /// the service returns an error or panics, the manager stops. If the service returns early without an error, the
    /// manager continues.
    pub fn service<Fut>(
        mut self,
        name: impl Into<String>,
        run: impl FnOnce(CancellationToken) -> Fut + Send + 'static,
    ) -> Self
    where
        Fut: Future<Output = Result<(), Box<dyn Error + Send + Sync>>> + Send + 'static,
    {
        self.services.push((name.into(), Box::new(|stop| Box::pin(run(stop)))));
        self
    }

    /// Runs a service while this replica leads, or all the time if there is no leader election. When the leadership
    /// term ends, the service is dropped. The next term starts the service again. When the manager stops, it cancels
    /// the token that the service has received. The service should then end. After an error or a panic, the manager
    /// starts the service again after a growing delay.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use pintle_operator::Manager;
    ///
    /// fn with_report(manager: Manager) -> Manager {
    ///     manager.leader_service("report", async |stop| {
    ///         while stop.run_until_cancelled(tokio::time::sleep(Duration::from_secs(60))).await.is_some() {
    ///             println!("one more minute as the leader");
    ///         }
    ///         Ok(())
    ///     })
    /// }
    /// ```
    pub fn leader_service<Fut>(
        mut self,
        name: impl Into<String>,
        run: impl Fn(CancellationToken) -> Fut + Send + Sync + 'static,
    ) -> Self
    where
        Fut: Future<Output = Result<()>> + Send + 'static,
    {
        self.leader_services.push((name.into(), Arc::new(move |stop| Box::pin(run(stop)))));
        self
    }

    /// Sets the time limit for stopping all parts of the manager, including the writes of pending Events. The default is
    /// 25 s, which is less than the 30 s that Kubernetes gives a pod to stop. See [`ManagerConfig::graceful_shutdown_timeout`].
    pub fn shutdown_timeout(mut self, timeout: Duration) -> Self {
        self.config.graceful_shutdown_timeout = timeout;
        self
    }

    /// Runs the manager until SIGTERM or SIGINT arrives, or until a part of the manager fails. This call can be the
    /// last expression of `main`. A second signal exits the process immediately, with code 1. A signal after this method
    /// has returned also exits the process. Logs go to stderr, unless the program has installed a tracing subscriber: see
    /// [`init_tracing`].
    ///
    /// A thread of its own reads the signals, so a signal also stops a program whose calls block all threads of the
    /// runtime. Blocking work, for example in `spawn_blocking`, can keep the process alive after `main` has returned. So
    /// the process exits with code 1 if it has not ended soon after the
    /// [shutdown timeout](Self::shutdown_timeout). The margin is one tenth of the timeout, at most 2 s, and another 1.5 s.
    /// The timeout starts with the signal, or, if a part has failed, when this method returns. If the program continues
    /// after a failure, it must call this method of another manager within the timeout. A program that does other work
    /// afterwards uses [`run`](Self::run) instead.
    ///
    /// # Errors
    ///
    /// Returns an error if the handlers for signals cannot be installed. This method also returns the errors of
    /// [`run`](Self::run). The cause of the error is an [`OperatorError`].
    ///
    /// # Panics
    ///
    /// Panics if called outside of a tokio runtime.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future ends all parts of the manager, as for [`run`](Self::run).
    pub async fn run_until_signal(self) -> Result<()> {
        init_tracing();
        let signals = StopOnSignal::new(self.config.graceful_shutdown_timeout).map_err(OperatorError::Signal)?;
        let ended = self.run(signals.stop()).await;
        signals.ended();
        Ok(ended?)
    }
}

/// Puts the version of the program into the annotations of a definition.
fn with_version(definition: CustomResourceDefinition) -> CustomResourceDefinition {
    match definition.package_version().map(str::to_owned) {
        Some(version) => definition.with_package_version(version),
        None => definition,
    }
}

impl fmt::Debug for Manager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let definitions: Vec<_> = self.definitions.iter().map(|definition| &definition.metadata.name).collect();
        f.debug_struct("Manager")
            .field("name", &self.name)
            .field("cluster", &self.cluster)
            .field("address", &self.address)
            .field("definitions", &definitions)
            .field("controllers", &self.controllers.len())
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}
