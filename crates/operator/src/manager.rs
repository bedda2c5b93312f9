//! A manager, which runs an operator.

mod debug;
mod definitions;
#[cfg(feature = "webhook")]
mod registered;
mod replicas;
mod run;
mod waits;
#[cfg(feature = "webhook")]
mod webhooks;

use std::error::Error;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use pintle_cluster::{Cluster, ClusterConfig};
use pintle_controller::{Manager as Engine, ManagerConfig, ManagerStatus, RequestKey};
use pintle_crd::{CustomResource, CustomResourceDefinition};
use pintle_leaderelect::LeaderElectionConfig;
use pintle_metrics::InMemoryProvider;
use pintle_sharding::ShardsStatus;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::Result;
use crate::controller::{FinishedController, Surroundings};
use crate::error::OperatorError;
use crate::leader_service::LeaderService;
use crate::logging::init_tracing;
use crate::serve::{Check, Listen};
use crate::signal::StopOnSignal;

/// Runs the controllers of an operator. The manager also provides the probes, metrics, leader election and signal
/// handling that a pod needs.
///
/// The Lease, field manager, user agent, Event source and election metrics have the manager's name, such as
/// `website-controller`.
///
/// [`run`](Self::run) performs these steps in order:
///
/// 1. Serves probes and metrics. The readiness probe reports why the pod is not ready.
/// 2. Installs the CustomResourceDefinitions and waits until the API server serves them. If some of several clusters
///    are unreachable, this step waits for at most 10 s.
/// 3. Fills the caches, even on a standby.
/// 4. Runs the controllers while this replica is the leader. Without leader election, the controllers always run.
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
    owns_cluster: bool,
    metrics: InMemoryProvider,
    election: Option<LeaderElectionConfig>,
    listen: Option<Listen>,
    has_debug: bool,
    shards: Vec<ShardsStatus>,
    definitions: Vec<CustomResourceDefinition>,
    replaces_newer: bool,
    /// Definitions to install in other clusters than the manager's own cluster.
    other_definitions: Vec<(Cluster, CustomResourceDefinition)>,
    /// The other clusters, whose informers the debug page also shows.
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
    /// The first configuration error of a controller, which `run` returns.
    fault: Option<OperatorError>,
}

type Bind = Box<dyn FnOnce(Engine, &Surroundings) -> Engine + Send>;
type ServiceFuture = Pin<Box<dyn Future<Output = Result<(), Box<dyn Error + Send + Sync>>> + Send>>;
type Service = Box<dyn FnOnce(CancellationToken) -> ServiceFuture + Send>;

impl Manager {
    /// Creates a manager for the cluster from the kubeconfig. Without a kubeconfig, the pod's service account is used.
    /// This function reads files but sends no requests.
    ///
    /// # Errors
    ///
    /// Returns an error if no cluster configuration exists or if it is invalid.
    pub fn infer(name: impl Into<String>) -> Result<Self, OperatorError> {
        Self::connect(name, ClusterConfig::default())
    }

    /// Creates a manager for the cluster in `config`. If `config` contains no metrics provider, the manager's provider
    /// is used.
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

    /// Creates a manager for an existing `Cluster`, for example an embedded cluster. The caller, and not the manager,
    /// must shut down the cluster. The cluster's user agent and metrics provider are not changed, so the metrics that
    /// [`serve`](Self::serve) exposes do not include the client's metrics. To include the client's metrics, use
    /// [`connect`](Self::connect).
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
            listen: None,
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

    /// Returns the manager's cluster.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Returns the manager's metrics provider, for example for tests and additional exporters.
    pub fn metrics(&self) -> &InMemoryProvider {
        &self.metrics
    }

    /// Returns a handle to the status of the controllers and of the leader election. The handle can explain why a key
    /// is queued or delayed, and return the number of keys in each queue. Call this method before [`run`](Self::run),
    /// because `run` consumes the manager. Before the manager runs, the handle returns no controllers.
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

    /// Runs the controllers only on the leader. The name of the Lease is the manager's name, which must be a DNS
    /// subdomain. The Lease is created in the namespace of the cluster configuration. In a pod, the namespace of the
    /// cluster configuration is the pod's namespace. As in client-go, the lease duration is 15 s, the renew deadline is
    /// 10 s and the retry period is 2 s.
    pub fn leader_election(self) -> Self {
        self.leader_election_with(LeaderElectionConfig::default())
    }

    /// Runs the controllers only on the leader, like [`leader_election`](Self::leader_election), with custom settings.
    pub fn leader_election_with(mut self, config: LeaderElectionConfig) -> Self {
        self.election = Some(config);
        self
    }

    /// Serves probes, metrics and a debug page on `address` over HTTP.
    ///
    /// | path | response |
    /// |---|---|
    /// | `/healthz`, `/livez` | 200; 500 if this replica leads, or leads a shard, and hangs; 500 if a [check](Self::liveness) fails |
    /// | `/readyz` | 200 once the resources are installed and the caches are filled; 500 with the reasons, also if a Lease cannot be used for longer than the lease duration |
    /// | `/metrics` | the metrics of the manager, its controllers and its client, as OpenMetrics text |
    /// | `/debug`, `/debug.json` | a human-readable page, and its data: see [`debug`](Self::debug) |
    ///
    /// With the query `?verbose`, the response of a successful probe lists its checks.
    pub fn serve(mut self, address: impl Into<SocketAddr>) -> Self {
        self.listen = Some(Listen::Address(address.into()));
        self
    }

    /// Serves probes, metrics and a debug page like [`serve`](Self::serve), on a listener that is already bound. A test
    /// can bind port 0 and read the port from the listener. Connections wait until the manager [runs](Self::run).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::net::SocketAddr;
    ///
    /// use pintle_operator::Manager;
    /// use tokio::net::TcpListener;
    ///
    /// async fn on_a_free_port(manager: Manager) -> std::io::Result<(Manager, SocketAddr)> {
    ///     let listener = TcpListener::bind("127.0.0.1:0").await?;
    ///     let address = listener.local_addr()?;
    ///     Ok((manager.serve_on(listener), address))
    /// }
    /// ```
    pub fn serve_on(mut self, listener: TcpListener) -> Self {
        self.listen = Some(Listen::Listener(listener));
        self
    }

    /// Disables the server that was configured with [`serve`](Self::serve) or [`serve_on`](Self::serve_on), and serves
    /// webhooks on a free loopback port. Use this method in tests that run several managers in parallel.
    pub fn without_server(mut self) -> Self {
        self.listen = None;
        #[cfg(feature = "webhook")]
        if let Some(webhooks) = &mut self.webhooks {
            webhooks.use_free_port();
        }
        self
    }

    /// Adds a liveness check. If the check fails, Kubernetes restarts the container.
    pub fn liveness(
        mut self,
        name: impl Into<String>,
        check: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        self.live_checks.push((name.into(), Arc::new(check)));
        self
    }

    /// Adds a readiness check. While the check fails, the pod receives no traffic from Services, and rollouts wait.
    pub fn readiness(
        mut self,
        name: impl Into<String>,
        check: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        self.ready_checks.push((name.into(), Arc::new(check)));
        self
    }

    /// Installs the CustomResourceDefinition of `K` with server-side apply when the manager starts. The manager retries
    /// while the API server is unreachable. After the definition is stored, the manager waits for up to a minute until
    /// the server serves the resource. If the definition is not installed with this method, controllers for `K` wait
    /// until the resource exists. While the manager or a controller waits, the readiness check names the resource, and
    /// a warning is logged once a minute.
    ///
    /// Each replica installs the definition. During an upgrade, two builds may install different definitions. The
    /// manager stores your [package version](CustomResourceDefinition::package_version) in an annotation of the
    /// definition, and compares it with the version of the installed definition:
    ///
    /// - If this build has a higher version, it replaces the installed definition.
    /// - If this build has a lower version, it keeps the installed definition.
    /// - If the versions are equal or unknown, this build replaces the installed definition, unless this would remove a
    ///   served version.
    ///
    /// Increase the version in `Cargo.toml` with each release that changes the schema. After a rollback to an older
    /// build, the newer definition is kept, unless the older build calls
    /// [`replace_newer_definitions`](Self::replace_newer_definitions). If the installed definition does not contain a
    /// version that this build serves, the manager fails with [`OperatorError::Definition`].
    ///
    /// The service account needs the verbs `get`, `list`, `watch`, `create` and `patch` for
    /// `customresourcedefinitions`.
    pub fn install<K: CustomResource>(self) -> Self {
        self.install_definition(K::crd())
    }

    /// Installs a definition like [`install`](Self::install), for example a definition that was
    /// [merged](CustomResourceDefinition::merge) from several versions. If the definition was not created by
    /// `#[derive(Resource)]`, set its version with
    /// [`with_package_version`](CustomResourceDefinition::with_package_version).
    pub fn install_definition(mut self, definition: CustomResourceDefinition) -> Self {
        self.definitions.push(with_version(definition));
        self
    }

    /// Sets whether this build replaces CustomResourceDefinitions and webhook configurations that a newer build has
    /// [installed](Self::install). The default is `false`. Pass `true` only during a rollback, for example depending on
    /// a command-line flag.
    ///
    /// After an older definition is installed, the next write to each object removes the fields that are not in the
    /// older schema. If an older definition does not contain a stored version, the API server rejects the older
    /// definition.
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

    /// Adds a controller. With leader election, only the leader runs the controller. Without leader election, every
    /// replica runs the controller.
    pub fn controller(mut self, controller: impl FinishedController) -> Self {
        let controller = controller.finished();
        self.fault = self.fault.or_else(|| controller.fault());
        self.controllers.push(Box::new(|engine, surroundings| engine.controller(controller.bind(surroundings, None))));
        self
    }

    /// Adds a [`pintle_controller::Controller`], whose keys can have any type that implements
    /// [`RequestKey`](pintle_controller::RequestKey). Create the informers of the controller with the manager's
    /// [cluster](Self::cluster).
    ///
    /// The controller has no [`Context`](crate::Context), so its writes are not stopped when the leadership term ends.
    pub fn plain_controller<K: RequestKey>(mut self, controller: pintle_controller::Controller<K>) -> Self {
        self.controllers.push(Box::new(|engine, _| engine.controller(controller)));
        self
    }

    /// Runs a service on every replica while the manager runs. The service should end when its token is cancelled. If
    /// the service returns an error or panics, the manager stops. If the service returns `Ok`, the manager continues.
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

    /// Runs a service only while this replica is the leader. Without leader election, the service runs while the
    /// manager runs. The manager drops the service when the leadership term ends. In the next term, the manager starts
    /// the service again. When the manager stops, it cancels the service's token to ask the service to end. If the
    /// service returns an error or panics, the manager restarts it with backoff.
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

    /// Sets the timeout for stopping all components of the manager and writing pending Events. The default is 25 s,
    /// which is shorter than Kubernetes' default grace period of 30 s. See
    /// [`ManagerConfig::graceful_shutdown_timeout`].
    pub fn shutdown_timeout(mut self, timeout: Duration) -> Self {
        self.config.graceful_shutdown_timeout = timeout;
        self
    }

    /// Runs the manager until the process receives SIGTERM or SIGINT, or until a component of the manager fails. Use
    /// this method as the last expression in `main`. A second signal or a signal after this method has returned
    /// immediately exits the process with code 1. Logs are written to stderr, unless the program has installed a
    /// tracing subscriber: see [`init_tracing`].
    ///
    /// Signals are handled on a separate thread, so they work even if all threads of the runtime are blocked. Blocking
    /// work, such as in `spawn_blocking`, can keep the process alive after `main` has returned. The process exits with
    /// code 1 if it still runs after the [shutdown timeout](Self::shutdown_timeout) plus a margin. The margin is one
    /// tenth of the timeout, but at most 2 s, plus 1.5 s. The timeout starts when the signal arrives. After a failure,
    /// the timeout starts when this method returns. If a program continues after a failure, it must call this method on
    /// another manager before the timeout and the margin have elapsed. If the program does other work after the manager
    /// has stopped, use [`run`](Self::run) instead of this method.
    ///
    /// # Errors
    ///
    /// Returns an error if the signal handlers cannot be installed, or if [`run`](Self::run) fails. The cause of the
    /// error is an [`OperatorError`].
    ///
    /// # Panics
    ///
    /// Panics if called outside of a tokio runtime.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future stops all components of the manager, like dropping the future of [`run`](Self::run).
    pub async fn run_until_signal(self) -> Result<()> {
        init_tracing();
        let signals = StopOnSignal::new(self.config.graceful_shutdown_timeout).map_err(OperatorError::Signal)?;
        let ended = self.run(signals.stop()).await;
        signals.ended();
        Ok(ended?)
    }
}

fn with_version(definition: CustomResourceDefinition) -> CustomResourceDefinition {
    match definition.package_version().map(str::to_owned) {
        Some(version) => definition.with_package_version(version),
        None => definition,
    }
}

pintle_meta::debug_struct!(Manager |self| {
    name, cluster, listen,
    definitions = self.definitions.iter().map(|definition| &definition.metadata.name).collect::<Vec<_>>(),
    controllers = self.controllers.len(),
    config, ..
});
