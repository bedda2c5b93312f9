//! The client's own rate limit.

use std::sync::Arc;
use std::time::Duration;

use pintle_meta::{ApiError, ErrorKind, RequestLine};
use pintle_ratelimit::TokioClock;
use tokio::time::Instant;

use crate::error::failed;

/// The rate limiter that all requests of a client share. By default, there is no limit, because API Priority and
/// Fairness protects the server, and users do not expect client-go's default of 5 requests per second.
/// controller-runtime removed client-go's default for the same reasons (pull request 3119).
#[derive(Debug)]
pub(crate) struct Throttle(Option<pintle_ratelimit::Throttle<TokioClock>>);

const DEFAULT_BURST: u32 = 10;

/// The minimum duration of a wait that is logged.
const MIN_LOGGED_WAIT: Duration = Duration::from_millis(50);

impl Throttle {
    /// Creates a rate limiter. The rate is unlimited if `qps` is `None` or not positive. The default burst of client-go
    /// is used if `burst` is `None` or 0.
    pub(crate) fn new(qps: Option<f32>, burst: Option<u32>) -> Self {
        let burst = burst.filter(|burst| *burst > 0).unwrap_or(DEFAULT_BURST);
        let qps = qps.filter(|qps| *qps > 0.0);
        Self(qps.map(|qps| pintle_ratelimit::Throttle::new(qps.into(), burst, TokioClock)))
    }

    /// Waits for a permit from `own`, or from the client's rate limiter if `own` is `None`. The limiter grants permits
    /// in FIFO order. No permit is consumed if the wait is cancelled.
    pub(crate) async fn wait(
        &self,
        own: Option<&pintle_ratelimit::Throttle<TokioClock>>,
        line: &Arc<RequestLine>,
    ) -> Result<(), ApiError> {
        let Some(throttle) = own.or(self.0.as_ref()) else { return Ok(()) };
        let started = Instant::now();
        let turn = throttle.accept().await;
        let waited = started.elapsed();
        if waited > MIN_LOGGED_WAIT {
            tracing::debug!(?waited, request = %line, "waited for the client's own rate limit, not for the server");
        }
        turn.map_err(|error| failed(line, ErrorKind::Throttled(Arc::new(error))))
    }
}

#[cfg(test)]
mod tests {
    use std::pin::{Pin, pin};
    use std::task::{Context, Poll, Waker};

    use pintle_ratelimit::ThrottleError;

    use super::*;

    fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    fn line() -> Arc<RequestLine> {
        Arc::new(RequestLine { method: "GET".into(), url: "http://host/".into() })
    }

    #[tokio::test(start_paused = true)]
    async fn twenty_requests_follow_rate_and_burst() {
        for (qps, burst, expected) in [
            (None, None, 0),
            (None, Some(1), 0),
            (Some(5.0), None, 2000),
            (Some(5.0), Some(0), 2000),
            (Some(10.0), Some(10), 1000),
            (Some(10.0), Some(1), 1900),
            (Some(0.0), None, 0),
            (Some(-1.0), Some(1), 0),
        ] {
            let throttle = Throttle::new(qps, burst);
            let started = Instant::now();
            for _ in 0..20 {
                throttle.wait(None, &line()).await.unwrap();
            }
            // Allow for a timer that fires up to one millisecond late.
            let waited = started.elapsed().as_millis();
            assert!((expected..expected + 21).contains(&waited), "{qps:?} {burst:?}: {waited}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn cancelled_wait_consumes_no_permit() {
        let throttle = Arc::new(Throttle::new(Some(20.0), Some(10)));
        let mut callers = tokio::task::JoinSet::new();
        for _ in 0..10 + 6 + 190 {
            let throttle = throttle.clone();
            callers.spawn(async move {
                let turn = async { throttle.wait(None, &line()).await };
                tokio::time::timeout(Duration::from_millis(300), turn).await.is_ok()
            });
        }
        let served = callers.join_all().await.into_iter().filter(|served| *served).count();
        assert!((15..=16).contains(&served), "expected a burst of 10 and 6 earned in 0.3 s, got {served}");
        let started = Instant::now();
        throttle.wait(None, &line()).await.unwrap();
        let waited = started.elapsed();
        assert!(waited <= Duration::from_millis(51), "the next token is at most 1/20 s away: {waited:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_callers_are_served_in_fifo_order() {
        let throttle = Arc::new(Throttle::new(Some(20.0), Some(1)));
        let mut callers = tokio::task::JoinSet::new();
        for caller in 0..50 {
            let throttle = throttle.clone();
            callers.spawn(async move { throttle.wait(None, &line()).await.map(|()| caller).unwrap() });
            tokio::task::yield_now().await;
        }
        let mut served = Vec::new();
        while let Some(caller) = callers.join_next().await {
            served.push(caller.unwrap());
        }
        assert_eq!(served, (0..50).collect::<Vec<_>>());
    }

    /// A request that waits in one branch of a `select!` must not block a request in another branch.
    #[tokio::test(start_paused = true)]
    async fn unpolled_caller_does_not_block_others() {
        let throttle = Throttle::new(Some(20.0), Some(1));
        throttle.wait(None, &line()).await.unwrap();
        let request = line();
        let mut neglected = pin!(throttle.wait(None, &request));
        assert!(poll(neglected.as_mut()).is_pending());
        let started = Instant::now();
        throttle.wait(None, &line()).await.unwrap();
        assert!((100..=102).contains(&started.elapsed().as_millis()), "{:?}", started.elapsed());
        neglected.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn endless_wait_returns_an_error_at_once() {
        // With this rate, the time of the next permit does not fit into an `Instant`.
        let throttle = Throttle::new(Some(f32::MIN_POSITIVE), Some(1));
        throttle.wait(None, &line()).await.unwrap();
        let started = Instant::now();
        let error = throttle.wait(None, &line()).await.expect_err("no further permit is available");
        assert_eq!(error.cause(), Some(&ThrottleError::Never));
        assert_eq!(started.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn stop_ends_all_waits() {
        let throttle = Throttle::new(Some(5.0), Some(1));
        throttle.wait(None, &line()).await.unwrap();
        let request = line();
        let mut waiting = pin!(throttle.wait(None, &request));
        assert!(poll(waiting.as_mut()).is_pending());
        throttle.0.as_ref().unwrap().stop();
        assert_eq!(waiting.await.unwrap_err().cause(), Some(&ThrottleError::Stopped));
    }
}
