//! Which keys are in flight or have failed, so that a call's own writes do not end its back-off.

use std::collections::HashMap;
use std::time::Duration;

use pintle_meta::ObjectKey;
use tokio::time::Instant;

/// A change that is seen within this time after a failed call counts as written by that call.
pub(crate) const OWN_WRITE: Duration = Duration::from_secs(5);

/// What is known of keys that are in flight, or whose last call failed.
#[derive(Debug, Default)]
pub(crate) struct Attempts {
    keys: HashMap<ObjectKey, Attempt>,
    /// How many there were after the last time that old failures were dropped.
    pruned: usize,
}

#[derive(Debug)]
enum Attempt {
    /// In flight. `is_urgent`: something asked for another call that this call cannot have caused.
    Running { is_urgent: bool },
    /// The last call failed at that time. `is_terminal`: no retry is pending.
    Failed { at: Instant, is_terminal: bool },
}

/// What to do about a change of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Add the key.
    Add,
    /// Add the key after the limiter's delay.
    AddRateLimited,
    /// Nothing: a retry is pending.
    Wait,
}

impl Attempts {
    /// A call begins.
    pub(crate) fn begin(&mut self, key: &ObjectKey) {
        self.keys.insert(key.clone(), Attempt::Running { is_urgent: false });
    }

    /// A call ended well, or was dropped.
    pub(crate) fn end(&mut self, key: &ObjectKey) {
        self.keys.remove(key);
    }

    /// A call failed. Returns whether the changes since it began may wait for the retry.
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

    /// Something about the key changed. `is_urgent`: a call of this controller cannot have caused it.
    pub(crate) fn change(&mut self, key: &ObjectKey, is_urgent: bool, now: Instant) -> Answer {
        match self.keys.get_mut(key) {
            None => Answer::Add,
            Some(Attempt::Running { is_urgent: was_urgent }) => {
                *was_urgent |= is_urgent;
                Answer::Add
            }
            Some(Attempt::Failed { at, .. }) if is_urgent || now.duration_since(*at) >= OWN_WRITE => Answer::Add,
            Some(Attempt::Failed { is_terminal: true, .. }) => Answer::AddRateLimited,
            Some(Attempt::Failed { is_terminal: false, .. }) => Answer::Wait,
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
    fn failures_that_are_over_are_forgotten() {
        let (mut attempts, start) = (Attempts::default(), Instant::now());
        for number in 0..10_000 {
            let key = ObjectKey::cluster(&number.to_string());
            attempts.fail(&key, true, start + Duration::from_secs(number / 100));
        }
        assert!(attempts.keys.len() < 2_100, "{}", attempts.keys.len());
    }
}
