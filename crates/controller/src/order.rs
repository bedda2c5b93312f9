//! Catches panics in a user-defined queue order.

use std::future::pending;
use std::sync::atomic::{AtomicBool, Ordering};

use pintle_workqueue::{Order, Queued, Ticket};
use tokio::sync::watch;

use crate::key::RequestKey;
use crate::panic::catch;

/// Wraps a queue order that the user provides and catches its panics, because a panic in a queue operation would lose
/// keys. After the first panic, the wrapper behaves like an empty order and no longer calls the user's order. The
/// panic also ends the run of the controller.
#[derive(Debug)]
pub(crate) struct GuardedOrder<K> {
    order: Box<dyn Order<K>>,
    guard: Guard,
}

#[derive(Debug)]
struct Guard {
    broken: AtomicBool,
    panic: watch::Sender<Option<String>>,
}

/// Receives the panic message of the user's queue order.
pub(crate) struct OrderPanic(watch::Receiver<Option<String>>);

impl<K> GuardedOrder<K> {
    pub(crate) fn new(order: Box<dyn Order<K>>) -> (Self, OrderPanic) {
        let (panic, message) = watch::channel(None);
        (Self { order, guard: Guard { broken: AtomicBool::new(false), panic } }, OrderPanic(message))
    }
}

impl OrderPanic {
    pub(crate) async fn message(&mut self) -> String {
        let message = self.0.wait_for(Option::is_some).await.ok().and_then(|message| message.clone());
        match message {
            Some(message) => message,
            // No panic can follow, because the queue and its order were dropped.
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

impl<K: RequestKey> Order<K> for GuardedOrder<K> {
    fn push(&mut self, key: Queued<'_, K>) -> u64 {
        self.guard.call(|| self.order.push(key))
    }

    fn pop(&mut self) -> Option<Ticket> {
        self.guard.call(|| self.order.pop())
    }

    fn remove(&mut self, key: Queued<'_, K>, place: u64) {
        self.guard.call(|| self.order.remove(key, place));
    }

    fn touch(&mut self, key: Queued<'_, K>, place: u64, priority: i32) -> u64 {
        self.guard.call(|| self.order.touch(key, place, priority))
    }

    fn len(&self) -> usize {
        self.guard.call(|| self.order.len())
    }

    fn needs_time(&self) -> bool {
        self.guard.call(|| self.order.needs_time())
    }
}
