//! Merges the drivers' states into the informer's state.

use std::collections::{BTreeMap, BTreeSet};
use std::mem::discriminant;
use std::sync::Arc;
use std::time::Instant;

use pintle_meta::__private::Mutex;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use crate::clock::now;
use crate::namespaces::Place;
use crate::state::{InformerState, ListProgress};
use crate::stop_cause::StopCause;
use crate::version::is_older;

#[derive(Clone)]
pub(crate) struct States {
    place: Place,
    whole: Arc<Whole>,
}

/// The informer's state, merged from its drivers' states.
///
/// The lock is held only while `Arc`s are copied or replaced. States are merged, cloned and dropped without holding the
/// lock, because a state may contain a user-defined error. Tasks are woken without holding the lock, because wakers are
/// user code.
#[derive(Default)]
pub(crate) struct Whole {
    inner: Mutex<Inner>,
    changed: Notify,
}

#[derive(Default)]
struct Inner {
    parts: BTreeMap<Place, Arc<InformerState>>,
    has_begun: bool,
    stopped: Option<StopCause>,
    /// The time when the state of any driver last changed to another variant, or when the informer ended.
    since: Option<Instant>,
    last_failure: Option<(Instant, Arc<InformerState>)>,
    version: u64,
}

impl Whole {
    pub(crate) fn part(self: &Arc<Self>, place: &Place) -> States {
        self.inner.lock().parts.entry(place.clone()).or_insert_with(initial_state);
        States { place: place.clone(), whole: self.clone() }
    }

    /// Sets the current namespaces. The drivers of removed namespaces no longer affect the informer's state.
    pub(crate) fn follow(&self, places: &BTreeSet<Place>) {
        let mut inner = self.inner.lock();
        let gone: Vec<_> = inner.parts.extract_if(.., |place, _| !places.contains(place)).collect();
        places.iter().for_each(|place| _ = inner.parts.entry(place.clone()).or_insert_with(initial_state));
        inner.has_begun = true;
        inner.since.get_or_insert_with(now);
        inner.version += 1;
        drop(inner);
        drop(gone);
        self.changed.notify_waiters();
    }

    /// Records that the informer has ended. Only the first call of this method has an effect.
    pub(crate) fn stop(&self, cause: StopCause) {
        let mut inner = self.inner.lock();
        if inner.stopped.is_some() {
            return;
        }
        inner.stopped = Some(cause);
        inner.since = Some(now());
        inner.version += 1;
        drop(inner);
        self.changed.notify_waiters();
    }

    pub(crate) fn state(&self) -> InformerState {
        self.state_and_version().0
    }

    pub(crate) fn state_and_version(&self) -> (InformerState, u64) {
        let inner = self.inner.lock();
        let version = inner.version;
        if let Some(cause) = inner.stopped.clone() {
            return (InformerState::Stopped { cause }, version);
        }
        if !inner.has_begun {
            return (InformerState::Starting, version);
        }
        let parts: Vec<_> = inner.parts.values().cloned().collect();
        drop(inner);
        (together(parts.iter().map(|state| (**state).clone())), version)
    }

    pub(crate) fn version(&self) -> u64 {
        self.inner.lock().version
    }

    pub(crate) fn changed(&self) -> Notified<'_> {
        self.changed.notified()
    }

    pub(crate) fn by_namespace(&self) -> BTreeMap<String, InformerState> {
        let parts: Vec<_> =
            self.inner.lock().parts.iter().map(|(place, state)| (place.clone(), state.clone())).collect();
        parts.iter().filter_map(|(place, state)| Some((place.as_ref()?.to_string(), (**state).clone()))).collect()
    }

    /// Returns the time of the last change to another variant of the state, and the last failure with its time.
    pub(crate) fn history(&self) -> (Option<Instant>, Option<(Instant, Arc<InformerState>)>) {
        let inner = self.inner.lock();
        (inner.since, inner.last_failure.clone())
    }

    fn of(&self, place: &Place) -> Option<Arc<InformerState>> {
        self.inner.lock().parts.get(place).cloned()
    }

    /// Replaces the state of a driver and returns the driver's previous state. Does nothing if the driver's namespace
    /// was removed.
    fn put(&self, place: &Place, next: Arc<InformerState>) -> Option<Arc<InformerState>> {
        let now = now();
        let failure = matches!(*next, InformerState::Degraded { next_try: Some(_), .. }).then(|| (now, next.clone()));
        let mut inner = self.inner.lock();
        let state = inner.parts.get_mut(place)?;
        // Wake watchers of the informer only if this driver's state changed.
        let is_news = !state.is_like(&next);
        let is_another = discriminant(&**state) != discriminant(&*next);
        let before = std::mem::replace(state, next);
        let is_first = !std::mem::replace(&mut inner.has_begun, true);
        let is_news = is_first || is_news;
        inner.version += u64::from(is_news);
        if is_first || is_another {
            inner.since = Some(now);
        }
        let earlier = failure.and_then(|failure| inner.last_failure.replace(failure));
        drop(inner);
        drop(earlier);
        if is_news {
            self.changed.notify_waiters();
        }
        Some(before)
    }
}

fn initial_state() -> Arc<InformerState> {
    Arc::new(InformerState::Listing { progress: ListProgress::default() })
}

impl States {
    /// Returns the last reported state, or `None` if the driver's namespace was removed.
    pub(crate) fn last(&self) -> Option<Arc<InformerState>> {
        self.whole.of(&self.place)
    }

    pub(crate) fn publish(&self, informer: &str, next: InformerState) {
        let is_synced = next.is_synced();
        let before = self.whole.put(&self.place, Arc::new(next));
        if is_synced && before.is_some_and(|before| before.cause().is_some()) {
            tracing::info!(informer, "up to date again");
        }
    }

    pub(crate) fn report_progress(&self, received: usize) {
        if let Some(InformerState::Listing { progress }) = self.last().as_deref() {
            let progress = ListProgress { received, ..*progress };
            self.whole.put(&self.place, Arc::new(InformerState::Listing { progress }));
        }
    }
}

/// Merges the drivers' states. If any driver has failed, this function returns the oldest failure. If no driver has
/// failed, it returns the progress of the lists in progress, or else the lowest revision.
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
