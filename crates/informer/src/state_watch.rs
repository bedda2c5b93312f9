//! Waiting for the state of an informer to change.

use std::fmt;
use std::sync::Arc;

use crate::InformerState;
use crate::driver::Whole;
use crate::panic::isolated;

/// The states of an informer as they change: see [`SharedInformer::states`](crate::SharedInformer::states).
///
/// All states that it gives out are owned. It holds no lock between two calls, and it does not keep the informer running.
///
/// # Examples
///
/// ```
/// use pintle_informer::{InformerConfig, InformerState, SharedInformer};
/// use pintle_meta::{ApiResource, PartialObject, Scope};
/// use pintle_testing::{Collection, CollectionConfig};
///
/// #[tokio::main(flavor = "current_thread")]
/// async fn main() {
///     let resource = ApiResource::new("v1", "Pod", "pods", Scope::Namespaced);
///     let pods = Collection::<PartialObject>::dynamic(resource, CollectionConfig::default());
///     let informer = SharedInformer::new(pods, InformerConfig::default());
///     let mut states = informer.states();
///     informer.start();
///     assert!(states.wait_for(InformerState::is_synced).await.is_some());
///     drop(informer);
///     while let Some(state) = states.changed().await {
///         println!("{state:?}");
///     }
///     assert!(states.get().has_ended());
/// }
/// ```
#[derive(Clone)]
pub struct StateWatch {
    whole: Arc<Whole>,
    /// The version of the last state that [`changed`](Self::changed) returned.
    seen: u64,
}

impl StateWatch {
    pub(crate) fn new(whole: Arc<Whole>) -> Self {
        let seen = whole.version();
        Self { whole, seen }
    }

    /// Returns the present state. It does not count as seen.
    pub fn get(&self) -> InformerState {
        self.whole.state()
    }

    /// Whether the state has changed since the last one that was seen.
    pub fn has_changed(&self) -> bool {
        self.whole.version() != self.seen
    }

    /// Waits until the state has changed since the last one that was seen, and returns the present one, which is seen then. At first,
    /// the state at the time of [`states`](crate::SharedInformer::states) counts as seen.
    ///
    /// States in between may be skipped. `None`: the informer has ended, and its last state was seen.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses no state.
    pub async fn changed(&mut self) -> Option<InformerState> {
        loop {
            let whole = self.whole.clone();
            // Before the look, so that no change between the two is missed.
            let changed = whole.changed();
            let (state, version) = whole.state_and_version();
            if std::mem::replace(&mut self.seen, version) != version {
                return Some(state);
            }
            if state.has_ended() {
                return None;
            }
            isolated(changed).await;
        }
    }

    /// Waits until `is_wanted` accepts the state, be it the present one, and returns that state, which is seen then. `is_wanted` runs
    /// under no lock.
    ///
    /// `None`: the informer has ended, and `is_wanted` does not accept its last state.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future stops the wait. The states that were rejected count as seen.
    pub async fn wait_for(&mut self, mut is_wanted: impl FnMut(&InformerState) -> bool) -> Option<InformerState> {
        let (mut state, seen) = self.whole.state_and_version();
        self.seen = seen;
        loop {
            if is_wanted(&state) {
                return Some(state);
            }
            state = self.changed().await?;
        }
    }
}

impl fmt::Debug for StateWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StateWatch").field("state", &self.get()).finish_non_exhaustive()
    }
}
