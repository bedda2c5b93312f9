//! The [`Cluster`] type, which creates a program's clients, informers, recorders and electors.

mod elections;

use std::sync::{Arc, MutexGuard};
use std::time::Duration;

#[cfg(feature = "apiserver")]
use pintle_apiserver::{ApiServer, ApiServerConfig};
use pintle_events::{BroadcasterConfig, EventBroadcaster, EventRecorder, EventSource};
use pintle_informer::{InformerConfig, InformerFactory, Namespaces, SharedInformer};
use pintle_kubeconfig::{Environment, Overrides};
use pintle_meta::__private::Mutex;
use pintle_meta::{ClientConfig, NamespaceScope, Object, Resource};
use pintle_metrics::Provider;
use pintle_restreq::{Api, RestClient, RestClientConfig, TransportLayer};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, timeout};

use crate::config::ClusterConfig;
use crate::error::Error;
use crate::reader::Reader;

/// The maximum time for which a shutdown waits for the informers and for pending Events.
const EVENTS: Duration = Duration::from_secs(5);

/// A connection to a cluster, which creates clients, informers, recorders and electors.
///
/// Clones of a `Cluster` share one client, and one informer for each resource and selector. Each elector has a separate
/// client, so that other requests do not delay a lease renewal. Cloning a `Cluster` is cheap: it only increments a
/// reference count.
///
/// By default, clients have no rate limit, because API Priority and Fairness protects the server. If the server does
/// not support API Priority and Fairness, set [`ClientConfig::qps`].
///
/// # Examples
///
/// ```
/// use pintle_cluster::Cluster;
/// use pintle_meta::{Object, ObjectMeta, WriteOptions, resource};
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

enum Events {
    /// The Event broadcaster, or `None` before the first recorder is created.
    Open(Option<EventBroadcaster>),
    Closed,
}

impl Cluster {
    /// Connects to the cluster that the kubeconfig or the pod's service account describes. `infer` is the same as
    /// [`connect`](Self::connect) with the default [`ClusterConfig`], and reads files, but sends no requests.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`connect`](Self::connect).
    pub fn infer() -> Result<Self, Error> {
        Self::connect(ClusterConfig::default())
    }

    /// Connects to the cluster in `config`, which can be a [`ClientConfig`]. `connect` sends no requests, so an
    /// unreachable server causes an error only for the first request.
    ///
    /// # Errors
    ///
    /// - Returns an error if settings in the configuration contradict each other, or if a certificate or key is
    ///   invalid.
    /// - Returns an error if `config` contains no client configuration and none can be loaded from the environment.
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

    /// Starts an in-process API server and connects to it through a loopback port. The server stops when the cluster's
    /// last clone is dropped. To record metrics, pass this cluster's [`config`](Self::config) and a metrics provider to
    /// [`connect`](Self::connect).
    ///
    /// # Errors
    ///
    /// Returns an error if the server cannot listen on a port.
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

    /// Returns the embedded API server if this cluster was created with [`embedded`](Self::embedded). Tests can use
    /// this server to inject faults.
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

    /// Returns an [`Api`] for `T`. If `T` is namespaced, the `Api` covers all namespaces.
    pub fn api<T: Resource>(&self) -> Api<T> {
        Api::all(self.inner.client.clone())
    }

    /// Returns an [`Api`] for `T` in one namespace. If `namespace` is empty, the `Api` uses the namespace from the
    /// client configuration.
    pub fn namespaced<T: Resource<Scope = NamespaceScope>>(&self, namespace: &str) -> Api<T> {
        Api::namespaced(self.inner.client.clone(), namespace)
    }

    /// Returns the shared informer for `T` in all namespaces. Calls with the same type return the same informer.
    ///
    /// The returned informer is already running, and runs until its last [user](InformerFactory) is dropped or the
    /// cluster is [shut down](Self::shutdown). An informer that is created after the shutdown does not run.
    ///
    /// For one namespace, a selector or other settings, use [`informer_with`](Self::informer_with). For several
    /// namespaces, use [`informer_of_namespaces`](Self::informer_of_namespaces).
    ///
    /// The cache removes `managedFields` from objects: see [`Projection`](pintle_informer::Projection). You can still
    /// update an object on the server with the cached copy, because the server keeps the `managedFields`.
    ///
    /// # Panics
    ///
    /// Panics if called outside of a tokio runtime.
    pub fn informer<T: Resource + DeserializeOwned>(&self) -> SharedInformer<T> {
        self.informer_with(self.api(), InformerConfig::default())
    }

    /// Returns the informer for `api` with the selectors and settings in `config`. Callers with the same settings share
    /// one informer. [`InformerFactory`] describes which settings require a separate informer. The returned informer is
    /// already started. This method also starts all other informers of the cluster's [factory](Self::informers).
    ///
    /// To get an `Api`, call [`api`](Self::api) or [`namespaced`](Self::namespaced). For a dynamic `Api`, use the
    /// cluster's [`client`](Self::client).
    ///
    /// # Examples
    ///
    /// ```
    /// use pintle_cluster::Cluster;
    /// use pintle_informer::{InformerConfig, ReflectorConfig, SharedInformer};
    /// use pintle_meta::{ObjectMeta, resource};
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
        // This call has no effect if the cluster has shut down.
        self.inner.informers.start();
        informer
    }

    /// Returns the informer for `T` in a set of namespaces. The set [may change](SharedInformer::of_namespaces) later.
    /// Calls with clones of the same namespace set return the same informer. Otherwise, `informer_of_namespaces` works
    /// like [`informer_with`](Self::informer_with).
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

    /// Returns a reader for the cache of the shared [`informer`](Self::informer) for `T`. Calling `reader` also starts
    /// the informer.
    ///
    /// # Panics
    ///
    /// Panics if called outside of a tokio runtime.
    pub fn reader<T: Resource + DeserializeOwned>(&self) -> Reader<T> {
        Reader::new(self.inner.client.clone(), Some(self.informer()))
    }

    /// Returns a reader that sends every read to the server, like controller-runtime's `GetAPIReader`.
    pub fn live_reader<T: Resource + DeserializeOwned>(&self) -> Reader<T> {
        Reader::new(self.inner.client.clone(), None)
    }

    /// Returns `true` if `self` and `other` are clones of the same `Cluster`.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    /// Returns the factory that creates this cluster's informers. For example, a program can pass this factory to a
    /// manager.
    pub fn informers(&self) -> &InformerFactory {
        &self.inner.informers
    }

    /// Returns an Event recorder for the given component, such as `website-controller`. One task writes the Events of
    /// all recorders of this cluster. After [`shutdown`](Self::shutdown), the recorders of this cluster write nothing.
    ///
    /// # Panics
    ///
    /// Panics if called outside of a tokio runtime.
    pub fn recorder(&self, component: &str) -> EventRecorder {
        let source = EventSource { component: component.into(), ..EventSource::default() };
        if let Events::Open(Some(events)) = &*self.events() {
            return events.recorder(source);
        }
        // Create the broadcaster without holding the lock, because its creation calls the user's metrics provider. If
        // two threads create a broadcaster at the same time, one of them is dropped.
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
        self.inner.events.lock()
    }

    /// Stops the informers and the Event broadcaster of this cluster and all its clones. `shutdown` waits for the
    /// informers' tasks to end and for pending Events to be written, but at most 5 s in total. Shutting down the
    /// cluster's last clone also stops the embedded server.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the remaining components stop when the cluster's last clone is dropped.
    pub async fn shutdown(self) {
        self.shutdown_within(EVENTS).await;
    }

    /// Stops this cluster like [`shutdown`](Self::shutdown), but waits at most `limit` in total. Within `limit`, the
    /// method waits at most 5 s for pending Events to be written. Informers that block the shutdown use at most half of
    /// `limit`, so that the other half remains for the Events.
    ///
    /// The limit requires that the runtime's timers run. Code that blocks one thread of a runtime can stop these
    /// timers, even if the runtime has more threads.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the remaining components stop when the cluster's last clone is dropped.
    pub async fn shutdown_within(self, limit: Duration) {
        let started = Instant::now();
        // Limit the wait, because user code, such as the decoding of an object, can block an informer's task. A blocked
        // task ends later.
        let stop_informers = |limit| timeout(limit, self.inner.informers.shutdown());
        let remaining = || limit.saturating_sub(started.elapsed());
        let _ = stop_informers(limit / 2).await;
        let events = std::mem::replace(&mut *self.events(), Events::Closed);
        if let Events::Open(Some(events)) = events {
            events.shutdown(remaining().min(EVENTS)).await;
        }
        let _ = stop_informers(remaining()).await;
        #[cfg(feature = "apiserver")]
        if let Some(Inner { server: Some(server), .. }) = Arc::into_inner(self.inner) {
            server.shutdown().await;
        }
    }
}

pintle_meta::debug_struct!(Cluster |self| { client = self.inner.client, informers = self.inner.informers });

#[cfg(test)]
mod tests {
    use std::sync::{OnceLock, mpsc};
    use std::time::Duration;

    use pintle_apiserver::RequestVerb;
    use pintle_apiserver::faults::{Answer, Fault, Rule};
    use pintle_events::{Event, EventType};
    use pintle_informer::Transform;
    use pintle_meta::{ListOptions, ObjectMeta, WriteOptions, resource};
    use serde::{Deserialize, Deserializer, Serialize};
    use tokio::sync::Notify;

    use super::*;

    #[derive(Clone, Debug, Deserialize, Serialize)]
    struct ConfigMap {
        metadata: ObjectMeta,
    }
    resource!(ConfigMap, "v1", "ConfigMap", "configmaps", Namespaced);

    async fn check(maps: &Reader<ConfigMap>) {
        let names = |maps: Vec<Arc<ConfigMap>>| maps.iter().map(|map| map.metadata.name.clone()).collect::<Vec<_>>();
        assert_eq!(maps.get("default/a").await.unwrap().unwrap().metadata.name, "a");
        assert!(maps.get("default/missing").await.unwrap().is_none());
        assert!(maps.get("a/b/c").await.unwrap_err().to_string().contains("a/b/c"));
        let mut all = names(maps.list(&"app=web".parse().unwrap()).await.unwrap());
        all.sort();
        assert_eq!(all, ["a", "b"]);
        assert_eq!(names(maps.list_in("default", &"app=web".parse().unwrap()).await.unwrap()), ["a"]);
        assert_eq!(maps.list_in("", &"app=web".parse().unwrap()).await.unwrap().len(), 2);
        assert!(maps.get("a").await.unwrap_err().to_string().contains("set a namespace"));
    }

    #[tokio::test]
    async fn cached_and_live_reads_return_the_same_objects() {
        let cluster = Cluster::embedded().await.unwrap();
        for (namespace, name, app) in [("default", "a", "web"), ("kube-system", "b", "web"), ("default", "c", "db")] {
            let mut metadata = ObjectMeta::new(namespace, name);
            metadata.labels.insert("app".into(), app.into());
            cluster.api().create(&ConfigMap { metadata }, &WriteOptions::default()).await.unwrap();
        }
        let faults = cluster.server().unwrap().faults();
        let rules = [RequestVerb::Get, RequestVerb::List]
            .map(|verb| faults.add(Rule { verb: Some(verb), times: None, ..Rule::new(Fault::Delay(Duration::ZERO)) }));
        let requests = || rules.iter().map(|rule| faults.hits_of(*rule)).sum::<u64>();
        let (cached, live) = (cluster.reader::<ConfigMap>(), cluster.live_reader::<ConfigMap>());
        assert!(!cached.is_cached(), "the informer has not synced yet");
        check(&cached).await;
        cluster.informer::<ConfigMap>().wait_for_sync().await.unwrap();
        let sent = requests();
        check(&cached).await;
        assert!(cached.is_cached());
        assert_eq!(requests(), sent, "cached reads send no request");
        check(&live).await;
        assert!(!live.is_cached());
        assert!(requests() > sent);
        cluster.shutdown().await;
        assert!(!cached.is_cached(), "the informer has stopped");
    }

    /// A type whose decoding blocks until the test allows it to continue.
    #[derive(Clone, Debug, Serialize)]
    struct Blocking {
        metadata: ObjectMeta,
    }
    resource!(Blocking, "v1", "ConfigMap", "configmaps", Namespaced);

    static IS_DECODING: Notify = Notify::const_new();
    static PERMIT: OnceLock<()> = OnceLock::new();

    impl<'de> Deserialize<'de> for Blocking {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            IS_DECODING.notify_one();
            PERMIT.wait();
            Ok(Self { metadata: ConfigMap::deserialize(deserializer)?.metadata })
        }
    }

    #[tokio::test]
    async fn shutdown_does_not_wait_for_a_blocked_informer() {
        let cluster = Cluster::embedded().await.unwrap();
        let map = ConfigMap { metadata: ObjectMeta::new("default", "a") };
        cluster.api().create(&map, &WriteOptions::default()).await.unwrap();
        // Run the informer on another runtime, because it may block the thread that drives its runtime's timers.
        let other = tokio::runtime::Runtime::new().unwrap();
        let informer = {
            let _entered = other.enter();
            cluster.informer::<Blocking>()
        };
        timeout(Duration::from_secs(60), IS_DECODING.notified()).await.unwrap();
        let ended = timeout(Duration::from_secs(45), cluster.shutdown_within(Duration::from_millis(10))).await;
        PERMIT.set(()).unwrap();
        informer.shutdown().await;
        ended.unwrap();
        other.shutdown_background();
    }

    #[tokio::test(start_paused = true)]
    async fn blocked_informer_leaves_time_for_pending_events() {
        const SECOND: Duration = Duration::from_secs(1);
        // Do not use sockets, so that the paused clock does not advance while the server processes a request.
        let server = ApiServer::start(ApiServerConfig::default()).await.unwrap();
        let transport = Some(TransportLayer::in_place(server.in_process()));
        let client = Some(server.client_config());
        let cluster = Cluster::connect(ClusterConfig { client, transport, ..ClusterConfig::default() }).unwrap();
        let map = ConfigMap { metadata: ObjectMeta::new("default", "a") };
        cluster.api().create(&map, &WriteOptions::default()).await.unwrap();

        let ((blocks, has_blocked), (release, released)) = (mpsc::channel(), mpsc::channel::<()>());
        let released = Mutex::new(released);
        let transform: Transform<ConfigMap> = Arc::new(move |_: &mut ConfigMap| {
            blocks.send(()).unwrap();
            // Block until the test drops the sender.
            released.lock().recv().unwrap_err();
        });
        let config = InformerConfig { transform: Some(transform), ..InformerConfig::default() };
        // Run the informer on another runtime, so that it does not block this runtime's clock.
        let other = tokio::runtime::Runtime::new().unwrap();
        let informer = {
            let _entered = other.enter();
            cluster.informer_with(cluster.api(), config)
        };
        // Wait on a thread, because the paused clock would advance during an asynchronous wait.
        let waits = move || has_blocked.recv_timeout(60 * SECOND).unwrap();
        tokio::task::spawn_blocking(waits).await.unwrap();

        // The next attempt is due 10 s after the second failure.
        let unavailable = Fault::Answer(Answer { body: Some("unavailable".into()), ..Answer::new(500) });
        let (verb, resource) = (Some(RequestVerb::Create), Some("events".into()));
        let rule = server.faults().add(Rule { verb, resource, times: Some(2), ..Rule::new(unavailable) });
        cluster.recorder("test").event(&map, EventType::Normal, "Tested", "a message");
        let fail_twice = async {
            while server.faults().hits_of(rule) < 2 {
                tokio::time::sleep(SECOND).await;
            }
        };
        timeout(600 * SECOND, fail_twice).await.unwrap();
        let ended = timeout(60 * SECOND, cluster.clone().shutdown_within(8 * SECOND)).await;
        let events = cluster.api::<Event>().list(&ListOptions::default()).await;

        drop(release);
        informer.shutdown().await;
        other.shutdown_background();
        server.shutdown().await;
        ended.unwrap();
        let reasons: Vec<_> = events.unwrap().items.into_iter().map(|event| event.reason).collect();
        assert_eq!(reasons, ["Tested"]);
    }
}
