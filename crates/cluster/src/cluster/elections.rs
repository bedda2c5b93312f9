//! Methods of `Cluster` that create electors, locks and candidates.

use std::time::Duration;

use pintle_controller::leader_events;
use pintle_leaderelect::{
    Candidate, LeaderCallbacks, LeaderElectionConfig, LeaderElector, Leadership, Lease, LeaseCandidate,
    LeaseCandidateSpec, LeaseGroup, LeaseGroupConfig, LeaseLock, LockKind, Observers, ResourceLock, TermEnd,
};
use pintle_meta::{DynamicObject, InvalidKey, ObjectKey};
use pintle_restreq::{Api, RestClient, RestClientConfig};
use pintle_sharding::{Shards, ShardsConfig};
use tokio_util::sync::CancellationToken;

use super::{Cluster, Inner};
use crate::error::Error;

impl Cluster {
    /// Creates an elector for the Lease `lease`, whose key is `namespace/name`, or a name in the configured namespace.
    ///
    /// - The elector uses a separate client with its own connections and no rate limit. The request timeout of this client is
    ///   half the renew deadline, with a minimum of one second.
    /// - The elector watches the Lease, so that it notices immediately when another holder releases the Lease.
    /// - The elector records Events on the Lease when its leadership starts and ends. To replace the Event recorder,
    ///   set [`events`](LeaderElectionConfig::events) in `config`.
    ///
    /// For other kinds of locks, use [`lock`](Self::lock).
    ///
    /// # Examples
    ///
    /// ```
    /// use pintle_cluster::Cluster;
    /// use pintle_controller::Manager;
    /// use pintle_leaderelect::LeaderElectionConfig;
    ///
    /// /// Replicas of this work in turns: the manager runs the controllers while it leads.
    /// fn manager(cluster: &Cluster) -> Result<Manager, pintle_cluster::Error> {
    ///     let elector = cluster.elector("kube-system/website-controller", LeaderElectionConfig::default())?;
    ///     Ok(Manager::new().leader_election(elector))
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if `lease` is not a valid key, or if `config` is [invalid](pintle_leaderelect::InvalidConfig). The error
    /// names the first invalid setting.
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

    /// Creates a group of electors for many Leases in one namespace. If `namespace` is empty, the group uses the namespace from
    /// the client configuration. The electors share one task, one watch and one separate client, with the same settings as the
    /// client of an [`elector`](Self::elector). The electors of the group also record Events when their leadership starts and
    /// ends.
    ///
    /// # Examples
    ///
    /// ```
    /// use pintle_cluster::Cluster;
    /// use pintle_leaderelect::{LeaderCallbacks, Leadership, LeaseGroupConfig};
    /// use tokio_util::sync::CancellationToken;
    ///
    /// async fn shard(cluster: &Cluster, stop: &CancellationToken) -> Result<(), pintle_cluster::Error> {
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
    /// Returns an error if `config` is [invalid](pintle_leaderelect::InvalidConfig). The error names the first invalid
    /// setting.
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

    /// Creates this replica's [`Shards`], with Leases in `namespace`. If `namespace` is empty, the shards use the namespace from
    /// the client configuration. Like an [`elector`](Self::elector), the shards use a separate client and record Events when
    /// their leadership starts and ends.
    ///
    /// # Examples
    ///
    /// ```
    /// use pintle_cluster::Cluster;
    /// use pintle_informer::{InformerConfig, SharedInformer};
    /// use pintle_leaderelect::Leadership;
    /// use pintle_meta::{ObjectMeta, resource};
    /// use pintle_sharding::{Shard, Sharded, ShardsConfig};
    /// use tokio_util::sync::CancellationToken;
    ///
    /// async fn work(cluster: &Cluster, stop: &CancellationToken) -> Result<(), pintle_cluster::Error> {
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
    /// Returns an error if `name` is not a valid label value, or if `config` is [invalid](pintle_leaderelect::InvalidConfig). The
    /// error names the first invalid setting.
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

    fn set_observers(&self, config: &mut LeaderElectionConfig) {
        config.metrics = config.metrics.take().or_else(|| self.inner.metrics.clone());
        config.events.get_or_insert_with(|| leader_events(self.recorder("leader-election")));
    }

    /// Returns a lock for a [`LeaderElector`], like client-go's `NewFromKubeconfig`. The argument `renew_deadline` must be the
    /// elector's renew deadline. Like an [`elector`](Self::elector), the lock uses a separate client. The elector also uses this
    /// cluster's Event recorder and metrics provider, unless its own configuration overrides them.
    ///
    /// # Examples
    ///
    /// ```
    /// use pintle_cluster::Cluster;
    /// use pintle_leaderelect::{LeaderElectionConfig, LeaderElector, Lock, LockKind};
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
    /// Returns an error if the key of the lock is invalid.
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
        // Use the namespace, because ConfigMaps and Endpoints are namespaced resources.
        let annotated = |resource| Api::dynamic(client, resource, Some(&namespace)).expect("a namespaced resource");
        let lock = ResourceLock::new(kind, &namespace, key.name(), annotated, leases);
        let events = Some(leader_events(self.recorder("leader-election")));
        Ok(lock.observed_by(Observers { metrics: self.inner.metrics.clone(), events }))
    }

    /// Returns a candidate for the coordinated leader election of the Lease named in `spec`. Run the candidate together with a
    /// [coordinated](LeaderElectionConfig::coordinated) [`elector`](Self::elector) of the same `identity`. The candidate uses a
    /// separate client with its own connections.
    ///
    /// # Examples
    ///
    /// ```
    /// use pintle_cluster::Cluster;
    /// use pintle_leaderelect::{LeaderCallbacks, LeaderElectionConfig, Leadership, LeaseCandidateSpec};
    /// use tokio_util::sync::CancellationToken;
    ///
    /// async fn contend(cluster: &Cluster, stop: &CancellationToken) -> Result<(), pintle_cluster::Error> {
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
    /// Returns an error if the configuration does not allow creating a client.
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

    /// Returns an `Api` for the Leases in a namespace. The request timeout of its client is half the renew deadline, but at least
    /// one second.
    fn leases(&self, namespace: &str, renew_deadline: Duration) -> Result<Api<Lease>, Error> {
        Ok(Api::namespaced(self.dedicated_client((renew_deadline / 2).max(Duration::from_secs(1)))?, namespace))
    }

    /// Returns a client with separate connections, so that its requests do not wait for other requests.
    fn dedicated_client(&self, timeout: Duration) -> Result<RestClient, Error> {
        let mut config = self.inner.config.clone();
        config.timeout = Some(timeout);
        let Inner { metrics, transport, .. } = &*self.inner;
        let client = RestClient::new(RestClientConfig {
            metrics: metrics.clone(),
            transport_layer: transport.clone(),
            // Use a new connection after a timeout, because the previous connection may be dead.
            drop_connection_on_cancel: true,
            throttled: false,
            ..config.into()
        });
        client.map_err(Error::Client)
    }

    /// Competes for a Lease, and runs the future from `callbacks` while this process leads, like client-go's `RunOrDie`. Returns
    /// the reason why the leadership ended, and the result of the future. Returns `None` if the `stop` token was cancelled before
    /// this process became the leader.
    ///
    /// Unlike `RunOrDie`, this method does not exit the process. In most cases, a program that loses its leadership should exit,
    /// so that its supervisor restarts it.
    ///
    /// # Examples
    ///
    /// ```
    /// use pintle_cluster::Cluster;
    /// use pintle_leaderelect::{EndReason, LeaderCallbacks, LeaderElectionConfig, Leadership};
    /// use tokio_util::sync::CancellationToken;
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
    /// Returns the same errors as [`elector`](Self::elector), before sending any requests.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the future from `callbacks` and ends the election immediately, without releasing the Lease.
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
}
