//! A watch that is taken up again.

use std::fmt;
use std::pin::Pin;
use std::time::Duration;

use pintle_meta::{ApiError, ErrorKind, Object, WatchEvent, WatchOptions};
use pintle_ratelimit::{Backoff, BackoffConfig};
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use super::{Api, EventStream};
use crate::error::InvalidRequest;

/// A watch that goes on where it was when its connection or its server ends it: client-go's `RetryWatcher`.
///
/// No event is told twice, and none is left out, as long as the server has them. Between the beginnings of two watches is a second at
/// least; while they fail, up to half a minute, and up to as much again by chance, or as long as the server asks for. Bookmarks are not
/// told: they only say where to go on.
///
/// It runs in whoever polls it; dropping it ends the watch.
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
    /// From where to go on.
    options: WatchOptions,
    state: State<T>,
    /// The next watch does not begin before.
    not_before: Option<Instant>,
    backoff: Backoff,
    done: bool,
}

enum State<T> {
    Closed,
    /// Kept here, so that whoever drops a future of this watch time and again still sees it opened some day.
    Opening(Opening<T>),
    Open(Box<EventStream<T>>),
}

/// When the watch began, and what became of that.
type Opening<T> = Pin<Box<dyn Future<Output = (Instant, Result<EventStream<T>, ApiError>)> + Send>>;

/// Between the beginnings of two watches, however well they go.
const BETWEEN: Duration = Duration::from_secs(1);

impl<T: Object + DeserializeOwned> Api<T> {
    /// A watch from the options' revision on that is taken up again whenever it ends: see [`RetryWatch`]. Nothing is sent yet.
    ///
    /// # Errors
    ///
    /// The revision is empty or `0`: where such a watch begins, nobody can tell, so nothing could go on from there.
    pub fn retry_watch(&self, options: &WatchOptions) -> Result<RetryWatch<T>, InvalidRequest> {
        if matches!(options.resource_version.as_str(), "" | "0") {
            let why = "a watch that is taken up again begins at a revision; take the one of a list";
            return Err(InvalidRequest::Mismatch(why.into()));
        }
        let options = WatchOptions {
            allow_bookmarks: true,
            send_initial_events: false,
            resource_version_match: None,
            ..options.clone()
        };
        let (state, backoff) = (State::Closed, pauses());
        Ok(RetryWatch { api: self.clone(), options, state, not_before: None, backoff, done: false })
    }
}

impl<T: Object + DeserializeOwned> RetryWatch<T> {
    /// The next change: an added, modified or deleted object. `None` after an error.
    ///
    /// # Errors
    ///
    /// What would be the same the next time: the revision has expired, so that events are lost and a new list is due; the server does
    /// not allow the watch, or finds it invalid; an object is no `T`, or has no resourceVersion. The watch is at its end then.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost.
    pub async fn next(&mut self) -> Option<Result<WatchEvent<T>, ApiError>> {
        while !self.done {
            let told = match &mut self.state {
                State::Closed => {
                    self.state = State::Opening(self.open());
                    None
                }
                State::Opening(opening) => {
                    let (begun, opened) = opening.await;
                    self.not_before = begun.checked_add(BETWEEN);
                    match opened {
                        Ok(events) => {
                            self.state = State::Open(Box::new(events));
                            None
                        }
                        Err(error) => self.end(error),
                    }
                }
                State::Open(events) => match events.next().await {
                    Some(Ok(event)) => self.take(event),
                    Some(Err(error)) => self.end(error),
                    None => {
                        self.state = State::Closed;
                        None
                    }
                },
            };
            if told.is_some() {
                return told;
            }
        }
        None
    }

    /// Goes on up to the event for which `is_met` holds, and returns it: client-go's `Until`. The watch can go on from there.
    ///
    /// # Errors
    ///
    /// As [`next`](Self::next); after that, that the watch is at its end.
    ///
    /// # Cancel safety
    ///
    /// The events so far have been seen; nothing else is lost.
    pub async fn until(&mut self, mut is_met: impl FnMut(&WatchEvent<T>) -> bool) -> Result<WatchEvent<T>, ApiError> {
        while let Some(event) = self.next().await {
            let event = event?;
            if is_met(&event) {
                return Ok(event);
            }
        }
        Err(ApiError::invalid_request("the watch is at its end, since it has failed"))
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

    /// What of an event is told.
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
                "an object of the watch has no resourceVersion, so none could go on from it",
            )));
        }
        self.options.resource_version = revision.to_owned();
        self.backoff.reset();
        Some(event).filter(|event| !matches!(event, WatchEvent::Bookmark(_))).map(Ok)
    }

    /// The present watch has ended in a failure, which is told if it would be the same the next time.
    fn end(&mut self, error: ApiError) -> Option<Result<WatchEvent<T>, ApiError>> {
        self.state = State::Closed;
        if is_lasting(&error) {
            self.done = true;
            return Some(Err(error));
        }
        let pause = self.backoff.next(error.retry_after);
        tracing::debug!(?pause, revision = self.options.resource_version, "taking a watch up again: {error}");
        let at = Instant::now() + pause;
        self.not_before = Some(self.not_before.map_or(at, |other| other.max(at)));
        None
    }
}

/// Between the beginnings of two watches of which the first has failed.
pub(super) fn pauses() -> Backoff {
    Backoff::new(BackoffConfig { base: BETWEEN, ..BackoffConfig::default() }, fastrand::u64(..))
}

fn is_lasting(error: &ApiError) -> bool {
    let is_ours = matches!(error.kind, ErrorKind::Decode(_) | ErrorKind::InvalidRequest(_));
    let is_refused = error.is_forbidden() || error.is_unauthorized();
    let is_wrong = error.is_bad_request() || error.is_invalid() || error.is_method_not_allowed();
    is_ours || is_refused || is_wrong || error.is_expired() || error.is_not_acceptable()
}

impl<T> fmt::Debug for RetryWatch<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RetryWatch")
            .field("api", &self.api)
            .field("resource_version", &self.options.resource_version)
            .field("done", &self.done)
            .finish_non_exhaustive()
    }
}
