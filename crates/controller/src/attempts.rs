//! Tracks keys that are in flight or have failed, so that a call's own writes do not end its back-off.

use std::collections::HashMap;
use std::time::Duration;

use pintle_meta::ObjectKey;
use tokio::time::Instant;

/// A change within this time after a failed call counts as written by that call.
pub(crate) const OWN_WRITE: Duration = Duration::from_secs(5);

/// The state of keys that are in flight, or whose last call failed.
#[derive(Debug, Default)]
pub(crate) struct Attempts {
    keys: HashMap<ObjectKey, Attempt>,
    /// The number of keys after the last time that old failures were removed.
    pruned: usize,
}

#[derive(Debug)]
enum Attempt {
    /// In flight. `is_urgent`: a change arrived that this call cannot have caused.
    Running { is_urgent: bool },
    /// The last call failed at this time. `is_terminal`: no retry is pending.
    Failed { at: Instant, is_terminal: bool },
}

/// How to handle a change of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChangeAction {
    /// Add the key.
    Add,
    /// Add the key after the limiter's delay.
    AddRateLimited,
    /// Do nothing, because a retry is pending.
    Wait,
}

impl Attempts {
    /// Records that a call begins.
    pub(crate) fn begin(&mut self, key: &ObjectKey) {
        self.keys.insert(key.clone(), Attempt::Running { is_urgent: false });
    }

    /// Records that a call succeeded or was dropped.
    pub(crate) fn end(&mut self, key: &ObjectKey) {
        self.keys.remove(key);
    }

    /// Records that a call failed. Returns whether the changes since it began may wait for the retry.
    pub(crate) fn fail(&mut self, key: &ObjectKey, is_terminal: bool, now: Instant) -> bool {
        let before = self.keys.insert(key.clone(), Attempt::Failed { at: now, is_terminal });
        if self.keys.len() > 1_024 && self.keys.len() / 2 > self.pruned {
            self.keys.retain(|_, attempt| match attempt {
                Attempt::Running { .. } => true,
                Attempt::Failed { at, .. } => now.duration_since(*at) < OWN_WRITE,
            });
            self.pruned = self.keys.len();
        }
        !matches!(before, Some(Attempt::Running { is_urgent: true }))
    }

    /// Records a change of the key. `is_urgent`: a call of this controller cannot have caused it.
    pub(crate) fn change(&mut self, key: &ObjectKey, is_urgent: bool, now: Instant) -> ChangeAction {
        match self.keys.get_mut(key) {
            None => ChangeAction::Add,
            Some(Attempt::Running { is_urgent: was_urgent }) => {
                *was_urgent |= is_urgent;
                ChangeAction::Add
            }
            Some(Attempt::Failed { at, .. }) if is_urgent || now.duration_since(*at) >= OWN_WRITE => ChangeAction::Add,
            Some(Attempt::Failed { is_terminal: true, .. }) => ChangeAction::AddRateLimited,
            Some(Attempt::Failed { is_terminal: false, .. }) => ChangeAction::Wait,
        }
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_failures_are_removed() {
        let (mut attempts, start) = (Attempts::default(), Instant::now());
        for number in 0..10_000 {
            let key = ObjectKey::cluster(&number.to_string());
            attempts.fail(&key, true, start + Duration::from_secs(number / 100));
        }
        assert!(attempts.keys.len() < 2_100, "{}", attempts.keys.len());
    }
}
