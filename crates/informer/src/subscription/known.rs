//! Delivers only changes of objects that the subscriber can read.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use pintle_delta_fifo::Change;
use pintle_meta::{Object, ObjectKey};
use tokio::task::coop::poll_proceed;

use super::queue::{KeyedChange, Queue};
use crate::stored::{Readability, Stored};

/// The cost of decoding an object, in units of tokio's cooperative budget. A task has 128 units each time it is polled,
/// so the task decodes at most 16 objects in one poll. Decoding a whole pod takes up to 0.1 ms.
pub(crate) const DECODE_COST: usize = 8;

/// The keys whose objects could not be read when the queue delivered them. The subscriber has not received these
/// objects.
#[derive(Default)]
pub(super) struct Unknown(Mutex<HashSet<ObjectKey>>);

impl Unknown {
    fn lock(&self) -> MutexGuard<'_, HashSet<ObjectKey>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Object> Queue<T> {
    /// Polls the next change whose objects the subscriber can read, as [`poll_next`](Self::poll_next) does. If the
    /// method decodes an object, it consumes more of tokio's cooperative budget.
    pub(super) fn poll_known(&self, context: &mut Context<'_>) -> Poll<Option<KeyedChange<T>>> {
        loop {
            let Some(change) = ready!(self.poll_next(context)) else { return Poll::Ready(None) };
            let (change, has_decoded) = self.known(change);
            for _ in 1..if has_decoded { DECODE_COST } else { 1 } {
                match poll_proceed(context) {
                    Poll::Ready(coop) => coop.made_progress(),
                    Poll::Pending => break,
                }
            }
            if change.is_some() {
                return Poll::Ready(change);
            }
        }
    }

    /// Returns the next change whose objects the subscriber can read, if one is waiting.
    pub(super) fn try_known(&self) -> Option<KeyedChange<T>> {
        std::iter::from_fn(|| self.try_next()).find_map(|change| self.known(change).0)
    }

    /// Checks that the objects of a change can be read. If the subscriber has not received the object yet, the change
    /// becomes an addition or is dropped. The method also returns whether this check decoded an object.
    fn known(&self, (key, change): KeyedChange<T>) -> (Option<KeyedChange<T>>, bool) {
        let newest = match &change {
            Change::Added { object, .. } | Change::Deleted { object, .. } | Change::Updated { new: object, .. } => {
                object
            }
        };
        if let Stored::Eager(_) = newest
            && !matches!(&change, Change::Updated { old: Some(Stored::Lazy(_)), .. })
            && self.unknown.lock().is_empty()
        {
            return (Some((key, change)), false);
        }
        let is_unknown = self.unknown.lock().remove(&key);
        if is_unknown && matches!(change, Change::Deleted { .. }) {
            return (None, false);
        }
        let Readability { is_readable, has_decoded } = newest.check();
        let change = match change {
            Change::Updated { new, .. } if is_unknown => Change::Added { object: new, is_initial: false },
            Change::Updated { old: Some(old), .. } if !is_readable => {
                Change::Updated { new: old.clone(), old: Some(old) }
            }
            change => change,
        };
        let is_known = match &change {
            Change::Updated { old: Some(old), .. } => old.check().is_readable,
            Change::Added { .. } | Change::Deleted { .. } | Change::Updated { .. } => is_readable,
        };
        if !is_known && !matches!(change, Change::Deleted { .. }) {
            self.unknown.lock().insert(key);
            return (None, has_decoded);
        }
        (is_known.then_some((key, change)), has_decoded)
    }
}
