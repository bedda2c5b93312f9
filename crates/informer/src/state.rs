//! The state of an informer.

use std::mem::discriminant;
use std::time::Instant;

use crate::error::ReflectorError;
use crate::stop_cause::StopCause;

/// The state of an informer.
///
/// A missing custom resource or permission does not stop an informer, because an administrator may add it later. While
/// the custom resource or the permission is missing, the state is [`Degraded`](Self::Degraded), and its `cause` is the
/// server's error.
///
/// A [`StateWatch`](crate::StateWatch) wakes when the variant changes, and at each failure and retry. A `StateWatch`
/// does not wake when a list progresses or the revision advances. Reading the state always returns the current progress
/// and revision.
///
/// # Examples
///
/// ```
/// use pintle_informer::{InformerConfig, InformerState, SharedInformer, StopCause};
/// use pintle_meta::{ApiResource, PartialObject, Reason, Scope};
/// use pintle_testing::{Collection, CollectionConfig, Outcome};
///
/// #[tokio::main(flavor = "current_thread")]
/// async fn main() -> Result<(), Box<dyn std::error::Error>> {
///     let resource = ApiResource::new("v1", "Pod", "pods", Scope::Namespaced);
///     let pods = Collection::<PartialObject>::dynamic(resource, CollectionConfig::default());
///     pods.faults().when(|_| Some(Outcome::refused(403, Reason::Forbidden)));
///     let informer = SharedInformer::new(pods, InformerConfig::default());
///     let mut states = informer.states();
///     informer.start();
///
///     let state = states.wait_for(|state| state.cause().is_some()).await;
/// let Some(InformerState::Degraded { cause, since, next_try }) = state else { panic!("only a degraded state has a
/// cause") };
///     assert!(cause.to_string().starts_with("cannot list: "), "{cause}");
///     assert!(next_try.is_some_and(|next_try| next_try > since));
///     informer.shutdown().await;
///     assert!(matches!(informer.state(), InformerState::Stopped { cause: StopCause::ShutDown }));
///     Ok(())
/// }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum InformerState {
    /// The informer has not been started.
    Starting,
    /// The informer is listing its resource, for the first time or again. For example, the informer lists again if the
    /// cached revision is no longer available on the server.
    Listing {
        /// The progress of the list.
        progress: ListProgress,
    },
    /// The informer is receiving a streaming list.
    Streaming {
        /// The progress of the streaming list.
        progress: ListProgress,
    },
    /// The informer has listed its resource and is watching it.
    Synced {
        /// The cache's revision. The cache contains all changes up to this revision.
        resource_version: String,
    },
    /// The informer cannot make progress and keeps retrying. The cache keeps its objects.
    Degraded {
        /// The last failure.
        cause: ReflectorError,
        /// The time of the first failure since the informer last made progress.
        since: Instant,
        /// The time of the next retry, or `None` if a retry is in progress.
        next_try: Option<Instant>,
    },
    /// The informer has ended permanently.
    Stopped {
        /// The reason why the informer has ended.
        cause: StopCause,
    },
}

/// The progress of a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListProgress {
    /// The number of received objects.
    pub received: usize,
    /// The number of objects on the remaining pages, if the server reports it (`remainingItemCount`). Servers do not
    /// report this number for streaming lists, for lists with selectors, and for lists with a single page.
    pub remaining: Option<u64>,
}

impl InformerState {
    /// Returns `true` if the state is [`Synced`](Self::Synced).
    pub fn is_synced(&self) -> bool {
        matches!(self, Self::Synced { .. })
    }

    /// Returns `true` if the informer has ended, for any reason.
    pub fn has_ended(&self) -> bool {
        matches!(self, Self::Stopped { .. })
    }

    /// Returns the last failure if the state is [`Degraded`](Self::Degraded).
    pub fn cause(&self) -> Option<&ReflectorError> {
        match self {
            Self::Degraded { cause, .. } => Some(cause),
            _ => None,
        }
    }

    pub(crate) fn received(&self) -> usize {
        match self {
            Self::Listing { progress } | Self::Streaming { progress } => progress.received,
            _ => 0,
        }
    }

    /// Returns `true` if a change of the state from `self` to `other` does not need to wake watchers.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        discriminant(self) == discriminant(other) && !matches!(self, Self::Degraded { .. })
    }
}
