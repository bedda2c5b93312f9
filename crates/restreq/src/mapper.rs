//! Finds resources by their names and kinds. Uses the server's discovery documents.

mod discover;
mod documents;
mod find;

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pintle_meta::{ApiError, ApiResource, GroupVersion, GroupVersionKind, GroupVersionResource};
use thiserror::Error as ThisError;
use tokio::time::Instant;

use self::find::Wanted;
use crate::client::RestClient;

/// Finds a resource by its name or its kind. This type corresponds to client-go's `RESTMapper` with cached discovery.
///
/// The first lookup fetches the discovery documents and caches them. If a lookup does not find its resource in the
/// cache, it fetches the documents again. Therefore, a lookup also finds a resource that was just created. Lookups that
/// miss the cache at the same time share one fetch, and at least a second passes between two fetches.
///
/// With aggregated discovery, a fetch consists of two documents that contain all groups. If the server does not support
/// aggregated discovery, the mapper fetches one document for each group version. If an extension server is down, the
/// mapper does not know the resources of that server's groups. If a lookup finds no resource, its error lists the
/// groups that are missing.
///
/// # Examples
///
/// ```
/// use pintle_meta::DynamicObject;
/// use pintle_restreq::{Api, MappingError, RestClient, RestMapper};
///
/// async fn named(client: RestClient, name: &str) -> Result<Api<DynamicObject>, Box<dyn std::error::Error>> {
///     let mapper = RestMapper::new(client.clone());
///     match mapper.named(name).await {
///         // `deploy`, `Deployment`, `deployments.apps` and `deployments.v1.apps` mean the same.
///         Ok(resource) => Ok(Api::dynamic(client, resource, None)?),
///         Err(MappingError::Ambiguous { candidates, .. }) => Err(format!("which of {candidates:?}?").into()),
///         Err(error) => Err(error.into()),
///     }
/// }
/// ```
pub struct RestMapper {
    client: RestClient,
    /// Counts the lookups and fetches so far. Each lookup and each fetch gets the next number as its turn number. The
    /// turn numbers show the order of lookups and fetches.
    turns: AtomicU64,
    /// Discovery documents are invalid if the turn number of their fetch is below this number.
    forgotten: AtomicU64,
    known: Mutex<Option<Arc<Known>>>,
    /// Held during a fetch. A lookup that finds its resource in the cache does not take this lock.
    fetch_lock: tokio::sync::Mutex<()>,
}

/// A resource, together with its discovery information.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DiscoveredResource {
    /// The resource.
    pub resource: ApiResource,
    /// The singular name.
    pub singular: String,
    /// The short names, such as `deploy`.
    pub short_names: Vec<String>,
    /// The categories, such as `all`.
    pub categories: Vec<String>,
    /// The verbs that the resource supports, such as `list`.
    pub verbs: Vec<String>,
    /// The names of the resource's subresources, such as `status`.
    pub subresources: Vec<String>,
}

/// The cached discovery.
#[derive(Debug)]
struct Known {
    /// The resources of all groups, in the order of the server. The core group is first. The preferred version of each
    /// group is first.
    resources: Vec<DiscoveredResource>,
    /// The group versions whose documents the mapper could not fetch.
    missing: Vec<GroupVersion>,
    /// The start time and the turn number of the fetch that returned these documents. The turn numbers define the order
    /// of fetches and lookups even if their times are equal.
    asked: Instant,
    turn: u64,
}

/// The minimum time between two fetches that are caused by cache misses.
const MIN_INTERVAL: Duration = Duration::from_secs(1);

/// The reason why a resource was not found.
#[derive(Clone, Debug, ThisError)]
#[non_exhaustive]
pub enum MappingError {
    /// The name matches several resources, and none of them is in the core group.
    #[error("{name:?} matches several resources: {}; add the group to the name", listed(.candidates))]
    Ambiguous {
        /// The name.
        name: String,
        /// The matching resources.
        candidates: Vec<ApiResource>,
    },
    /// No resource matches.
    #[error("the server has no resource {name:?}{}", unanswered(.missing))]
    NoMatch {
        /// The name.
        name: String,
        /// The groups whose resources the mapper could not fetch. The resource that was not found may belong to one of
        /// these groups.
        missing: Vec<GroupVersion>,
    },
    /// Fetching discovery failed.
    #[error(transparent)]
    Api(#[from] ApiError),
}

impl From<MappingError> for ApiError {
    fn from(error: MappingError) -> Self {
        match error {
            MappingError::Api(error) => error,
            other => Self::invalid_request(other),
        }
    }
}

impl RestMapper {
    /// Creates a mapper for the server of the given client. This function sends nothing.
    pub fn new(client: RestClient) -> Self {
        Self {
            client,
            turns: AtomicU64::new(1),
            forgotten: AtomicU64::new(0),
            known: Mutex::new(None),
            fetch_lock: tokio::sync::Mutex::new(()),
        }
    }

    /// Finds a resource by a name that kubectl accepts. The name is a plural, a singular, a kind or a short name, in
    /// upper or lower case. The name can be followed by a dot and the group, or by the version and the group, as in
    /// `deployments.v1.apps`. A prefix of the group name is enough.
    ///
    /// Without a group, a resource of the core group has priority, and full names have priority over short names.
    /// Without a version, this method returns the version that the server prefers.
    ///
    /// # Errors
    ///
    /// Returns an error if no resource or several resources match, or if the mapper cannot fetch the discovery
    /// documents.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the documents that were already fetched stay in the cache. The next lookup repeats a
    /// fetch that did not finish.
    pub async fn named(&self, name: &str) -> Result<ApiResource, MappingError> {
        self.find(&Wanted::Name(name)).await
    }

    /// Finds the resource of the given kind. If the version is empty, this method returns the version that the server
    /// prefers.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`named`](Self::named).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has the same effect as for [`named`](Self::named).
    pub async fn kind(&self, kind: &GroupVersionKind) -> Result<ApiResource, MappingError> {
        self.find(&Wanted::Kind(kind)).await
    }

    /// Finds a resource by its group, version and plural name. Use this method to get the kind and the scope of the
    /// resource. If the version is empty, this method returns the version that the server prefers.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`named`](Self::named).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has the same effect as for [`named`](Self::named).
    pub async fn resource(&self, resource: &GroupVersionResource) -> Result<ApiResource, MappingError> {
        self.find(&Wanted::Resource(resource)).await
    }

    /// Returns all resources in all versions. The groups are in the server's order, with the core group first. The
    /// preferred version of each group is first.
    ///
    /// # Errors
    ///
    /// Returns an error if the mapper cannot fetch the discovery documents.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has the same effect as for [`named`](Self::named).
    pub async fn resources(&self) -> Result<Vec<DiscoveredResource>, ApiError> {
        Ok(self.known(0).await?.resources.clone())
    }

    /// Drops the cached discovery documents. Call this method after a resource was deleted or changed. For a new
    /// resource, no call is needed, because a lookup that misses the cache fetches the documents again.
    pub fn invalidate(&self) {
        // The result of a fetch in progress must not be used either, because that fetch started before this call.
        self.forgotten.store(self.turns.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
    }

    async fn find(&self, wanted: &Wanted<'_>) -> Result<ApiResource, MappingError> {
        let turn = self.turns.fetch_add(1, Ordering::Relaxed);
        let known = self.known(0).await?;
        match known.find(wanted) {
            Err(MappingError::NoMatch { .. }) if known.turn < turn => self.known(turn).await?.find(wanted),
            found => found,
        }
    }

    /// Returns discovery documents whose fetch started after this turn number and after the last invalidation.
    async fn known(&self, after: u64) -> Result<Arc<Known>, ApiError> {
        if let Some(known) = self.last(after) {
            return Ok(known);
        }
        let _fetching = self.fetch_lock.lock().await;
        // Another lookup may have fetched the documents in the meantime.
        if let Some(known) = self.last(after) {
            return Ok(known);
        }
        if let Some(last) = self.last(0) {
            tokio::time::sleep_until(last.asked + MIN_INTERVAL).await;
        }
        let turn = self.turns.fetch_add(1, Ordering::Relaxed);
        let new = Arc::new(discover::ask(&self.client, turn).await?);
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = Some(new.clone());
        Ok(new)
    }

    /// Returns the cached documents if their fetch started after this turn number.
    fn last(&self, after: u64) -> Option<Arc<Known>> {
        // The code that runs while this lock is held does not panic.
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner).clone();
        known.filter(|known| known.turn > after.max(self.forgotten.load(Ordering::Relaxed)))
    }
}

impl fmt::Debug for RestMapper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RestMapper").field("client", &self.client).finish_non_exhaustive()
    }
}

fn listed(candidates: &[ApiResource]) -> String {
    candidates.iter().map(ApiResource::to_string).collect::<Vec<_>>().join(", ")
}

fn unanswered(missing: &[GroupVersion]) -> String {
    match missing {
        [] => String::new(),
        missing => {
            let names: Vec<_> = missing.iter().map(GroupVersion::to_string).collect();
            format!("; {} did not answer", names.join(", "))
        }
    }
}

/// Returns the resources of a discovery document. Each resource is paired with the result of a lookup by its name.
#[cfg(any(test, fuzzing))]
pub(crate) fn found_in(document: &[u8]) -> Vec<(ApiResource, Result<ApiResource, MappingError>)> {
    use self::documents::{Resources, Root};

    let aggregated = match serde_json::from_slice(document) {
        Ok(Root::Aggregated(document)) => document.resources(),
        Ok(Root::Core(document)) => (Vec::new(), document.group_versions()),
        Ok(Root::Groups(document)) => (Vec::new(), document.group_versions()),
        Err(_) => Default::default(),
    };
    let plain = serde_json::from_slice::<Resources>(document).map(|it| it.resources(&GroupVersion::new("apps", "v1")));
    let mut found = Vec::new();
    for (resources, missing) in [aggregated, (plain.unwrap_or_default(), Vec::new())] {
        let known = Known { resources, missing, asked: Instant::now(), turn: 0 };
        for entry in &known.resources {
            // A lookup must not panic.
            let _ = known.find(&Wanted::Name(&entry.resource.plural));
            let own = known.find(&Wanted::Resource(&entry.resource.gvr()));
            found.push((entry.resource.clone(), own));
        }
    }
    found
}
