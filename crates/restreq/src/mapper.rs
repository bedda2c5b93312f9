//! Looks up resources in the discovery documents of the server.

mod discover;
mod documents;
mod find;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use pintle_meta::__private::Mutex;
use pintle_meta::{ApiError, ApiResource, GroupVersion, GroupVersionKind, GroupVersionResource};
use thiserror::Error as ThisError;
use tokio::time::Instant;

use self::find::Wanted;
use crate::client::RestClient;

/// Finds a resource by its name or kind, like client-go's `RESTMapper` with a discovery cache.
///
/// The first lookup fetches the discovery documents and caches them. If a resource is not in the cache, the documents
/// are fetched again. A lookup can find a resource that was created just before the lookup. Lookups that miss the cache
/// at the same time share one fetch. There is at least one second between two fetches.
///
/// If the server supports aggregated discovery, a fetch reads two documents that cover all groups. On other servers, a
/// fetch reads one document per group version. The groups of an aggregated API server are missing while this server is
/// down. If a lookup fails, the error lists the missing groups.
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
    /// The next turn: the sequence number that each lookup and each fetch gets. Turns define the order of lookups and
    /// fetches.
    turns: AtomicU64,
    /// The turn of the last invalidation of the cache. Documents that were fetched in an earlier turn are invalid.
    forgotten: AtomicU64,
    known: Mutex<Option<Arc<Known>>>,
    /// The error and the turn of the last fetch, if it failed.
    failed: Mutex<Option<(u64, ApiError)>>,
    /// A lock that is held during a fetch, and that lookups acquire only after a cache miss.
    fetch_lock: tokio::sync::Mutex<()>,
}

/// A resource together with its discovery information.
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
    /// All resources in the order of the server: the core group first, and the preferred version of each group first.
    resources: Vec<DiscoveredResource>,
    missing: Vec<GroupVersion>,
    /// The start time and the turn of the fetch. The turn orders fetches and lookups that have the same time.
    asked: Instant,
    turn: u64,
}

const MIN_INTERVAL: Duration = Duration::from_secs(1);

/// An error that occurred while looking up a resource with a [`RestMapper`].
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
    /// No resource matches the name or the kind.
    #[error("the server has no resource {name:?}{}", unanswered(.missing))]
    NoMatch {
        /// The name.
        name: String,
        /// The groups whose discovery documents could not be fetched. One of the missing groups may contain the
        /// resource.
        missing: Vec<GroupVersion>,
    },
    /// The discovery documents could not be fetched.
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
    /// Creates a mapper for the server of the client. This function sends no request.
    pub fn new(client: RestClient) -> Self {
        Self {
            client,
            turns: AtomicU64::new(1),
            forgotten: AtomicU64::new(0),
            known: Mutex::new(None),
            failed: Mutex::new(None),
            fetch_lock: tokio::sync::Mutex::new(()),
        }
    }

    /// Finds a resource by any name that kubectl accepts. The name is a plural name, a singular name, a kind or a short
    /// name, in upper or lower case. The name can be followed by a group, or by a version and a group, as in
    /// `deployments.v1.apps`. A prefix of the group name is sufficient.
    ///
    /// If the name contains no group, the core group takes precedence. Full names take precedence over short names. If
    /// the name contains no version, the method returns the version that the server prefers.
    ///
    /// # Errors
    ///
    /// Returns an error if no resource matches, if several resources match, or if the discovery documents cannot be
    /// fetched.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, a fetch in progress is cancelled, and the next lookup starts it again. Documents that
    /// are already cached stay in the cache.
    pub async fn named(&self, name: &str) -> Result<ApiResource, MappingError> {
        self.find(&Wanted::Name(name)).await
    }

    /// Finds the resource for a kind. If `kind` has no version, the method returns the version that the server prefers.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`named`](Self::named).
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, a fetch in progress is cancelled, as with [`named`](Self::named).
    pub async fn kind(&self, kind: &GroupVersionKind) -> Result<ApiResource, MappingError> {
        self.find(&Wanted::Kind(kind)).await
    }

    /// Finds the kind and the scope of a resource by its group, version and plural name. If `resource` has no version,
    /// the method returns the version that the server prefers.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`named`](Self::named).
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, a fetch in progress is cancelled, as with [`named`](Self::named).
    pub async fn resource(&self, resource: &GroupVersionResource) -> Result<ApiResource, MappingError> {
        self.find(&Wanted::Resource(resource)).await
    }

    /// Returns all resources in all of their versions, in the order of the server. The server lists the core group
    /// first, and the preferred version of each group first.
    ///
    /// # Errors
    ///
    /// Returns an error if the discovery documents cannot be fetched.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, a fetch in progress is cancelled, as with [`named`](Self::named).
    pub async fn resources(&self) -> Result<Vec<DiscoveredResource>, ApiError> {
        Ok(self.known(0).await?.resources.clone())
    }

    /// Drops the cached discovery documents. Call this method after a resource was changed or deleted. It is not
    /// necessary to call this method after a resource was created, because the documents are fetched again after a
    /// cache miss.
    pub fn invalidate(&self) {
        // The new turn also invalidates the result of a fetch in progress.
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

    /// Returns documents that were fetched after turn `after` and after the last invalidation, and fetches them if
    /// necessary.
    async fn known(&self, after: u64) -> Result<Arc<Known>, ApiError> {
        if let Some(known) = self.last(after) {
            return Ok(known);
        }
        let begun = self.turns.fetch_add(1, Ordering::Relaxed);
        let _fetching = self.fetch_lock.lock().await;
        // While this lookup waited for the lock, another lookup may have fetched the documents or failed.
        if let Some(known) = self.last(after) {
            return Ok(known);
        }
        if let Some(error) = self.failed_since(begun) {
            return Err(error);
        }
        if let Some(last) = self.last(0) {
            tokio::time::sleep_until(last.asked + MIN_INTERVAL).await;
        }
        let turn = self.turns.fetch_add(1, Ordering::Relaxed);
        let new = match discover::ask(&self.client, turn).await {
            Ok(new) => Arc::new(new),
            Err(error) => {
                let failed = (self.turns.fetch_add(1, Ordering::Relaxed), error.clone());
                *self.failed.lock() = Some(failed);
                return Err(error);
            }
        };
        *self.known.lock() = Some(new.clone());
        Ok(new)
    }

    fn failed_since(&self, begun: u64) -> Option<ApiError> {
        let failed = self.failed.lock();
        failed.as_ref().filter(|(turn, _)| *turn > begun).map(|(_, error)| error.clone())
    }

    /// Returns the cached documents if they were fetched after turn `after` and after the last invalidation.
    fn last(&self, after: u64) -> Option<Arc<Known>> {
        let known = self.known.lock().clone();
        known.filter(|known| known.turn > after.max(self.forgotten.load(Ordering::Relaxed)))
    }
}

pintle_meta::debug_struct!(RestMapper { client, .. });

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

/// Parses a discovery document. Returns each resource of the document together with the result of looking it up by
/// name.
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
            // A lookup by name may fail, but must not panic.
            let _ = known.find(&Wanted::Name(&entry.resource.plural));
            let own = known.find(&Wanted::Resource(&entry.resource.gvr()));
            found.push((entry.resource.clone(), own));
        }
    }
    found
}
