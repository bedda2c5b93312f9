//! A summary of an informer's status for display.

use std::time::Instant;

use pintle_meta::{ApiResource, Object};

use crate::error::ReflectorError;
use crate::shared_informer::SharedInformer;
use crate::state::InformerState;
use crate::undecodable::Undecodable;

/// An informer's status, for a status page: see [`SharedInformer::status`] and
/// [`InformerFactory::informers`](crate::InformerFactory::informers).
///
/// # Examples
///
/// ```
/// use pintle_informer::{InformerConfig, SharedInformer};
/// use pintle_meta::{ApiResource, PartialObject, Reason, Scope};
/// use pintle_testing::{Collection, CollectionConfig, Outcome};
///
/// #[tokio::main(flavor = "current_thread", start_paused = true)]
/// async fn main() -> Result<(), Box<dyn std::error::Error>> {
///     let resource = ApiResource::new("v1", "Pod", "pods", Scope::Namespaced);
///     let pods = Collection::<PartialObject>::dynamic(resource, CollectionConfig::default());
///     pods.faults().next([Outcome::refused(403, Reason::Forbidden)]);
///     let informer = SharedInformer::new(pods, InformerConfig::default());
///     informer.start();
///     informer.wait_for_sync().await?;
///
///     let status = informer.status();
///     assert!(status.state.is_synced() && status.since.is_some());
///     let failure = status.last_failure.expect("the first list failed");
///     assert!(failure.error.to_string().starts_with("cannot list: ") && Some(failure.at) < status.since);
///     Ok(())
/// }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct InformerStatus {
    /// The informer's name, as used in logs and metrics.
    pub name: String,
    /// The resource of the objects.
    pub resource: ApiResource,
    /// The informer's current state.
    pub state: InformerState,
    /// The time at which the state of any watched namespace last changed to another variant, or `None` before the
    /// informer starts.
    pub since: Option<Instant>,
    /// The number of cached objects.
    pub objects: usize,
    /// The number of objects whose newest state [is undecodable](crate::Undecodable).
    pub undecodable: usize,
    /// The undecodable object with the smallest key.
    pub first_undecodable: Option<Undecodable>,
    /// The last failure, even if the informer has recovered since.
    pub last_failure: Option<LastFailure>,
}

/// An informer's last failed list or watch.
#[derive(Clone, Debug)]
pub struct LastFailure {
    /// The time of the failure.
    pub at: Instant,
    /// The failure, which contains the server's error if a request failed.
    pub error: ReflectorError,
}

impl<T: Object> SharedInformer<T> {
    /// Returns the informer's status, for a status page.
    pub fn status(&self) -> InformerStatus {
        let (since, failure) = self.history();
        let last_failure = failure.and_then(|(at, state)| Some(LastFailure { at, error: state.cause().cloned()? }));
        InformerStatus {
            name: self.name().to_owned(),
            resource: self.resource().clone(),
            state: self.state(),
            since,
            objects: self.objects(),
            undecodable: self.cache().undecodable_len(),
            first_undecodable: self.cache().first_undecodable(),
            last_failure,
        }
    }
}
