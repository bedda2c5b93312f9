//! What a queue costs in memory, and that it gives it back. One test, since the allocator counts for the whole process.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::alloc::System;
use std::time::Duration;

use pintle_workqueue::ratelimit::ManualClock;
use pintle_workqueue::{Priority, QueueConfig, WorkQueue};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const KEYS: u32 = 100_000;

fn live(region: &Region<'_, System>) -> isize {
    let change = region.change();
    change.bytes_allocated as isize - change.bytes_deallocated as isize
}

fn drain(queue: &WorkQueue<u32, ManualClock>) {
    while let Ok(item) = queue.try_get() {
        item.forget();
    }
    assert!(queue.snapshot().is_empty());
}

#[test]
fn memory_is_small_comes_back_and_is_not_touched_by_a_cycle() {
    for priorities in [false, true] {
        let clock = ManualClock::new();
        let mut config = QueueConfig::new(clock.clone());
        if priorities {
            config.order = Box::new(Priority::strict());
        }
        let queue = WorkQueue::new(config);
        let region = Region::new(ALLOCATOR);

        // A burst of adds, of delays, and of retries.
        for key in 0..KEYS {
            queue.add(key);
        }
        let per_key = live(&region) as f64 / f64::from(KEYS);
        assert!(per_key < if priorities { 112.0 } else { 80.0 }, "{per_key} bytes a queued key");
        drain(&queue);
        for key in 0..KEYS {
            queue.add_after(key, Duration::from_nanos(u64::from(key) * 7919 % 1_000_000));
        }
        let per_key = live(&region) as f64 / f64::from(KEYS);
        assert!(per_key < 96.0, "{per_key} bytes a delayed key");
        clock.advance(Duration::from_secs(1));
        drain(&queue);
        for key in 0..KEYS {
            queue.add_rate_limited(key);
        }
        clock.advance(Duration::from_secs(1));
        drain(&queue);
        assert!(live(&region) < 200_000, "{} bytes are left", live(&region));

        // An empty queue in use, once it has its first few places.
        queue.add(1);
        drain(&queue);
        let region = Region::new(ALLOCATOR);
        for _ in 0..1000 {
            queue.add(1);
            drop(queue.try_get().unwrap());
        }
        let change = region.change();
        assert_eq!(change.allocations + change.reallocations, 0, "a cycle allocates nothing");
    }
}
