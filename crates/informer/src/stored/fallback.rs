//! The earlier state that reads return if an object's newest state cannot be decoded.

use std::sync::Arc;

use super::data::{Fallback, Sequence, Stored};
use crate::sync::Mutex;

impl<T> Fallback<T> {
    /// Starts a sequence with the state `oldest`, and returns the fallback for the state after it.
    pub(super) fn start(oldest: Stored<T>) -> Self {
        Self::Unproven(Arc::new(Sequence { oldest, decoded: Mutex::new(None) }), 1)
    }

    pub(super) fn is_readable(&self) -> bool {
        match self {
            Self::None => false,
            Self::State(_) => true,
            Self::Unproven(sequence, position) => {
                sequence.oldest.is_readable() || sequence.decoded_before(*position).is_some()
            }
        }
    }
}

impl<T> Clone for Fallback<T> {
    fn clone(&self) -> Self {
        match self {
            Self::None => Self::None,
            Self::State(state) => Self::State(state.clone()),
            Self::Unproven(sequence, position) => Self::Unproven(sequence.clone(), *position),
        }
    }
}

impl<T> Sequence<T> {
    /// Returns a decodable state that is older than the state at `position`. Decodes the oldest state if no other state
    /// has been decoded yet.
    pub(super) fn good_before(&self, position: u32) -> Option<Stored<T>> {
        self.decoded_before(position).or_else(|| self.oldest.read().is_some().then(|| self.oldest.clone()))
    }

    /// Records that the state at `position` was decoded. Keeps only the decoded state with the lowest position, which
    /// is older than most other states and can be their fallback. Returns the state that is no longer kept. Dropping it
    /// can run user-defined `Drop` code.
    #[must_use]
    pub(super) fn record_decoded(&self, position: u32, state: Stored<T>) -> Option<Stored<T>> {
        let mut decoded = self.decoded.lock();
        let is_lowest = decoded.as_ref().is_none_or(|(lowest, _)| position < *lowest);
        let before = if is_lowest { decoded.replace((position, state)) } else { return Some(state) };
        before.map(|(_, before)| before)
    }

    fn decoded_before(&self, position: u32) -> Option<Stored<T>> {
        let decoded = self.decoded.lock();
        decoded.as_ref().filter(|(decoded, _)| *decoded < position).map(|(_, state)| state.clone())
    }
}
