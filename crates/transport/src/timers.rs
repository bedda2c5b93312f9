//! Reusable timers for request deadlines.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use pintle_meta::__private::Mutex;
use tokio::runtime::{Handle, Id};
use tokio::task::unconstrained;
use tokio::time::{Instant, Sleep, sleep_until};

use crate::request_body::LastChunk;

/// Reusable timers for the deadlines of requests that a [`Transport`](crate::Transport) sends.
///
/// Starting or cancelling a tokio timer acquires a lock of the runtime, and can wake another thread. Most requests end
/// long before their deadline, so a request does not cancel its timer when it ends, and the next request uses this
/// timer.
///
/// The timer of an earlier request usually fires before the deadline of the request that now uses it. A timer that
/// fires is reset only if its request is still waiting, so most requests do not acquire a lock of the runtime.
#[derive(Default)]
pub struct Timers(Mutex<Vec<Timer>>);

const MAX_UNUSED: usize = 256;

struct Timer {
    runtime: Id,
    /// Never fires later than the deadline of the request that uses this timer.
    sleep: Pin<Box<Sleep>>,
}

impl Timers {
    /// Waits for `future`, but no longer than `limit` from the first poll. Returns `None` if `limit` expires first.
    ///
    /// # Panics
    ///
    /// Panics if called outside of a tokio runtime with timers enabled, unless the future is ready when it is first
    /// polled.
    pub async fn within<F: Future>(&self, limit: Duration, mut future: Pin<&mut F>) -> Option<F::Output> {
        let mut running: Option<(Timer, Instant)> = None;
        let output = poll_fn(|cx| {
            if let Poll::Ready(output) = future.as_mut().poll(cx) {
                return Poll::Ready(Some(output));
            }
            if running.is_none() {
                // No timer is needed if the deadline does not fit into an `Instant`.
                running = Instant::now().checked_add(limit).map(|deadline| (self.take(deadline), deadline));
            }
            match &mut running {
                Some((timer, deadline)) => timer.poll(*deadline, cx).map(|()| None),
                None => Poll::Pending,
            }
        })
        .await;
        if let Some((timer, _)) = running {
            self.put_back(timer);
        }
        output
    }

    /// Waits for `exchange`, which sends a request and returns the response headers. Returns `None` once `limit` has
    /// passed since both the first poll and the last chunk of a streaming request body.
    ///
    /// # Panics
    ///
    /// Panics in the same cases as [`within`](Self::within).
    pub async fn for_headers<F: Future>(
        &self,
        limit: Duration,
        last_chunk: Option<LastChunk>,
        mut exchange: Pin<&mut F>,
    ) -> Option<F::Output> {
        let mut remaining = limit;
        loop {
            if let Some(headers) = self.within(remaining, exchange.as_mut()).await {
                return Some(headers);
            }
            let sent = last_chunk.as_ref()?.time()?;
            remaining = limit.checked_sub(sent.elapsed()).filter(|remaining| !remaining.is_zero())?;
        }
    }

    fn take(&self, deadline: Instant) -> Timer {
        let runtime = Handle::current().id();
        let mut unused = self.0.lock();
        let found = unused.iter().rposition(|timer| timer.runtime == runtime);
        let found = found.map(|at| unused.swap_remove(at));
        drop(unused);
        let mut timer = found.unwrap_or_else(|| Timer { runtime, sleep: Box::pin(sleep_until(deadline)) });
        if timer.sleep.deadline() > deadline {
            timer.sleep.as_mut().reset(deadline);
        }
        timer
    }

    fn put_back(&self, mut timer: Timer) {
        // Keep the timer only while its runtime is running, because polling it would otherwise panic.
        if Handle::try_current().is_ok_and(|handle| handle.id() == timer.runtime) {
            // Replace the waker of the request, which would keep the request's task in memory.
            let _ = timer.poll_once(&mut Context::from_waker(Waker::noop()));
            let mut unused = self.0.lock();
            if unused.len() < MAX_UNUSED {
                unused.push(timer);
            }
        }
    }
}

impl Timer {
    fn poll(&mut self, deadline: Instant, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            ready!(self.poll_once(cx));
            if Instant::now() >= deadline {
                return Poll::Ready(());
            }
            self.sleep.as_mut().reset(deadline);
        }
    }

    /// Polls the timer even if the task has exhausted tokio's cooperative budget. Therefore, the deadline also ends a
    /// wait whose future exhausts this budget.
    fn poll_once(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        pin!(unconstrained(self.sleep.as_mut())).poll(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::sync::Arc;
    use std::task::Wake;

    use tokio::runtime::Builder;
    use tokio::task::yield_now;
    use tokio::time::sleep;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn reused_timer_fires_at_the_deadline_of_its_request() {
        let timers = Timers::default();
        for (after, limit) in [(0, 10), (4, 10), (9, 3), (4, 20), (1, 1), (9, 9)] {
            assert!(timers.within(10 * SECOND, pin!(sleep(after * SECOND))).await.is_some());
            let started = Instant::now();
            assert!(timers.within(limit * SECOND, pin!(pending::<()>())).await.is_none());
            // Allow for a timer that fires up to one millisecond late.
            let late = started.elapsed().checked_sub(limit * SECOND);
            assert!(late.is_some_and(|late| late <= Duration::from_millis(2)), "{after} {limit}: {late:?}");
            assert_eq!(timers.0.lock().len(), 1, "one timer serves all requests");
        }
    }

    #[tokio::test]
    async fn unused_timer_keeps_no_waker() {
        struct Nothing;
        impl Wake for Nothing {
            fn wake(self: Arc<Self>) {}
        }
        let (timers, nothing) = (Timers::default(), Arc::new(Nothing));
        let waker = Waker::from(nothing.clone());
        let mut ended = false;
        {
            let request =
                pin!(poll_fn(|_| if std::mem::replace(&mut ended, true) { Poll::Ready(()) } else { Poll::Pending }));
            let mut request = pin!(timers.within(SECOND, request));
            let cx = &mut Context::from_waker(&waker);
            assert!(request.as_mut().poll(cx).is_pending());
            assert!(Arc::strong_count(&nothing) > 2, "the timer has a waker");
            assert!(request.as_mut().poll(cx).is_ready());
        }
        assert_eq!((timers.0.lock().len(), Arc::strong_count(&nothing)), (1, 2));
    }

    #[test]
    fn timer_of_another_runtime_is_not_used() {
        let timers = Timers::default();
        for _ in 0..2 {
            let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
            runtime.block_on(async {
                assert!(timers.within(SECOND, pin!(yield_now())).await.is_some());
                assert!(timers.within(SECOND, pin!(pending::<()>())).await.is_none());
            });
        }
        assert_eq!(timers.0.lock().len(), 2);
    }

    #[tokio::test]
    async fn endless_limit_needs_no_timer() {
        let timers = Timers::default();
        assert!(timers.within(Duration::MAX, pin!(yield_now())).await.is_some());
        assert!(timers.0.lock().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn future_that_uses_up_the_task_budget_is_limited() {
        let timers = Timers::default();
        let greedy = pin!(async {
            loop {
                tokio::task::consume_budget().await;
            }
        });
        let clock = async {
            loop {
                tokio::time::advance(SECOND).await;
            }
        };
        tokio::select! {
            output = timers.within(3 * SECOND, greedy) => assert!(output.is_none()),
            () = clock => unreachable!("the clock has no end"),
        }
    }
}
