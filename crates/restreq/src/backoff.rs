//! Delays requests while the server is overloaded.

use std::time::Duration;

use http::StatusCode;
use pintle_meta::__private::Mutex;
use pintle_ratelimit::{ItemBackoff, ItemBackoffConfig};
use tokio::time::Instant;

/// The backoff for all requests of a client, like client-go's `URLBackoff` for a single host. A response with status
/// 429 or 5xx increases the backoff, and any other response resets it. A request without a response does not change
/// the backoff.
#[derive(Debug)]
pub(crate) struct ServerBackoff(Mutex<State>);

#[derive(Debug)]
struct State {
    backoff: ItemBackoff<()>,
    increased_at: Option<Instant>,
}

impl ServerBackoff {
    pub(crate) fn new(config: ItemBackoffConfig) -> Self {
        Self(Mutex::new(State { backoff: ItemBackoff::new(config, fastrand::u64(..)), increased_at: None }))
    }

    /// Returns how long a client must wait before it sends a request.
    pub(crate) fn delay(&self, now: Instant) -> Duration {
        let State { backoff, increased_at } = &*self.0.lock();
        match increased_at {
            Some(increased_at) if backoff.is_in_backoff_since_update(&(), now.into_std()) => {
                backoff.get(&()).saturating_sub(now.saturating_duration_since(*increased_at))
            }
            _ => Duration::ZERO,
        }
    }

    pub(crate) fn record_response(&self, code: StatusCode, now: Instant) {
        let State { backoff, increased_at } = &mut *self.0.lock();
        if code == StatusCode::TOO_MANY_REQUESTS || code.is_server_error() {
            backoff.next((), now.into_std(), now.into_std());
            *increased_at = Some(now);
        } else {
            backoff.reset(&());
        }
    }
}

/// Reads the environment variables `KUBE_CLIENT_BACKOFF_BASE` and `KUBE_CLIENT_BACKOFF_DURATION` of client-go, in whole
/// seconds. Returns `None` if one of the variables is not set.
pub(crate) fn config_from_env() -> Option<ItemBackoffConfig> {
    config_from(|name| std::env::var(name).ok())
}

fn config_from(variable: impl Fn(&str) -> Option<String>) -> Option<ItemBackoffConfig> {
    let seconds = |name| variable(name)?.parse().ok().filter(|seconds| *seconds > 0).map(Duration::from_secs);
    let (base, cap) = (seconds("KUBE_CLIENT_BACKOFF_BASE")?, seconds("KUBE_CLIENT_BACKOFF_DURATION")?);
    Some(ItemBackoffConfig { base, cap, ..ItemBackoffConfig::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn backoff_doubles_on_failures_and_resets_on_other_responses() {
        let config = ItemBackoffConfig { base: SECOND, cap: 200 * SECOND, ..ItemBackoffConfig::default() };
        let (backoff, mut now) = (ServerBackoff::new(config), Instant::now());
        let mut waits = Vec::new();
        for call in 1..=10 {
            let wait = backoff.delay(now);
            waits.push(wait.as_secs());
            now += wait;
            let code = if call == 5 || call == 9 { StatusCode::OK } else { StatusCode::GATEWAY_TIMEOUT };
            backoff.record_response(code, now);
        }
        assert_eq!(waits, [0, 1, 2, 4, 8, 0, 1, 2, 4, 0]);
        assert_eq!(backoff.delay(now), SECOND);
        assert_eq!(backoff.delay(now + SECOND / 4), SECOND * 3 / 4, "elapsed time counts");
        assert_eq!(backoff.delay(now + 500 * SECOND), Duration::ZERO);
        for (code, expected) in [(429, 2), (404, 0), (500, 1), (409, 0), (503, 1)] {
            backoff.record_response(StatusCode::from_u16(code).unwrap(), now);
            assert_eq!(backoff.delay(now).as_secs(), expected, "{code}");
        }
        for _ in 0..20 {
            backoff.record_response(StatusCode::TOO_MANY_REQUESTS, now);
        }
        assert_eq!(backoff.delay(now), 200 * SECOND);
    }

    #[test]
    fn backoff_is_read_from_two_environment_variables() {
        for (base, cap, expected) in [
            ("1", "2", Some((1, 2))),
            ("1", "0", None),
            ("0", "5", None),
            ("", "", None),
            ("1", "x", None),
            ("-1", "2", None),
        ] {
            let found = config_from(|name| Some(if name.ends_with("BASE") { base } else { cap }.to_owned()));
            let found = found.map(|config| (config.base.as_secs(), config.cap.as_secs()));
            assert_eq!(found, expected, "{base} {cap}");
        }
        assert_eq!(config_from(|_| None), None);
    }
}
