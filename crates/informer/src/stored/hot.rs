//! The budget of decoded objects.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use super::record::{Cooled, Record};
use crate::sync::Mutex;
use crate::sync::atomic::Ordering;

/// The decoded objects of an informer. If they exceed the budget, a clock hand moves over them in rounds. It removes
/// each object that was not read since the previous round and that no reader holds.
pub(super) struct Hot<T> {
    limit: usize,
    ring: Mutex<Ring<T>>,
}

struct Ring<T> {
    /// The records with decoded objects, and the estimated size of each. The hand points to the first one.
    records: VecDeque<(Weak<Record<T>>, usize)>,
    bytes: usize,
}

/// The maximum number of records that the hand passes for each decoded object. Without a limit, a reader that holds all objects would make
/// each further read slow.
const STEPS: usize = 8;

/// The estimated number of bytes that an object takes for each byte of its JSON, in addition to the size of its type. A
/// pod of k8s-openapi takes 5.9.
const PER_JSON_BYTE: usize = 6;

impl<T> Hot<T> {
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, ring: Mutex::new(Ring { records: VecDeque::new(), bytes: 0 }) }
    }

    /// Adds a record that was just decoded, and removes the decoded objects of other records if the budget is exceeded. The caller must hold
    /// no lock.
    pub(super) fn admit(&self, record: &Arc<Record<T>>, json_len: usize) {
        let bytes = size_of::<T>() + PER_JSON_BYTE * json_len;
        // Dropped without the lock, because dropping an object runs user code.
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
            let cooled = match record.was_read.swap(false, Ordering::Relaxed) {
                true => Cooled::Held,
                false => record.cool(),
            };
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
