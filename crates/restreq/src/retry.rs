//! The retry policy for requests.

mod budget;

use std::time::Duration;

use http::header::{CONTENT_TYPE, DATE, RETRY_AFTER};
use http::{HeaderMap, Method, StatusCode};
use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;
use memchr::memmem;
use pintle_meta::{ApiError, ErrorKind};
use pintle_transport::is_invalid_response;
use serde::Deserialize;

pub(crate) use self::budget::Budget;
use crate::body::Body;

/// Decides whether and when to send a request again. Each time a request is sent, the client creates a new `Retry`. A
/// `Retry` computes pauses, but does not sleep.
///
/// The decision depends on the outcome of the attempt and on the effect of repeating the request:
///
/// | | read | guarded write | other write | accumulating write |
/// |---|---|---|---|---|
/// | 429 or 501 with `Retry-After` | retry | retry | retry | retry |
/// | 503 with `Retry-After` | retry | retry, in doubt | retry, in doubt | retry, in doubt |
/// | another 5xx with `Retry-After` | retry | retry, in doubt | retry, in doubt | fail |
/// | not processed: a refused stream, or nothing was sent | retry | retry | retry | retry |
/// | connection lost after sending | retry | retry, in doubt | fail | fail |
/// | the same, on a reused connection | retry immediately | retry immediately, in doubt | fail | fail |
/// | anything else | fail | fail | fail | fail |
///
/// - `Retry-After` is a number of seconds or a date. After a 5xx response, the server may have processed the request,
///   because the status may come from a proxy. If a retry that the table marks as "in doubt" fails, the client returns
///   the error of the earlier attempt in [`ApiError::earlier`].
/// - A guarded write is a PUT or PATCH with a `resourceVersion`, a JSON patch that first tests the `resourceVersion`, a
///   DELETE with a precondition, or a server-side apply. Repeating a guarded write changes nothing.
/// - An accumulating write could silently take effect twice if the client repeated it. Accumulating writes are creates
///   of a generated name, all other JSON patches, and POST requests to a subresource other than `binding`, `eviction`
///   and `token`. All writes to a proxy also accumulate, because the application behind the proxy decides what a second
///   request does, even for a PUT or DELETE. client-go repeats accumulating writes after all 5xx responses with
///   `Retry-After`.
/// - Other POST requests, such as the create of a named object, either fail or do no harm when they are repeated.
/// - As in client-go, a failed connection attempt is not retried. The caller can safely repeat the request after such a
///   failure, with a separate deadline and backoff. A request that has missed its deadline is also not retried.
/// - A request is never retried if its body can only be read once.
/// - All requests of a client share a retry [`Budget`]. The first retry does not count against the budget if the server
///   has not processed the request, or if a reused connection was already dead.
/// - The total pause between attempts must not exceed the deadline of the request. For requests without a deadline,
///   such as watches, the limit is one minute.
#[derive(Debug)]
pub(crate) struct Retry {
    retries_left: u32,
    retries: u32,
    /// The sum of the pauses between attempts so far.
    total_pause: Duration,
    is_replayable: bool,
    /// Whether to add random jitter to the pauses.
    has_jitter: bool,
}

/// The effect of repeating a request that the server may have processed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repetition {
    /// The request changes nothing, so repeating it is harmless.
    Harmless,
    /// Repeating the request changes nothing, because it applies to only one version of the object.
    Guarded,
    /// Repeating the request makes the same change again, which can overwrite changes by other clients.
    Unsafe,
    /// Repeating the request makes another change, such as creating a second object or adding a second list item.
    Accumulates,
}

/// The outcome of an attempt, as far as it matters for retries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The server responded with 429 or 501 and `Retry-After`, and did not process the request.
    Refused(Duration),
    /// The server responded with 503 and `Retry-After`.
    Unavailable(Duration),
    /// The server responded with another 5xx status and `Retry-After`.
    ServerError(Duration),
    Unprocessed,
    Lost,
    /// A reused connection was lost after the request was sent. A reused connection that is lost has most likely died
    /// while it was idle.
    Stale,
    /// Every outcome that does not permit a retry, including success.
    Final,
}

/// The longest pause that a server may request. If a server requests a longer pause, the client returns the response of
/// the server.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

const RECONNECT_WAIT: Duration = Duration::from_secs(1);

/// The minimum pause before the first retry. The minimum doubles with each retry up to `LONGEST_PAUSE`, even if the
/// server requests shorter pauses.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The maximum jitter as a fraction of the pause.
const MAX_JITTER: f64 = 0.1;

impl Retry {
    pub(crate) fn new(max_retries: u32, is_replayable: bool) -> Self {
        Self { retries_left: max_retries, retries: 0, total_pause: Duration::ZERO, is_replayable, has_jitter: false }
    }

    /// Adds jitter to the pauses, so that not all rejected requests are retried at the same time.
    pub(crate) fn with_jitter(self) -> Self {
        Self { has_jitter: true, ..self }
    }

    /// Returns the pause before the next attempt, or `None` if the request must not be retried. `repetition` is only
    /// called if the decision depends on its result.
    pub(crate) fn next_pause(&mut self, outcome: Outcome, repetition: impl FnOnce() -> Repetition) -> Option<Duration> {
        if outcome == Outcome::Final || !self.is_replayable || self.retries_left == 0 {
            return None;
        }
        let wait = match outcome {
            Outcome::Refused(wait) | Outcome::Unavailable(wait) => Some(wait),
            Outcome::ServerError(wait) => Some(wait).filter(|_| repetition() != Repetition::Accumulates),
            Outcome::Unprocessed => Some(Duration::ZERO),
            Outcome::Lost => Some(RECONNECT_WAIT).filter(|_| repetition().changes_nothing()),
            Outcome::Stale => Some(Duration::ZERO).filter(|_| repetition().changes_nothing()),
            Outcome::Final => None,
        }?;
        if wait > LONGEST_WAIT {
            return None;
        }
        let pause = FIRST_PAUSE.saturating_mul(2_u32.saturating_pow(self.retries)).min(LONGEST_PAUSE);
        let wait = if outcome == Outcome::Stale && self.retries == 0 { wait } else { wait.max(pause) };
        // The jitter must not make the total pause exceed its limit.
        let max_pause = LONGEST_WAIT.saturating_sub(self.total_pause).max(wait);
        let wait = if self.has_jitter { jittered(wait).min(max_pause) } else { wait };
        self.retries_left -= 1;
        self.retries += 1;
        self.total_pause = self.total_pause.saturating_add(wait);
        Some(wait)
    }

    /// Returns `true` if the total pause exceeds the limit for requests without a deadline.
    pub(crate) fn exceeds_limit(&self) -> bool {
        self.total_pause > LONGEST_WAIT
    }

    /// Returns `true` if the last retry counts against the retry budget. The first retry does not count if the server
    /// has not processed the request.
    pub(crate) fn uses_budget(&self, outcome: Outcome) -> bool {
        self.retries > 1 || !matches!(outcome, Outcome::Unprocessed | Outcome::Stale)
    }

    pub(crate) fn may_replay(&self) -> bool {
        self.is_replayable
    }
}

fn jittered(wait: Duration) -> Duration {
    let more = wait.as_secs_f64() * fastrand::f64() * MAX_JITTER;
    wait.saturating_add(Duration::try_from_secs_f64(more).unwrap_or_default())
}

impl Outcome {
    pub(crate) fn of_response(status: StatusCode, headers: &HeaderMap) -> Self {
        let Some(wait) = retry_after(headers) else { return Self::Final };
        match status.as_u16() {
            429 | 501 => Self::Refused(wait),
            503 => Self::Unavailable(wait),
            500.. => Self::ServerError(wait),
            _ => Self::Final,
        }
    }

    pub(crate) fn of_error(error: &ApiError) -> Self {
        match &error.kind {
            // A retry would most likely return another invalid response.
            ErrorKind::Transport(cause) if is_invalid_response(&**cause) => Self::Final,
            ErrorKind::Transport(_) => Self::Lost,
            ErrorKind::Unprocessed(_) => Self::Unprocessed,
            _ => Self::Final,
        }
    }
}

/// The API server forwards requests for the subresource `proxy` to a program in the cluster.
const PROXY: &str = "proxy";

/// The subresources of POST requests that are retried, as in client-go. The empty string represents create requests,
/// which have no subresource. A second eviction acts like a second DELETE, a second binding fails, and a second token
/// is harmless.
const REPEATABLE_POSTS: [&str; 4] = ["", "binding", "eviction", "token"];

impl Repetition {
    /// Returns `true` if a request with status 401 may be sent again with other credentials. The API server checks the
    /// credentials before it processes a request. However, a 401 from a proxy may come from the program behind the
    /// proxy, which may have processed the request.
    pub(crate) fn may_follow_401(method: &Method, subresource: &str) -> bool {
        subresource != PROXY || is_read(method)
    }

    fn changes_nothing(self) -> bool {
        matches!(self, Self::Harmless | Self::Guarded)
    }

    /// `subresource` is the subresource in the request path, or an empty string.
    pub(crate) fn of(method: &Method, subresource: &str, headers: &HeaderMap, body: &Body) -> Self {
        let fields = || BodyFields::of(body).unwrap_or_default();
        let is_guarded = match method.as_str() {
            _ if is_read(method) => return Self::Harmless,
            _ if subresource == PROXY => return Self::Accumulates,
            "PUT" => fields().metadata.has_resource_version(),
            "PATCH" if has_content_type(headers, b"application/json-patch") => {
                return if tests_resource_version(body) { Self::Guarded } else { Self::Accumulates };
            }
            "PATCH" => is_apply(headers) || fields().metadata.has_resource_version(),
            "DELETE" => {
                let Preconditions { uid, resource_version } = fields().preconditions;
                !uid.is_empty() || !resource_version.is_empty()
            }
            "POST" if !REPEATABLE_POSTS.contains(&subresource) || has_generated_name(body) => {
                return Self::Accumulates;
            }
            _ => false,
        };
        if is_guarded { Self::Guarded } else { Self::Unsafe }
    }
}

fn is_read(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS)
}

fn has_generated_name(body: &Body) -> bool {
    match (BodyFields::of(body), body) {
        (Some(BodyFields { metadata: Metadata { name, generate_name, .. }, .. }), _) => {
            name.is_empty() && !generate_name.is_empty()
        }
        // The body may also be YAML or protobuf. Protobuf contains no field names, so treat a protobuf body as an
        // object with a `generateName`.
        (None, Body::Bytes(text)) => text.starts_with(b"k8s\0") || memmem::find(text, b"generateName").is_some(),
        (None, Body::Empty | Body::Stream(_)) => false,
    }
}

/// Returns `true` if `body` is a JSON patch that first tests the `resourceVersion`. If the patch was already applied,
/// this test fails when the client sends the patch again. Any other test can pass twice, for example a test of the
/// `uid` before an added list item.
fn tests_resource_version(body: &Body) -> bool {
    #[derive(Deserialize)]
    struct Operation {
        op: String,
        path: String,
    }
    let Body::Bytes(text) = body else { return false };
    let operations = serde_json::from_slice::<Vec<Operation>>(text).unwrap_or_default();
    // Consider only the tests at the beginning of the patch, because other operations could change the tested value.
    let mut tests = operations.iter().take_while(|operation| operation.op == "test");
    tests.any(|test| test.path == "/metadata/resourceVersion")
}

fn is_apply(headers: &HeaderMap) -> bool {
    has_content_type(headers, b"application/apply-patch")
}

fn has_content_type(headers: &HeaderMap, start: &[u8]) -> bool {
    headers.get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(start))
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct BodyFields {
    metadata: Metadata,
    preconditions: Preconditions,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Metadata {
    name: String,
    generate_name: String,
    resource_version: String,
}

impl Metadata {
    /// Returns `false` for the `resourceVersion` `0`, because servers ignore it and the write is unconditional.
    fn has_resource_version(&self) -> bool {
        !matches!(&*self.resource_version, "" | "0")
    }
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Preconditions {
    uid: String,
    resource_version: String,
}

impl BodyFields {
    fn of(body: &Body) -> Option<Self> {
        match body {
            Body::Bytes(json) => serde_json::from_slice(json).ok(),
            Body::Empty | Body::Stream(_) => None,
        }
    }
}

/// Parses the `Retry-After` header, which is a number of seconds or a date. A negative number means that the request
/// can be retried immediately. A date is compared with the `Date` header of the response, because the clocks of the
/// client and the server may differ.
pub(crate) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse::<i64>() {
        return Some(Duration::from_secs(seconds.max(0).unsigned_abs()));
    }
    let until = date(text)?;
    let now = headers.get(DATE).and_then(|date| date.to_str().ok()).and_then(date);
    Some(Duration::try_from(until.duration_since(now.unwrap_or_else(Timestamp::now))).unwrap_or_default())
}

fn date(text: &str) -> Option<Timestamp> {
    DateTimeParser::new().parse_timestamp(text.trim()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{Phase, late};

    fn outcome(status: u16, after: Option<&str>) -> Outcome {
        let mut headers = HeaderMap::new();
        if let Some(after) = after {
            headers.insert("retry-after", after.parse().unwrap());
        }
        Outcome::of_response(StatusCode::from_u16(status).unwrap(), &headers)
    }

    #[test]
    fn retry_depends_on_outcome_and_repetition() {
        const REPETITIONS: [Repetition; 4] =
            [Repetition::Harmless, Repetition::Guarded, Repetition::Unsafe, Repetition::Accumulates];
        let after = Duration::from_secs(7);
        for (outcome, again) in [
            (Outcome::Refused(after), [true, true, true, true]),
            (Outcome::Unavailable(after), [true, true, true, true]),
            (Outcome::ServerError(after), [true, true, true, false]),
            (Outcome::Unprocessed, [true, true, true, true]),
            (Outcome::Lost, [true, true, false, false]),
            (Outcome::Stale, [true, true, false, false]),
            (Outcome::Final, [false, false, false, false]),
        ] {
            for (repetition, again) in REPETITIONS.into_iter().zip(again) {
                let wait = Retry::new(1, true).next_pause(outcome, || repetition);
                assert_eq!(wait.is_some(), again, "{outcome:?} {repetition:?}");
                if matches!(outcome, Outcome::Refused(_) | Outcome::Unavailable(_) | Outcome::ServerError(_)) {
                    assert_eq!(wait, again.then_some(after));
                }
                assert_eq!(
                    Retry::new(1, false).next_pause(outcome, || repetition),
                    None,
                    "a body that was already sent"
                );
                assert_eq!(Retry::new(0, true).next_pause(outcome, || repetition), None, "no retry is left");
            }
        }
    }

    #[test]
    fn response_with_retry_after_is_retried() {
        let seconds = Duration::from_secs;
        for (status, after, expected) in [
            (429, Some("2"), Outcome::Refused(seconds(2))),
            (429, Some("0"), Outcome::Refused(seconds(0))),
            (429, Some("-5"), Outcome::Refused(seconds(0))),
            (501, Some("1"), Outcome::Refused(seconds(1))),
            (500, Some("1"), Outcome::ServerError(seconds(1))),
            (502, Some("1"), Outcome::ServerError(seconds(1))),
            (503, Some("3"), Outcome::Unavailable(seconds(3))),
            (504, Some("60"), Outcome::ServerError(seconds(60))),
            (429, None, Outcome::Final),
            (500, None, Outcome::Final),
            (503, Some("Fri, 31 Dec 1999 23:59:59 GMT"), Outcome::Unavailable(seconds(0))),
            (200, Some("1"), Outcome::Final),
            (301, Some("1"), Outcome::Final),
            (404, Some("1"), Outcome::Final),
            (409, Some("1"), Outcome::Final),
        ] {
            assert_eq!(outcome(status, after), expected, "{status} {after:?}");
        }
        for (after, again) in [("60", true), ("61", false)] {
            let wait = Retry::new(1, true).next_pause(outcome(503, Some(after)), || Repetition::Harmless);
            assert_eq!(wait.is_some(), again, "{after} s");
        }
    }

    #[test]
    fn repetition_is_derived_from_method_and_body() {
        let none = "";
        let versioned = r#"{"metadata":{"name":"a","resourceVersion":"7"}}"#;
        let plain = r#"{"metadata":{"name":"a"}}"#;
        let generated = r#"{"metadata":{"generateName":"a-"}}"#;
        for (method, kind, body, expected) in [
            ("GET", "", none, Repetition::Harmless),
            ("HEAD", "", none, Repetition::Harmless),
            ("PUT", "", versioned, Repetition::Guarded),
            ("PUT", "", plain, Repetition::Unsafe),
            ("PUT", "", r#"{"metadata":{"resourceVersion":"0"}}"#, Repetition::Unsafe),
            ("PUT", "", "text", Repetition::Unsafe),
            ("POST", "", plain, Repetition::Unsafe),
            ("POST", "", none, Repetition::Unsafe),
            ("POST", "", generated, Repetition::Accumulates),
            ("POST", "", r#"{"metadata":{"name":"a","generateName":"a-"}}"#, Repetition::Unsafe),
            ("POST", "", r#"{"metadata":{"name":null,"generateName":"a-"}}"#, Repetition::Accumulates),
            ("POST", "application/yaml", "metadata:\n  generateName: a-\n", Repetition::Accumulates),
            ("POST", "application/yaml", "metadata:\n  name: a\n", Repetition::Unsafe),
            ("POST", "application/vnd.kubernetes.protobuf", "k8s\0\n", Repetition::Accumulates),
            ("PATCH", "application/apply-patch+yaml", "a: b", Repetition::Guarded),
            ("PATCH", "application/merge-patch+json", plain, Repetition::Unsafe),
            ("PATCH", "application/merge-patch+json", versioned, Repetition::Guarded),
            ("DELETE", "", none, Repetition::Unsafe),
            ("DELETE", "", r#"{"preconditions":{"uid":"u"}}"#, Repetition::Guarded),
            ("DELETE", "", r#"{"preconditions":{"resourceVersion":"7"}}"#, Repetition::Guarded),
            ("TRACE", "", versioned, Repetition::Unsafe),
        ] {
            let mut headers = HeaderMap::new();
            if !kind.is_empty() {
                headers.insert(CONTENT_TYPE, kind.parse().unwrap());
            }
            let body = if body.is_empty() { Body::Empty } else { Body::Bytes(body.into()) };
            let repetition = Repetition::of(&method.parse().unwrap(), "", &headers, &body);
            assert_eq!(repetition, expected, "{method} {kind} {body:?}");
        }
    }

    #[test]
    fn only_resource_version_test_guards_a_json_patch() {
        let test = |path: &str| format!(r#"{{"op":"test","path":"{path}","value":"7"}}"#);
        let (version, uid) = (&*test("/metadata/resourceVersion"), &*test("/metadata/uid"));
        let add = r#"{"op":"add","path":"/spec/list/-","value":"a\"b"}"#;
        let forge = r#"{"op":"add","path":"/metadata/resourceVersion","value":"7"}"#;
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, "application/json-patch+json".parse().unwrap());
        for (operations, expected) in [
            (vec![add], Repetition::Accumulates),
            (vec![uid, add], Repetition::Accumulates),
            (vec![version, add], Repetition::Guarded),
            (vec![uid, version, add], Repetition::Guarded),
            (vec![forge, version, add], Repetition::Accumulates),
        ] {
            let body = Body::Bytes(format!("[{}]", operations.join(",")).into());
            assert_eq!(Repetition::of(&Method::PATCH, "", &headers, &body), expected, "{operations:?}");
        }
    }

    #[test]
    fn repetition_depends_on_the_subresource() {
        let body = Body::Bytes(r#"{"metadata":{"name":"a","resourceVersion":"7"}}"#.into());
        for (method, subresource, expected) in [
            (Method::POST, "eviction", Repetition::Unsafe),
            (Method::POST, "binding", Repetition::Unsafe),
            (Method::POST, "token", Repetition::Unsafe),
            (Method::POST, "restart", Repetition::Accumulates),
            (Method::PUT, "status", Repetition::Guarded),
            (Method::GET, "proxy", Repetition::Harmless),
            (Method::PUT, "proxy", Repetition::Accumulates),
            (Method::DELETE, "proxy", Repetition::Accumulates),
            (Method::POST, "proxy", Repetition::Accumulates),
            (Method::PATCH, "proxy", Repetition::Accumulates),
        ] {
            let repetition = Repetition::of(&method, subresource, &HeaderMap::new(), &body);
            assert_eq!(repetition, expected, "{method} {subresource}");
        }
    }

    #[test]
    fn failures_report_whether_the_server_may_have_acted() {
        let unprocessed = ErrorKind::Unprocessed(std::sync::Arc::new(std::io::Error::other("reset")));
        for (error, expected) in [
            (ApiError::transport("reset"), Outcome::Lost),
            (unprocessed.into(), Outcome::Unprocessed),
            (ApiError::connection_refused("reset"), Outcome::Final),
            (late(Phase::Headers, Duration::from_secs(1)).into(), Outcome::Final),
        ] {
            assert_eq!(Outcome::of_error(&error), expected, "{error}");
        }
    }

    #[test]
    fn retries_are_limited_and_paced() {
        let mut retry = Retry::new(10, true);
        let waits: Vec<_> = std::iter::from_fn(|| retry.next_pause(outcome(429, Some("0")), || Repetition::Harmless))
            .map(|wait| wait.as_millis())
            .collect();
        assert_eq!(waits, [10, 20, 40, 80, 160, 320, 640, 1000, 1000, 1000]);
        let mut retry = Retry::new(10, true);
        let waits: Vec<_> =
            (0..3).map(|_| retry.next_pause(outcome(429, Some("2")), || Repetition::Harmless)).collect();
        assert_eq!(waits, [Some(Duration::from_secs(2)); 3], "Retry-After is longer");
    }

    #[test]
    fn stale_connection_is_retried_at_once_within_limit() {
        let mut retry = Retry::new(10, true);
        let waits: Vec<_> =
            (0..3).map(|_| retry.next_pause(Outcome::Stale, || Repetition::Harmless).unwrap()).collect();
        assert_eq!(waits.iter().map(Duration::as_millis).collect::<Vec<_>>(), [0, 20, 40]);
        assert_eq!(Retry::new(10, true).next_pause(Outcome::Lost, || Repetition::Harmless), Some(RECONNECT_WAIT));
    }

    #[test]
    fn first_retry_of_unprocessed_request_is_free() {
        for (outcome, costly) in [
            (Outcome::Unprocessed, [false, true, true]),
            (Outcome::Stale, [false, true, true]),
            (Outcome::Lost, [true; 3]),
            (Outcome::Refused(Duration::ZERO), [true; 3]),
        ] {
            let mut retry = Retry::new(3, true);
            let found = [(); 3].map(|()| {
                assert!(retry.next_pause(outcome, || Repetition::Harmless).is_some());
                retry.uses_budget(outcome)
            });
            assert_eq!(found, costly, "{outcome:?}");
        }
    }

    #[test]
    fn retry_after_may_be_a_date() {
        let after = |retry_after: &str, date: Option<&str>| {
            let mut headers = HeaderMap::new();
            headers.insert(RETRY_AFTER, retry_after.parse().unwrap());
            if let Some(date) = date {
                headers.insert(DATE, date.parse().unwrap());
            }
            super::retry_after(&headers)
        };
        let noon = Some("Fri, 20 Nov 2026 12:00:00 GMT");
        assert_eq!(after("Fri, 20 Nov 2026 12:00:07 GMT", noon), Some(Duration::from_secs(7)));
        assert_eq!(after("Fri, 20 Nov 2026 11:59:00 GMT", noon), Some(Duration::ZERO), "the date has passed");
        assert_eq!(after("Sun, 06 Nov 1994 08:49:37 GMT", None), Some(Duration::ZERO), "by the client's clock");
        assert!(after("Wed, 20 Nov 2126 12:00:00 GMT", Some("nonsense")).is_some_and(|wait| wait > LONGEST_WAIT));
        for nonsense in ["", "soon", "1.5", "Fri, 20 Nov", "20 Nov 2026 12:00:00 PST8PDT x"] {
            assert_eq!(after(nonsense, noon), None, "{nonsense}");
        }
    }

    #[test]
    fn jitter_adds_at_most_ten_percent() {
        let wait = Duration::from_secs(10);
        let step = || Retry::new(1, true).with_jitter().next_pause(Outcome::Refused(wait), || Repetition::Harmless);
        let waits: std::collections::BTreeSet<_> = (0..100).filter_map(|_| step()).collect();
        assert!(waits.iter().all(|longer| (wait..=wait.mul_f64(1.1)).contains(longer)) && waits.len() > 1);
        assert_eq!((jittered(Duration::ZERO), jittered(Duration::MAX)), (Duration::ZERO, Duration::MAX));
    }
}
