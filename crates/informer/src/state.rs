//! How an informer is getting on.

use std::time::Instant;

use crate::ReflectorError;

/// How an informer is getting on.
///
/// A missing custom resource or a missing permission does not stop an informer, since either may come yet: it shows as
/// [`Degraded`](Self::Degraded), with the server's answer as the cause.
///
/// # Examples
///
/// ```
/// use pintle_informer::{InformerConfig, InformerState, SharedInformer};
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
///     let state = states.wait_for(|state| state.cause().is_some()).await?.clone();
///     let InformerState::Degraded { cause, .. } = state else { panic!("there is a cause in no other state") };
///     assert!(cause.to_string().starts_with("cannot list: "), "{cause}");
///     informer.shutdown().await;
///     assert!(matches!(informer.state(), InformerState::Stopped));
///     Ok(())
/// }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum InformerState {
    /// It has not been started.
    Starting,
    /// It lists its resource: for the first time, or again since the server has lost track.
    Listing,
    /// It receives the first state as a stream.
    Streaming,
    /// It has listed, and watches.
    Synced,
    /// It cannot go on, and tries again and again. What it has in its cache stays there.
    Degraded {
        /// The last failure.
        cause: ReflectorError,
        /// When the trouble began.
        since: Instant,
    },
    /// It has been shut down, and does not come back.
    Stopped,
    /// Its source panicked, or an object's own `Metadata` did. It has ended, and does not come back.
    Panicked {
        /// What the panic said.
        message: String,
    },
}

impl InformerState {
    /// Whether it watches, so that the cache is as near to the truth as can be.
    pub fn is_synced(&self) -> bool {
        matches!(self, Self::Synced)
    }

    /// Whether it has ended, one way or the other.
    pub fn has_ended(&self) -> bool {
        matches!(self, Self::Stopped | Self::Panicked { .. })
    }

    /// The failure that keeps it from going on.
    pub fn cause(&self) -> Option<&ReflectorError> {
        match self {
            Self::Degraded { cause, .. } => Some(cause),
            _ => None,
        }
    }
}
