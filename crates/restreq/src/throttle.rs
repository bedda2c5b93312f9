use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use pintle_ratelimit::TokenBucket;
use tokio::time::Instant;

/// The shell around the client's token bucket: it knows the clock and sleeps.
#[derive(Debug)]
pub(crate) struct Throttle {
    /// `None`: no limit.
    bucket: Option<Mutex<TokenBucket>>,
}

/// client-go's figures.
const DEFAULT_QPS: f32 = 5.0;
const DEFAULT_BURST: u32 = 10;

/// Shorter waits are not worth a line in the log.
const WORTH_TELLING: Duration = Duration::from_millis(50);

impl Throttle {
    /// `qps` unset is the default, 0 or less no limit; `burst` unset or 0 is the default.
    pub(crate) fn new(qps: Option<f32>, burst: Option<u32>) -> Self {
        let qps = qps.unwrap_or(DEFAULT_QPS);
        let burst = burst.filter(|burst| *burst > 0).unwrap_or(DEFAULT_BURST);
        let bucket = || Mutex::new(TokenBucket::new(qps.into(), burst, Instant::now().into_std()));
        Self { bucket: (qps > 0.0).then(bucket) }
    }

    /// Waits for this request's turn. Dropped half-way, the turn is lost.
    pub(crate) async fn wait(&self, line: &pintle_meta::RequestLine) {
        let Some(bucket) = &self.bucket else { return };
        let delay = bucket.lock().unwrap_or_else(PoisonError::into_inner).reserve(Instant::now().into_std());
        if delay > WORTH_TELLING {
            tracing::debug!(?delay, request = %line, "waiting for the client's own rate limit, not for the server");
        }
        tokio::time::sleep(delay).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn twenty_requests_take_what_rate_and_burst_say() {
        let line = pintle_meta::RequestLine { method: "GET".into(), url: "http://host/".into() };
        for (qps, burst, expected) in [
            (None, None, 2000),
            (None, Some(0), 2000),
            (Some(10.0), Some(10), 1000),
            (Some(10.0), Some(1), 1900),
            (Some(0.0), None, 0),
            (Some(-1.0), Some(1), 0),
        ] {
            let throttle = Throttle::new(qps, burst);
            let started = Instant::now();
            for _ in 0..20 {
                throttle.wait(&line).await;
            }
            // The burst is free. A timer is at most a millisecond late.
            let waited = started.elapsed().as_millis();
            assert!((expected..expected + 21).contains(&waited), "{qps:?} {burst:?}: {waited}");
        }
    }
}
