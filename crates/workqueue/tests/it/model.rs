//! Compares every operation of the queue with a simple model, in virtual time.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use pintle_metrics::{InMemoryProvider, Provider};
use pintle_workqueue::ratelimit::{Clock, ExponentialFailureRateLimiter, ManualClock};
use pintle_workqueue::{
    AddOptions, Added, DelayKind, DelayPolicy, MetricsStyle, Priority, QueueConfig, RetryAccounting, ShutdownMode,
    TryGetError, WorkQueue,
};
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;

use crate::support::{Key, Model, Waiting, at};

#[derive(Clone, Debug)]
enum Op {
    Add(Key, i32),
    AddAfter(Key, u64),
    AddRateLimited(Key),
    AddWith(Key, Option<u64>, DelayKind, bool, i32),
    Forget(Key),
    Cancel(Key),
    Postpone(Key, u64),
    Replace(Key, u64, DelayKind),
    Get,
    /// Drops the guard at this index, modulo the number of guards.
    Done(usize),
    Retry(usize),
    Next(usize),
    Remove(Key),
    Advance(u64),
    ShutDown(ShutdownMode),
}

fn op() -> impl Strategy<Value = Op> {
    let key = 0..6u16;
    let millis = 0..40u64;
    let priority = -1..3i32;
    let kind = prop_oneof![Just(DelayKind::Retry), Just(DelayKind::Reminder), Just(DelayKind::Requeue)];
    let mode =
        prop_oneof![Just(ShutdownMode::FinishBacklog), Just(ShutdownMode::FinishInFlight), Just(ShutdownMode::Abandon)];
    prop_oneof![
        6 => (key.clone(), priority.clone()).prop_map(|(k, p)| Op::Add(k, p)),
        4 => (key.clone(), millis.clone()).prop_map(|(k, d)| Op::AddAfter(k, d)),
        4 => key.clone().prop_map(Op::AddRateLimited),
        3 => (key.clone(), proptest::option::of(millis.clone()), kind.clone(), any::<bool>(), priority)
            .prop_map(|(k, d, kind, r, p)| Op::AddWith(k, d, kind, r, p)),
        1 => key.clone().prop_map(Op::Forget),
        1 => key.clone().prop_map(Op::Cancel),
        1 => (key.clone(), millis.clone()).prop_map(|(k, d)| Op::Postpone(k, d)),
        2 => key.clone().prop_map(Op::Remove),
        1 => (key, millis.clone(), kind).prop_map(|(k, d, kind)| Op::Replace(k, d, kind)),
        7 => Just(Op::Get),
        5 => any::<usize>().prop_map(Op::Done),
        2 => any::<usize>().prop_map(Op::Retry),
        3 => any::<usize>().prop_map(Op::Next),
        4 => millis.prop_map(Op::Advance),
        // Shutdowns are rare, because most operations have no effect afterwards.
        1 => (0..10u8, mode).prop_map(|(dice, mode)| if dice == 0 { Op::ShutDown(mode) } else { Op::Get }),
    ]
}

fn pending() -> impl Strategy<Value = DelayPolicy> {
    prop_oneof![Just(DelayPolicy::Keep), Just(DelayPolicy::Absorb), Just(DelayPolicy::Respect)]
}

fn config() -> ProptestConfig {
    let persistence = FileFailurePersistence::WithSource("regressions");
    ProptestConfig { cases: 300, failure_persistence: Some(Box::new(persistence)), ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn three_layers_behave_like_the_model(
        ops in proptest::collection::vec(op(), 1..120),
        by_priority in any::<bool>(),
        always_charge in any::<bool>(),
        retry in pending(),
        reminder in pending(),
        look in any::<bool>(),
        crowd in prop_oneof![4 => Just(0u16), 1 => Just(4000)],
        keep_failures in proptest::option::of((1..60u64).prop_map(Duration::from_millis)),
        has_metrics in any::<bool>(),
    ) {
        let (clock, memory) = (ManualClock::new(), InMemoryProvider::new());
        let (base, max) = (Duration::from_millis(3), Duration::from_millis(20));
        let mut config = QueueConfig::new(clock.clone());
        config.limiter = Box::new(ExponentialFailureRateLimiter::new(base, max));
        config.charge = if always_charge { RetryAccounting::Always } else { RetryAccounting::IfScheduled };
        config.pending_retry = retry;
        config.pending_reminder = reminder;
        config.keep_failures = keep_failures;
        config.metrics = has_metrics.then(|| Arc::new(memory.clone()) as Arc<dyn Provider>);
        config.metrics_style = MetricsStyle::ControllerRuntime;
        if by_priority {
            config.order = Box::new(Priority::strict());
        }
        let queue = WorkQueue::new(config);
        let mut model = Model { by_priority, always_charge, retry, reminder, base, max, keep_failures, ..Model::default() };
        let start = clock.now();
        // Add more keys, because only a large queue frees its records in batches.
        for key in 0..crowd {
            queue.add_after(1000 + key, Duration::from_secs(3600));
        }
        let mut guards = Vec::new();

        let after = Duration::from_millis;
        for op in ops {
            // Advance the clock, so that no two deadlines are equal: the order of keys with the same deadline is
            // unspecified.
            clock.advance(Duration::from_nanos(1));
            model.go_to(clock.now() - start);
            match op.clone() {
                Op::Add(key, priority) => {
                    model.fire_if_due_one(key);
                    prop_assert_eq!(queue.add_with(key, at(priority)), model.add(key, priority));
                }
                Op::AddAfter(key, millis) => {
                    model.fire_if_due_one(key);
                    let expected = model.add_after(key, after(millis), DelayKind::Reminder, 0);
                    prop_assert_eq!(queue.add_after(key, after(millis)), expected);
                }
                Op::AddRateLimited(key) => {
                    model.fire_if_due_one(key);
                    prop_assert_eq!(queue.add_rate_limited(key), model.add_rate_limited(key, false, None, 0));
                }
                Op::AddWith(key, millis, kind, rate_limited, priority) => {
                    model.fire_if_due_one(key);
                    let after = millis.map(after);
                    let options = AddOptions { after, rate_limited, priority, kind };
                    let expected = match after {
                        _ if rate_limited => model.add_rate_limited(key, false, after, priority),
                        Some(after) => model.add_after(key, after, kind, priority),
                        None => model.add(key, priority),
                    };
                    prop_assert_eq!(queue.add_with(key, options), expected);
                }
                Op::Forget(key) => {
                    queue.forget(&key);
                    model.failures.remove(&key);
                }
                Op::Cancel(key) => {
                    model.fire_if_due_one(key);
                    let expected = model.waiting.remove(&key).map(|waiting| start + waiting.until);
                    prop_assert_eq!(queue.cancel(&key), expected);
                }
                Op::Postpone(key, millis) => {
                    model.fire_if_due_one(key);
                    let until = model.now + after(millis);
                    let waiting = model.waiting.get_mut(&key).filter(|waiting| until > waiting.until);
                    let expected = waiting.is_some();
                    if let Some(waiting) = waiting {
                        waiting.until = until;
                    }
                    prop_assert_eq!(queue.postpone(&key, after(millis)), expected);
                }
                Op::Replace(key, millis, kind) => {
                    model.fire_if_due_one(key);
                    let expected = if model.mode.is_some() {
                        Added::ShutDown
                    } else {
                        let waited = model.waiting.remove(&key).is_some();
                        if millis == 0 {
                            model.add(key, 0)
                        } else {
                            let until = model.now + after(millis);
                            if !waited && !model.dirty.contains(&key) {
                                model.priorities.insert(key, 0);
                            }
                            model.waiting.insert(key, Waiting { until, kind });
                            Added::Scheduled
                        }
                    };
                    prop_assert_eq!(queue.replace_after(key, after(millis), kind), expected);
                }
                Op::Get => {
                    model.fire_if_due();
                    match queue.try_get() {
                        Ok(item) => {
                            prop_assert_eq!(Some((*item, item.priority())), model.get());
                            guards.push(item);
                        }
                        Err(TryGetError::Empty) => {
                            prop_assert_eq!(model.get(), None);
                            prop_assert!(!model.is_exhausted());
                        }
                        Err(error) => {
                            prop_assert_eq!(error, TryGetError::ShutDown);
                            prop_assert!(model.is_exhausted());
                        }
                    }
                }
                Op::Done(index) if !guards.is_empty() => {
                    let guard = guards.swap_remove(index % guards.len());
                    model.done(*guard);
                    drop(guard);
                }
                Op::Retry(index) if !guards.is_empty() => {
                    let guard = guards.swap_remove(index % guards.len());
                    let (key, priority) = (*guard, guard.priority());
                    model.fire_if_due_one(key);
                    let expected = model.add_rate_limited(key, true, None, priority);
                    prop_assert_eq!(guard.retry(), expected);
                    model.done(key);
                }
                Op::Next(index) if !guards.is_empty() => {
                    let guard = guards.swap_remove(index % guards.len());
                    model.done(*guard);
                    model.fire_if_due();
                    let (mut next, mut cx) = (pin!(guard.next()), Context::from_waker(Waker::noop()));
                    let mut polled = next.as_mut().poll(&mut cx);
                    if polled.is_pending() {
                        // Poll the future again, because the first poll may have returned `Pending` only to yield.
                        polled = next.as_mut().poll(&mut cx);
                    }
                    match polled {
                        Poll::Ready(Some(item)) => {
                            prop_assert_eq!(Some((*item, item.priority())), model.get());
                            guards.push(item);
                        }
                        Poll::Ready(None) => prop_assert!(model.is_exhausted()),
                        Poll::Pending => {
                            prop_assert_eq!(model.get(), None);
                            prop_assert!(!model.is_exhausted());
                        }
                    }
                }
                Op::Remove(key) => {
                    model.fire_if_due_one(key);
                    prop_assert_eq!(queue.remove(&key), model.remove(key));
                }
                Op::Done(_) | Op::Retry(_) | Op::Next(_) => {}
                Op::Advance(millis) => clock.advance(Duration::from_millis(millis)),
                Op::ShutDown(mode) => {
                    model.fire_if_due();
                    drop(queue.shut_down(mode));
                    model.mode = model.mode.max(Some(mode));
                }
            }
            model.rest();
            if !look {
                continue;
            }
            model.go_to(clock.now() - start);
            model.fire_if_due();
            let counts = queue.counts();
            prop_assert_eq!(counts.queued, model.queue.len(), "queued after {:?}", op);
            prop_assert_eq!(counts.in_flight, model.running.len());
            prop_assert_eq!(counts.delayed, model.waiting.len() + usize::from(crowd), "delayed after {:?}", op);
            prop_assert_eq!(counts.dirty_in_flight, model.dirty_in_flight());
            if model.mode.is_none() {
                prop_assert_eq!(counts.idle, model.idle.len(), "idle after {:?}", op);
            }
            for key in 0..6 {
                let failures = model.failures.get(&key).copied().unwrap_or(0);
                prop_assert_eq!(queue.num_requeues(&key), failures, "failures of {} after {:?}", key, op);
            }
            if has_metrics {
                let value = |name: &str| memory.value(name, &[]).unwrap_or_default();
                for priority in -1..3 {
                    let depth = memory.value("workqueue_depth", &[("priority", &priority.to_string())]);
                    let expected = model.depth(priority) as f64;
                    prop_assert_eq!(depth.unwrap_or_default(), expected, "depth at {} after {:?}", priority, op);
                }
                prop_assert_eq!(value("workqueue_adds_total"), model.adds as f64, "adds after {:?}", op);
                prop_assert_eq!(value("workqueue_delayed"), (model.waiting.len() + usize::from(crowd)) as f64);
                let durations = |name: &str| memory.distribution(name, &[]).map(|found| found.count());
                prop_assert_eq!(durations("workqueue_queue_duration_seconds"), Some(model.gets));
                prop_assert_eq!(durations("workqueue_work_duration_seconds"), Some(model.dones));
            }
            if crowd > 0 {
                continue;
            }
            for state in queue.snapshot() {
                let key = state.key;
                prop_assert_eq!(state.dirty, model.dirty.contains(&key));
                prop_assert_eq!(state.in_flight, model.running.contains(&key));
                let expected = model.waiting.get(&key).map(|waiting| (waiting.kind, start + waiting.until));
                prop_assert_eq!(state.delay, expected);
            }
        }

        model.go_to(clock.now() - start);
        model.fire_if_due();
        prop_assert_eq!(queue.len(), model.queue.len());
        let report = queue.shut_down(ShutdownMode::FinishInFlight).with_timeout(Duration::ZERO).wait();
        prop_assert_eq!(report.in_flight.len(), model.running.len());
        prop_assert_eq!(report.queued.len(), model.dirty.len());
        prop_assert_eq!(report.delayed.len(), model.waiting.len() + usize::from(crowd));
        drop(guards);
        prop_assert!(queue.shut_down(ShutdownMode::FinishInFlight).wait().complete);
    }
}
