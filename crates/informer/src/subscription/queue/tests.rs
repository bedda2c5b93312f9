//! Tests how a queue skips deleted objects, and when the queue runs user code.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Wake;

use pintle_meta::{ObjectMeta, PartialObject};

use super::*;
use crate::cache::Cache;

fn pod(name: usize) -> Stored<PartialObject> {
    let metadata = ObjectMeta { uid: name.to_string(), ..ObjectMeta::new("ns", name.to_string()) };
    Arc::new(PartialObject { metadata, ..PartialObject::default() }).into()
}

fn cache(pods: usize) -> Cache<PartialObject> {
    let cache = Cache::new();
    (0..pods).for_each(|name| _ = cache.upsert(pod(name).read().unwrap()).unwrap());
    cache
}

fn queue() -> Queue<PartialObject> {
    Queue::new(Delivery::Coalesced, None, None)
}

fn seen(name: usize) -> HashedState<PartialObject> {
    HashedState { object: pod(name), uid: name as u64 }
}

fn gone(name: usize) -> (ObjectKey, Notification<PartialObject>) {
    (pod(name).key(), Notification::Deleted { known: seen(name), last: seen(name), final_state_known: true })
}

/// Polls until the queue returns an event or is empty. Returns how often the queue returned `Pending` and woke its
/// own task.
fn put_off(queue: &Queue<PartialObject>) -> usize {
    #[derive(Default)]
    struct Count(AtomicUsize);
    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    let woken = Arc::new(Count::default());
    for polls in 0.. {
        let polled = queue.poll_next(&mut Context::from_waker(&woken.clone().into()));
        if polled.is_ready() || woken.0.load(Ordering::Relaxed) == polls {
            return polls;
        }
    }
    unreachable!()
}

#[test]
fn wakers_run_without_the_lock() {
    struct Looks(Arc<Queue<PartialObject>>, AtomicUsize);
    impl Wake for Looks {
        fn wake(self: Arc<Self>) {
            assert!(self.0.state.try_lock().is_some());
            self.1.fetch_add(1, Ordering::Relaxed);
        }
    }
    let queue = Arc::new(queue());
    let looks = Arc::new(Looks(queue.clone(), AtomicUsize::new(0)));
    let (mut handle, waker) = (queue.sync_handle(), looks.clone().into());
    let mut context = Context::from_waker(&waker);
    let mut synced = pin!(handle.synced());
    assert!(queue.poll_next(&mut context).is_pending() && synced.as_mut().poll(&mut context).is_pending());
    drop(queue.upstream_synced());
    drop(queue.begin(Walk::of(cache(1).snapshot())));
    assert!(queue.poll_next(&mut context).is_ready() && synced.as_mut().poll(&mut context).is_pending());
    assert!(queue.poll_next(&mut context).is_pending() && synced.as_mut().poll(&mut context).is_ready());
    assert_eq!(looks.1.load(Ordering::Relaxed), 2);
}

/// The set of changed keys stays small if many objects are added and deleted while the subscriber requests no events.
#[test]
fn resync_of_a_stalled_listener_is_bounded() {
    let (cache, queue) = (cache(2), queue());
    drop(queue.begin(Walk::of(cache.snapshot())));
    while queue.try_next().is_some() {}
    queue.remind(cache.snapshot());
    for name in 1..1000 {
        let notifications = [(pod(name).key(), Notification::Added(seen(name))), gone(name)];
        queue.notify(if name == 1 { &notifications[1..] } else { &notifications });
    }
    let changed = queue.state.lock().reminder.as_ref().map(|reminder| reminder.changed.len());
    assert_eq!(changed, Some(1));
    let keys: Vec<String> = std::iter::from_fn(|| queue.try_next()).map(|(key, _)| key.to_string()).collect();
    assert_eq!(keys, ["ns/1", "ns/0"]);
}

#[test]
fn resync_skips_changed_objects_in_small_sections() {
    const MANY: usize = 10 * SECTION;
    let (cache, queue) = (cache(MANY), queue());
    drop(queue.begin(Walk::of(cache.snapshot())));
    while queue.try_next().is_some() {}
    queue.remind(cache.snapshot());
    let changed = |name| (pod(name).key(), Notification::Updated { old: seen(name), new: seen(name) });
    queue.notify(&(0..MANY).map(changed).collect::<Vec<_>>());
    (0..MANY).for_each(|_| assert!(queue.try_next().is_some()));
    assert_eq!((put_off(&queue), queue.len()), (9, 0));
}

#[test]
fn deleted_initial_objects_are_skipped_in_small_sections() {
    const MANY: usize = 10 * SECTION;
    for waits in [false, true] {
        let (cache, queue) = (cache(MANY), queue());
        drop(queue.begin(Walk::of(cache.snapshot())));
        drop(queue.upstream_synced());
        queue.notify(&(0..MANY).map(gone).collect::<Vec<_>>());
        // `notify` skips the maximum number of initial objects per call and removes their queued deletions.
        assert_eq!(queue.len(), 2 * (MANY - SECTION));
        assert!(!*queue.synced.borrow());
        if waits {
            assert_eq!(put_off(&queue), 8)
        } else {
            assert!(queue.try_next().is_none())
        }
        assert!(queue.len() == 0 && *queue.synced.borrow());
    }
}
