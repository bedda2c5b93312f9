//! Tests that the memory of a queue is limited and that an empty queue frees it. This program contains a single test,
//! because its allocator counts the memory of the whole process.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::alloc::System;
use std::time::Duration;

use pintle_workqueue::ratelimit::ManualClock;
use pintle_workqueue::{Fair, Fifo, Order, Priority, QueueConfig, WorkQueue};
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
fn memory_is_small_returned_and_stable_per_cycle() {
    // For each order: the maximum memory per queued key in bytes, and the maximum number of allocations for processing
    // a single key.
    let orders: [(Box<dyn Order<u32>>, f64, usize); 3] = [
        (Box::new(Fifo::default()), 80.0, 0),
        (Box::new(Priority::strict()), 112.0, 0),
        // For the first key of a tenant, the queue allocates an order with one chunk.
        (Box::new(Fair::new(|key| key % 1000)), 112.0, 4),
    ];
    for (order, most, allocations) in orders {
        let (clock, name) = (ManualClock::new(), format!("{order:?}"));
        let queue = WorkQueue::new(QueueConfig { order, ..QueueConfig::new(clock.clone()) });
        let region = Region::new(ALLOCATOR);

        for key in 0..KEYS {
            queue.add(key);
        }
        let per_key = live(&region) as f64 / f64::from(KEYS);
        assert!(per_key < most, "{name}: {per_key} bytes per queued key");
        drain(&queue);
        for key in 0..KEYS {
            queue.add_after(key, Duration::from_nanos(u64::from(key) * 7919 % 1_000_000));
        }
        let per_key = live(&region) as f64 / f64::from(KEYS);
        assert!(per_key < 96.0, "{name}: {per_key} bytes per delayed key");
        clock.advance(Duration::from_secs(1));
        drain(&queue);
        for key in 0..KEYS {
            queue.add_rate_limited(key);
        }
        clock.advance(Duration::from_secs(1));
        drain(&queue);
        assert!(live(&region) < 200_000, "{name}: {} bytes remain", live(&region));

        queue.add(1);
        drain(&queue);
        let region = Region::new(ALLOCATOR);
        for _ in 0..1000 {
            queue.add(1);
            drop(queue.try_get().unwrap());
        }
        let change = region.change();
        assert!(change.allocations + change.reallocations <= 1000 * allocations, "{name}: {change:?}");

        // Add and remove keys, first in an otherwise empty queue, and then in a queue with one other key. With another
        // key in the queue, remove each key immediately, or after 1 or 200 more adds.
        let region = Region::new(ALLOCATOR);
        for (stays, overlap) in [(None, 0), (Some(KEYS), 0), (Some(KEYS), 1), (Some(KEYS), 200)] {
            stays.into_iter().for_each(|key| queue.add(key));
            for key in 0..KEYS / 4 {
                queue.add(key);
                if let Some(key) = key.checked_sub(overlap) {
                    assert!(queue.remove(&key));
                }
            }
            let left = live(&region) - 500 * overlap as isize;
            assert!(left < 20_000, "{name}: {left} bytes remain after removed adds, {overlap} at a time");
            drain(&queue);
        }
    }
}
