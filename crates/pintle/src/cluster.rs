//! The `Cluster`: one connection configuration, and the clients, informers, recorders and electors made from it.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

#[cfg(feature = "apiserver")]
use pintle_apiserver::{ApiServer, ApiServerConfig};
use pintle_controller::leader_events;
use pintle_events::{BroadcasterConfig, EventBroadcaster, EventRecorder, EventSource};
use pintle_informer::{InformerConfig, InformerFactory, Namespaces, SharedInformer};
use pintle_kubeconfig::{Environment, Overrides};
use pintle_leaderelect::{
    Candidate, LeaderCallbacks, LeaderElectionConfig, LeaderElector, Leadership, Lease, LeaseCandidate,
    LeaseCandidateSpec, LeaseGroup, LeaseGroupConfig, LeaseLock, LockKind, Observers, ResourceLock, Shards,
    ShardsConfig, TermEnd,
};
use pintle_meta::{ClientConfig, DynamicObject, InvalidKey, NamespaceScope, Object, ObjectKey, Resource};
use pintle_metrics::Provider;
use pintle_restreq::{Api, RestClient, RestClientConfig, TransportLayer};
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;

use crate::{ClusterConfig, Error};

/// A connection to a cluster, and the factory of clients, informers, recorders and electors for it.
///
/// Start here: a `Cluster` combines the other crates. It shares one client, and one informer for each resource and
/// selector. Each elector has a separate client, so other requests never delay a renewal. Cloning a `Cluster`
/// increments a reference count.
///
/// Clients have no rate limit by default, because API Priority and Fairness protects the server. Set
/// [`ClientConfig::qps`] for a server without it.
///
/// # Examples
///
/// ```
/// use pintle::prelude::*;
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Clone, Debug, Deserialize, Serialize)]
/// struct ConfigMap {
///     metadata: ObjectMeta,
/// }
/// resource!(ConfigMap, "v1", "ConfigMap", "configmaps", Namespaced);
///
/// #[tokio::main]
/// async fn main() -> Result<(), Box<dyn std::error::Error>> {
///     let cluster = Cluster::embedded().await?; // or `Cluster::infer()?`
///     let map = ConfigMap { metadata: ObjectMeta::new("default", "settings") };
///     cluster.api().create(&map, &WriteOptions::default()).await?;
///
///     let maps = cluster.informer::<ConfigMap>();
///     maps.wait_for_sync().await?;
///     assert!(maps.lister().get(&map.key()).is_some());
///     cluster.shutdown().await;
///     Ok(())
/// }
/// ```
#[derive(Clone)]
pub struct Cluster {
    inner: Arc<Inner>,
}

struct Inner {
    config: ClientConfig,
    metrics: Option<Arc<dyn Provider>>,
    transport: Option<TransportLayer>,
    client: RestClient,
    informers: InformerFactory,
    events: Mutex<Events>,
    #[cfg(feature = "apiserver")]
    server: Option<ApiServer>,
}

/// The Event writer.
enum Events {
    /// Started with the first recorder.
    Open(Option<EventBroadcaster>),
    /// The cluster was shut down.
    Closed,
}

impl Cluster {
    /// Connects to the cluster that the environment names, as [`connect`](Self::connect) does with the default
    /// [`ClusterConfig`]. It reads files, but sends no request yet.
    ///
    /// # Errors
    ///
    /// The same as for [`connect`](Self::connect).
    pub fn infer() -> Result<Self, Error> {
        Self::connect(ClusterConfig::default())
    }

    /// Connects to the cluster that `config` describes. A [`ClientConfig`] converts to a [`ClusterConfig`]. No request
    /// is sent yet, so an unreachable server shows only on the first request.
    ///
    /// # Errors
    ///
    /// - The configuration contradicts itself, or a certificate or key in it cannot be used.
    /// - `config` has no client configuration, and the environment has none or an invalid one.
    pub fn connect(config: impl Into<ClusterConfig>) -> Result<Self, Error> {
        let ClusterConfig { client, metrics, transport } = config.into();
        let client = match client {
            Some(client) => client,
            None => pintle_kubeconfig::infer(None, &Overrides::default(), &Environment::of_process())
                .map_err(Error::Kubeconfig)?,
        };
        Self::new(
            client,
            metrics,
            transport,
            #[cfg(feature = "apiserver")]
            None,
        )
    }

    /// Starts an API server in this process, on a loopback port, and connects to it. The server stops when the last
    /// clone of the cluster is dropped. To set metrics, [`connect`](Self::connect) to its [`config`](Self::config).
    ///
    /// # Errors
    ///
    /// The server cannot listen.
    #[cfg(feature = "apiserver")]
    pub async fn embedded() -> Result<Self, Error> {
        let server = ApiServer::start(ApiServerConfig::default()).await.map_err(Error::Server)?;
        Self::new(server.client_config(), None, None, Some(server))
    }

    fn new(
        config: ClientConfig,
        metrics: Option<Arc<dyn Provider>>,
        transport: Option<TransportLayer>,
        #[cfg(feature = "apiserver")] server: Option<ApiServer>,
    ) -> Result<Self, Error> {
        let inner = Inner {
            client: RestClient::new(RestClientConfig {
                metrics: metrics.clone(),
                transport_layer: transport.clone(),
                ..config.clone().into()
            })
            .map_err(Error::Client)?,
            config,
            metrics,
            transport,
            informers: InformerFactory::new(),
            events: Mutex::new(Events::Open(None)),
            #[cfg(feature = "apiserver")]
            server,
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Returns the embedded API server if [`embedded`](Self::embedded) made this cluster, for example to inject faults.
    #[cfg(feature = "apiserver")]
    pub fn server(&self) -> Option<&ApiServer> {
        self.inner.server.as_ref()
    }

    /// Returns the client configuration.
    pub fn config(&self) -> &ClientConfig {
        &self.inner.config
    }

    /// Returns the shared client.
    pub fn client(&self) -> &RestClient {
        &self.inner.client
    }

    /// Returns a handle for the objects of type `T`, across all namespaces if `T` is namespaced.
    pub fn api<T: Resource>(&self) -> Api<T> {
        Api::all(self.inner.client.clone())
    }

    /// Returns a handle for the objects of type `T` in one namespace. An empty string means the configuration's
    /// namespace.
    pub fn namespaced<T: Resource<Scope = NamespaceScope>>(&self, namespace: &str) -> Api<T> {
        Api::namespaced(self.inner.client.clone(), namespace)
    }

    /// Returns the shared informer for `T` across all namespaces. Calls with the same type return the same informer.
    ///
    /// The informer is started. It runs until its last [user](InformerFactory) is gone or the cluster is [shut
    /// down](Self::shutdown). An informer that is requested after the shutdown never runs.
    ///
    /// For one namespace, a selector or other settings, see [`informer_with`](Self::informer_with). For several
    /// namespaces, see [`informer_of_namespaces`](Self::informer_of_namespaces).
    ///
    /// The cached objects lack their `managedFields`, as [`Projection`](pintle_informer::Projection) explains. They may
    /// be written back with an update.
    ///
    /// # Panics
    ///
    /// Panics if called outside of a tokio runtime.
    pub fn informer<T: Resource + DeserializeOwned>(&self) -> SharedInformer<T> {
        self.informer_with(self.api(), InformerConfig::default())
    }

    /// Returns the informer for the objects of `api` that match the selectors in `config`. Callers with the same
    /// settings share one informer. [`InformerFactory`] lists the settings that lead to a separate informer. The
    /// informer is started, as with [`informer`](Self::informer).
    ///
    /// `api` is [`api`](Self::api), [`namespaced`](Self::namespaced), or a dynamic handle made with the cluster's
    /// [`client`](Self::client).
    ///
    /// # Examples
    ///
    /// ```
    /// use pintle::prelude::*;
    /// use serde::Deserialize;
    ///
    /// #[derive(Clone, Debug, Deserialize)]
    /// struct Pod {
    ///     metadata: ObjectMeta,
    /// }
    /// resource!(Pod, "v1", "Pod", "pods", Namespaced);
    ///
    /// fn web_pods(cluster: &Cluster) -> Result<SharedInformer<Pod>, Box<dyn std::error::Error>> {
    ///     let reflector = ReflectorConfig { label_selector: "app=web".parse()?, ..ReflectorConfig::default() };
    ///     let config = InformerConfig { reflector, ..InformerConfig::default() };
    ///     Ok(cluster.informer_with(cluster.namespaced("team-a"), config))
    /// }
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if called outside of a tokio runtime.
    pub fn informer_with<T: Object + DeserializeOwned>(
        &self,
        api: Api<T>,
        mut config: InformerConfig<T>,
    ) -> SharedInformer<T> {
        config.metrics = config.metrics.or_else(|| self.inner.metrics.clone());
        let informer = self.inner.informers.informer(api, config);
        // `start` does nothing after a shutdown.
        self.inner.informers.start();
        informer
    }

    /// Returns the informer for the objects of `T` in a set of namespaces, which [may
    /// change](SharedInformer::of_namespaces). Callers that pass clones of the same set share one informer. Otherwise
    /// it works as [`informer_with`](Self::informer_with).
    ///
    /// # Panics
    ///
    /// Panics if called outside of a tokio runtime.
    pub fn informer_of_namespaces<T: Resource<Scope = NamespaceScope> + DeserializeOwned>(
        &self,
        namespaces: &Namespaces,
        mut config: InformerConfig<T>,
    ) -> SharedInformer<T> {
        config.metrics = config.metrics.or_else(|| self.inner.metrics.clone());
        let client = self.inner.client.clone();
        let source = move |namespace: Option<&str>| match namespace {
            Some(namespace) => Api::namespaced(client.clone(), namespace),
            None => Api::all(client.clone()),
        };
        let informer = self.inner.informers.informer_of_namespaces(namespaces, source, config);
        self.inner.informers.start();
        informer
    }

    /// Returns the factory of all informers of this cluster, for example to pass it to a manager.
    pub fn informers(&self) -> &InformerFactory {
        &self.inner.informers
    }

    /// Returns an Event recorder for a component, such as `website-controller`. All recorders share one writer. After
    /// [`shutdown`](Self::shutdown) the recorder writes nothing.
    ///
    /// # Panics
    ///
    /// Panics if called outside of a tokio runtime.
    pub fn recorder(&self, component: &str) -> EventRecorder {
        let source = EventSource { component: component.into(), ..EventSource::default() };
        if let Events::Open(Some(events)) = &*self.events() {
            return events.recorder(source);
        }
        // The broadcaster is made without the lock, because it calls the user's metrics provider. A surplus one ends at
        // once.
        let config = BroadcasterConfig { metrics: self.inner.metrics.clone(), ..BroadcasterConfig::default() };
        let started = EventBroadcaster::new(config);
        started.start_recording_to_sink(self.api());
        let mut events = self.events();
        match &mut *events {
            Events::Open(Some(quicker)) => quicker.recorder(source),
            Events::Open(none) => none.insert(started).recorder(source),
            Events::Closed => started.recorder(source),
        }
    }

    fn events(&self) -> MutexGuard<'_, Events> {
        self.inner.events.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Creates an elector for the Lease with this key: `namespace/name`, or a name in the configuration's namespace.
    ///
    /// - The elector has its own client, with separate connections, no rate limit, and a request timeout of half the
    ///   renew deadline.
    /// - It watches the Lease, so it notices a release at once.
    /// - It records its terms as Events about the Lease, unless `config` sets [another
    ///   sink](LeaderElectionConfig::events).
    ///
    /// For other kinds of locks, see [`lock`](Self::lock).
    ///
    /// # Examples
    ///
    /// ```
    /// use pintle::prelude::*;
    ///
    /// /// Replicas of this work in turns: the manager runs the controllers while it leads.
    /// fn manager(cluster: &Cluster) -> Result<Manager, pintle::Error> {
    ///     let elector = cluster.elector("kube-system/website-controller", LeaderElectionConfig::default())?;
    ///     Ok(Manager::new().leader_election(elector))
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// The key is invalid, or `config` breaks a rule. The error names the first such rule.
    ///
    /// # Panics
    ///
    /// Panics if called outside of a tokio runtime.
    pub fn elector(
        &self,
        lease: impl TryInto<ObjectKey, Error: Into<InvalidKey>>,
        mut config: LeaderElectionConfig,
    ) -> Result<LeaderElector<LeaseLock<Api<Lease>>>, Error> {
        let lease = lease.try_into().map_err(|error| Error::Lease(error.into()))?;
        let leases = self.leases(lease.namespace().unwrap_or_default(), config.renew_deadline)?;
        let namespace = leases.namespace().unwrap_or_default().to_owned();
        let lock = LeaseLock::new(leases, &namespace, lease.name());
        self.set_observers(&mut config);
        LeaderElector::new(lock, config).map_err(Error::Election)
    }

    /// Creates electors for many Leases of one namespace. An empty string means the configuration's namespace. The
    /// electors share one task, one watch and one client, which is separate as for an [`elector`](Self::elector). They
    /// record their terms as Events, too.
    ///
    /// # Examples
    ///
    /// ```
    /// use pintle::leaderelect::LeaseGroupConfig;
    /// use pintle::prelude::*;
    ///
    /// async fn shard(cluster: &Cluster, stop: &CancellationToken) -> Result<(), pintle::Error> {
    ///     let labels = [("app".to_owned(), "website-controller".to_owned())].into();
    ///     let config = LeaseGroupConfig { labels, ..LeaseGroupConfig::default() };
    ///     let electors = cluster.electors("kube-system", config)?;
    ///     let work = LeaderCallbacks::new(async |leadership: Leadership| leadership.cancelled().await);
    ///     electors.elector("website-controller-7").run(stop, work).await; // And others beside it.
    ///     Ok(())
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// `config` breaks a rule. The error names the first such rule.
    ///
    /// # Panics
    ///
    /// Panics if called outside of a tokio runtime.
    pub fn electors(&self, namespace: &str, mut config: LeaseGroupConfig) -> Result<LeaseGroup<Api<Lease>>, Error> {
        let leases = self.leases(namespace, config.election.renew_deadline)?;
        let namespace = leases.namespace().unwrap_or_default().to_owned();
        self.set_observers(&mut config.election);
        LeaseGroup::start(leases, &namespace, config).map_err(Error::Election)
    }

    /// Returns this replica's share of the shards called `name`, whose Leases are in `namespace`. An empty string means
    /// the configuration's namespace. The shards have their own client, as an [`elector`](Self::elector) does, and
    /// record their terms as Events.
    ///
    /// # Examples
    ///
    /// ```
    /// use pintle::informer::SharedInformer;
    /// use pintle::leaderelect::{Shard, Sharded, ShardsConfig};
    /// use pintle::prelude::*;
    ///
    /// async fn work(cluster: &Cluster, stop: &CancellationToken) -> Result<(), pintle::Error> {
    ///     let mut shards = cluster.shards("kube-system", "website-controller", ShardsConfig::default())?;
    ///     let work = async |shard: Shard, leadership: Leadership| {
    ///         let source = Sharded { source: cluster.api(), shard };
    ///         let informer: SharedInformer<DynamicPod> = SharedInformer::new(source, InformerConfig::default());
    ///         informer.start(); // It caches the pods of this shard until the term ends.
    ///         leadership.cancelled().await;
    ///     };
    ///     shards.run(stop, work).await;
    ///     Ok(())
    /// }
    /// # #[derive(Clone, Debug, serde::Deserialize)]
    /// # struct DynamicPod { metadata: ObjectMeta }
    /// # resource!(DynamicPod, "v1", "Pod", "pods", Namespaced);
    /// ```
    ///
    /// # Errors
    ///
    /// `config` breaks a rule, in which case the error names the first one, or `name` is not a valid label value.
    ///
    /// # Panics
    ///
    /// Panics if called outside of a tokio runtime.
    pub fn shards(&self, namespace: &str, name: &str, mut config: ShardsConfig) -> Result<Shards<Api<Lease>>, Error> {
        let leases = self.leases(namespace, config.electors.election.renew_deadline)?;
        let namespace = leases.namespace().unwrap_or_default().to_owned();
        self.set_observers(&mut config.electors.election);
        Shards::start(leases, &namespace, name, config).map_err(Error::Election)
    }

    /// Connects the election to this cluster's Event recorder and metrics provider.
    fn set_observers(&self, config: &mut LeaderElectionConfig) {
        config.metrics = config.metrics.take().or_else(|| self.inner.metrics.clone());
        config.events.get_or_insert_with(|| leader_events(self.recorder("leader-election")));
    }

    /// Returns a lock of this kind and key for a [`LeaderElector`] with the given renew deadline, as client-go's
    /// `NewFromKubeconfig`. The lock has its own client, as an [`elector`](Self::elector) does. Electors of the lock also
    /// record Events and metrics as such an elector does, unless their configuration sets others.
    ///
    /// # Examples
    ///
    /// ```
    /// use pintle::leaderelect::{LeaderElector, Lock, LockKind};
    /// use pintle::prelude::*;
    ///
    /// /// `kind` may come from a flag: `--leader-elect-resource-lock=configmapsleases`.
    /// fn elector(cluster: &Cluster, flag: &str) -> Result<LeaderElector<impl Lock>, Box<dyn std::error::Error>> {
    ///     let config = LeaderElectionConfig::default();
    ///     let kind: LockKind = flag.parse()?;
    ///     let lock = cluster.lock(kind, "kube-system/website-controller", config.renew_deadline)?;
    ///     Ok(LeaderElector::new(lock, config)?)
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// The key is invalid.
    ///
    /// # Panics
    ///
    /// Panics if called outside of a tokio runtime.
    pub fn lock(
        &self,
        kind: LockKind,
        key: impl TryInto<ObjectKey, Error: Into<InvalidKey>>,
        renew_deadline: Duration,
    ) -> Result<ResourceLock<Api<DynamicObject>, Api<Lease>>, Error> {
        let key = key.try_into().map_err(|error| Error::Lease(error.into()))?;
        let leases = self.leases(key.namespace().unwrap_or_default(), renew_deadline)?;
        let namespace = leases.namespace().unwrap_or_default().to_owned();
        let client = leases.client().clone();
        // ConfigMaps and Endpoints have namespaces.
        let annotated = |resource| Api::dynamic(client, resource, Some(&namespace)).expect("a namespaced resource");
        let lock = ResourceLock::new(kind, &namespace, key.name(), annotated, leases);
        let events = Some(leader_events(self.recorder("leader-election")));
        Ok(lock.observed_by(Observers { metrics: self.inner.metrics.clone(), events }))
    }

    /// Returns a candidate for the Lease with this key, for coordinated leader election. It must run together with an
    /// [`elector`](Self::elector) that has the same `identity` and is [coordinated](LeaderElectionConfig::coordinated).
    /// It has its own client.
    ///
    /// # Examples
    ///
    /// ```
    /// use pintle::leaderelect::LeaseCandidateSpec;
    /// use pintle::prelude::*;
    ///
    /// async fn contend(cluster: &Cluster, stop: &CancellationToken) -> Result<(), pintle::Error> {
    ///     let config = LeaderElectionConfig { coordinated: true, ..LeaderElectionConfig::default() };
    ///     let spec = LeaseCandidateSpec::new("website-controller", env!("CARGO_PKG_VERSION"));
    ///     let candidate = cluster.candidate("kube-system", &config.identity, spec)?;
    ///     let mut elector = cluster.elector("kube-system/website-controller", config)?;
    ///     let work = LeaderCallbacks::new(async |leadership: Leadership| leadership.cancelled().await);
    ///     tokio::join!(candidate.run(stop), elector.run(stop, work));
    ///     Ok(())
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// No client can be built from the configuration.
    ///
    /// # Panics
    ///
    /// Panics if called outside of a tokio runtime.
    pub fn candidate(
        &self,
        namespace: &str,
        identity: &str,
        spec: LeaseCandidateSpec,
    ) -> Result<Candidate<Api<LeaseCandidate>>, Error> {
        let candidates: Api<LeaseCandidate> =
            Api::namespaced(self.dedicated_client(Duration::from_secs(5))?, namespace);
        let namespace = candidates.namespace().unwrap_or_default().to_owned();
        Ok(Candidate::new(candidates, &namespace, identity, spec))
    }

    /// Returns a handle for the Leases of a namespace, for electors with this renew deadline.
    fn leases(&self, namespace: &str, renew_deadline: Duration) -> Result<Api<Lease>, Error> {
        Ok(Api::namespaced(self.dedicated_client((renew_deadline / 2).max(Duration::from_secs(1)))?, namespace))
    }

    /// Creates a client with its own connections, for requests that must not wait behind others.
    fn dedicated_client(&self, timeout: Duration) -> Result<RestClient, Error> {
        let mut config = self.inner.config.clone();
        config.timeout = Some(timeout);
        let Inner { metrics, transport, .. } = &*self.inner;
        let client = RestClient::new(RestClientConfig {
            metrics: metrics.clone(),
            transport_layer: transport.clone(),
            // After a timeout, the request drops its connection instead of waiting until it is found dead, so the next
            // request starts on a fresh one.
            drop_connection_on_cancel: true,
            throttled: false,
            ..config.into()
        });
        client.map_err(Error::Client)
    }

    /// Runs `work` while this process leads, for one term, as client-go's `RunOrDie`. Returns why the term ended and
    /// what the work returned, or `None` if `stop` was cancelled before a term began.
    ///
    /// Unlike `RunOrDie`, it does not exit the process. A program that loses leadership should usually exit and be
    /// restarted.
    ///
    /// # Examples
    ///
    /// ```
    /// use pintle::prelude::*;
    ///
    /// #[tokio::main]
    /// async fn main() -> Result<(), Box<dyn std::error::Error>> {
    ///     let cluster = Cluster::embedded().await?;
    ///     let work = LeaderCallbacks::new(async |leadership: Leadership| {
    ///         println!("{:?}", leadership.term()); // Work for the leader alone. It is dropped when the term ends.
    ///     });
    ///     let stop = CancellationToken::new();
    ///     let ended = cluster.run_or_die("kube-system/website-controller", LeaderElectionConfig::default(), &stop, work).await?;
    ///     assert_eq!(ended.unwrap().reason, EndReason::Completed);
    ///     cluster.shutdown().await;
    ///     Ok(())
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// The same as for [`elector`](Self::elector). Nothing has been sent then.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the work and ends the election at once, without releasing the lease.
    pub async fn run_or_die<W, Fut>(
        &self,
        lease: impl TryInto<ObjectKey, Error: Into<InvalidKey>>,
        config: LeaderElectionConfig,
        stop: &CancellationToken,
        callbacks: LeaderCallbacks<W, Fut::Output>,
    ) -> Result<Option<TermEnd<Fut::Output>>, Error>
    where
        W: FnMut(Leadership) -> Fut,
        Fut: Future,
    {
        Ok(self.elector(lease, config)?.run_once(stop, callbacks).await)
    }

    /// Stops what the cluster started, for all clones: informers stop, and pending Events are written, for at most 5 s.
    /// An embedded server stops too if this is the last clone.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the parts that still run stop when the last clone is dropped.
    pub async fn shutdown(self) {
        const EVENTS: Duration = Duration::from_secs(5);
        self.inner.informers.shutdown().await;
        let events = std::mem::replace(&mut *self.events(), Events::Closed);
        if let Events::Open(Some(events)) = events {
            events.shutdown(EVENTS).await;
        }
        #[cfg(feature = "apiserver")]
        if let Some(Inner { server: Some(server), .. }) = Arc::into_inner(self.inner) {
            server.shutdown().await;
        }
    }
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster").field("client", &self.inner.client).field("informers", &self.inner.informers).finish()
    }
}
