//! Tracing spans of requests.

use std::fmt;
use std::sync::Arc;

use http::StatusCode;
use pintle_meta::{ApiError, ErrorKind, RequestLine};
use tracing::Span;
use tracing::field::{Empty, display};

use crate::error::{DeadlineExceeded, ResponseTooLarge};
use crate::request::Request;

impl Request {
    /// Creates the span of a request, which includes all attempts. [`RestClient`](crate::RestClient) documents the
    /// fields.
    pub(crate) fn span(&self, line: &Arc<RequestLine>) -> Span {
        tracing::debug_span!(
            "request",
            otel.kind = "client",
            http.request.method = %self.parts.method,
            url.full = %line.url,
            url.template = %Template(self),
            server.address = %self.parts.shared.base.origin.authority,
            k8s.namespace.name = self.parts.namespace.as_deref().filter(|namespace| !namespace.is_empty()),
            k8s.resource = self.parts.resource.as_deref(),
            http.response.status_code = Empty,
            http.request.resend_count = Empty,
            error.type = Empty,
        )
    }
}

/// A span field that renders the URL template only when a subscriber displays it. Lazy rendering is necessary,
/// because the feature `log` of tracing evaluates span fields even without a subscriber.
struct Template<'a>(&'a Request);

impl fmt::Display for Template<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.template())
    }
}

/// Records the outcome of an attempt in the span. `code` is `None` if there was no response.
pub(crate) fn attempted(span: &Span, code: Option<StatusCode>, resent: u32) {
    if let Some(code) = code {
        span.record("http.response.status_code", code.as_u16());
    }
    if resent > 0 {
        span.record("http.request.resend_count", resent);
    }
}

/// Records the status code or the kind of a request's error in the span.
pub(crate) fn failed(span: &Span, error: &ApiError) {
    let name = match &error.kind {
        ErrorKind::Status(status) => {
            span.record("error.type", display(status.code));
            return;
        }
        _ if error.cause::<DeadlineExceeded>().is_some() => "timeout",
        _ if error.cause::<ResponseTooLarge>().is_some() => "too_large",
        ErrorKind::Connect { .. } => "connect",
        ErrorKind::Decode(_) => "decode",
        ErrorKind::InvalidRequest(_) => "invalid",
        ErrorKind::Throttled(_) => "throttled",
        ErrorKind::Transport(_) => "transport",
        ErrorKind::Unauthenticated(_) => "auth",
        ErrorKind::Unprocessed(_) => "unprocessed",
        _ => "_OTHER",
    };
    span.record("error.type", name);
}

#[cfg(test)]
mod tests {
    use pintle_meta::ClientConfig;

    use crate::request::templates_rendered;
    use crate::{Request, RestClient};

    /// The tests enable the feature `log` of tracing, because any crate of a program may enable it.
    #[test]
    fn template_is_not_rendered_without_a_subscriber() {
        let request: Request = RestClient::new(ClientConfig::new("http://host")).unwrap().get();
        let before = templates_rendered();
        let span = request.span(&request.line());
        assert_eq!(templates_rendered(), before, "{span:?}");
        request.template();
        assert_eq!(templates_rendered(), before + 1);
    }
}
