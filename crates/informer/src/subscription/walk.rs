//! What a listener is told of that was there already.

use std::sync::Arc;

use pintle_meta::ObjectKey;

use crate::Snapshot;
use crate::guarded::Guarded;
use crate::store::{Page, Reading};

/// What was there under a key.
pub(crate) type Entry<T> = (ObjectKey, Guarded<T>);

/// Objects, one after the other.
pub(crate) struct Walk<T> {
    objects: Objects<T>,
    /// How many are still to come.
    pub(super) left: usize,
}

/// A page of the store that was read.
pub(super) type Spent<T> = Arc<Page<Guarded<T>>>;

enum Objects<T> {
    Snapshot(Reading<Guarded<T>, Entry<T>>),
    /// Those of a list, in its order.
    Listed(Arc<[Entry<T>]>),
}

impl<T> Walk<T> {
    pub(crate) fn of(snapshot: Snapshot<T>) -> Self {
        let left = snapshot.len();
        Self { objects: Objects::Snapshot(Reading::new(snapshot.into_pin())), left }
    }

    pub(crate) fn listed(list: Arc<[Entry<T>]>) -> Self {
        let left = list.len();
        Self { objects: Objects::Listed(list), left }
    }

    /// The pages that it has read since the last call.
    pub(super) fn take_spent(&mut self) -> Vec<Spent<T>> {
        match &mut self.objects {
            Objects::Snapshot(reading) => reading.take_spent(),
            Objects::Listed(_) => Vec::new(),
        }
    }

    /// Whether it may come by an object of that key, or has.
    pub(super) fn has(&self, key: &ObjectKey) -> bool {
        match &self.objects {
            Objects::Snapshot(reading) => reading.pin().get(key).is_some(),
            Objects::Listed(_) => true,
        }
    }
}

impl<T> Iterator for Walk<T> {
    type Item = Entry<T>;

    fn next(&mut self) -> Option<Entry<T>> {
        let next = match &mut self.objects {
            Objects::Snapshot(reading) => reading.next(|key, object| Some((key?.clone(), object.clone()))),
            Objects::Listed(list) => list.get(list.len() - self.left).cloned(),
        };
        self.left -= usize::from(next.is_some());
        next
    }
}
