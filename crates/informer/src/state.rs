//! How an informer is getting on.

use std::fmt;
use std::mem::discriminant;
use std::time::Instant;

use crate::ReflectorError;

/// How an informer is getting on.
///
/// A missing custom resource or a missing permission does not stop an informer, since either may come yet: it shows as
/// [`Degraded`](Self::Degraded), with the server's answer as the cause.
///
/// Who [watches](crate::SharedInformer::states) it is woken when it becomes another state, and for each failure and each new try. How far a
/// list has come, and the revision, are as of now whenever somebody looks; they wake nobody.
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
///     let Some(InformerState::Degraded { cause, since, next_try }) = state else { panic!("there is a cause in no other state") };
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
    /// It has not been started.
    Starting,
    /// It lists its resource: for the first time, or again since the server has lost track.
    Listing {
        /// How far it has come.
        progress: ListProgress,
    },
    /// It receives the first state as a stream.
    Streaming {
        /// How far it has come.
        progress: ListProgress,
    },
    /// It has listed, and watches.
    Synced {
        /// The revision up to which the cache has everything.
        resource_version: String,
    },
    /// It cannot go on, and tries again and again. What it has in its cache stays there.
    Degraded {
        /// The last failure.
        cause: ReflectorError,
        /// When the trouble began.
        since: Instant,
        /// When it tries again. None: it is trying.
        next_try: Option<Instant>,
    },
    /// It has ended, and does not come back.
    Stopped {
        /// Why.
        cause: StopCause,
    },
}

/// How far a list has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListProgress {
    /// How many objects have come.
    pub received: usize,
    /// How many are on pages that have not been asked for yet, as far as the server tells (`remainingItemCount`). It does not tell in
    /// streams, nor with selectors, nor where a list comes in one piece.
    pub remaining: Option<u64>,
}

/// Why an informer has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StopCause {
    /// It was told to stop, or nobody had a handle to it any more.
    ShutDown,
    /// The tokio runtime in which it was started is gone.
    RuntimeGone,
    /// Its source panicked; or an object's own `Metadata` did, which had told who the object is before.
    Panicked {
        /// What the panic said.
        message: String,
    },
}

impl InformerState {
    /// Whether it watches, so that the cache is as near to the truth as can be.
    pub fn is_synced(&self) -> bool {
        matches!(self, Self::Synced { .. })
    }

    /// Whether it has ended, one way or the other.
    pub fn has_ended(&self) -> bool {
        matches!(self, Self::Stopped { .. })
    }

    /// The failure that keeps it from going on.
    pub fn cause(&self) -> Option<&ReflectorError> {
        match self {
            Self::Degraded { cause, .. } => Some(cause),
            _ => None,
        }
    }

    /// How many objects of a list have come.
    pub(crate) fn received(&self) -> usize {
        match self {
            Self::Listing { progress } | Self::Streaming { progress } => progress.received,
            _ => 0,
        }
    }

    /// Whether nobody needs to be woken for the difference.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        // Each failure counts, and each try.
        discriminant(self) == discriminant(other) && !matches!(self, Self::Degraded { .. })
    }
}

impl fmt::Display for StopCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ShutDown => f.write_str("it was shut down"),
            Self::RuntimeGone => f.write_str("its runtime is gone"),
            Self::Panicked { message } => write!(f, "it panicked: {message}"),
        }
    }
}
