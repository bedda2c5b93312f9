//! Looks up resources in the server's discovery documents.

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

/// Finds a resource by its name or kind, like client-go's `RESTMapper` with cached discovery.
///
/// The first lookup fetches the discovery documents and caches them. If a lookup does not find its resource in the
/// cache, the mapper fetches the documents again. A lookup can therefore find a resource that was just created.
/// Concurrent cache misses share one fetch, and at least a second passes between two fetches.
///
/// With aggregated discovery, a fetch reads two documents for all groups. Without aggregated discovery, a fetch reads
/// one document per group version. While an extension server is down, its groups are missing. The error of a failed
/// lookup lists the missing groups.
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
    /// The number of lookups and fetches so far. Each lookup and each fetch takes the next number as its turn. The
    /// turns define the order of lookups and fetches.
    turns: AtomicU64,
    /// The turn of the last invalidation. Documents from a fetch with an earlier turn are invalid.
    forgotten: AtomicU64,
    known: Mutex<Option<Arc<Known>>>,
    /// Held during a fetch. A lookup takes this lock only after a cache miss.
    fetch_lock: tokio::sync::Mutex<()>,
}

/// A resource with its discovery information.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DiscoveredResource {
    /// The resource.
    pub resource: ApiResource,
    /// The singular name, such as `deployment`.
    pub singular: String,
    /// The short names, such as `deploy`.
    pub short_names: Vec<String>,
    /// The categories, such as `all`.
    pub categories: Vec<String>,
    /// The supported verbs, such as `list`.
    pub verbs: Vec<String>,
    /// The subresources, such as `status`.
    pub subresources: Vec<String>,
}

#[derive(Debug)]
struct Known {
    /// All resources in the server's order. The core group and the preferred version of each group are first.
    resources: Vec<DiscoveredResource>,
    missing: Vec<GroupVersion>,
    /// The start time of the fetch, followed by its turn. The turn orders fetches and lookups even if their times are
    /// equal.
    asked: Instant,
    turn: u64,
}

const MIN_INTERVAL: Duration = Duration::from_secs(1);

/// An error from a [`RestMapper`] lookup.
#[derive(Clone, Debug, ThisError)]
#[non_exhaustive]
pub enum MappingError {
    /// The name matches several resources, and none of the resources is in the core group.
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
        /// The groups that the mapper could not fetch. The resource may be in one of these groups.
        missing: Vec<GroupVersion>,
    },
    /// The mapper could not fetch the discovery documents.
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
    /// Creates a mapper for the client's server. This function sends no request.
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
    /// upper or lower case. A group, or a version and a group, can follow, as in `deployments.v1.apps`. A prefix of the
    /// group is enough.
    ///
    /// If the name contains no group, the core group takes precedence. Full names take precedence over short names. If
    /// the name contains no version, the method returns the server's preferred version.
    ///
    /// # Errors
    ///
    /// Returns an error if no resource or several resources match, or if the mapper cannot fetch the discovery
    /// documents.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future cancels an unfinished fetch, and the next lookup starts the fetch again. Cached documents
    /// stay in the cache.
    pub async fn named(&self, name: &str) -> Result<ApiResource, MappingError> {
        self.find(&Wanted::Name(name)).await
    }

    /// Finds the resource for a kind. If `kind` has no version, returns the server's preferred version.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`named`](Self::named).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future cancels an unfinished fetch, as with [`named`](Self::named).
    pub async fn kind(&self, kind: &GroupVersionKind) -> Result<ApiResource, MappingError> {
        self.find(&Wanted::Kind(kind)).await
    }

    /// Finds the kind and the scope of a resource by its group, version and plural name. If `resource` has no version,
    /// returns the server's preferred version.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`named`](Self::named).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future cancels an unfinished fetch, as with [`named`](Self::named).
    pub async fn resource(&self, resource: &GroupVersionResource) -> Result<ApiResource, MappingError> {
        self.find(&Wanted::Resource(resource)).await
    }

    /// Returns all resources in all versions, in the server's order. The core group and the preferred version of each
    /// group are first.
    ///
    /// # Errors
    ///
    /// Returns an error if the mapper cannot fetch the discovery documents.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future cancels an unfinished fetch, as with [`named`](Self::named).
    pub async fn resources(&self) -> Result<Vec<DiscoveredResource>, ApiError> {
        Ok(self.known(0).await?.resources.clone())
    }

    /// Drops the cached discovery documents. Call this method after a resource was deleted or changed. After a resource
    /// was created, no call is necessary, because a cache miss fetches the documents again.
    pub fn invalidate(&self) {
        // The new turn also invalidates the result of a fetch that is in progress.
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

    /// Returns documents from a fetch that started after turn `after` and after the last invalidation. Fetches the
    /// documents if necessary.
    async fn known(&self, after: u64) -> Result<Arc<Known>, ApiError> {
        if let Some(known) = self.last(after) {
            return Ok(known);
        }
        let _fetching = self.fetch_lock.lock().await;
        // Another lookup may have fetched the documents while this lookup waited for the lock.
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

    /// Returns the cached documents if their fetch started after turn `after` and after the last invalidation.
    fn last(&self, after: u64) -> Option<Arc<Known>> {
        // The lock is never poisoned, because no code under the lock panics.
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

/// Parses a discovery document. Returns each resource in the document with the result of looking up the resource.
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
            // A lookup by name can fail, but must not panic.
            let _ = known.find(&Wanted::Name(&entry.resource.plural));
            let own = known.find(&Wanted::Resource(&entry.resource.gvr()));
            found.push((entry.resource.clone(), own));
        }
    }
    found
}
