//! The wait for a key, in a thread or in a task.

use std::future::Future;
use std::hash::Hash;
use std::pin::Pin;
use std::sync::Arc as StdArc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Instant;

use pintle_ratelimit::{Clock, Sleep, Timer};

use super::shared::{Shared, Step};
use super::waiters::WaiterId;
use super::{TryGetError, WorkItem};
use crate::sync::{Arc, thread};

/// The future of [`Queue::get`](super::Queue::get).
#[must_use = "futures do nothing unless polled"]
pub struct Get<'a, K, C: Timer> {
    shared: &'a Arc<Shared<K, C>>,
    waiter: Option<WaiterId>,
    /// Armed while this waiter keeps the time.
    sleep: Option<(Instant, Sleep)>,
}

impl<'a, K, C: Timer> Get<'a, K, C> {
    pub(super) fn new(shared: &'a Arc<Shared<K, C>>) -> Self {
        Self { shared, waiter: None, sleep: None }
    }
}

impl<K: Hash + Eq + Clone, C: Timer> Future for Get<'_, K, C> {
    type Output = Option<WorkItem<K, C>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            let this = &mut *self;
            match this.shared.poll_get(&mut this.waiter, || cx.waker().clone()) {
                Step::Item(item) => return Poll::Ready(Some(item)),
                Step::ShutDown => return Poll::Ready(None),
                Step::Wait(None) => {
                    this.sleep = None;
                    return Poll::Pending;
                }
                Step::Wait(Some(deadline)) => {
                    if this.sleep.as_ref().is_none_or(|(armed, _)| *armed != deadline) {
                        this.sleep = Some((deadline, this.shared.clock.sleep_until(deadline)));
                    }
                    let slept = this.sleep.as_mut().map(|(_, sleep)| sleep.as_mut().poll(cx));
                    if slept == Some(Poll::Pending) {
                        return Poll::Pending;
                    }
                    // The deadline came between the look at the queue and here.
                    this.sleep = None;
                }
            }
        }
    }
}

impl<K, C: Timer> Drop for Get<'_, K, C> {
    fn drop(&mut self) {
        if let Some(waiter) = self.waiter.take() {
            self.shared.leave(waiter);
        }
    }
}

pub(super) fn blocking<K: Hash + Eq + Clone, C: Clock>(shared: &Arc<Shared<K, C>>) -> Option<WorkItem<K, C>> {
    match shared.try_get() {
        Ok(item) => return Some(item),
        Err(TryGetError::ShutDown) => return None,
        Err(TryGetError::Empty) => {}
    }
    let waker = Waker::from(StdArc::new(Unpark(thread::current())));
    let mut waiter = Waiting { shared, id: None };
    loop {
        match shared.poll_get(&mut waiter.id, || waker.clone()) {
            Step::Item(item) => return Some(item),
            Step::ShutDown => return None,
            Step::Wait(deadline) => shared.clock.park_until(deadline),
        }
    }
}

/// Leaves the queue also when the clock panics.
struct Waiting<'a, K, C: Clock> {
    shared: &'a Arc<Shared<K, C>>,
    id: Option<WaiterId>,
}

impl<K, C: Clock> Drop for Waiting<'_, K, C> {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            self.shared.leave(id);
        }
    }
}

pub(super) struct Unpark(pub(super) thread::Thread);

impl Wake for Unpark {
    fn wake(self: StdArc<Self>) {
        self.0.unpark();
    }

    fn wake_by_ref(self: &StdArc<Self>) {
        self.0.unpark();
    }
}
