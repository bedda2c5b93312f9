//! Streaming lists: watches that start with the initial state.

use std::time::{Duration, Instant};

use pintle_meta::{ApiError, Bookmark, Object, Reason, ResourceVersionMatch, WatchEvent, WatchOptions};
use pintle_ratelimit::BackoffConfig;

use super::initial::Initial;
use super::watch::{SHORT_WATCH, Stream, is_cut, is_passing};
use super::{Command, Output, Phase, Reflector, Step, Then};
use crate::error::ReflectorError;

/// The number of consecutive unfinished streaming lists after which the reflector uses a paged list.
const UNFINISHED_STREAMS: u32 = 3;

/// How long the reflector uses paged lists after the server has rejected or not finished a streaming list. The
/// reflector tries streaming lists again after a while, because a server upgrade may have fixed the problem.
pub(super) const PAUSES: BackoffConfig = BackoffConfig {
    base: Duration::from_secs(600),
    factor: 2.0,
    cap: Duration::from_secs(6 * 3600),
    jitter: 0.0,
    steps: u32::MAX,
    longest_retry_after: Duration::ZERO,
};

impl<T: Object> Reflector<T> {
    pub(super) fn open_stream(&mut self) -> Command {
        let timeout = self.watch_timeout();
        self.phase = Phase::OpeningStream { timeout };
        Command::Watch(WatchOptions {
            resource_version_match: Some(ResourceVersionMatch::NotOlderThan),
            send_initial_events: true,
            ..self.watch_options(self.streaming_version(), timeout)
        })
    }

    pub(super) fn stream_opened(&mut self, now: Instant, timeout: Duration, answer: Result<(), ApiError>) -> Step<T> {
        if let Err(error) = answer {
            return self.streaming_refused(now, error);
        }
        let stream = self.stream(now, timeout, true);
        self.receive_initial(stream, Initial::opened(now))
    }

    pub(super) fn initial_event(
        &mut self,
        now: Instant,
        stream: Stream,
        mut initial: Initial<T>,
        event: Option<Result<WatchEvent<T>, ApiError>>,
    ) -> Step<T> {
        match event {
            Some(Ok(WatchEvent::Added(object) | WatchEvent::Modified(object))) => {
                initial.put(now, object);
            }
            Some(Ok(WatchEvent::Deleted(object))) => initial.remove(&object),
            Some(Ok(WatchEvent::Bookmark(Bookmark { initial_events_end: false, .. }))) => {}
            Some(Ok(WatchEvent::Bookmark(Bookmark { resource_version, initial_events_end: true }))) => {
                return self.streaming_done(now, stream, initial, resource_version);
            }
            Some(Ok(WatchEvent::Error(status))) => {
                let discarded = initial.into_objects();
                return Step { discarded, ..self.streaming_refused(now, (*status).into()) };
            }
            Some(Err(error)) if !is_cut(&error) => {
                return Step { discarded: initial.into_objects(), ..self.streaming_refused(now, error) };
            }
            None | Some(Err(_)) => {
                self.unfinished += 1;
                let is_short = now.saturating_duration_since(stream.opened) < SHORT_WATCH;
                let step = if is_short || self.unfinished >= UNFINISHED_STREAMS {
                    self.streaming_failed(now)
                } else {
                    self.open_stream().into()
                };
                return Step { discarded: initial.into_objects(), ..step };
            }
        }
        if now >= self.gives_up(&stream, &initial) {
            // Check the deadline after each event, too, because a stream whose events are always ready never times out.
            return Step { discarded: initial.into_objects(), ..self.streaming_failed(now) };
        }
        self.receive_initial(stream, initial)
    }

    /// Switches to a paged list, because the server accepted a streaming list but did not finish it. An old server
    /// ignores the streaming parameters and opens an ordinary watch.
    pub(super) fn streaming_failed(&mut self, now: Instant) -> Step<T> {
        self.pause_streams(now);
        Step { error: Some(ReflectorError::StreamingListUnfinished), ..self.begin_list().into() }
    }

    fn streaming_refused(&mut self, now: Instant, error: ApiError) -> Step<T> {
        if (error.is_expired() || error.is_too_large_resource_version()) && !self.version_unavailable {
            self.version_unavailable = true;
            return self.open_stream().into();
        }
        // If the server requests a delay, wait before sending a paged list.
        if is_passing(&error) || error.retry_after.is_some() {
            return self.delay(now, Some(ReflectorError::watch(error)), Then::StreamingList);
        }
        if matches!(error.reason(), Some(Reason::Invalid | Reason::BadRequest)) {
            self.pause_streams(now);
        }
        Step { error: Some(ReflectorError::watch(error)), ..self.begin_list().into() }
    }

    fn streaming_done(
        &mut self,
        now: Instant,
        stream: Stream,
        initial: Initial<T>,
        resource_version: String,
    ) -> Step<T> {
        self.stream_pauses.reset();
        if let Some(error) = self.goes_back(now, &resource_version) {
            let discarded = initial.into_objects();
            return Step { discarded, ..self.delay(now, Some(error), Then::Round) };
        }
        self.trouble = None;
        self.version_unavailable = false;
        self.list_succeeded();
        self.resource_version.clone_from(&resource_version);
        let stream = stream.after_list(now, resource_version.clone());
        let output = Some(Output::Replaced { objects: initial.into_objects(), resource_version });
        Step { output, ..self.watch(stream) }
    }

    fn receive_initial(&mut self, stream: Stream, initial: Initial<T>) -> Step<T> {
        let until = self.gives_up(&stream, &initial);
        self.phase = Phase::Streaming(stream, initial);
        Command::Read { until }.into()
    }

    fn gives_up(&self, stream: &Stream, initial: &Initial<T>) -> Instant {
        let idle = initial.progressed.checked_add(self.config.streaming_list_idle_timeout);
        idle.map_or(stream.until, |idle| idle.min(stream.until))
    }

    fn pause_streams(&mut self, now: Instant) {
        self.streams_paused_until = Some(now + self.stream_pauses.next(None));
    }

    fn streaming_version(&self) -> String {
        if self.version_unavailable { String::new() } else { self.floor().to_owned() }
    }
}
