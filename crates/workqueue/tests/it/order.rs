//! Tests of features beyond the orders of client-go and controller-runtime: ageing, and fairness between tenants.

use std::time::Duration;

use pintle_workqueue::ratelimit::ManualClock;
use pintle_workqueue::{Fair, Priority, QueueConfig, WorkQueue};

use crate::support::at;

const SECOND: Duration = Duration::from_secs(1);

/// Checks the documented limit of [`Priority::with_ageing`] while keys with a higher priority are added all the time.
#[test]
fn with_ageing_nothing_starves() {
    let clock = ManualClock::new();
    let mut config = QueueConfig::new(clock.clone());
    config.order = Box::new(Priority::with_ageing(SECOND));
    let queue = WorkQueue::new(config);
    queue.add_with(u32::MAX, at(-100));
    let mut handed_out = 0;
    for key in 0.. {
        queue.add_with(2 * key, at(0));
        queue.add_with(2 * key + 1, at(0));
        clock.advance(SECOND / 10);
        let item = queue.try_get().unwrap();
        if *item == u32::MAX {
            break;
        }
        handed_out += 1;
        assert!(handed_out <= 2000, "starved");
    }
    // The priorities differ by 100, a key gains one level per second, and 20 keys are added per second. Only keys
    // that are added within 100 s can therefore overtake the first key.
    assert!((1990..=2000).contains(&handed_out), "{handed_out}");
}

#[test]
fn raised_key_keeps_its_waiting_time() {
    let clock = ManualClock::new();
    let mut config = QueueConfig::new(clock.clone());
    config.order = Box::new(Priority::with_ageing(SECOND));
    let queue = WorkQueue::new(config);
    queue.add_with("old", at(0));
    clock.advance(10 * SECOND);
    queue.add_with("new", at(5));
    queue.add_with("old", at(1));
    let order: Vec<_> = std::iter::from_fn(|| queue.try_get().ok().map(|item| *item)).collect();
    assert_eq!(order, ["old", "new"]);
}

#[test]
fn tenant_with_many_keys_does_not_delay_others() {
    let mut config = QueueConfig::<(char, u32), ManualClock>::new(ManualClock::new());
    config.order = Box::new(Fair::with_lanes(|key: &(char, u32)| key.0, || Box::new(Priority::strict())));
    let queue = WorkQueue::new(config);
    for number in 0..1000 {
        queue.add(('a', number));
    }
    queue.add(('b', 1));
    queue.add_with(('b', 2), at(7));
    queue.add(('c', 1));
    let order: Vec<_> = (0..6).map(|_| queue.try_get().map(|item| *item).unwrap()).collect();
    assert_eq!(order, [('a', 0), ('b', 2), ('c', 1), ('a', 1), ('b', 1), ('a', 2)]);
    assert_eq!(queue.len(), 997);
}

/// A key starts to age at the end of its delay, even if no call uses the queue at that time.
#[test]
fn ageing_starts_at_the_end_of_a_delay() {
    let clock = ManualClock::new();
    let mut config = QueueConfig::new(clock.clone());
    config.order = Box::new(Priority::with_ageing(SECOND));
    let queue = WorkQueue::new(config);
    queue.add_after("due", SECOND);
    queue.add_after("due later", 3 * SECOND);
    clock.advance(60 * SECOND);
    queue.add_with("now", at(1));
    queue.add("due later");
    let order: Vec<_> = std::iter::from_fn(|| queue.try_get().ok().map(|item| *item)).collect();
    assert_eq!(order, ["due", "due later", "now"]);
}
