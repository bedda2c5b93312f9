//! Groups of electors that share one task, at most one watch and one client.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use pintle_meta::{
    ApiError, FieldSelector, LabelSelector, ListOptions, ListWatch, Object, ObjectApi, WatchEvent, WatchOptions,
};
use pintle_ratelimit::Backoff;

use crate::config::{InvalidConfig, LeaderElectionConfig};
use crate::elector::LeaderElector;
use crate::lease::Lease;
use crate::lock::{LeaseLock, LockEvent, lock_event, locked};
use crate::shell::{Seen, Shell};
use crate::watching::{Events, SILENCE, follow, follow_while_needed, watch};

/// Configures a [`LeaseGroup`].
///
/// # Examples
///
/// ```
/// use pintle_leaderelect::LeaseGroupConfig;
///
/// let labels = [("app.kubernetes.io/part-of".to_owned(), "website-controller".to_owned())].into();
/// let config = LeaseGroupConfig { labels, ..LeaseGroupConfig::default() };
/// assert_eq!(config.in_flight, 8);
/// ```
#[derive(Clone, Debug)]
pub struct LeaseGroupConfig {
    /// The labels of the group's leases. The group's watch selects leases by these labels, and each write adds the
    /// labels to its lease. With no labels, the default, the group watches all leases in the namespace, including the
    /// leases of other programs.
    pub labels: BTreeMap<String, String>,
    /// The maximum number of requests in flight. The default is 8. The effective limit is at least half the number of
    /// electors, because a lower limit could delay renewals until a term ends.
    ///
    /// A group sends the request with the earliest deadline first. The request timeout starts when the request leaves
    /// the queue. A candidate's request has the priority of a leader whose term lasts for another `renew_deadline`, so
    /// candidates do not starve.
    pub in_flight: usize,
    /// The configuration of each elector. All electors in a group have the same identity, because they run in one
    /// process.
    pub election: LeaderElectionConfig,
}

impl Default for LeaseGroupConfig {
    fn default() -> Self {
        Self { labels: BTreeMap::new(), in_flight: 8, election: LeaderElectionConfig::default() }
    }
}

/// A group of electors for many leases in one namespace, such as one lease for each shard or tenant. The electors share
/// one task, at most one watch and one client. Do not use the group's client for other requests.
///
/// Each member is an ordinary [`LeaderElector`] with its own terms, work and permits, and the same guarantees as a
/// standalone elector. Each renewal is one request. Renewals are sent in four batches, which are spread evenly over
/// the retry period. The shared task ends when the group and all of its electors have been dropped.
///
/// The group closes its watch after it has led all of its leases for a retry period. While the watch is closed, a
/// leader detects at its next renewal, after at most one retry period, that its lease was deleted or has another
/// holder. The group opens the watch again when it no longer leads one of the leases, or when a renewal conflicts with
/// a write of another program.
///
/// # Examples
///
/// ```
/// use pintle_leaderelect::{InvalidConfig, LeaderCallbacks, LeaseGroup, LeaseGroupConfig, Leadership, Lease};
/// use pintle_meta::{ListWatch, ObjectApi};
/// use tokio::task::JoinSet;
/// use tokio_util::sync::CancellationToken;
///
/// /// Works on each of a hundred shards that this replica leads.
/// async fn contend<A>(leases: A, stop: CancellationToken) -> Result<(), InvalidConfig>
/// where
///     A: ObjectApi<Lease> + ListWatch<Object = Lease> + Clone,
/// {
///     let labels = [("app".to_owned(), "website-controller".to_owned())].into();
///     let config = LeaseGroupConfig { labels, ..LeaseGroupConfig::default() };
///     let electors = LeaseGroup::start(leases, "kube-system", config)?;
///     let mut shards = JoinSet::new();
///     for shard in 0..100 {
///         let mut elector = electors.elector(&format!("website-controller-{shard}"));
///         let stop = stop.clone();
///         shards.spawn(async move {
///             let work = LeaderCallbacks::new(async |leadership: Leadership| leadership.cancelled().await);
///             elector.run(&stop, work).await;
///         });
///     }
///     shards.join_all().await;
///     Ok(())
/// }
/// ```
pub struct LeaseGroup<A: ObjectApi<Lease> + ListWatch<Object = Lease>> {
    api: A,
    namespace: String,
    config: LeaseGroupConfig,
    label_selector: LabelSelector,
    shell: Arc<Shell<LeaseLock<A>>>,
}

impl<A: ObjectApi<Lease> + ListWatch<Object = Lease> + Clone> LeaseGroup<A> {
    /// Creates a group for leases in `namespace`.
    ///
    /// # Errors
    ///
    /// Returns an error with the first rule in [`InvalidConfig`] that `config` violates.
    ///
    /// # Panics
    ///
    /// Panics if called outside the context of a tokio runtime.
    pub fn start(api: A, namespace: &str, config: LeaseGroupConfig) -> Result<Self, InvalidConfig> {
        let common = config.labels.clone();
        let group = Self::build(api, namespace, config, &common, |_| {}, false)?;
        group.shell.start();
        Ok(group)
    }

    /// Like [`start`](Self::start), but spawns the shared task together with the first elector. Watches and lists of
    /// the group select leases with the labels `common`. The function `tap` is called for each watch event.
    /// The watch stays open even if the group leads all of its leases.
    #[doc(hidden)]
    pub fn new(
        api: A,
        namespace: &str,
        config: LeaseGroupConfig,
        common: &BTreeMap<String, String>,
        tap: impl Fn(&WatchEvent<Lease>) + Clone + Send + Sync + 'static,
    ) -> Result<Self, InvalidConfig> {
        Self::build(api, namespace, config, common, tap, true)
    }

    fn build(
        api: A,
        namespace: &str,
        config: LeaseGroupConfig,
        common: &BTreeMap<String, String>,
        tap: impl Fn(&WatchEvent<Lease>) + Clone + Send + Sync + 'static,
        always_watches: bool,
    ) -> Result<Self, InvalidConfig> {
        let election = &config.election;
        election.validate()?;
        for warning in election.warnings() {
            tracing::warn!(namespace, "{warning}");
        }
        LabelSelector::from_labels(&config.labels).map_err(InvalidConfig::Labels)?;
        let label_selector = LabelSelector::from_labels(common).map_err(InvalidConfig::Labels)?;
        let (clocks, retries, seed) = (election.clocks.clone(), election.watch_retries(), election.seed());
        let retry_period = election.retry_period;
        let (watched, description) = (api.clone(), format!("the leases of {namespace} with {label_selector}"));
        let (of_us, selector) = (namespace.to_owned(), label_selector.clone());
        // Each leader renews its lease several times within this duration. If the watch reports nothing for this long,
        // the watch is broken, or no lease has a leader.
        let silence = election.lease_duration.saturating_mul(2).min(SILENCE);
        let shell = Shell::new(election.clocks.clone(), Some(config.in_flight), move |to_us, is_needed| async move {
            let open = || watch_all(&watched, &of_us, &selector, silence, tap.clone());
            let follow = |to_us| follow(&description, open, clocks.clone(), Backoff::new(retries, seed), to_us);
            if always_watches {
                follow(to_us).await
            } else {
                follow_while_needed(is_needed, retry_period, clocks.clone(), follow, to_us).await
            }
        });
        Ok(Self { api, namespace: namespace.into(), config, label_selector, shell: Arc::new(shell) })
    }

    /// Returns the list options that select the group's leases.
    #[doc(hidden)]
    pub fn list_options(&self) -> ListOptions {
        let field_selector = in_namespace(&self.api, &self.namespace);
        ListOptions { label_selector: self.label_selector.clone(), field_selector, ..ListOptions::default() }
    }

    /// Creates an elector for the lease `name`. Call [`run`](LeaderElector::run) to contend for the lease.
    pub fn elector(&self, name: &str) -> LeaderElector<LeaseLock<A>> {
        let lock = LeaseLock::new(self.api.clone(), &self.namespace, name);
        // The lock does not need a watch, because the group's watch covers all leases.
        let lock = LeaseLock { labels: self.config.labels.clone(), watch: false, ..lock };
        LeaderElector::of(lock, self.config.election.clone(), Some(self.shell.clone()))
    }
}

/// Returns a field selector for `namespace` if `api` covers all namespaces. The selector keeps the server from sending
/// the leases of other namespaces.
fn in_namespace(api: &impl ListWatch, namespace: &str) -> FieldSelector {
    match api.namespace() {
        Some(_) => FieldSelector::everything(),
        None => FieldSelector::everything().equals("metadata.namespace", namespace),
    }
}

async fn watch_all<A: ListWatch<Object = Lease>>(
    api: &A,
    namespace: &str,
    label_selector: &LabelSelector,
    silence: Duration,
    tap: impl Fn(&WatchEvent<Lease>) + Send + 'static,
) -> Result<Option<Events<Seen<Lease>>>, ApiError> {
    let field_selector = in_namespace(api, namespace);
    let options = WatchOptions { label_selector: label_selector.clone(), field_selector, ..WatchOptions::default() };
    let namespace = namespace.to_owned();
    let convert = move |event: WatchEvent<Lease>| {
        let key = match &event {
            WatchEvent::Added(lease) | WatchEvent::Modified(lease) | WatchEvent::Deleted(lease) => lease.key(),
            _ => return None,
        };
        if key.namespace() != Some(&namespace) {
            return None;
        }
        tap(&event);
        let seen = match event {
            // Do not end the term after a deletion event, because the lease may have lost only its labels.
            WatchEvent::Deleted(_) => Some(LockEvent::MaybeChanged),
            event => lock_event(event, locked),
        };
        seen.map(|seen| (Some(key), seen))
    };
    watch(api, options, silence, convert).await.map(Some)
}

impl<A: ObjectApi<Lease> + ListWatch<Object = Lease>> fmt::Debug for LeaseGroup<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaseGroup")
            .field("namespace", &self.namespace)
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}
