//! A cluster, and all that a program holds of it.

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
    Candidate, LeaderCallbacks, LeaderElectionConfig, LeaderElector, LeaderElectors, LeaderElectorsConfig, Leadership,
    Lease, LeaseCandidate, LeaseCandidateSpec, LeaseLock, LockKind, Observers, ResourceLock, Shards, ShardsConfig,
    TermEnd,
};
use pintle_meta::{ClientConfig, DynamicObject, InvalidKey, NamespaceScope, Object, ObjectKey, Resource};
use pintle_metrics::Provider;
use pintle_restreq::{Api, RestClient, RestClientConfig, TransportLayer};
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;

use crate::{ClusterConfig, Error};

/// A cluster, and all that a program holds of it: where the other crates meet.
///
/// What is to be shared is shared: one client, and one informer a resource and selector, however often it is asked for. What is
/// to be kept apart is kept apart: an elector has a client of its own, so that no amount of work delays a renewal. A clone is a
/// reference count.
///
/// Requests are not slowed down by the client: a server protects itself, by priority and fairness, and knows better than a
/// client what it can bear. Set [`ClientConfig::qps`] where yours does not.
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

/// The writer of Events.
enum Events {
    /// Made with the first recorder.
    Open(Option<EventBroadcaster>),
    /// The cluster was shut down.
    Closed,
}

impl Cluster {
    /// The cluster that the surroundings name: that of the default [`ClusterConfig`]. Reads files, and sends nothing yet.
    ///
    /// # Errors
    ///
    /// As [`connect`](Self::connect).
    pub fn infer() -> Result<Self, Error> {
        Self::connect(ClusterConfig::default())
    }

    /// The cluster of this configuration, which may be a [`ClientConfig`]. Sends nothing yet: whether the server is there, the
    /// first request tells.
    ///
    /// # Errors
    ///
    /// The configuration contradicts itself, or a certificate or key in it cannot be used; or it leaves it to the surroundings how
    /// the cluster is reached, and these say nothing, or what they say is broken.
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

    /// A cluster of its own within this process: an API server on a port of loopback, which ends with the last clone. For metrics,
    /// [`connect`](Self::connect) to its [`config`](Self::config).
    ///
    /// # Errors
    ///
    /// It cannot listen.
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

    /// The embedded API server, where [`embedded`](Self::embedded) made the cluster: to script faults with, say.
    #[cfg(feature = "apiserver")]
    pub fn server(&self) -> Option<&ApiServer> {
        self.inner.server.as_ref()
    }

    /// How the cluster is reached.
    pub fn config(&self) -> &ClientConfig {
        &self.inner.config
    }

    /// The client, for requests by hand.
    pub fn client(&self) -> &RestClient {
        &self.inner.client
    }

    /// The objects of a type, across all namespaces if it has any.
    pub fn api<T: Resource>(&self) -> Api<T> {
        Api::all(self.inner.client.clone())
    }

    /// The objects of a type in one namespace; an empty text stands for the configuration's.
    pub fn namespaced<T: Resource<Scope = NamespaceScope>>(&self, namespace: &str) -> Api<T> {
        Api::namespaced(self.inner.client.clone(), namespace)
    }

    /// The informer of a type, across all namespaces: the same one for everybody who asks. It runs, until its last
    /// [user](InformerFactory) is gone or the cluster's [`shutdown`](Self::shutdown); one that is asked for after that never does.
    ///
    /// For one namespace, a selector or other settings, see [`select`](Self::select); for several namespaces, see
    /// [`select_namespaces`](Self::select_namespaces).
    ///
    /// Its objects lack their `managedFields`, as [`Projection`](pintle_informer::Projection) says, and may be written back by an update.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub fn informer<T: Resource + DeserializeOwned>(&self) -> SharedInformer<T> {
        self.select(self.api(), InformerConfig::default())
    }

    /// Returns the informer of the objects of `api` that the selectors in `config` match. Callers with the same settings share one;
    /// [`InformerFactory`] says which settings lead to an informer of one's own. It runs, as [`informer`](Self::informer)'s does. `api` is [`api`](Self::api), [`namespaced`](Self::namespaced), or a dynamic one of the
    /// cluster's [`client`](Self::client).
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
    ///     Ok(cluster.select(cluster.namespaced("team-a"), config))
    /// }
    /// ```
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub fn select<T: Object + DeserializeOwned>(
        &self,
        api: Api<T>,
        mut config: InformerConfig<T>,
    ) -> SharedInformer<T> {
        config.metrics = config.metrics.or_else(|| self.inner.metrics.clone());
        let informer = self.inner.informers.informer(api, config);
        // It knows whether there was a shutdown.
        self.inner.informers.start();
        informer
    }

    /// As [`select`](Self::select), the informer of the objects of a type in these namespaces, which
    /// [may change](SharedInformer::of_namespaces): the same one for everybody who asks with a clone of that set.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub fn select_namespaces<T: Resource<Scope = NamespaceScope> + DeserializeOwned>(
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

    /// All informers that were asked for, to be handed to a manager.
    pub fn informers(&self) -> &InformerFactory {
        &self.inner.informers
    }

    /// A recorder of Events in the name of a component, such as `website-controller`. All recorders share one writer. After the
    /// cluster's [`shutdown`](Self::shutdown) nothing is written any more.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub fn recorder(&self, component: &str) -> EventRecorder {
        let source = EventSource { component: component.into(), ..EventSource::default() };
        if let Events::Open(Some(events)) = &*self.events() {
            return events.recorder(source);
        }
        // Not under the lock, since it asks a provider of metrics, which is a user's. One that is left over ends at once.
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

    /// An elector for the Lease of that key, `namespace/name`, or of that name in the configuration's namespace. It has a client
    /// of its own, with connections that nothing else uses, no rate limit and a deadline of half the renew deadline a request; it
    /// watches the Lease, so that a release is noticed at once; and it records its terms as Events about the Lease, unless
    /// `config` has [another use](LeaderElectionConfig::events) for them. For a lock of another kind, see
    /// [`lock`](Self::lock).
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
    /// A text that is no key, or the first rule that `config` breaks.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub fn elector(
        &self,
        lease: impl TryInto<ObjectKey, Error: Into<InvalidKey>>,
        mut config: LeaderElectionConfig,
    ) -> Result<LeaderElector<LeaseLock<Api<Lease>>>, Error> {
        let lease = lease.try_into().map_err(|error| Error::Lease(error.into()))?;
        let leases = self.leases(lease.namespace().unwrap_or_default(), config.renew_deadline)?;
        let namespace = leases.namespace().unwrap_or_default().to_owned();
        let lock = LeaseLock::new(leases, &namespace, lease.name());
        self.observe(&mut config);
        LeaderElector::new(lock, config).map_err(Error::Election)
    }

    /// Electors for many Leases of one namespace, an empty text standing for the configuration's: they share one task, one watch,
    /// and one client of their own, as that of an [`elector`](Self::elector) is. They record their terms as Events, too.
    ///
    /// # Examples
    ///
    /// ```
    /// use pintle::leaderelect::LeaderElectorsConfig;
    /// use pintle::prelude::*;
    ///
    /// async fn shard(cluster: &Cluster, stop: &CancellationToken) -> Result<(), pintle::Error> {
    ///     let labels = [("app".to_owned(), "website-controller".to_owned())].into();
    ///     let config = LeaderElectorsConfig { labels, ..LeaderElectorsConfig::default() };
    ///     let electors = cluster.electors("kube-system", config)?;
    ///     let work = LeaderCallbacks::new(async |leadership: Leadership| leadership.cancelled().await);
    ///     electors.elector("website-controller-7").run(stop, work).await; // And others beside it.
    ///     Ok(())
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// The first rule that `config` breaks.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub fn electors(
        &self,
        namespace: &str,
        mut config: LeaderElectorsConfig,
    ) -> Result<LeaderElectors<Api<Lease>>, Error> {
        let leases = self.leases(namespace, config.election.renew_deadline)?;
        let namespace = leases.namespace().unwrap_or_default().to_owned();
        self.observe(&mut config.election);
        LeaderElectors::start(leases, &namespace, config).map_err(Error::Election)
    }

    /// The share of this replica in shards of that name, whose leases are in that namespace, an empty text standing for the
    /// configuration's. They have a client of their own, as that of an [`elector`](Self::elector) is, and record their terms as
    /// Events, too.
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
    ///         informer.start(); // It has the pods of this shard, and goes with the term.
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
    /// The first rule that `config` breaks, or a name that no label can have.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub fn shards(&self, namespace: &str, name: &str, mut config: ShardsConfig) -> Result<Shards<Api<Lease>>, Error> {
        let leases = self.leases(namespace, config.electors.election.renew_deadline)?;
        let namespace = leases.namespace().unwrap_or_default().to_owned();
        self.observe(&mut config.electors.election);
        Shards::start(leases, &namespace, name, config).map_err(Error::Election)
    }

    /// Has an election tell what it does, to whom this cluster tells it.
    fn observe(&self, config: &mut LeaderElectionConfig) {
        config.metrics = config.metrics.take().or_else(|| self.inner.metrics.clone());
        config.events.get_or_insert_with(|| leader_events(self.recorder("leader-election")));
    }

    /// The lock of that kind and key, for a [`LeaderElector`] of that renew deadline: client-go's `NewFromKubeconfig`. It has a client
    /// of its own, and its electors record Events and metrics, as an [`elector`](Self::elector) does, unless their configuration names
    /// others.
    ///
    /// # Examples
    ///
    /// ```
    /// use pintle::leaderelect::{LeaderElector, Lock, LockKind};
    /// use pintle::prelude::*;
    ///
    /// /// Of a flag, say: `--leader-elect-resource-lock=configmapsleases`.
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
    /// A text that is no key.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
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

    /// A candidate for the Lease of that key, for an election in which the control plane chooses: it runs beside an
    /// [`elector`](Self::elector) of the same `identity` that is [coordinated](LeaderElectionConfig::coordinated). It has a client of its
    /// own.
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
    /// No client can be made of the configuration.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub fn candidate(
        &self,
        namespace: &str,
        identity: &str,
        spec: LeaseCandidateSpec,
    ) -> Result<Candidate<Api<LeaseCandidate>>, Error> {
        let candidates: Api<LeaseCandidate> = Api::namespaced(self.urgent(Duration::from_secs(5))?, namespace);
        let namespace = candidates.namespace().unwrap_or_default().to_owned();
        Ok(Candidate::new(candidates, &namespace, identity, spec))
    }

    /// The leases of a namespace, for electors of that renew deadline.
    fn leases(&self, namespace: &str, renew_deadline: Duration) -> Result<Api<Lease>, Error> {
        Ok(Api::namespaced(self.urgent((renew_deadline / 2).max(Duration::from_secs(1)))?, namespace))
    }

    /// A client for what cannot wait, with connections that nothing else uses.
    fn urgent(&self, timeout: Duration) -> Result<RestClient, Error> {
        let mut config = self.inner.config.clone();
        config.timeout = Some(timeout);
        let Inner { metrics, transport, .. } = &*self.inner;
        let client = RestClient::new(RestClientConfig {
            metrics: metrics.clone(),
            transport_layer: transport.clone(),
            // A request that comes to nothing does not wait for the connection to be found dead, nor the next one for what others failed at.
            drop_connection_on_cancel: true,
            throttled: false,
            ..config.into()
        });
        client.map_err(Error::Client)
    }

    /// Works while it leads, for one term, and answers how that ended and what the work returned; `None` if `stop` came before any:
    /// client-go's `RunOrDie`, which leaves the dying to you. A program whose leadership is lost does well to end and be started anew.
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
    ///         println!("{:?}", leadership.term()); // What only one replica may do, dropped when the term is over.
    ///     });
    ///     let stop = CancellationToken::new();
    ///     let ended = cluster.lead("kube-system/website-controller", LeaderElectionConfig::default(), &stop, work).await?;
    ///     assert_eq!(ended.unwrap().reason, LossReason::Completed);
    ///     cluster.shutdown().await;
    ///     Ok(())
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`elector`](Self::elector); then nothing has been done.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the work and ends the election at once, without a release.
    pub async fn lead<W, Fut>(
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

    /// Ends what the cluster started, for all who share it: informers stop, and Events that wait are written, for 5 s at most.
    /// An embedded server ends, too, if this is the last clone.
    ///
    /// # Cancel safety
    ///
    /// What has not been ended ends when the last clone is dropped.
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
