//! An order of keys that may panic, in a queue that may not.

use std::future::pending;
use std::sync::atomic::{AtomicBool, Ordering};

use pintle_meta::ObjectKey;
use pintle_workqueue::{Order, Queued, Ticket};
use tokio::sync::watch;

use crate::panic::catch;

/// A user's order. It is called in the middle of steps of the queue, where a panic would leave keys that are in no place and so
/// never come again. So the first panic is its last call: from then on it is empty, and the run is told, to end.
#[derive(Debug)]
pub(crate) struct GuardedOrder {
    order: Box<dyn Order<ObjectKey>>,
    guard: Guard,
}

#[derive(Debug)]
struct Guard {
    broken: AtomicBool,
    panic: watch::Sender<Option<String>>,
}

/// Tells of the panic of an order.
pub(crate) struct OrderPanic(watch::Receiver<Option<String>>);

impl GuardedOrder {
    pub(crate) fn new(order: Box<dyn Order<ObjectKey>>) -> (Self, OrderPanic) {
        let (panic, told) = watch::channel(None);
        (Self { order, guard: Guard { broken: AtomicBool::new(false), panic } }, OrderPanic(told))
    }
}

impl OrderPanic {
    /// Waits for it, and answers with what it said.
    pub(crate) async fn told(&mut self) -> String {
        let told = self.0.wait_for(Option::is_some).await.ok().and_then(|told| told.clone());
        match told {
            Some(told) => told,
            // The queue is gone, and its order with it.
            None => pending().await,
        }
    }
}

impl Guard {
    fn call<T: Default>(&self, call: impl FnOnce() -> T) -> T {
        if self.broken.load(Ordering::Relaxed) {
            return T::default();
        }
        catch(call).unwrap_or_else(|panic| {
            self.broken.store(true, Ordering::Relaxed);
            self.panic.send_replace(Some(panic));
            T::default()
        })
    }
}

impl Order<ObjectKey> for GuardedOrder {
    fn push(&mut self, key: Queued<'_, ObjectKey>) -> u64 {
        self.guard.call(|| self.order.push(key))
    }

    fn pop(&mut self) -> Option<Ticket> {
        self.guard.call(|| self.order.pop())
    }

    fn remove(&mut self, key: Queued<'_, ObjectKey>, place: u64) {
        self.guard.call(|| self.order.remove(key, place));
    }

    fn touch(&mut self, key: Queued<'_, ObjectKey>, place: u64, priority: i32) -> u64 {
        self.guard.call(|| self.order.touch(key, place, priority))
    }

    fn len(&self) -> usize {
        self.guard.call(|| self.order.len())
    }

    fn needs_time(&self) -> bool {
        self.guard.call(|| self.order.needs_time())
    }
}
