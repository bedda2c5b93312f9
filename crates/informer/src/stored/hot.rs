//! The memory budget for decoded objects.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use super::record::{Cooled, Record};
use crate::sync::Mutex;
use crate::sync::atomic::Ordering;

/// The decoded objects of an informer. If the objects exceed the budget, a clock hand moves over the objects in rounds,
/// as in the clock algorithm for page replacement. The hand removes each object that was not read since the previous
/// round and that no reader uses.
pub(super) struct Hot<T> {
    limit: usize,
    ring: Mutex<Ring<T>>,
}

struct Ring<T> {
    /// The records that contain decoded objects, with the estimated size of each object. The clock hand points to the
    /// first record.
    records: VecDeque<(Weak<Record<T>>, usize)>,
    bytes: usize,
}

/// The maximum number of records that the clock hand passes when an object is decoded. Without this limit, each read
/// would be slow if a reader keeps references to all objects.
const STEPS: usize = 8;

/// The estimated number of bytes that an object takes for each byte of its JSON, in addition to the size of its type. A
/// pod of k8s-openapi takes 5.9 bytes for each byte of its JSON.
const PER_JSON_BYTE: usize = 6;

impl<T> Hot<T> {
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, ring: Mutex::new(Ring { records: VecDeque::new(), bytes: 0 }) }
    }

    /// Adds a record that was just decoded, and removes the decoded objects of other records if the budget is exceeded.
    /// The caller must hold no lock.
    pub(super) fn admit(&self, record: &Arc<Record<T>>, json_len: usize) {
        let bytes = size_of::<T>() + PER_JSON_BYTE * json_len;
        // The removed objects are dropped without the lock, because dropping an object runs user code.
        let mut done = Vec::new();
        let mut ring = self.ring.lock();
        ring.records.push_back((Arc::downgrade(record), bytes));
        ring.bytes += bytes;
        for _ in 0..STEPS {
            if ring.bytes <= self.limit {
                break;
            }
            let Some((weak, bytes)) = ring.records.pop_front() else { break };
            let Some(record) = weak.upgrade() else {
                ring.bytes -= bytes;
                continue;
            };
            let cooled = if record.was_read.swap(false, Ordering::Relaxed) { Cooled::Held } else { record.cool() };
            match cooled {
                Cooled::Held => ring.records.push_back((weak, bytes)),
                Cooled::Object(_) | Cooled::Nothing => ring.bytes -= bytes,
            }
            done.push((record, cooled));
        }
        drop(ring);
        drop(done);
    }
}
