//! Handles the events and the end of a watch.

use std::time::{Duration, Instant};

use pintle_meta::{ApiError, Bookmark, ErrorKind, Object, WatchEvent, WatchOptions};

use super::{Command, Output, Phase, Reflector, Step, Then};
use crate::error::ReflectorError;
use crate::version;

pub(super) const SHORT_WATCH: Duration = Duration::from_secs(1);

/// The maximum number of consecutive short watches with events that the reflector reopens without a delay. After
/// `SHORT_WATCHES` short watches, the reflector waits, because a server that ends every watch immediately would
/// otherwise cause a hot loop.
const SHORT_WATCHES: u32 = 5;

/// The number of times the reflector repeats a watch request that receives no response. If the last repeated request
/// also receives no response, the reflector lists the resource.
const UNANSWERED_WATCHES: u32 = 5;

/// The assumed minimum interval between two bookmarks, as in kube-apiserver. Two bookmarks may arrive shortly after
/// each other, even if the server sends bookmarks rarely.
pub(super) const BOOKMARK_PERIOD: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(super) struct Stream {
    pub(super) opened: Instant,
    pub(super) until: Instant,
    /// The revision at which the watch was opened.
    start: String,
    /// Whether another watch was opened since the last list.
    is_reopened: bool,
    last_received: Instant,
    bookmarked: Option<Instant>,
    bookmark_gap: Option<Duration>,
    has_news: bool,
    /// Whether the server may still be sending synthetic events. A watch without a revision starts with synthetic
    /// events, whose revisions are not in order.
    is_synthetic: bool,
}

impl<T: Object> Reflector<T> {
    pub(super) fn open_watch(&mut self, is_reopened: bool) -> Command {
        let timeout = self.watch_timeout();
        self.phase = Phase::OpeningWatch { timeout, is_reopened };
        Command::Watch(self.watch_options(self.resource_version.clone(), timeout))
    }

    /// Returns the command that opens the next watch at the last known revision. If no revision is known, this method
    /// lists the resource, because a watch without a revision does not report earlier deletions.
    pub(super) fn resume_watch(&mut self) -> Command {
        if self.has_revision() { self.open_watch(true) } else { self.begin_round() }
    }

    fn has_revision(&self) -> bool {
        !matches!(self.resource_version.as_str(), "" | "0")
    }

    pub(super) fn watch_opened(
        &mut self,
        now: Instant,
        timeout: Duration,
        is_reopened: bool,
        answer: Result<(), ApiError>,
    ) -> Step<T> {
        let error = match answer {
            Ok(()) => {
                // Opening a watch clears the current failure, except for `VeryShortWatch`. A `VeryShortWatch` is
                // cleared when a watch lasts long enough.
                self.unanswered = 0;
                self.trouble.take_if(|(cause, _)| !matches!(cause, ReflectorError::VeryShortWatch));
                let is_synthetic = !self.has_revision();
                let stream = self.stream(now, timeout, is_synthetic);
                return self.watch(Stream { is_reopened, ..stream });
            }
            Err(error) => error,
        };
        // Repeat a watch request that receives no response. After a few repetitions, list the resource, because lists
        // may succeed even if watches fail.
        let is_unanswered = error.is_unanswered() && !error.is_connection_refused();
        self.unanswered = if is_unanswered { self.unanswered + 1 } else { 0 };
        let goes_on = is_passing(&error) || (is_unanswered && self.unanswered <= UNANSWERED_WATCHES);
        let then = if goes_on { Then::Watch } else { Then::Round };
        self.delay_watch(now, Some(ReflectorError::watch(error)), then)
    }

    pub(super) fn watched(
        &mut self,
        now: Instant,
        mut stream: Stream,
        event: Option<Result<WatchEvent<T>, ApiError>>,
    ) -> Step<T> {
        let error = match event {
            Some(Ok(WatchEvent::Error(status))) => ApiError::from(*status),
            Some(Ok(event)) => {
                if let Some(error) = stream.goes_back(&event) {
                    self.was_successful(now, &stream);
                    return self.delay_watch(now, Some(error), Then::Round);
                }
                self.trouble = None;
                if matches!(event, WatchEvent::Bookmark(_)) {
                    self.idle_timeouts = 0;
                    self.silence.reset();
                } else {
                    self.silence.end();
                }
                self.bookmark_gap = stream.record_event(now, &event).or(self.bookmark_gap);
                let output = self.accept(&mut stream, event);
                return Step { output, ..self.watch(stream) };
            }
            None => return self.watch_ended(now, &stream),
            Some(Err(error)) if is_cut(&error) => return self.watch_ended(now, &stream),
            Some(Err(error)) => error,
        };
        self.was_successful(now, &stream);
        if error.is_expired() {
            return self.delay_watch(now, None, Then::Round);
        }
        let then = if is_passing(&error) { Then::Watch } else { Then::Round };
        self.delay_watch(now, Some(ReflectorError::watch(error)), then)
    }

    pub(super) fn watch_timed_out(&mut self, now: Instant, stream: Stream) -> Step<T> {
        if now >= stream.until {
            // The server did not end the watch at its timeout, or the connection is dead.
            return self.watch_ended(now, &stream);
        }
        if self.falls_silent(&stream).is_some_and(|at| at <= now) {
            // Double the limit, because the server may send bookmarks rarely or never, and each reopened watch costs a
            // request.
            self.idle_timeouts = self.idle_timeouts.saturating_add(1);
            let mut step = self.watch_ended(now, &stream);
            step.error.get_or_insert(ReflectorError::SilentWatch);
            return step;
        }
        // The watch has lasted long enough to count as successful.
        self.trouble = None;
        self.watch(stream)
    }

    pub(super) fn watch(&mut self, stream: Stream) -> Step<T> {
        let mut until = stream.until;
        if self.trouble.is_some() {
            until = until.min(stream.opened + SHORT_WATCH);
        }
        if let Some(at) = self.falls_silent(&stream) {
            until = until.min(at);
        }
        self.phase = Phase::Watching(stream);
        Command::Read { until }.into()
    }

    pub(super) fn stream(&self, now: Instant, timeout: Duration, is_synthetic: bool) -> Stream {
        // If the clock cannot represent the deadline, use a deadline that is one day away.
        const DAY: Duration = Duration::from_secs(24 * 3600);
        let until = now.checked_add(timeout.saturating_add(self.config.watch_grace)).unwrap_or(now + DAY);
        Stream {
            opened: now,
            until,
            start: self.resource_version.clone(),
            is_reopened: false,
            last_received: now,
            bookmarked: None,
            bookmark_gap: None,
            has_news: false,
            is_synthetic,
        }
    }

    pub(super) fn watch_options(&self, resource_version: String, timeout: Duration) -> WatchOptions {
        WatchOptions {
            label_selector: self.config.label_selector.clone(),
            field_selector: self.config.field_selector.clone(),
            resource_version,
            allow_bookmarks: true,
            timeout: Some(timeout),
            ..WatchOptions::default()
        }
    }

    /// Returns the time at which the watch counts as dead if no event arrives, or `None` if there is no such time. The
    /// limit on the silence applies even before the first bookmark. If the server sends no bookmarks, two or three
    /// quiet watches are therefore reopened unnecessarily.
    fn falls_silent(&self, stream: &Stream) -> Option<Instant> {
        let by_bookmarks = || {
            let gap = self.bookmark_gap.map_or(BOOKMARK_PERIOD, |gap| gap.max(BOOKMARK_PERIOD));
            gap.saturating_add(self.config.watch_grace).checked_mul(1 << self.idle_timeouts.min(16))
        };
        stream.last_received.checked_add(self.config.watch_idle_timeout.or_else(by_bookmarks)?)
    }

    fn accept(&mut self, stream: &mut Stream, event: WatchEvent<T>) -> Option<Output<T>> {
        let version = revision(&event)?;
        stream.is_synthetic &= matches!(event, WatchEvent::Added(_));
        if !stream.is_synthetic {
            version::advance(&mut self.resource_version, version);
        }
        let resource_version = self.resource_version.clone();
        Some(match event {
            WatchEvent::Added(object) => Output::Added { object, resource_version },
            WatchEvent::Modified(object) => Output::Updated { object, resource_version },
            WatchEvent::Deleted(object) => Output::Deleted { object, resource_version },
            WatchEvent::Bookmark(_) | WatchEvent::Error(_) => Output::Bookmark { resource_version },
        })
    }

    fn watch_ended(&mut self, now: Instant, stream: &Stream) -> Step<T> {
        if self.was_successful(now, stream) {
            // If the server was restored from a backup, the last revision may be in the future.
            let is_silent = stream.is_reopened && !stream.has_news;
            let lists = is_silent && self.silence.watch_ended(now, stream.opened);
            return if lists { self.begin_round() } else { self.resume_watch() }.into();
        }
        self.delay_watch(now, Some(ReflectorError::VeryShortWatch), Then::Watch)
    }

    /// Returns `true` and resets the delays if the watch that ended was successful. A long watch is successful. A short
    /// watch is successful if it delivered events and there were not too many consecutive short watches.
    fn was_successful(&mut self, now: Instant, stream: &Stream) -> bool {
        let lasted = now.saturating_duration_since(stream.opened) >= SHORT_WATCH;
        self.short_watches = if lasted { 0 } else { self.short_watches + 1 };
        let well = lasted || (stream.has_news && self.short_watches <= SHORT_WATCHES);
        if well {
            self.watch_failed = false;
            self.delays.reset();
        }
        well
    }
}

impl Stream {
    pub(super) fn after_list(self, now: Instant, start: String) -> Self {
        Self { opened: now, start, last_received: now, has_news: true, is_synthetic: false, ..self }
    }

    /// Returns an error if the event is older than the start of the watch, which means that the server has gone back to
    /// an older state. An event may be older than an earlier event, because some sources do not send events in order.
    fn goes_back<T: Object>(&self, event: &WatchEvent<T>) -> Option<ReflectorError> {
        let returned = revision(event).filter(|returned| version::is_older(returned, &self.start))?;
        Some(ReflectorError::WentBack { returned: returned.into(), known: self.start.clone() })
    }

    /// Records an event. From the second bookmark on, it returns the longest time between two bookmarks.
    fn record_event<T>(&mut self, now: Instant, event: &WatchEvent<T>) -> Option<Duration> {
        self.last_received = now;
        self.has_news = true;
        if !matches!(event, WatchEvent::Bookmark(_)) {
            return None;
        }
        let gap = now.saturating_duration_since(self.bookmarked.replace(now)?);
        self.bookmark_gap = self.bookmark_gap.max(Some(gap));
        self.bookmark_gap
    }
}

fn revision<T: Object>(event: &WatchEvent<T>) -> Option<&str> {
    match event {
        WatchEvent::Added(object) | WatchEvent::Modified(object) | WatchEvent::Deleted(object) => {
            Some(object.resource_version())
        }
        WatchEvent::Bookmark(Bookmark { resource_version, .. }) => Some(resource_version),
        WatchEvent::Error(_) => None,
    }
}

/// Returns `true` if `error` is a lost connection or a timeout, which are both normal at the end of a watch.
pub(super) fn is_cut(error: &ApiError) -> bool {
    matches!(error.kind, ErrorKind::Transport(_) | ErrorKind::Timeout(_))
}

/// Returns `true` if `error` is temporary and the same request can be repeated.
pub(super) fn is_passing(error: &ApiError) -> bool {
    error.is_connection_refused() || error.is_too_many_requests()
}
