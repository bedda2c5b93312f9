//! Sending a [`Request`]: attempts, deadlines, and what becomes of the answer.

mod reading;

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, USER_AGENT};
use http::uri::PathAndQuery;
use http::{Method, StatusCode, Uri};
use pintle_meta::RequestLine;
use serde::de::DeserializeOwned;
use tokio::time::Instant;
use tracing::Instrument;

pub(crate) use self::reading::BodyFault;
use self::reading::{drain, read, read_some};
use crate::auth::Login;
use crate::error::{self, AuthError, Phase};
use crate::metrics::Timer;
use crate::retry::{Outcome, Repetition, Retry};
use crate::status::{self, Subject};
use crate::stream::ByteStream;
use crate::transport::{AnswerBody, Failure, Shown, Span, in_one_line};
use crate::{Error, Flow, InvalidRequest, ListStream, RawWatch, Request, Response, Watch, span, warning};

/// What the head of an answer may take, and what it has to be.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// The whole answer, within the request's deadline.
    Unary,
    /// The body as it comes.
    Stream,
    /// As a stream, but only 200 will do, and the server answers at once.
    Watch,
}

/// The most that is read of the body of a failure.
const MAX_ERROR_BODY: usize = 64 << 10;
/// So long is it read at most.
const ERROR_BODY_PATIENCE: Duration = Duration::from_secs(10);
/// Beside its own headers, a request has what it accepts, who sends it, who asks, and which server is meant.
const USUAL_HEADERS: usize = 4;

impl Request {
    /// Sends the request and reads the whole answer.
    ///
    /// # Errors
    ///
    /// The first fault of the request, without I/O; whatever kept the answer from coming; [`Error::Status`] for an answer that
    /// is no success.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime that has timers, once it comes to a deadline, a pause before it sends again, or a file of credentials.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives the request up. Whether the server acted on it is then unknown.
    pub async fn send(&self) -> Result<Response, Error> {
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
                let idle = self.idle_timeout.or(self.client.timeouts().idle);
                let limit = self.max_body.unwrap_or(self.client.max_body());
                let body = read(body, limit, idle).await.map_err(|error| error.into_error(line))?;
                self.log_received(line, &body);
                if let Some(metrics) = self.client.metrics() {
                    metrics.received(&self.method, body.len());
                }
                let warnings = warning::parse_all(&head.headers);
                Ok(Response { request: line.clone(), status: head.status, headers: head.headers, body, warnings })
            });
            within(deadline, exchange).await.unwrap_or_else(|after| Err(late(line, Phase::Total, after)))
        };
        self.in_span(line, exchange).await
    }

    /// Sends the request and decodes the answer: [`send`](Self::send), then [`Response::into`].
    ///
    /// # Errors
    ///
    /// As the two.
    ///
    /// # Cancel safety
    ///
    /// As [`send`](Self::send).
    pub async fn object<T: DeserializeOwned>(&self) -> Result<T, Error> {
        self.send().await?.into()
    }

    /// Sends the request and returns the body as it came.
    ///
    /// # Errors
    ///
    /// As [`send`](Self::send). Unlike client-go's `DoRaw`, a failure is the same typed error as anywhere else.
    ///
    /// # Cancel safety
    ///
    /// As [`send`](Self::send).
    pub async fn raw(&self) -> Result<Bytes, Error> {
        Ok(self.send().await?.body)
    }

    /// Sends the request and returns the body as it comes, such as the log of a container. The request's deadline does not
    /// bind it.
    ///
    /// # Errors
    ///
    /// As [`send`](Self::send), up to the head of the answer. A lost connection is not retried, unless it had rested before: most likely
    /// it had died then.
    ///
    /// # Cancel safety
    ///
    /// As [`send`](Self::send).
    pub async fn stream(&self) -> Result<ByteStream, Error> {
        self.preflight()?;
        let line = self.line();
        let answer = self.begin(&line, Mode::Stream).await?;
        Ok(ByteStream::new(answer.into_body(), line, self.idle_timeout))
    }

    /// Sends the request and returns the answer, its body as it comes.
    #[cfg(feature = "tower")]
    pub(crate) async fn respond(&self) -> Result<http::Response<ByteStream>, Error> {
        self.preflight()?;
        let line = self.line();
        let answer = self.begin(&line, Mode::Stream).await?;
        Ok(answer.map(|body| ByteStream::new(body, line, self.idle_timeout)))
    }

    /// Sends the request and takes the list in its answer apart as it comes: no more of it is held than one item, and no limit
    /// applies to the whole. An item above [`max_object`](pintle_meta::ClientConfig::max_object) is told as
    /// [`RawObject::Oversized`](pintle_meta::RawObject::Oversized).
    ///
    /// # Errors
    ///
    /// As [`send`](Self::send), up to the head of the answer. What comes later comes in the stream.
    ///
    /// # Cancel safety
    ///
    /// As [`send`](Self::send).
    pub async fn list(&self) -> Result<ListStream, Error> {
        self.preflight()?;
        let _timer = self.timer();
        let line = self.line();
        let open = async |span: &tracing::Span| {
            self.throttle(&line).await?;
            let deadline = self.deadline();
            let opened = pin!(self.open(&line, Mode::Unary, deadline, span));
            let answer = within(deadline, opened).await;
            let answer = answer.unwrap_or_else(|after| Err(late(&line, Phase::Total, after)))?;
            Ok((answer, deadline))
        };
        let (answer, deadline) = self.in_span(&line, open).await?;
        is_json("a list", &line, &answer)?;
        let idle = self.idle_timeout.or(self.client.timeouts().idle);
        let bytes = ByteStream::new(answer.into_body(), line, idle).with_deadline(deadline);
        Ok(ListStream::new(bytes, self.max_object()))
    }

    /// Sends the request and decodes the body as the frames of a watch. The caller sets `watch=true` and whatever else the
    /// watch is to have. The request's deadline does not bind it.
    ///
    /// # Errors
    ///
    /// As [`send`](Self::send), up to the head of the answer.
    ///
    /// # Cancel safety
    ///
    /// As [`send`](Self::send).
    pub async fn watch<T: DeserializeOwned>(&self) -> Result<Watch<T>, Error> {
        self.raw_watch().await.map(Watch::new)
    }

    /// As [`watch`](Self::watch), the objects as they come.
    ///
    /// # Errors
    ///
    /// As [`watch`](Self::watch).
    ///
    /// # Cancel safety
    ///
    /// As [`send`](Self::send).
    pub async fn raw_watch(&self) -> Result<RawWatch, Error> {
        self.preflight()?;
        let line = self.line();
        let answer = self.begin(&line, Mode::Watch).await?;
        is_json("a watch", &line, &answer)?;
        let bytes = ByteStream::new(answer.into_body(), line, self.idle_timeout);
        Ok(RawWatch::new(bytes, self.max_object()))
    }

    /// Up to the head of an answer that is read for as long as it comes.
    async fn begin(&self, line: &Arc<RequestLine>, mode: Mode) -> Result<http::Response<AnswerBody>, Error> {
        let open = async |span: &tracing::Span| {
            self.throttle(line).await?;
            self.open(line, mode, None, span).await
        };
        self.in_span(line, open).await
    }

    /// Runs within the span of the request, which learns how it ends.
    async fn in_span<T>(
        &self,
        line: &Arc<RequestLine>,
        run: impl AsyncFnOnce(&tracing::Span) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let span = self.span(line);
        let running = pin!(run(&span));
        let result = running.instrument(span.clone()).await;
        result.inspect_err(|error| span::failed(&span, error))
    }

    /// When the whole exchange has to be over, from now on, and how long that is.
    fn deadline(&self) -> Option<(Instant, Duration)> {
        self.timeout.and_then(from_now)
    }

    /// The most that is held of an item of a list, or of a frame of a watch.
    fn max_object(&self) -> usize {
        self.max_body.unwrap_or(self.client.max_object())
    }

    fn timer(&self) -> Option<Timer<'_>> {
        self.client.metrics().map(|metrics| metrics.time(self.method.clone()))
    }

    async fn throttle(&self, line: &Arc<RequestLine>) -> Result<(), Error> {
        if !self.throttled {
            return Ok(());
        }
        let metrics = self.client.metrics().map(|metrics| (metrics, Instant::now()));
        let turn = self.client.throttle().wait(line).await;
        if let Some((metrics, start)) = metrics {
            metrics.throttled(&self.method, start.elapsed());
        }
        turn
    }

    /// Attempts until there is a success, or a failure that stays.
    async fn open(
        &self,
        line: &Arc<RequestLine>,
        mode: Mode,
        deadline: Option<(Instant, Duration)>,
        span: &tracing::Span,
    ) -> Result<http::Response<AnswerBody>, Error> {
        let is_write = !matches!(self.method, Method::GET | Method::HEAD);
        let mut retry = Retry::new(self.max_retries, self.body.is_replayable()).with_jitter();
        self.client.retries().deposit();
        // Of a write: the last attempt that may have been done, although it failed.
        let mut doubt = None;
        let mut renewed = None;
        let mut may_renew = true;
        let mut resent = 0;
        loop {
            if let Some(backoff) = self.client.backoff().filter(|_| self.throttled) {
                let wait = backoff.wait(Instant::now());
                if !wait.is_zero() {
                    tracing::debug!(?wait, request = %line, "the server is left alone");
                    tokio::time::sleep(wait).await;
                }
            }
            let mut used = Used::default();
            let outcome = self.attempt(line, mode, renewed.take(), &mut used).await;
            let code = outcome.as_ref().ok().map(http::Response::status);
            span::attempted(span, code, resent);
            if let (Some(backoff), Some(code)) = (self.client.backoff(), code) {
                backoff.answered(code, Instant::now());
            }
            if let Some(metrics) = self.client.metrics() {
                metrics.attempted(&self.method, code, resent > 0);
                self.body.size().into_iter().for_each(|size| metrics.sent(&self.method, size));
            }
            resent += 1;
            if let Ok(answer) = &outcome {
                self.hand_warnings_over(answer);
                if may_renew && answer.status() == StatusCode::UNAUTHORIZED {
                    may_renew = false;
                    let fresh = self.renew(line, &used.login).await;
                    if !retry.may_replay() {
                        // What the server said is told; what is new is for the next request.
                        fresh.err().inspect(|error| tracing::warn!("{error}"));
                    } else if let Some(fresh) = fresh.map_err(|last| in_doubt(doubt.clone(), last))? {
                        renewed = Some(fresh);
                        if let Ok(answer) = outcome {
                            drain(answer.into_body()).await;
                        }
                        continue;
                    }
                }
            }
            let outcome_told = match &outcome {
                Ok(answer) => Outcome::of_answer(answer.status(), answer.headers()),
                Err(_) if used.is_stale => Outcome::Stale,
                Err(error) => Outcome::of_failure(error),
            };
            let wait = retry.step(outcome_told, || match mode {
                // A stream is told of what may be the server's doing; that a connection had died is not.
                Mode::Stream if !is_write && outcome_told != Outcome::Stale => Repetition::Unsafe,
                _ => Repetition::of(&self.method, &self.headers, &self.body),
            });
            let wait =
                wait.filter(|_| !retry.is_costly(outcome_told) || self.client.retries().withdraw(Instant::now()));
            let is_in_time = |wait: &Duration| match deadline {
                Some((at, _)) => Instant::now() + *wait < at,
                None => !retry.is_overlong(),
            };
            match wait.filter(is_in_time) {
                Some(wait) => {
                    match outcome {
                        Ok(answer) => {
                            tracing::debug!(request = %line, status = %answer.status(), ?wait, "the server asks to wait");
                            if is_write && status::may_have_acted(answer.status()) {
                                doubt = self.judge(line, mode, answer).await.err();
                            } else {
                                drain(answer.into_body()).await;
                            }
                        }
                        Err(error) => {
                            tracing::debug!(?wait, "trying again: {error}");
                            if is_write && matches!(error, Error::Transport { .. }) {
                                doubt = Some(error);
                            }
                        }
                    }
                    if !wait.is_zero() {
                        tokio::time::sleep(wait).await;
                    }
                    self.throttle(line).await.map_err(|last| in_doubt(doubt.clone(), last))?;
                }
                None => {
                    let last = match outcome {
                        Ok(answer) => self.judge(line, mode, answer).await,
                        Err(error) => Err(error),
                    };
                    return last.map_err(|last| in_doubt(doubt, last));
                }
            }
        }
    }

    /// One request over the wire, up to the head of the answer.
    async fn attempt(
        &self,
        line: &Arc<RequestLine>,
        mode: Mode,
        renewed: Option<Login>,
        used: &mut Used,
    ) -> Result<http::Response<AnswerBody>, Error> {
        let Used { login, is_stale } = used;
        // Before the body, which may be there only once.
        if !self.headers.contains_key(AUTHORIZATION) {
            let unavailable = |source| Error::Auth { request: line.clone(), source };
            *login = match renewed {
                Some(login) => login,
                None => self.client.credentials().login().await.map_err(unavailable)?,
            };
            if login.run > 0 {
                let shown = Shown { run: login.run, pair: login.pair.as_deref() };
                let shown = self.client.transport().show(shown).await;
                shown.map_err(|error| unavailable(AuthError::Certificate { why: error.to_string() }))?;
            }
        }
        let mut request = self.to_http(line)?;
        if let Some(header) = &login.header {
            request.headers_mut().insert(AUTHORIZATION, header.clone());
        }
        #[cfg(feature = "gzip")]
        let is_gzip_asked = self.client.takes_gzip()
            && mode == Mode::Unary
            && crate::compression::ask(&self.method, request.headers_mut());
        let span = if mode == Mode::Unary { Span::Short } else { Span::Long };
        let timeouts = *self.client.timeouts();
        let patience = timeouts.headers.filter(|_| mode != Mode::Stream);
        let patience =
            patience.and_then(|patience| Some((from_now(patience.saturating_add(timeouts.connect))?.0, patience)));
        let exchange = pin!(self.client.round_trip(request, span));
        match within(patience, exchange).await {
            #[cfg(feature = "gzip")]
            Ok(Ok(answer)) if is_gzip_asked => Ok(crate::compression::undo(answer)),
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(failure)) => {
                *is_stale = matches!(failure, Failure::Exchange { is_stale: true, .. });
                Err(failure.into_error(line, timeouts.connect))
            }
            Err(after) => Err(late(line, Phase::Headers, after)),
        }
    }

    fn to_http(&self, line: &Arc<RequestLine>) -> Result<http::Request<crate::request::HttpBody>, Error> {
        let invalid = |source| Error::Invalid { request: line.clone(), source };
        let mut request = http::Request::new(self.body.to_http().map_err(invalid)?);
        *request.method_mut() = self.method.clone();
        let target = PathAndQuery::from_maybe_shared(Bytes::from(self.target(line)));
        *request.uri_mut() = target
            .map(Uri::from)
            .map_err(|error| invalid(InvalidRequest::Uri { uri: line.url.to_string(), message: error.to_string() }))?;
        let headers = request.headers_mut();
        headers.reserve(self.headers.len() + USUAL_HEADERS);
        for (name, value) in &self.headers {
            headers.append(name, value.clone());
        }
        headers.entry(ACCEPT).or_insert_with(|| self.client.accept().clone());
        headers.entry(USER_AGENT).or_insert_with(|| self.client.user_agent().clone());
        self.client.impersonation().apply(headers);
        Ok(request)
    }

    async fn renew(&self, line: &Arc<RequestLine>, used: &Login) -> Result<Option<Login>, Error> {
        // Nothing of ours was refused: the request brought its own header.
        if self.headers.contains_key(AUTHORIZATION) {
            return Ok(None);
        }
        let renewed = self.client.credentials().after_refusal(used).await;
        renewed.map_err(|source| Error::Auth { request: line.clone(), source })
    }

    /// A success goes on, anything else becomes an error.
    async fn judge(
        &self,
        line: &Arc<RequestLine>,
        mode: Mode,
        answer: http::Response<AnswerBody>,
    ) -> Result<http::Response<AnswerBody>, Error> {
        let good = match mode {
            Mode::Unary | Mode::Stream => status::is_success(answer.status()),
            Mode::Watch => answer.status() == StatusCode::OK,
        };
        if good {
            return Ok(answer);
        }
        let (head, body) = answer.into_parts();
        // What cannot be read of a failure's body does not hide the failure.
        let body = read_some(body, MAX_ERROR_BODY, ERROR_BODY_PATIENCE).await;
        self.log_received(line, &body);
        let resource = self.resource.as_deref().unwrap_or_default();
        let group = self.group();
        let resource = if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") };
        let name = self.name.as_deref().unwrap_or_default();
        let subject = Subject { method: &self.method, resource: &resource, name };
        let status = status::failure(head.status, &head.headers, &body, &subject);
        let flow = Flow::of(&head.headers).map(Arc::new);
        let audit_id = error::audit_id(&head.headers);
        Err(Error::Status { request: line.clone(), status, body, flow, audit_id })
    }

    fn hand_warnings_over(&self, answer: &http::Response<AnswerBody>) {
        let handler = self.warnings.as_ref().unwrap_or(self.client.warnings());
        for warning in warning::parse_all(answer.headers()) {
            handler.warn(&warning);
        }
    }
}

/// What an attempt was made with.
#[derive(Default)]
struct Used {
    login: Login,
    /// Whether it was lost on a connection that had served before.
    is_stale: bool,
}

/// The last failure, told together with an earlier one that may not have been one.
fn in_doubt(earlier: Option<Error>, last: Error) -> Error {
    match earlier {
        Some(earlier) => Error::Retried { earlier: Box::new(earlier), last: Box::new(last) },
        None => last,
    }
}

impl Failure {
    fn into_error(self, line: &Arc<RequestLine>, connect: Duration) -> Error {
        let request = line.clone();
        match self {
            Self::Connect { refused, source } => {
                Error::Connect { request, refused, message: in_one_line(&*source).into(), source }
            }
            Self::ConnectTimeout => late(line, Phase::Connect, connect),
            Self::Unprocessed(source) => Error::Unprocessed { request, message: in_one_line(&*source).into(), source },
            Self::Exchange { source, .. } => {
                Error::Transport { request, message: in_one_line(&*source).into(), source }
            }
        }
    }
}

fn is_json(what: &str, line: &Arc<RequestLine>, answer: &http::Response<AnswerBody>) -> Result<(), Error> {
    match answer.headers().get(CONTENT_TYPE) {
        Some(kind) if !kind.as_bytes().starts_with(b"application/json") => {
            let message = format!("{what} in {kind:?}, which is not understood; application/json is");
            Err(Error::Decode { request: line.clone(), message: message.into() })
        }
        _ => Ok(()),
    }
}

/// The moment after a while, and how long that is; none if the clock does not count so far.
fn from_now(span: Duration) -> Option<(Instant, Duration)> {
    Some((Instant::now().checked_add(span)?, span))
}

/// Runs until the deadline, and says how long that was if it passed. What is large is pinned by who calls, since it would be moved.
async fn within<F: Future>(deadline: Option<(Instant, Duration)>, future: F) -> Result<F::Output, Duration> {
    match deadline {
        None => Ok(future.await),
        Some((at, after)) => tokio::time::timeout_at(at, future).await.map_err(|_| after),
    }
}

fn late(line: &Arc<RequestLine>, phase: Phase, after: Duration) -> Error {
    Error::Timeout { request: line.clone(), phase, after }
}
