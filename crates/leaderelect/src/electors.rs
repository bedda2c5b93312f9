//! Many electors that share what one needs.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use pintle_meta::{
    ApiError, FieldSelector, LabelSelector, ListOptions, ListWatch, Object, ObjectApi, WatchEvent, WatchOptions,
};
use pintle_ratelimit::Backoff;

use crate::lock::locked;
use crate::shell::{Seen, Shell};
use crate::watching::{Events, follow, lock_event, watch};
use crate::{InvalidConfig, LeaderElectionConfig, LeaderElector, Lease, LeaseLock, LockEvent};

/// How [`LeaseGroup`] contend.
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
    /// The labels of the leases, by which they are watched together. They are put on each lease with each write. Without any, the
    /// default, all leases of the namespace are watched, whoever they belong to.
    pub labels: BTreeMap<String, String>,
    /// How many requests may be under way at a time: 8 by default, and half as many as there are electors if that is more. With so many,
    /// requests that wait for each other cost no term that a single elector would keep. The most urgent goes first, by the deadline of its
    /// term, and the deadline counts from when it is sent. A candidate counts as if it had a `renew_deadline` left, so that it is not
    /// starved.
    pub in_flight: usize,
    /// How each of them contends. They have one identity, since they are one process.
    pub election: LeaderElectionConfig,
}

impl Default for LeaseGroupConfig {
    fn default() -> Self {
        Self { labels: BTreeMap::new(), in_flight: 8, election: LeaderElectionConfig::default() }
    }
}

/// Electors for many leases of one namespace, such as one for each shard or tenant: they share one task, one watch, and one client,
/// which should be used by nothing else.
///
/// Each is a [`LeaderElector`] like any other, with terms, work and permits of its own; its guarantees are those of one that is
/// alone. A renewal is one request, and those of different leases are spread over the retry period, in sixteen groups. The task ends
/// when this and all electors are dropped.
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
    /// Electors for leases in `namespace`.
    ///
    /// # Errors
    ///
    /// The first rule that `config` breaks.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub fn start(api: A, namespace: &str, config: LeaseGroupConfig) -> Result<Self, InvalidConfig> {
        let common = config.labels.clone();
        Self::start_with(api, namespace, config, &common, |_| {})
    }

    /// The same, with those of the labels by which they are watched and listed, and somebody who is told what the watch tells.
    pub(crate) fn start_with(
        api: A,
        namespace: &str,
        config: LeaseGroupConfig,
        common: &BTreeMap<String, String>,
        tap: impl Fn(&WatchEvent<Lease>) + Clone + Send + Sync + 'static,
    ) -> Result<Self, InvalidConfig> {
        let election = &config.election;
        election.validate()?;
        for warning in election.warnings() {
            tracing::warn!(namespace, "{warning}");
        }
        LabelSelector::from_labels(&config.labels).map_err(InvalidConfig::Labels)?;
        let label_selector = LabelSelector::from_labels(common).map_err(InvalidConfig::Labels)?;
        let (clocks, pauses) = (election.clocks.clone(), Backoff::new(election.watch_retries(), election.seed()));
        let (watched, what) = (api.clone(), format!("the leases of {namespace} with {label_selector}"));
        let (of_us, selector) = (namespace.to_owned(), label_selector.clone());
        let shell = Shell::start(election.clocks.clone(), Some(config.in_flight), move |to_us| async move {
            let open = || watch_all(&watched, &of_us, &selector, tap.clone());
            follow(&what, open, clocks, pauses, to_us).await;
        });
        Ok(Self { api, namespace: namespace.into(), config, label_selector, shell: Arc::new(shell) })
    }

    /// How all leases of theirs are listed.
    pub(crate) fn list_options(&self) -> ListOptions {
        let field_selector = in_namespace(&self.api, &self.namespace);
        ListOptions { label_selector: self.label_selector.clone(), field_selector, ..ListOptions::default() }
    }

    /// The elector for the lease of that name. Nothing happens before it [runs](LeaderElector::run).
    pub fn elector(&self, name: &str) -> LeaderElector<LeaseLock<A>> {
        let lock = LeaseLock::new(self.api.clone(), &self.namespace, name);
        // It is watched with the others.
        let lock = LeaseLock { labels: self.config.labels.clone(), watch: false, ..lock };
        LeaderElector::of(lock, self.config.election.clone(), Some(self.shell.clone()))
    }
}

/// An API of all namespaces would have the server send what is in the others.
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
    tap: impl Fn(&WatchEvent<Lease>) + Send + 'static,
) -> Result<Option<Events<Seen<Lease>>>, ApiError> {
    let field_selector = in_namespace(api, namespace);
    let options = WatchOptions { label_selector: label_selector.clone(), field_selector, ..WatchOptions::default() };
    let namespace = namespace.to_owned();
    let tell = move |event: WatchEvent<Lease>| {
        let key = match &event {
            WatchEvent::Added(lease) | WatchEvent::Modified(lease) | WatchEvent::Deleted(lease) => lease.key(),
            _ => return None,
        };
        if key.namespace() != Some(&namespace) {
            return None;
        }
        tap(&event);
        let seen = match event {
            // Or its labels are: then there is no reason to end a term.
            WatchEvent::Deleted(_) => Some(LockEvent::MaybeChanged),
            event => lock_event(event, locked),
        };
        seen.map(|seen| (Some(key), seen))
    };
    watch(api, options, tell).await.map(Some)
}

impl<A: ObjectApi<Lease> + ListWatch<Object = Lease>> fmt::Debug for LeaseGroup<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaseGroup")
            .field("namespace", &self.namespace)
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}
