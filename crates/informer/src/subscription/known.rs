//! Hides undecodable objects from a subscriber.

use std::task::{Context, Poll, ready};

use pintle_delta_fifo::Change;
use pintle_meta::Object;
use tokio::task::coop::poll_proceed;

use super::queue::{KeyedChange, Queue};
use crate::stored::{Lease, Readability, Stored};

/// The cost of decoding an object, in units of tokio's cooperative budget. A task has a budget of 128 units per poll,
/// so it decodes at most 16 objects per poll. Decoding a whole pod takes up to 0.1 ms.
pub(crate) const DECODE_COST: usize = 8;

/// A change whose objects can be decoded. If the check has decoded the newest object, the lease keeps the decoded
/// object in memory.
pub(super) type KnownChange<T> = (KeyedChange<T>, Option<Lease<T>>);

struct Knowledge<T> {
    /// The change to deliver, or `None` if the subscriber must not receive this change.
    change: Option<KnownChange<T>>,
    has_decoded: bool,
}

impl<T: Object> Queue<T> {
    /// Like [`poll_next`](Self::poll_next), but skips changes whose objects cannot be decoded. Decoding an object
    /// consumes [`DECODE_COST`] units of tokio's cooperative budget.
    pub(super) fn poll_known(&self, context: &mut Context<'_>) -> Poll<Option<KnownChange<T>>> {
        loop {
            let Some(change) = ready!(self.poll_next(context)) else { return Poll::Ready(None) };
            let Knowledge { change, has_decoded } = self.known(change);
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

    pub(super) fn try_known(&self) -> Option<KnownChange<T>> {
        std::iter::from_fn(|| self.try_next()).find_map(|change| self.known(change).change)
    }

    /// Checks whether the objects in a change can be decoded. If the subscriber has not received the object yet, the
    /// change is converted to an addition or skipped.
    fn known(&self, (key, change): KeyedChange<T>) -> Knowledge<T> {
        let newest = match &change {
            Change::Added { object, .. } | Change::Deleted { object, .. } | Change::Updated { new: object, .. } => {
                object
            }
        };
        if let Stored::Eager(..) = newest
            && !matches!(&change, Change::Updated { old: Some(Stored::Lazy(_)), .. })
            && self.unknown.lock().is_empty()
        {
            return Knowledge { change: Some(((key, change), None)), has_decoded: false };
        }
        let is_unknown = self.unknown.lock().remove(&key);
        if is_unknown && matches!(change, Change::Deleted { .. }) {
            return Knowledge { change: None, has_decoded: false };
        }
        let Readability { is_readable, has_decoded, lease } = newest.check();
        let change = match change {
            Change::Updated { new, .. } if is_unknown => Change::Added { object: new, is_initial: false },
            Change::Updated { old: Some(old), new } if restores(&old, &new) => {
                return Knowledge { change: None, has_decoded };
            }
            change => change,
        };
        if !is_readable && !matches!(change, Change::Deleted { .. }) {
            self.unknown.lock().insert(key);
            return Knowledge { change: None, has_decoded };
        }
        Knowledge { change: is_readable.then_some(((key, change), lease)), has_decoded }
    }
}

/// Returns `true` if reads of the undecodable state `old` return `new`, which means that the subscriber has already
/// received `new`.
fn restores<T>(old: &Stored<T>, new: &Stored<T>) -> bool {
    old.is_bad() && old.good_state().is_some_and(|good| good.is_same(new))
}
