//! Retries a request whose first attempt has failed.

use std::sync::Arc;
use std::time::Duration;

use http::header::AUTHORIZATION;
use http::{Method, Response, StatusCode};
use pintle_meta::{ApiError, ErrorKind, RequestLine};
use pintle_transport::ResponseBody;
use tokio::time::Instant;
use tracing::Span;

use super::reading::drain;
use super::{Mode, Used};
use crate::auth::Login;
use crate::error::failed;
use crate::request::Request;
use crate::retry::{Outcome, Repetition, Retry};
use crate::status;

pub(super) type Answer = Result<Response<ResponseBody>, ApiError>;

pub(super) struct Retrying<'a> {
    request: &'a Request,
    line: &'a Arc<RequestLine>,
    mode: Mode,
    deadline: Option<(Instant, Duration)>,
    span: &'a Span,
    retry: Retry,
    /// The error of the last write attempt that the server may have processed.
    doubt: Option<ApiError>,
    may_renew: bool,
    attempts: u32,
}

enum Next {
    /// Send the request again, with these credentials if present.
    Attempt(Option<Login>),
    End(Box<Answer>),
}

impl<'a> Retrying<'a> {
    pub(super) fn new(
        request: &'a Request,
        line: &'a Arc<RequestLine>,
        mode: Mode,
        deadline: Option<(Instant, Duration)>,
        span: &'a Span,
    ) -> Self {
        let retry = Retry::new(request.parts.max_retries, request.parts.body.is_replayable()).with_jitter();
        Self { request, line, mode, deadline, span, retry, doubt: None, may_renew: true, attempts: 1 }
    }

    /// Retries the request until an attempt succeeds or the failure cannot be retried. `outcome` is the outcome of the
    /// first attempt.
    pub(super) async fn run(mut self, mut outcome: Answer, mut used: Used) -> Answer {
        loop {
            used = match self.next(outcome, &used).await {
                Next::Attempt(None) => Used::default(),
                Next::Attempt(Some(login)) => Used { login, is_renewed: true, is_stale: false },
                Next::End(answer) => return *answer,
            };
            self.request.wait_for_backoff(self.line).await;
            outcome = self.request.attempt(self.line, self.mode, &mut used).await;
            self.request.note_attempt(self.span, self.attempts, &outcome);
            self.attempts += 1;
        }
    }

    async fn next(&mut self, outcome: Answer, used: &Used) -> Next {
        if self.may_renew && outcome.as_ref().is_ok_and(|answer| answer.status() == StatusCode::UNAUTHORIZED) {
            self.may_renew = false;
            match self.renew(&used.login).await {
                Ok(None) => {}
                Ok(Some(login)) => {
                    if let Ok(answer) = outcome {
                        drain(answer.into_body()).await;
                    }
                    return Next::Attempt(Some(login));
                }
                Err(last) => return Next::End(Box::new(Err(self.in_doubt(last)))),
            }
        }
        let Some(wait) = self.wait(&outcome, used.is_stale) else {
            let last = match outcome {
                Ok(answer) => self.request.judge(self.line, self.mode, answer).await,
                Err(error) => Err(error),
            };
            return Next::End(Box::new(last.map_err(|last| self.in_doubt(last))));
        };
        self.give_up_attempt(outcome, wait).await;
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
        match self.request.throttle(self.line).await {
            Ok(()) => Next::Attempt(None),
            Err(last) => Next::End(Box::new(Err(self.in_doubt(last)))),
        }
    }

    /// Returns new credentials after the server has rejected `rejected`, or `None` if there are none or the request
    /// cannot be sent again.
    async fn renew(&self, rejected: &Login) -> Result<Option<Login>, ApiError> {
        // The server has not rejected the client's credentials, because the caller has set the `Authorization` header.
        if self.request.parts.headers.contains_key(AUTHORIZATION) {
            return Ok(None);
        }
        let renewed = self.request.parts.shared.credentials.after_refusal(rejected).await;
        let renewed = renewed.map_err(|error| failed(self.line, ErrorKind::Unauthenticated(Arc::new(error))));
        let subresource = self.request.subresource_of_path().unwrap_or_default();
        if self.retry.may_replay() && Repetition::may_follow_401(&self.request.parts.method, &subresource) {
            return renewed;
        }
        // Return the response, because the request is not sent again. The next request will use the new credentials.
        renewed.err().inspect(|error| tracing::warn!("{error}"));
        Ok(None)
    }

    fn wait(&mut self, outcome: &Answer, is_stale: bool) -> Option<Duration> {
        let request = self.request;
        let parts = &*request.parts;
        let outcome = match outcome {
            Ok(answer) if parts.returns_429 && answer.status() == StatusCode::TOO_MANY_REQUESTS => Outcome::Final,
            Ok(answer) => Outcome::of_response(answer.status(), answer.headers()),
            Err(_) if is_stale => Outcome::Stale,
            Err(error) => Outcome::of_error(error),
        };
        let (mode, is_write) = (self.mode, self.is_write());
        let wait = self.retry.next_pause(outcome, || match mode {
            _ if mode.has_effect() => Repetition::Accumulates,
            // A request for a stream is only retried if a reused connection had died while it was idle.
            Mode::Stream if !is_write && outcome != Outcome::Stale => Repetition::Unsafe,
            _ => {
                let subresource = request.subresource_of_path().unwrap_or_default();
                Repetition::of(&parts.method, &subresource, &parts.headers, &parts.body)
            }
        })?;
        let may_wait = !self.retry.uses_budget(outcome) || parts.shared.retries.withdraw(Instant::now());
        let is_in_time = match self.deadline {
            Some((at, _)) => Instant::now() + wait < at,
            None => !self.retry.exceeds_limit(),
        };
        Some(wait).filter(|_| may_wait && is_in_time)
    }

    /// Cleans up a failed attempt before the next attempt. Keeps the error of the attempt if the server may have
    /// processed the request.
    async fn give_up_attempt(&mut self, outcome: Answer, wait: Duration) {
        match outcome {
            Ok(answer) => {
                tracing::debug!(request = %self.line, status = %answer.status(), ?wait, "waiting for Retry-After");
                if self.is_write() && status::may_have_acted(answer.status()) {
                    self.doubt = self.request.judge(self.line, self.mode, answer).await.err();
                } else {
                    drain(answer.into_body()).await;
                }
            }
            Err(error) => {
                tracing::debug!(?wait, "retrying: {error}");
                if self.is_write() && matches!(error.kind, ErrorKind::Transport(_)) {
                    self.doubt = Some(error);
                }
            }
        }
    }

    fn is_write(&self) -> bool {
        self.mode.has_effect() || !matches!(self.request.parts.method, Method::GET | Method::HEAD)
    }

    fn in_doubt(&mut self, last: ApiError) -> ApiError {
        ApiError { earlier: self.doubt.take().map(Arc::new), ..last }
    }
}
