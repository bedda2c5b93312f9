//! A watch of an informer's state.

use std::sync::Arc;

use crate::panic::isolated;
use crate::state::InformerState;
use crate::states::Whole;

/// Watches an informer's state: see [`SharedInformer::states`](crate::SharedInformer::states).
///
/// A watch returns owned states, so the caller never holds a lock. A watch does not keep the informer running.
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
    seen: u64,
}

impl StateWatch {
    pub(crate) fn new(whole: Arc<Whole>) -> Self {
        let seen = whole.version();
        Self { whole, seen }
    }

    /// Returns the current state without marking it as seen.
    pub fn get(&self) -> InformerState {
        self.whole.state()
    }

    /// Returns `true` if the state has changed since it was last marked as seen.
    pub fn has_changed(&self) -> bool {
        self.whole.version() != self.seen
    }

    /// Waits until the state changes, marks the new state as seen, and returns the new state. The first call of
    /// `changed` waits for a change after the call of [`states`](crate::SharedInformer::states). Each later call of
    /// `changed` waits for a change after the last seen state.
    ///
    /// Intermediate states may be skipped. Returns `None` if the informer has ended and its last state was already
    /// seen.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future does not lose a state.
    pub async fn changed(&mut self) -> Option<InformerState> {
        loop {
            let whole = self.whole.clone();
            // Create the future before reading the state, so that later changes wake the future.
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

    /// Waits until `is_wanted` returns `true` for a state, and returns that state. `wait_for` checks the current state
    /// first. No lock is held while `is_wanted` runs.
    ///
    /// Returns `None` if the informer has ended and `is_wanted` returned `false` for its last state.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future stops the wait. All states that were passed to `is_wanted` are marked as seen.
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

pintle_meta::debug_struct!(StateWatch |self| { state = self.get(), .. });
