//! A watch that resumes after it is interrupted.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_core::Stream;
use pintle_meta::{ApiError, ErrorKind, Object, WatchEvent, WatchOptions};
use pintle_ratelimit::{Backoff, BackoffConfig};
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use super::Api;
use crate::error::InvalidRequest;
use crate::watch::Watch;

/// A watch that resumes after the connection is lost or the server closes the watch, like client-go's `RetryWatcher`.
///
/// Each event is delivered exactly once. Events are lost only if the server no longer has them. Bookmark events are not
/// delivered, but the watch uses their revisions when it resumes.
///
/// A `RetryWatch` sends at most one request per second. If requests fail repeatedly, the pause between requests grows
/// up to 30 s, plus random jitter of up to the same length. An event, a bookmark, or a watch that lasts for a second
/// resets the pause. If the server requests a longer pause, the `RetryWatch` uses the requested pause.
///
/// A `RetryWatch` does not spawn a task, so it makes progress only while it is polled. The watch is closed when the
/// `RetryWatch` is dropped.
///
/// # Examples
///
/// ```
/// use pintle_meta::{ApiError, ListOptions, Object, PartialObject, WatchEvent, WatchOptions};
/// use pintle_restreq::Api;
///
/// async fn follow(pods: &Api<PartialObject>) -> Result<(), ApiError> {
///     let present = pods.list(&ListOptions::default()).await?;
///     let from = WatchOptions { resource_version: present.metadata.resource_version, ..WatchOptions::default() };
///     let mut watch = pods.retry_watch(&from)?;
///     let gone = watch.until(|event| matches!(event, WatchEvent::Deleted(pod) if pod.name() == "web")).await?;
///     println!("{:?}", gone.event_type());
///     Ok(())
/// }
/// ```
pub struct RetryWatch<T> {
    api: Api<T>,
    options: WatchOptions,
    state: State<T>,
    not_before: Option<Instant>,
    backoff: Backoff,
    was_successful: bool,
    done: bool,
}

enum State<T> {
    Closed,
    /// A future that opens the next watch. This variant owns the future, so that dropping the future of `next` does not
    /// cancel the request.
    Opening(Opening<T>),
    Open(Box<Watch<T>>, Instant),
}

/// A future that sends a watch request, and returns the start time of the request and its result.
type Opening<T> = Pin<Box<dyn Future<Output = (Instant, Result<Watch<T>, ApiError>)> + Send>>;

const MIN_INTERVAL: Duration = Duration::from_secs(1);

impl<T: Object + DeserializeOwned> Api<T> {
    /// Returns a [`RetryWatch`] that starts at the revision in `options`. This method sends no request.
    ///
    /// # Errors
    ///
    /// Returns an error if the revision is empty or `0`. With an empty revision or `0`, the server would choose where
    /// the watch starts, so the watch could not be resumed.
    pub fn retry_watch(&self, options: &WatchOptions) -> Result<RetryWatch<T>, InvalidRequest> {
        if matches!(options.resource_version.as_str(), "" | "0") {
            let why = "a watch that is resumed needs a start revision; use the resourceVersion of a list";
            return Err(InvalidRequest::Mismatch(why.into()));
        }
        let options = WatchOptions {
            allow_bookmarks: true,
            send_initial_events: false,
            resource_version_match: None,
            ..options.clone()
        };
        let (state, backoff) = (State::Closed, pauses());
        let api = self.clone();
        Ok(RetryWatch { api, options, state, not_before: None, backoff, was_successful: false, done: false })
    }
}

impl<T: Object + DeserializeOwned> RetryWatch<T> {
    /// Returns the next added, modified or deleted event. Returns `None` after an error.
    ///
    /// # Errors
    ///
    /// Most failures are retried, and an error is returned only in the following cases:
    ///
    /// - The server no longer has the revision, so events were lost and the caller must list the objects again.
    /// - The server rejects the request as forbidden or invalid.
    /// - An object cannot be decoded as `T` or has no `resourceVersion`.
    ///
    /// After an error, all further calls of `next` return `None`.
    ///
    /// # Cancel safety
    ///
    /// This method is cancel safe: no event is lost if the future is dropped.
    pub async fn next(&mut self) -> Option<Result<WatchEvent<T>, ApiError>> {
        poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }

    /// Returns the next event that `is_met` accepts, like client-go's `Until`. After this method has returned, the
    /// watch can be used again.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`next`](Self::next), and an error if the watch has already ended.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, only the events that `is_met` has rejected are lost.
    pub async fn until(&mut self, mut is_met: impl FnMut(&WatchEvent<T>) -> bool) -> Result<WatchEvent<T>, ApiError> {
        while let Some(event) = self.next().await {
            let event = event?;
            if is_met(&event) {
                return Ok(event);
            }
        }
        Err(ApiError::invalid_request("the watch has ended after an error"))
    }

    pub(super) fn was_successful(&self) -> bool {
        self.was_successful
    }

    fn open(&self) -> Opening<T> {
        let (api, options, not_before) = (self.api.clone(), self.options.clone(), self.not_before);
        Box::pin(async move {
            if let Some(at) = not_before {
                tokio::time::sleep_until(at).await;
            }
            (Instant::now(), api.watch(&options).await)
        })
    }

    /// Stores the revision of an event, so that the watch can resume there. Returns the event, or `None` for a
    /// bookmark.
    fn take(&mut self, event: WatchEvent<T>) -> Option<Result<WatchEvent<T>, ApiError>> {
        let revision = match &event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) | WatchEvent::Deleted(object) => {
                object.resource_version()
            }
            WatchEvent::Bookmark(mark) if mark.resource_version.is_empty() => return None,
            WatchEvent::Bookmark(mark) => &mark.resource_version,
            WatchEvent::Error(status) => return self.end(ApiError::from((**status).clone())),
        };
        if revision.is_empty() {
            self.done = true;
            return Some(Err(ApiError::decode(
                "an object of the watch has no resourceVersion, so the watch cannot be resumed after it",
            )));
        }
        self.options.resource_version = revision.to_owned();
        self.succeed();
        Some(event).filter(|event| !matches!(event, WatchEvent::Bookmark(_))).map(Ok)
    }

    fn succeed(&mut self) {
        self.was_successful = true;
        self.backoff.reset();
    }

    /// Closes the current watch. On a quiet resource, even a watch without events is successful if it has lasted for
    /// `MIN_INTERVAL`.
    fn close(&mut self) {
        if let State::Open(_, opened) = std::mem::replace(&mut self.state, State::Closed)
            && opened.elapsed() >= MIN_INTERVAL
        {
            self.succeed();
        }
    }

    /// Closes the current watch after an error. Returns `error` if a retry would fail with the same error.
    fn end(&mut self, error: ApiError) -> Option<Result<WatchEvent<T>, ApiError>> {
        self.close();
        if is_lasting(&error) {
            self.done = true;
            return Some(Err(error));
        }
        let pause = self.backoff.next(error.retry_after);
        tracing::debug!(?pause, revision = self.options.resource_version, "resuming a watch: {error}");
        let at = Instant::now() + pause;
        self.not_before = Some(self.not_before.map_or(at, |other| other.max(at)));
        None
    }
}

impl<T: Object + DeserializeOwned> Stream for RetryWatch<T> {
    type Item = Result<WatchEvent<T>, ApiError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        while !self.done {
            let event = match &mut self.state {
                State::Closed => {
                    self.state = State::Opening(self.open());
                    None
                }
                State::Opening(opening) => {
                    let (begun, opened) = ready!(opening.as_mut().poll(cx));
                    self.not_before = begun.checked_add(MIN_INTERVAL);
                    match opened {
                        Ok(events) => {
                            self.state = State::Open(Box::new(events), Instant::now());
                            None
                        }
                        Err(error) => self.end(error),
                    }
                }
                State::Open(events, _) => match ready!(Pin::new(&mut **events).poll_next(cx)) {
                    Some(Ok(event)) => self.take(event),
                    Some(Err(error)) => self.end(error),
                    None => {
                        self.close();
                        None
                    }
                },
            };
            if event.is_some() {
                return Poll::Ready(event);
            }
        }
        Poll::Ready(None)
    }
}

pub(super) fn pauses() -> Backoff {
    Backoff::new(BackoffConfig { base: MIN_INTERVAL, ..BackoffConfig::default() }, fastrand::u64(..))
}

fn is_lasting(error: &ApiError) -> bool {
    let is_ours = matches!(error.kind, ErrorKind::Decode(_) | ErrorKind::InvalidRequest(_) | ErrorKind::Throttled(_));
    let is_refused = error.is_forbidden() || error.is_unauthorized();
    let is_wrong = error.is_bad_request() || error.is_invalid() || error.is_method_not_allowed();
    is_ours || is_refused || is_wrong || error.is_expired() || error.is_not_acceptable()
}

pintle_meta::debug_struct!(RetryWatch<T> |self| { api, resource_version = self.options.resource_version, done, .. });
