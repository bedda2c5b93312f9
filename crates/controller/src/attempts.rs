//! Tracks the keys that are in flight or have failed. The writes of a failed call must not end the backoff of its key.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::key::RequestKey;

/// A change that arrives within this time after a failed call counts as a write of the call.
pub(crate) const OWN_WRITE: Duration = Duration::from_secs(5);

/// A change that the failed call may have caused shortens the key's backoff to this time. The change is not ignored,
/// because another writer may have made it.
pub(crate) const EARLY_RETRY: Duration = Duration::from_secs(30);

/// The maximum number of early retries of a key between two successes. Without this limit, the backoff of a reconciler
/// that always writes and then fails would not grow.
const MAX_EARLY_RETRIES: u8 = 10;

#[derive(Debug)]
pub(crate) struct Attempts<K> {
    keys: HashMap<K, Attempt>,
    /// The number of tracked keys after old failures were last removed.
    pruned: usize,
}

#[derive(Debug)]
struct Attempt {
    state: AttemptState,
    /// Whether an urgent change has arrived since the last call began. A change is urgent if the last call cannot have
    /// caused it.
    is_urgent: bool,
    early_retries: u8,
}

#[derive(Debug)]
enum AttemptState {
    Running,
    /// The key's last call failed at the time `at`.
    Failed {
        at: Instant,
        retry: Retry,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Retry {
    AfterBackoff,
    AfterRequest,
    /// No retry, so only a change queues the key again.
    Never,
}

/// The likelihood that a key's last call has caused a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OwnWrite {
    /// The last call cannot have caused the change.
    Impossible,
    /// The last call probably did not cause the change. After too many early retries, the change is treated as
    /// `Possible`.
    Unlikely,
    /// The last call may have caused the change.
    Possible,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChangeAction {
    Add,
    AddRateLimited,
    /// Shorten the delay of the pending retry to [`EARLY_RETRY`].
    RetryEarly,
    /// Do nothing, because the key is already waiting for a retry.
    Wait,
}

impl<K> Default for Attempts<K> {
    fn default() -> Self {
        Self { keys: HashMap::new(), pruned: 0 }
    }
}

impl<K: RequestKey> Attempts<K> {
    pub(crate) fn begin(&mut self, key: &K) {
        let early_retries = self.keys.get(key).map_or(0, |attempt| attempt.early_retries);
        self.keys.insert(key.clone(), Attempt { state: AttemptState::Running, is_urgent: false, early_retries });
    }

    pub(crate) fn end(&mut self, key: &K) {
        self.keys.remove(key);
    }

    /// Records that the last call for a key failed. Returns `true` if no urgent change has arrived during this call.
    /// The key's retry then also handles all other changes that arrived during the call.
    pub(crate) fn fail(&mut self, key: &K, retry: Retry, now: Instant) -> bool {
        let state = AttemptState::Failed { at: now, retry };
        let (is_urgent, early_retries) = match self.keys.get(key) {
            Some(Attempt { state: AttemptState::Running, is_urgent, early_retries }) => (*is_urgent, *early_retries),
            _ => (false, 0),
        };
        self.keys.insert(key.clone(), Attempt { state, is_urgent, early_retries });
        if self.keys.len() > 1_024 && self.keys.len() / 2 > self.pruned {
            self.keys.retain(|_, attempt| match attempt.state {
                AttemptState::Running => true,
                // Keep the attempt, because its `early_retries` limits the number of further early retries.
                AttemptState::Failed { retry: Retry::AfterBackoff, .. } if attempt.early_retries > 0 => true,
                AttemptState::Failed { at, .. } => now.duration_since(at) < OWN_WRITE,
            });
            self.pruned = self.keys.len();
        }
        !is_urgent
    }

    pub(crate) fn change(&mut self, key: &K, own_write: OwnWrite, now: Instant) -> ChangeAction {
        let Some(attempt) = self.keys.get_mut(key) else { return ChangeAction::Add };
        if matches!(attempt.state, AttemptState::Failed { at, .. } if now.duration_since(at) >= OWN_WRITE) {
            return ChangeAction::Add;
        }
        attempt.is_urgent |= attempt.is_urgent_change(own_write);
        match attempt.state {
            AttemptState::Running => ChangeAction::Add,
            AttemptState::Failed { .. } if attempt.is_urgent && own_write != OwnWrite::Possible => ChangeAction::Add,
            AttemptState::Failed { retry: Retry::Never, .. } => ChangeAction::AddRateLimited,
            AttemptState::Failed { .. } if attempt.may_retry_early() => ChangeAction::RetryEarly,
            AttemptState::Failed { .. } => ChangeAction::Wait,
        }
    }

    pub(crate) fn may_retry_early(&self, key: &K) -> bool {
        self.keys.get(key).is_some_and(Attempt::may_retry_early)
    }

    pub(crate) fn is_urgent(&self, key: &K) -> bool {
        self.keys.get(key).is_some_and(|attempt| attempt.is_urgent)
    }

    pub(crate) fn retried_early(&mut self, key: &K) {
        if let Some(attempt) = self.keys.get_mut(key) {
            attempt.early_retries = attempt.early_retries.saturating_add(1);
        }
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}

impl Attempt {
    /// Returns `true` if the change is urgent. An `Unlikely` change uses one early retry if it makes the attempt
    /// urgent.
    fn is_urgent_change(&mut self, own_write: OwnWrite) -> bool {
        match own_write {
            OwnWrite::Impossible => true,
            OwnWrite::Possible => false,
            OwnWrite::Unlikely if self.is_urgent => true,
            OwnWrite::Unlikely => {
                let is_urgent = self.early_retries < MAX_EARLY_RETRIES;
                self.early_retries += u8::from(is_urgent);
                is_urgent
            }
        }
    }

    fn may_retry_early(&self) -> bool {
        matches!(self.state, AttemptState::Failed { retry: Retry::AfterBackoff, .. })
            && self.early_retries < MAX_EARLY_RETRIES
    }
}

#[cfg(test)]
mod tests {
    use pintle_meta::ObjectKey;

    use super::*;

    #[test]
    fn old_failures_are_removed() {
        let (mut attempts, start) = (Attempts::default(), Instant::now());
        for number in 0..10_000 {
            let key = ObjectKey::cluster(&number.to_string());
            attempts.fail(&key, Retry::Never, start + Duration::from_secs(number / 100));
        }
        assert!(attempts.keys.len() < 2_100, "{}", attempts.keys.len());
    }
}
