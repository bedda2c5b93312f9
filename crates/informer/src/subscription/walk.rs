//! Sequences of objects for subscribers: initial objects and resyncs.

use std::sync::Arc;

use pintle_meta::ObjectKey;

use crate::snapshot::Snapshot;
use crate::store::{Page, Reading};
use crate::stored::Stored;

pub(crate) type Entry<T> = (ObjectKey, Stored<T>);

pub(crate) struct Walk<T> {
    objects: Objects<T>,
    pub(super) left: usize,
}

pub(super) type ReadPage<T> = Arc<Page<Stored<T>>>;

enum Objects<T> {
    Snapshot(Reading<Stored<T>, Entry<T>>),
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

    pub(super) fn take_read_pages(&mut self) -> Vec<ReadPage<T>> {
        match &mut self.objects {
            Objects::Snapshot(reading) => reading.take_read_pages(),
            Objects::Listed(_) => Vec::new(),
        }
    }

    /// Returns `true` if the sequence may still yield an object with this key.
    pub(super) fn has(&self, key: &ObjectKey) -> bool {
        match &self.objects {
            Objects::Snapshot(reading) => reading.pin.get(key).is_some(),
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
