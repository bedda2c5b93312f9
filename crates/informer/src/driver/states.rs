//! How the drivers of an informer are getting on, and so how it is.

use std::collections::{BTreeMap, BTreeSet};
use std::mem::discriminant;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use crate::cache::version::is_older;
use crate::namespaces::Place;
use crate::{InformerState, ListProgress, StopCause};

/// Where a driver tells how it is getting on.
#[derive(Clone)]
pub(crate) struct States {
    own: watch::Sender<InformerState>,
    whole: Arc<Whole>,
}

/// How an informer is getting on, from how its drivers are.
pub(crate) struct Whole {
    state: watch::Sender<InformerState>,
    parts: Mutex<BTreeMap<Place, watch::Sender<InformerState>>>,
}

impl Whole {
    pub(crate) fn new(state: watch::Sender<InformerState>) -> Self {
        Self { state, parts: Mutex::default() }
    }

    /// For the driver of a part.
    pub(crate) fn part(self: &Arc<Self>, place: &Place) -> States {
        States { own: self.lock().entry(place.clone()).or_insert_with(begun).clone(), whole: self.clone() }
    }

    /// From the next time on that something is told, these count, and no others.
    pub(super) fn set(&self, places: &BTreeSet<Place>) {
        let mut parts = self.lock();
        parts.retain(|place, _| places.contains(place));
        places.iter().for_each(|place| _ = parts.entry(place.clone()).or_insert_with(begun));
    }

    /// It has ended; what drivers tell after that is of no interest.
    pub(crate) fn stop(&self, cause: StopCause) {
        self.state.send_replace(InformerState::Stopped { cause });
    }

    /// How each is getting on that follows a namespace.
    pub(crate) fn by_namespace(&self) -> BTreeMap<String, InformerState> {
        let parts = self.lock();
        let named =
            parts.iter().filter_map(|(place, state)| Some((place.as_ref()?.to_string(), state.borrow().clone())));
        named.collect()
    }

    pub(super) fn publish(&self, is_news: bool) {
        let parts = self.lock();
        let next = together(parts.values().map(|state| state.borrow().clone()));
        // Under the lock, so that the last state is told last.
        self.state.send_if_modified(|state| {
            if state.has_ended() {
                return false;
            }
            let is_other = discriminant(state) != discriminant(&next);
            *state = next;
            is_news || is_other
        });
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Place, watch::Sender<InformerState>>> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// That of a driver which is about to list.
fn begun() -> watch::Sender<InformerState> {
    watch::Sender::new(InformerState::Listing { progress: ListProgress::default() })
}

impl States {
    pub(super) fn borrow(&self) -> watch::Ref<'_, InformerState> {
        self.own.borrow()
    }

    pub(super) fn publish(&self, informer: &str, next: InformerState) {
        let has_recovered = next.is_synced() && self.own.borrow().cause().is_some();
        let is_news = self.own.send_if_modified(|state| {
            let is_news = !state.is_like(&next);
            *state = next;
            is_news
        });
        self.whole.publish(is_news);
        if has_recovered {
            tracing::info!(informer, "up to date again");
        }
    }

    /// How far a list has come.
    pub(super) fn tell_progress(&self, received: usize) {
        self.own.send_if_modified(|state| {
            if let InformerState::Listing { progress } = state {
                progress.received = received;
            }
            false
        });
        self.whole.publish(false);
    }
}

/// The trouble that has lasted longest, or else what there is to wait for, or else the revision that all have come to.
fn together(parts: impl Iterator<Item = InformerState>) -> InformerState {
    let nothing = InformerState::Synced { resource_version: String::new() };
    parts.reduce(join).unwrap_or(nothing)
}

fn join(one: InformerState, other: InformerState) -> InformerState {
    use InformerState::{Degraded, Listing, Starting, Stopped, Streaming, Synced};
    let sum = |one: ListProgress, other: ListProgress| ListProgress {
        received: one.received + other.received,
        remaining: one.remaining.zip(other.remaining).map(|(one, other)| one + other),
    };
    match (one, other) {
        (Stopped { cause }, _) | (_, Stopped { cause }) => Stopped { cause },
        (one @ Degraded { .. }, Degraded { since, .. }) if matches!(&one, Degraded { since: first, .. } if *first <= since) => {
            one
        }
        (_, other @ Degraded { .. }) => other,
        (one @ Degraded { .. }, _) => one,
        (Listing { progress: one }, Listing { progress: other } | Streaming { progress: other })
        | (Streaming { progress: one }, Listing { progress: other }) => Listing { progress: sum(one, other) },
        (Streaming { progress: one }, Streaming { progress: other }) => Streaming { progress: sum(one, other) },
        (one @ (Listing { .. } | Streaming { .. }), _) => one,
        (_, other @ (Listing { .. } | Streaming { .. })) => other,
        (Starting, _) | (_, Starting) => Starting,
        (Synced { resource_version: one }, Synced { resource_version: other }) => {
            Synced { resource_version: if is_older(&other, &one) { other } else { one } }
        }
    }
}
