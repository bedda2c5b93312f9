//! Whether and when a request is sent again.

use std::time::Duration;

use http::{HeaderMap, StatusCode};

use crate::Error;

/// Whether to send a request again: one value for one sending. Stepped: it does not sleep.
///
/// - An answer of 429 or 5xx with whole seconds in `Retry-After` is retried for every verb: the server asks for it. Whether a
///   write that was answered 5xx was done is unknown all the same: the sender remembers it ([`Error::Retried`]).
/// - A connection lost after the request was sent is retried for GET and HEAD only: whether a write was done is unknown.
/// - A refused connection, a failed handshake and a missed deadline are the caller's to judge.
/// - A body that can be read only once is never sent again.
#[derive(Debug)]
pub(crate) struct Retry {
    left: u32,
    idempotent: bool,
    replayable: bool,
}

/// What came of an attempt, as far as retrying goes.
pub(crate) enum Outcome<'a> {
    Answer(StatusCode, &'a HeaderMap),
    Failure(&'a Error),
}

/// A server that asks for more has its answer handed to the caller, who may have better to do than to wait in silence.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// The pause after a lost connection.
const RECONNECT_WAIT: Duration = Duration::from_secs(1);

impl Retry {
    pub(crate) fn new(max_retries: u32, idempotent: bool, replayable: bool) -> Self {
        Self { left: max_retries, idempotent, replayable }
    }

    /// How long to wait before the next attempt; `None`: this outcome is the last.
    pub(crate) fn step(&mut self, outcome: Outcome<'_>) -> Option<Duration> {
        if !self.replayable || self.left == 0 {
            return None;
        }
        let wait = match outcome {
            Outcome::Answer(status, headers) => retry_after(headers).filter(|_| is_temporary(status)),
            Outcome::Failure(Error::Transport { .. }) if self.idempotent => Some(RECONNECT_WAIT),
            Outcome::Failure(_) => None,
        }?;
        if wait > LONGEST_WAIT {
            return None;
        }
        self.left -= 1;
        Some(wait)
    }

    /// Whether the request may be sent once more after its credentials were renewed.
    pub(crate) fn may_replay(&self) -> bool {
        self.replayable
    }
}

fn is_temporary(status: StatusCode) -> bool {
    status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error()
}

/// The whole seconds of a `Retry-After`. Below zero counts as now; a date is not understood.
pub(crate) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds: i64 = headers.get(http::header::RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds.max(0).unsigned_abs()))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::error::Phase;

    fn answer(status: u16, after: Option<&str>) -> (StatusCode, HeaderMap) {
        let mut headers = HeaderMap::new();
        if let Some(after) = after {
            headers.insert("retry-after", after.parse().unwrap());
        }
        (StatusCode::from_u16(status).unwrap(), headers)
    }

    #[test]
    fn an_answer_is_retried_when_it_says_when() {
        for (status, after, expected) in [
            (429, Some("2"), Some(2)),
            (429, Some("0"), Some(0)),
            (429, Some("-5"), Some(0)),
            (500, Some("1"), Some(1)),
            (503, Some("3"), Some(3)),
            (504, Some("60"), Some(60)),
            (503, Some("61"), None),
            (429, None, None),
            (500, None, None),
            (503, Some("Fri, 31 Dec 1999 23:59:59 GMT"), None),
            (200, Some("1"), None),
            (301, Some("1"), None),
            (404, Some("1"), None),
            (409, Some("1"), None),
        ] {
            let (status, headers) = answer(status, after);
            for idempotent in [true, false] {
                let wait = Retry::new(1, idempotent, true).step(Outcome::Answer(status, &headers));
                assert_eq!(wait, expected.map(Duration::from_secs), "{status} {after:?}");
            }
            assert_eq!(Retry::new(1, true, false).step(Outcome::Answer(status, &headers)), None, "opaque body");
        }
    }

    #[test]
    fn only_a_read_is_sent_again_after_a_lost_connection() {
        let request = Arc::new(pintle_meta::RequestLine { method: "GET".into(), url: "http://a".into() });
        let source: Arc<dyn std::error::Error + Send + Sync> = Arc::new(std::io::Error::other("reset"));
        let lost = Error::Transport { request: request.clone(), message: "reset".into(), source: source.clone() };
        let refused = Error::Connect {
            request: request.clone(),
            refused: true,
            message: "refused".into(),
            source: source.clone(),
        };
        let late = Error::Timeout { request, phase: Phase::Headers, after: Duration::from_secs(1) };
        for (error, idempotent, expected) in [
            (&lost, true, Some(Duration::from_secs(1))),
            (&lost, false, None),
            (&refused, true, None),
            (&late, true, None),
        ] {
            assert_eq!(Retry::new(1, idempotent, true).step(Outcome::Failure(error)), expected, "{error}");
        }
    }

    #[test]
    fn retries_are_counted() {
        let (status, headers) = answer(429, Some("0"));
        let mut retry = Retry::new(2, false, true);
        let steps = [(); 3].map(|()| retry.step(Outcome::Answer(status, &headers)).is_some());
        assert_eq!(steps, [true, true, false]);
        assert_eq!(Retry::new(0, true, true).step(Outcome::Answer(status, &headers)), None);
    }
}
