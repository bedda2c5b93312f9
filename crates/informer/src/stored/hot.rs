//! The memory budget for decoded objects.

use std::collections::VecDeque;
use std::mem::replace;
use std::sync::Arc;

use super::data::{Hot, Record, Ring, Slot};
use crate::catch_drop::CatchDrop;
use crate::sync::Mutex;
use crate::sync::atomic::Ordering;

/// The maximum number of records that the clock hand passes each time an object is decoded. Without a limit, every read
/// would be slow while a reader keeps references to all objects.
const STEPS: usize = 8;

/// The number of records that the clock hand passes per decoded object if the budget is not exceeded. The hand removes
/// dropped records from the ring, where they would otherwise collect.
const STEPS_WITHIN_LIMIT: usize = 2;

/// The estimated number of bytes that a decoded object takes for each byte of its JSON, in addition to the size of the
/// type. For a pod of k8s-openapi, the measured value is 5.9.
const PER_JSON_BYTE: usize = 6;

impl<T> Hot<T> {
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, ring: Mutex::new(Ring { records: VecDeque::new(), bytes: 0 }) }
    }

    /// Adds a record whose object was just decoded. If the budget is exceeded, this method also removes decoded objects
    /// from other records. Objects are dropped in this call, so the caller must not hold a lock.
    pub(super) fn admit(&self, record: &Arc<Record<T>>, json_len: usize) {
        let bytes = size_of::<T>() + PER_JSON_BYTE * json_len;
        // Drop the removed objects after releasing the lock, because dropping an object runs user code.
        let mut done = Vec::new();
        let mut ring = self.ring.lock();
        ring.records.push_back((Arc::downgrade(record), bytes));
        ring.bytes += bytes;
        for step in 0..STEPS {
            let is_within_limit = ring.bytes <= self.limit;
            if is_within_limit && step >= STEPS_WITHIN_LIMIT {
                break;
            }
            let Some((weak, bytes)) = ring.records.pop_front() else { break };
            let Some(record) = weak.upgrade() else {
                ring.bytes -= bytes;
                continue;
            };
            if is_within_limit {
                ring.records.push_back((weak, bytes));
                done.push((record, Eviction::Held));
                continue;
            }
            let eviction = if record.was_read.swap(false, Ordering::Relaxed) { Eviction::Held } else { record.evict() };
            match eviction {
                Eviction::Held => ring.records.push_back((weak, bytes)),
                Eviction::Object(_) | Eviction::Nothing => ring.bytes -= bytes,
            }
            done.push((record, eviction));
        }
        drop(ring);
        drop(done);
    }
}

impl<T> Record<T> {
    /// Removes the decoded object from the record, if no reader uses it. The caller must drop the returned object
    /// without holding locks.
    fn evict(&self) -> Eviction<T> {
        let mut slot = self.slot.lock();
        match &*slot {
            Slot::Ready(object) if Arc::strong_count(object) == 1 => match replace(&mut *slot, Slot::Empty) {
                Slot::Ready(object) => Eviction::Object(object),
                Slot::Empty | Slot::Busy => Eviction::Nothing,
            },
            Slot::Ready(_) => Eviction::Held,
            Slot::Empty | Slot::Busy => Eviction::Nothing,
        }
    }
}

enum Eviction<T> {
    Object(#[expect(dead_code, reason = "the caller only drops it")] CatchDrop<T>),
    Held,
    Nothing,
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use pintle_meta::PartialObject;

    use crate::projection::Projection;
    use crate::scan::Scanner;
    use crate::stored::{Source, Stored};

    /// Reads each state of an object and then replaces it, while memory use stays far below the budget.
    #[test]
    fn dropped_records_do_not_collect_below_the_budget() {
        let source = Arc::new(Source::<PartialObject>::new(String::new(), usize::MAX));
        let scanner = Scanner::new(&Projection::whole());
        for number in 0..1000 {
            let json =
                format!(r#"{{"metadata":{{"namespace":"ns","name":"a","uid":"u","resourceVersion":"{number}"}}}}"#);
            let outline = scanner.scan(json.as_bytes()).expect("valid JSON");
            let record = outline.record(json.as_bytes(), &source).expect("the object has metadata");
            assert!(Stored::Lazy(Arc::new(record)).read().is_some());
        }
        assert!(source.hot.ring.lock().records.len() <= 2);
    }
}
