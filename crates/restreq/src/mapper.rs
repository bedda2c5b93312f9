//! From names and kinds to resources: what a server says that it has.

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
use crate::RestClient;

/// Finds the resource that a name or a kind means on a server, by what the server says that it has: client-go's `RESTMapper` over cached
/// discovery.
///
/// It asks with the first question, keeps the answer, and asks again for what is not in it: whoever looks for a resource whose definition
/// has just been made finds it. All who look for something unknown share one such question, and a second passes between two.
///
/// A server is asked for all of its groups in two documents (aggregated discovery); one that does not have these is asked group by group.
/// A group that does not answer, as of an extension server that is down, is left out and named where something is not found.
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
///         // `deploy`, `Deployment`, `deployments.apps` and `deployments.v1.apps` are all one.
///         Ok(resource) => Ok(Api::dynamic(client, resource, None)?),
///         Err(MappingError::Ambiguous { candidates, .. }) => Err(format!("which of {candidates:?}?").into()),
///         Err(error) => Err(error.into()),
///     }
/// }
/// ```
pub struct RestMapper {
    client: RestClient,
    /// Counts the callers and the questions in their order, from 1.
    turns: AtomicU64,
    /// All that was said before this turn is forgotten.
    forgotten: AtomicU64,
    known: Mutex<Option<Arc<Known>>>,
    /// Held by who asks. Who finds an answer does not wait for it.
    asking: tokio::sync::Mutex<()>,
}

/// A resource, and what a server says of it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DiscoveredResource {
    /// How to address it.
    pub resource: ApiResource,
    /// Its name for one object.
    pub singular: String,
    /// Its short names, such as `deploy`.
    pub short_names: Vec<String>,
    /// The names of groups of resources that it belongs to, such as `all`.
    pub categories: Vec<String>,
    /// What can be done with it, such as `list`.
    pub verbs: Vec<String>,
    /// The names of its subresources, such as `status`.
    pub subresources: Vec<String>,
}

/// What a server has said.
#[derive(Debug)]
struct Known {
    /// By group in the order of the server, the core group first; of each group the preferred version first.
    resources: Vec<DiscoveredResource>,
    /// The groups and versions that did not answer.
    missing: Vec<GroupVersion>,
    /// When it was asked, also among the callers: a clock may show two of them the same time.
    asked: Instant,
    turn: u64,
}

/// Between two questions to the server for what is not known.
const BETWEEN: Duration = Duration::from_secs(1);

/// Why no resource is found.
#[derive(Clone, Debug, ThisError)]
#[non_exhaustive]
pub enum MappingError {
    /// The name means several resources, none of them in the core group.
    #[error("{name:?} may be any of {}; name the group as well", listed(.candidates))]
    Ambiguous {
        /// What was looked for.
        name: String,
        /// What it may mean.
        candidates: Vec<ApiResource>,
    },
    /// The server has nothing of that name.
    #[error("the server has no resource {name:?}{}", unanswered(.missing))]
    NoMatch {
        /// What was looked for.
        name: String,
        /// The groups that did not answer, in which it may be.
        missing: Vec<GroupVersion>,
    },
    /// The server could not be asked.
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
    /// A mapper for the server of a client. Nothing is sent yet.
    pub fn new(client: RestClient) -> Self {
        Self {
            client,
            turns: AtomicU64::new(1),
            forgotten: AtomicU64::new(0),
            known: Mutex::new(None),
            asking: tokio::sync::Mutex::new(()),
        }
    }

    /// The resource that a name means, as users write it for kubectl: its plural, singular, kind or short name, in any case, alone or
    /// followed by a dot and its group, or its version and group. A group may be shortened to how it begins.
    ///
    /// Where no group is named, the core group comes before all others; a name of its own comes before a short name. Where no version
    /// is named, it is the one that the server prefers.
    ///
    /// # Errors
    ///
    /// Several resources are meant, or none, or the server cannot be asked.
    ///
    /// # Cancel safety
    ///
    /// What has been learned is kept; an unfinished question is asked again.
    pub async fn named(&self, name: &str) -> Result<ApiResource, MappingError> {
        self.find(&Wanted::Name(name)).await
    }

    /// The resource of a kind. An empty version stands for the one that the server prefers.
    ///
    /// # Errors
    ///
    /// As [`named`](Self::named).
    ///
    /// # Cancel safety
    ///
    /// As [`named`](Self::named).
    pub async fn kind(&self, kind: &GroupVersionKind) -> Result<ApiResource, MappingError> {
        self.find(&Wanted::Kind(kind)).await
    }

    /// The resource of that plural, group and version, from which its kind and scope are learned. An empty version stands for the one
    /// that the server prefers.
    ///
    /// # Errors
    ///
    /// As [`named`](Self::named).
    ///
    /// # Cancel safety
    ///
    /// As [`named`](Self::named).
    pub async fn resource(&self, resource: &GroupVersionResource) -> Result<ApiResource, MappingError> {
        self.find(&Wanted::Resource(resource)).await
    }

    /// All resources in all their versions: by group in the order of the server, the core group first; of each group the preferred
    /// version first.
    ///
    /// # Errors
    ///
    /// The server cannot be asked.
    ///
    /// # Cancel safety
    ///
    /// As [`named`](Self::named).
    pub async fn resources(&self) -> Result<Vec<DiscoveredResource>, ApiError> {
        Ok(self.known(0).await?.resources.clone())
    }

    /// Forgets what the server has said. What is not known is asked for in any case; this is for what has gone or changed.
    pub fn invalidate(&self) {
        // A question that is under way began before, so its answer is forgotten as well.
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

    /// What the server has said, if it was asked after that turn, and after all was forgotten.
    async fn known(&self, after: u64) -> Result<Arc<Known>, ApiError> {
        if let Some(known) = self.last(after) {
            return Ok(known);
        }
        let _asking = self.asking.lock().await;
        // Whoever asked meanwhile may have asked late enough.
        if let Some(known) = self.last(after) {
            return Ok(known);
        }
        if let Some(last) = self.last(0) {
            tokio::time::sleep_until(last.asked + BETWEEN).await;
        }
        let turn = self.turns.fetch_add(1, Ordering::Relaxed);
        let new = Arc::new(discover::ask(&self.client, turn).await?);
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = Some(new.clone());
        Ok(new)
    }

    /// The last answer, if it is of after that turn.
    fn last(&self, after: u64) -> Option<Arc<Known>> {
        // Nothing panics while it is held.
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

/// What a document of discovery has, and what is found by the name of each.
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
            // Whatever is said to it, it is said without a panic.
            let _ = known.find(&Wanted::Name(&entry.resource.plural));
            let own = known.find(&Wanted::Resource(&entry.resource.gvr()));
            found.push((entry.resource.clone(), own));
        }
    }
    found
}
