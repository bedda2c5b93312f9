//! Derives a [`Status`] from an HTTP error response. This module does no I/O.

use http::header::CONTENT_TYPE;
use http::{HeaderMap, Method, StatusCode};
use memchr::memmem;
use pintle_meta::{Reason, Status, StatusCause, StatusDetails};

use crate::retry::retry_after;

#[derive(Clone, Debug)]
pub(crate) struct Subject<'a> {
    pub(crate) method: &'a Method,
    pub(crate) resource: &'a str,
    pub(crate) name: &'a str,
}

pub(crate) fn is_success(status: StatusCode) -> bool {
    (200..=206).contains(&status.as_u16())
}

/// Returns `true` if the server may have processed a write although the response has this status. For example, a proxy
/// may send a 5xx status after it has forwarded the write.
pub(crate) fn may_have_acted(status: StatusCode) -> bool {
    status.is_server_error() && status != StatusCode::NOT_IMPLEMENTED
}

/// Returns the `Status` object in a response body, or creates a `Status` from the HTTP response.
pub(crate) fn failure(code: StatusCode, headers: &HeaderMap, body: &[u8], subject: &Subject<'_>) -> Box<Status> {
    let mut status = failure_anywhere(body).unwrap_or_else(|| Box::new(status_from_code(code, headers, body, subject)));
    // A proxy may combine a 5xx status with another response's body, so the body does not prove that the server
    // rejected this request.
    if status.code == 0 || code.is_server_error() {
        status.code = code.as_u16();
    }
    if let Some(wait) = retry_after(headers) {
        let details = status.details.get_or_insert_default();
        if details.retry_after_seconds == 0 {
            details.retry_after_seconds = u32::try_from(wait.as_secs()).unwrap_or(u32::MAX);
        }
    }
    status
}

/// Returns the failure that a response body describes, regardless of the HTTP status.
pub(crate) fn failure_in(body: &[u8]) -> Option<Box<Status>> {
    // Search only the beginning of a long body, so that a large object is not parsed twice. Unless the body is short,
    // a `Status` contains its `kind` near the beginning.
    const EARLY: usize = 512;
    const SHORT: usize = 4 << 10;
    let head = if body.len() <= SHORT { body } else { &body[..EARLY] };
    memmem::find(head, b"\"Status\"")?;
    failure_anywhere(body)
}

/// Works like `failure_in`, but `kind` may be at any position. Call this function only if the body is short or is not
/// an object.
pub(crate) fn failure_anywhere(body: &[u8]) -> Option<Box<Status>> {
    let status: Status = serde_json::from_slice(body).ok()?;
    let known = matches!(status.types.api_version.as_str(), "" | "v1" | "meta.k8s.io/v1");
    (known && status.types.kind == "Status" && status.status != "Success").then(|| Box::new(status))
}

fn status_from_code(code: StatusCode, headers: &HeaderMap, body: &[u8], subject: &Subject<'_>) -> Status {
    let text = text(headers, body);
    let (reason, message) = match code.as_u16() {
        400 => (Some(Reason::BadRequest), "the server rejected the request and did not say why".into()),
        401 => (Some(Reason::Unauthorized), "the server rejected the credentials or requires some".into()),
        403 => (Some(Reason::Forbidden), or_fallback(&text, "the server does not allow this")),
        404 => (Some(Reason::NotFound), "the server could not find the requested resource".into()),
        405 => (Some(Reason::MethodNotAllowed), "the resource does not allow this method".into()),
        406 => {
            (Some(Reason::NotAcceptable), or_fallback(&text, "the server cannot produce the requested content type"))
        }
        409 if *subject.method == Method::POST => {
            (Some(Reason::AlreadyExists), "the server reported a conflict".into())
        }
        409 => (Some(Reason::Conflict), "the server reported a conflict".into()),
        410 => (Some(Reason::Expired), or_fallback(&text, "the requested revision is no longer available")),
        413 => (Some(Reason::RequestEntityTooLarge), or_fallback(&text, "the request is too large")),
        415 => (
            Some(Reason::UnsupportedMediaType),
            or_fallback(&text, "the server does not understand the body's content type"),
        ),
        422 => (Some(Reason::Invalid), "the server found the request invalid".into()),
        429 => (Some(Reason::TooManyRequests), "the server has too many requests; try again later".into()),
        503 => (Some(Reason::ServiceUnavailable), "the server cannot handle the request now".into()),
        504 => (Some(Reason::Timeout), "the server did not respond in time; it may still execute the request".into()),
        500.. => (
            Some(Reason::InternalError),
            format!("an error on the server prevented success: {}", or_fallback(&text, "unknown")),
        ),
        other => (None, format!("the server returned status {other} without details")),
    };
    let about = match (subject.resource, subject.name) {
        ("", _) => String::new(),
        (resource, "") => format!(" ({} {resource})", subject.method),
        (resource, name) => format!(" ({} {resource} {name})", subject.method),
    };
    let message = format!("{message}{about}");
    let (kind, group) = subject.resource.split_once('.').unwrap_or((subject.resource, ""));
    let cause = StatusCause { reason: "UnexpectedServerResponse".into(), message: text, field: String::new() };
    Status {
        details: Some(StatusDetails {
            name: subject.name.into(),
            group: group.into(),
            kind: kind.into(),
            causes: vec![cause],
            ..StatusDetails::default()
        }),
        reason,
        ..Status::failure(code.as_u16(), Reason::InternalError, message)
    }
}

/// Returns the first 2 KiB of a text body, with control characters replaced by spaces. Returns an empty string for
/// other media types.
fn text(headers: &HeaderMap, body: &[u8]) -> String {
    const ENOUGH: usize = 2048;
    let is_text = match headers.get(CONTENT_TYPE) {
        None => true,
        Some(kind) => kind.as_bytes().starts_with(b"text/"),
    };
    if !is_text {
        return String::new();
    }
    let text = String::from_utf8_lossy(&body[..body.len().min(ENOUGH)]);
    // Replace control characters, which could forge log lines.
    text.trim().replace(char::is_control, " ")
}

fn or_fallback(text: &str, fallback: &str) -> String {
    if text.is_empty() { fallback.into() } else { text.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(method: Method, code: u16, kind: &str, body: &str, reason: Option<Reason>, message: &str) {
        let mut headers = HeaderMap::new();
        if !kind.is_empty() {
            headers.insert(CONTENT_TYPE, kind.parse().unwrap());
        }
        let subject = Subject { method: &method, resource: "deployments.apps", name: "web" };
        let status = failure(StatusCode::from_u16(code).unwrap(), &headers, body.as_bytes(), &subject);
        assert_eq!(status.reason, reason, "{code} {body}");
        assert!(status.message.contains(message), "{code} {body}: {}", status.message);
    }

    #[test]
    fn each_http_status_maps_to_its_reason() {
        let json = "application/json";
        for (code, reason) in [
            (400, Some(Reason::BadRequest)),
            (401, Some(Reason::Unauthorized)),
            (403, Some(Reason::Forbidden)),
            (404, Some(Reason::NotFound)),
            (405, Some(Reason::MethodNotAllowed)),
            (406, Some(Reason::NotAcceptable)),
            (409, Some(Reason::Conflict)),
            (410, Some(Reason::Expired)),
            (413, Some(Reason::RequestEntityTooLarge)),
            (415, Some(Reason::UnsupportedMediaType)),
            (422, Some(Reason::Invalid)),
            (429, Some(Reason::TooManyRequests)),
            (500, Some(Reason::InternalError)),
            (502, Some(Reason::InternalError)),
            (503, Some(Reason::ServiceUnavailable)),
            (504, Some(Reason::Timeout)),
            (302, None),
            (418, None),
        ] {
            check(Method::GET, code, json, "{garbage", reason, "(GET deployments.apps web)");
        }
        check(Method::POST, 409, json, "{}", Some(Reason::AlreadyExists), "conflict");
        check(Method::PUT, 409, json, "{}", Some(Reason::Conflict), "conflict");
    }

    #[test]
    fn text_body_is_shown_but_invalid_json_is_not() {
        check(Method::GET, 403, "text/plain", " no way \n", Some(Reason::Forbidden), "no way (GET");
        check(Method::GET, 500, "", "boom", Some(Reason::InternalError), "boom");
        check(Method::GET, 500, "application/json", "boom", Some(Reason::InternalError), "unknown");
        check(Method::GET, 401, "text/any", "garbage", Some(Reason::Unauthorized), "credentials");
    }

    #[test]
    fn server_status_takes_precedence_over_http_status() {
        let body_code =
            r#"{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","message":"m","code":404}"#;
        check(Method::GET, 400, "application/json", body_code, Some(Reason::NotFound), "m");
        for ignored in [
            r#"{"kind":"Status","apiVersion":"v1","status":"Success"}"#,
            r#"{"kind":"Status","apiVersion":"other/v1","status":"Failure","reason":"NotFound"}"#,
            r#"{"apiVersion":"v1","status":"Failure","reason":"NotFound"}"#,
            "{}",
        ] {
            check(Method::GET, 400, "application/json", ignored, Some(Reason::BadRequest), "rejected");
        }
        let unversioned = r#"{"kind":"Status","status":"Failure","reason":"NotFound","message":"m"}"#;
        check(Method::GET, 400, "application/json", unversioned, Some(Reason::NotFound), "m");
    }

    /// A JSON encoder that sorts keys writes other fields before `kind`.
    #[test]
    fn status_is_recognized_with_kind_at_any_position() {
        let sorted = |message: &str| {
            let causes = format!(r#"{{"causes":[{{"message":"{message}"}}]}}"#);
            format!(
                r#"{{"apiVersion":"v1","code":404,"details":{causes},"kind":"Status","reason":"NotFound","status":"Failure"}}"#
            )
        };
        for length in [1, 600, 60_000] {
            let body = sorted(&"x".repeat(length));
            check(Method::GET, 400, "application/json", &body, Some(Reason::NotFound), "");
            assert_eq!(failure_in(body.as_bytes()).is_some(), length < 4000, "{length}: in a successful response");
        }
    }

    /// A proxy may combine a 5xx status with the body of another response.
    #[test]
    fn http_5xx_takes_precedence_over_body_code() {
        for (http, body_code, expected) in [(504, 409, 504), (502, 0, 502), (400, 409, 409), (403, 0, 403)] {
            let body = format!(r#"{{"kind":"Status","reason":"Conflict","code":{body_code}}}"#);
            let subject = Subject { method: &Method::PUT, resource: "", name: "" };
            let http = StatusCode::from_u16(http).unwrap();
            let status = failure(http, &HeaderMap::new(), body.as_bytes(), &subject);
            assert_eq!((status.code, &status.reason), (expected, &Some(Reason::Conflict)), "{http} {body_code}");
            assert_eq!(
                pintle_meta::ApiError::from(*status).may_have_acted(),
                http.is_server_error(),
                "{http} {body_code}"
            );
        }
    }

    #[test]
    fn retry_after_reaches_the_details() {
        let mut headers = HeaderMap::new();
        headers.insert("retry-after", "7".parse().unwrap());
        let subject = Subject { method: &Method::GET, resource: "", name: "" };
        let status = failure(StatusCode::TOO_MANY_REQUESTS, &headers, b"", &subject);
        assert_eq!(status.details.unwrap().retry_after_seconds, 7);
    }

    #[test]
    fn success_is_200_to_206() {
        let successes: Vec<u16> = (100..600).filter(|code| StatusCode::from_u16(*code).is_ok_and(is_success)).collect();
        assert_eq!(successes, (200..=206).collect::<Vec<u16>>());
    }
}
