//! Sends a [`Request`]: makes the attempts, enforces the deadlines and reads the response.

mod reading;
mod retrying;

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, USER_AGENT};
use http::uri::PathAndQuery;
use http::{StatusCode, Uri};
use pintle_meta::{ApiError, ErrorKind, RequestLine};
#[cfg(feature = "ws")]
use pintle_transport::Upgraded;
use pintle_transport::{ConnectionUse, ExchangeOptions, Failure, PluginCertificate, RequestBody, ResponseBody};
use serde::de::DeserializeOwned;
use tokio::time::Instant;
use tracing::Instrument;

use self::reading::{read, read_some};
use self::retrying::{Answer, Retrying};
use crate::auth::Login;
use crate::backoff::ServerBackoff;
use crate::error::{AuthError, InvalidRequest, MAX_ERROR_BODY, Phase, failed, late, of_failure, rejected, unreadable};
use crate::list::ListStream;
use crate::metrics::Timer;
use crate::request::Request;
use crate::response::Response;
use crate::status::{self, Subject};
use crate::stream::ByteStream;
use crate::watch::{RawWatch, Watch};
use crate::{span, warning};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Unary,
    Stream,
    /// Stream the body of a response, and accept only status 200. The server must send the response headers
    /// immediately, so the timeout for response headers applies.
    Watch,
    /// Upgrade the connection to another protocol. An upgrade is a GET request, but it can change the cluster, for
    /// example with `exec`.
    #[cfg(feature = "ws")]
    Upgrade,
}

impl Mode {
    /// Returns `true` if even a GET request can change the cluster in this mode.
    fn has_effect(self) -> bool {
        #[cfg(feature = "ws")]
        return self == Self::Upgrade;
        #[cfg(not(feature = "ws"))]
        false
    }

    fn accepts(self, status: StatusCode) -> bool {
        match self {
            Self::Unary | Self::Stream => status::is_success(status),
            Self::Watch => status == StatusCode::OK,
            #[cfg(feature = "ws")]
            Self::Upgrade => status == StatusCode::SWITCHING_PROTOCOLS,
        }
    }
}

const ERROR_BODY_TIMEOUT: Duration = Duration::from_secs(10);
/// The number of headers that the client adds: `Accept`, `User-Agent`, `Authorization` and `Host`.
const USUAL_HEADERS: usize = 4;

impl Request {
    /// Sends the request and reads the entire response.
    ///
    /// # Errors
    ///
    /// Returns one of these errors:
    ///
    /// - The first error of a request setter, if any. The client does not send an invalid request.
    /// - [`ErrorKind::Status`] if the server responds with an error status.
    /// - Another error if there is no response.
    ///
    /// # Panics
    ///
    /// Panics if the request needs a timer and this method is called outside of a tokio runtime with timers enabled. A
    /// request needs a timer if it has a deadline, if it pauses before a retry, or if it reads a credential file.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future cancels the request. A cancelled request may still take effect on the server.
    pub async fn send(&self) -> Result<Response, ApiError> {
        self.preflight()?;
        let _timer = self.timer();
        let line = &self.line();
        self.log_sent(line);
        let exchange = async |span: &tracing::Span| {
            self.throttle(line).await?;
            let deadline = self.deadline();
            let exchange = pin!(async {
                let answer = self.open(line, Mode::Unary, deadline, span).await?;
                let (head, body) = answer.into_parts();
                let idle = self.parts.idle_timeout.or(self.parts.shared.timeouts.idle);
                let limit = self.parts.max_body.unwrap_or(self.parts.shared.max_body);
                let body = read(self.parts.shared.transport.timers(), body, limit, idle)
                    .await
                    .map_err(|kind| failed(line, kind))?;
                self.log_received(line, &body);
                if let Some(metrics) = self.parts.shared.metrics.as_deref() {
                    metrics.received(&self.parts.method, body.len());
                }
                let warnings = warning::parse_all(&head.headers);
                Ok(Response { request: line.clone(), status: head.status, headers: head.headers, body, warnings })
            });
            within(deadline, exchange).await.unwrap_or_else(|after| Err(failed(line, late(Phase::Total, after))))
        };
        self.in_span(line, exchange).await
    }

    /// Sends the request and decodes the response, like [`send`](Self::send) followed by [`Response::into`].
    ///
    /// # Errors
    ///
    /// Returns the errors from [`send`](Self::send) and [`Response::into`].
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the request is cancelled, as with [`send`](Self::send).
    pub async fn object<T: DeserializeOwned>(&self) -> Result<T, ApiError> {
        self.send().await?.into()
    }

    /// Sends the request and returns the response body.
    ///
    /// # Errors
    ///
    /// Returns the same typed errors as [`send`](Self::send). Unlike client-go's `DoRaw`, this method keeps the
    /// server's error message.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the request is cancelled, as with [`send`](Self::send).
    pub async fn raw(&self) -> Result<Bytes, ApiError> {
        Ok(self.send().await?.body)
    }

    /// Sends the request and streams the response body, such as a container log. The total timeout of the request does
    /// not apply to the stream.
    ///
    /// # Errors
    ///
    /// If the request fails before the response headers arrive, returns the same errors as [`send`](Self::send). If a
    /// reused connection is lost before the response headers arrive, the request is retried, because the connection has
    /// most likely died while it was idle. If a new connection is lost, the request is not retried.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the request is cancelled, as with [`send`](Self::send).
    pub async fn stream(&self) -> Result<ByteStream, ApiError> {
        self.preflight()?;
        let line = self.line();
        let answer = self.begin(&line, Mode::Stream).await?;
        Ok(ByteStream::new(answer.into_body(), line, self.parts.idle_timeout))
    }

    /// Sends the request and returns the response with a streamed body.
    #[cfg(feature = "tower")]
    pub(crate) async fn respond(&self) -> Result<http::Response<ByteStream>, ApiError> {
        self.preflight()?;
        let line = self.line();
        let (answer, deadline) = self.begin_within_timeout(&line, Mode::Stream).await?;
        Ok(answer.map(|body| ByteStream::new(body, line, self.parts.idle_timeout).with_deadline(deadline)))
    }

    /// Sends the request and returns the items of a list as a stream. Only one item is in memory at a time, so the list
    /// can have any size. If an item is larger than [`max_object`](pintle_meta::ClientConfig::max_object), the stream
    /// returns [`RawObject::Oversized`](pintle_meta::RawObject::Oversized) instead.
    ///
    /// # Errors
    ///
    /// If the request fails before the response headers arrive, returns the same errors as [`send`](Self::send). The
    /// returned stream reports errors that occur later.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the request is cancelled, as with [`send`](Self::send).
    pub async fn list(&self) -> Result<ListStream, ApiError> {
        self.preflight()?;
        let _timer = self.timer();
        let line = self.line();
        let (answer, deadline) = self.begin_within_timeout(&line, Mode::Unary).await?;
        is_json("a list", &line, &answer)?;
        let idle = self.parts.idle_timeout.or(self.parts.shared.timeouts.idle);
        let bytes = ByteStream::new(answer.into_body(), line, idle).with_deadline(deadline);
        Ok(ListStream::new(bytes, self.max_object()))
    }

    /// Sends the request and returns a watch whose objects are decoded as `T`. The caller must set the query parameter
    /// `watch=true` and all other parameters of the watch. The total timeout of the request does not apply to the
    /// watch.
    ///
    /// # Errors
    ///
    /// If the request fails before the response headers arrive, returns the same errors as [`send`](Self::send).
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the request is cancelled, as with [`send`](Self::send).
    pub async fn watch<T: DeserializeOwned>(&self) -> Result<Watch<T>, ApiError> {
        self.raw_watch().await.map(Watch::new)
    }

    /// Sends the request and returns a watch that does not decode the objects. The caller must set the same parameters
    /// as for [`watch`](Self::watch).
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`watch`](Self::watch).
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the request is cancelled, as with [`send`](Self::send).
    pub async fn raw_watch(&self) -> Result<RawWatch, ApiError> {
        self.preflight()?;
        let line = self.line();
        let answer = self.begin(&line, Mode::Watch).await?;
        is_json("a watch", &line, &answer)?;
        let bytes = ByteStream::new(answer.into_body(), line, self.parts.idle_timeout);
        Ok(RawWatch::new(bytes, self.max_object()))
    }

    #[cfg(feature = "ws")]
    pub(crate) async fn upgrade(
        &self,
        line: &Arc<RequestLine>,
    ) -> Result<(http::HeaderMap, Option<Upgraded>), ApiError> {
        self.preflight()?;
        let answer = self.begin(line, Mode::Upgrade).await?;
        let upgraded = Upgraded::take(&answer);
        Ok((answer.into_parts().0.headers, upgraded))
    }

    async fn begin(&self, line: &Arc<RequestLine>, mode: Mode) -> Answer {
        let open = async |span: &tracing::Span| {
            self.throttle(line).await?;
            self.open(line, mode, None, span).await
        };
        self.in_span(line, open).await
    }

    /// Waits for the response headers within the total timeout. Returns the deadline for the body, too.
    async fn begin_within_timeout(
        &self,
        line: &Arc<RequestLine>,
        mode: Mode,
    ) -> Result<(http::Response<ResponseBody>, Option<(Instant, Duration)>), ApiError> {
        let open = async |span: &tracing::Span| {
            self.throttle(line).await?;
            let deadline = self.deadline();
            let opened = pin!(self.open(line, mode, deadline, span));
            let answer = within(deadline, opened).await;
            let answer = answer.unwrap_or_else(|after| Err(failed(line, late(Phase::Total, after))))?;
            Ok((answer, deadline))
        };
        self.in_span(line, open).await
    }

    /// Runs `run` in the span of the request, and records the outcome in the span.
    async fn in_span<T>(
        &self,
        line: &Arc<RequestLine>,
        run: impl AsyncFnOnce(&tracing::Span) -> Result<T, ApiError>,
    ) -> Result<T, ApiError> {
        let span = self.span(line);
        let running = pin!(run(&span));
        let result = running.instrument(span.clone()).await;
        result.inspect_err(|error| span::failed(&span, error))
    }

    fn deadline(&self) -> Option<(Instant, Duration)> {
        self.parts.timeout.and_then(from_now)
    }

    fn max_object(&self) -> usize {
        self.parts.max_body.unwrap_or(self.parts.shared.max_object)
    }

    fn timer(&self) -> Option<Timer<'_>> {
        self.parts.shared.metrics.as_deref().map(|metrics| metrics.time(self.parts.method.clone()))
    }

    async fn throttle(&self, line: &Arc<RequestLine>) -> Result<(), ApiError> {
        if !self.parts.throttled && self.parts.limiter.is_none() {
            return Ok(());
        }
        let metrics = self.parts.shared.metrics.as_deref().map(|metrics| (metrics, Instant::now()));
        let turn = self.parts.shared.throttle.wait(self.parts.limiter.as_ref(), line).await;
        if let Some((metrics, start)) = metrics {
            metrics.throttled(&self.parts.method, start.elapsed());
        }
        turn
    }

    /// Sends the request until an attempt succeeds or the failure cannot be retried. The future for further attempts is
    /// allocated on demand, because most requests need only one attempt.
    async fn open(
        &self,
        line: &Arc<RequestLine>,
        mode: Mode,
        deadline: Option<(Instant, Duration)>,
        span: &tracing::Span,
    ) -> Answer {
        self.parts.shared.retries.deposit();
        let mut used = Used::default();
        self.wait_for_backoff(line).await;
        // Drop `outcome` at the end of this block, so that the future does not store it while `retrying` runs.
        let retrying = {
            let outcome = self.attempt(line, mode, &mut used).await;
            self.note_attempt(span, 0, &outcome);
            if outcome.as_ref().is_ok_and(|answer| mode.accepts(answer.status())) {
                return outcome;
            }
            Box::pin(Retrying::new(self, line, mode, deadline, span).run(outcome, used))
        };
        retrying.await
    }

    async fn wait_for_backoff(&self, line: &Arc<RequestLine>) {
        if let Some(backoff) = self.any_backoff().filter(|_| self.parts.throttled || self.parts.backoff.is_some()) {
            let wait = backoff.delay(Instant::now());
            if !wait.is_zero() {
                tracing::debug!(?wait, request = %line, "waiting for the backoff after a server failure");
                Box::pin(tokio::time::sleep(wait)).await;
            }
        }
    }

    /// Reports the outcome of an attempt to the span, the backoff, the metrics and the warning handler. `resent` is
    /// the number of earlier attempts.
    fn note_attempt(&self, span: &tracing::Span, resent: u32, outcome: &Answer) {
        let code = outcome.as_ref().ok().map(http::Response::status);
        span::attempted(span, code, resent);
        if let (Some(backoff), Some(code)) = (self.any_backoff(), code) {
            backoff.record_response(code, Instant::now());
        }
        if let Some(metrics) = self.parts.shared.metrics.as_deref() {
            metrics.attempted(&self.parts.method, code, resent > 0);
            self.parts.body.size().into_iter().for_each(|size| metrics.sent(&self.parts.method, size));
        }
        if let Ok(answer) = outcome {
            self.hand_warnings_over(answer);
        }
    }

    fn any_backoff(&self) -> Option<&ServerBackoff> {
        self.parts.backoff.as_deref().or(self.parts.shared.backoff.as_ref())
    }

    /// Sends the request once, and waits for the response headers.
    async fn attempt(&self, line: &Arc<RequestLine>, mode: Mode, used: &mut Used) -> Answer {
        let Used { login, is_renewed, is_stale } = used;
        // Get the credentials before taking the body, because a streaming body can only be taken once.
        if !self.parts.headers.contains_key(AUTHORIZATION) {
            let unavailable = |error: AuthError| failed(line, ErrorKind::Unauthenticated(Arc::new(error)));
            if !*is_renewed {
                *login = self.parts.shared.credentials.login().await.map_err(unavailable)?;
            }
            if login.run > 0 {
                let shown = PluginCertificate { run: login.run, pair: login.pair.as_deref() };
                let shown = Box::pin(self.parts.shared.transport.show(shown)).await;
                shown.map_err(|error| unavailable(AuthError::Certificate { why: error.to_string() }))?;
            }
        }
        // Box the request, because it is large and stays in this future until the response arrives.
        let mut request = Box::new(self.to_http(line)?);
        if let Some(header) = &login.header {
            request.headers_mut().insert(AUTHORIZATION, header.clone());
        }
        #[cfg(feature = "gzip")]
        let is_gzip_asked = self.parts.shared.takes_gzip
            && mode == Mode::Unary
            && crate::compression::ask(&self.parts.method, request.headers_mut());
        let usage = match mode {
            Mode::Unary => ConnectionUse::Short,
            Mode::Stream | Mode::Watch => ConnectionUse::Long,
            #[cfg(feature = "ws")]
            Mode::Upgrade => ConnectionUse::Upgrade,
        };
        let timeouts = self.parts.shared.timeouts;
        let headers = timeouts.headers.filter(|_| mode != Mode::Stream);
        let answer = self.parts.shared.round_trip(&mut request, ExchangeOptions { usage, headers }).await;
        match answer {
            #[cfg(feature = "gzip")]
            Ok(answer) if is_gzip_asked => Ok(crate::compression::undo(answer)),
            Ok(answer) => Ok(answer),
            Err(failure) => {
                *is_stale = matches!(failure, Failure::Exchange { is_stale: true, .. });
                Err(failed(line, of_failure(failure, timeouts.connect)))
            }
        }
    }

    fn to_http(&self, line: &Arc<RequestLine>) -> Result<http::Request<RequestBody>, ApiError> {
        let invalid = |error: InvalidRequest| failed(line, ErrorKind::InvalidRequest(Arc::new(error)));
        let mut request = http::Request::new(self.parts.body.to_http().map_err(invalid)?);
        *request.method_mut() = self.parts.method.clone();
        let target = PathAndQuery::from_maybe_shared(Bytes::from(self.target(line)));
        *request.uri_mut() = target
            .map(Uri::from)
            .map_err(|error| invalid(InvalidRequest::Uri { uri: line.url.to_string(), message: error.to_string() }))?;
        let headers = request.headers_mut();
        headers.reserve(self.parts.headers.len() + USUAL_HEADERS);
        for (name, value) in &self.parts.headers {
            headers.append(name, value.clone());
        }
        headers.entry(ACCEPT).or_insert_with(|| self.parts.shared.accept.clone());
        headers.entry(USER_AGENT).or_insert_with(|| self.parts.shared.user_agent.clone());
        self.parts.shared.impersonation.apply(headers);
        Ok(request)
    }

    /// Returns the response if its status indicates success, and an error for any other status.
    async fn judge(&self, line: &Arc<RequestLine>, mode: Mode, answer: http::Response<ResponseBody>) -> Answer {
        if mode.accepts(answer.status()) {
            return Ok(answer);
        }
        #[cfg(feature = "ws")]
        if mode == Mode::Upgrade && status::is_success(answer.status()) {
            let message = format!(
                "the server returned {} instead of changing the protocol; a proxy in between may not support WebSocket",
                answer.status()
            );
            return Err(unreadable(line, message));
        }
        let (head, body) = answer.into_parts();
        // If the body cannot be read completely, the error contains the data that was read.
        let body = read_some(body, MAX_ERROR_BODY, ERROR_BODY_TIMEOUT).await;
        self.log_received(line, &body);
        let resource = self.parts.resource.as_deref().unwrap_or_default();
        let group = self.group();
        let resource = if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") };
        let name = self.parts.name.as_deref().unwrap_or_default();
        let subject = Subject { method: &self.parts.method, resource: &resource, name };
        let status = status::failure(head.status, &head.headers, &body, &subject);
        Err(rejected(line, status, &head.headers, body))
    }

    fn hand_warnings_over(&self, answer: &http::Response<ResponseBody>) {
        let handler = self.parts.warnings.as_ref().unwrap_or(&self.parts.shared.warnings);
        for warning in warning::parse_all(answer.headers()) {
            handler.warn(&warning);
        }
    }
}

#[derive(Default)]
struct Used {
    login: Login,
    is_renewed: bool,
    is_stale: bool,
}

fn is_json(what: &str, line: &Arc<RequestLine>, answer: &http::Response<ResponseBody>) -> Result<(), ApiError> {
    match answer.headers().get(CONTENT_TYPE) {
        Some(kind) if !kind.as_bytes().starts_with(b"application/json") => {
            let message = format!("{what} has the content type {kind:?}; only application/json is supported");
            Err(unreadable(line, message))
        }
        _ => Ok(()),
    }
}

/// Returns the deadline that is `span` from now, together with `span`, or `None` if the deadline does not fit into an
/// `Instant`.
fn from_now(span: Duration) -> Option<(Instant, Duration)> {
    Some((Instant::now().checked_add(span)?, span))
}

/// Waits for `future` until the deadline. If the deadline passes first, returns the duration in `deadline` as an error.
/// Pin a large future before you pass it, because `within` moves it.
async fn within<F: Future>(deadline: Option<(Instant, Duration)>, future: F) -> Result<F::Output, Duration> {
    match deadline {
        None => Ok(future.await),
        Some((at, after)) => Box::pin(tokio::time::timeout_at(at, future)).await.map_err(|_| after),
    }
}
