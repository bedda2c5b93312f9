//! The watching half.

use std::time::{Duration, Instant};

use pintle_meta::{ApiError, Bookmark, ErrorKind, Object, WatchEvent, WatchOptions};

use super::{Command, Output, Phase, Reflector, Step, Then};
use crate::ReflectorError;
use crate::cache::version;

/// A watch that ends earlier than this has hardly begun.
pub(super) const SHORT_WATCH: Duration = Duration::from_secs(1);

/// So many short watches in a row are reopened at once if they brought news. More look like a loop.
const SHORT_WATCHES: u32 = 5;

/// So many times in a row a watch is tried to be opened that gets no answer, before a list is tried.
const UNANSWERED_WATCHES: u32 = 5;

/// How often a kube-apiserver sends bookmarks. Who sends two of them sooner may not mean to go on like that.
const BOOKMARK_PERIOD: Duration = Duration::from_secs(60);

/// An open watch.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) opened: Instant,
    pub(super) until: Instant,
    /// When something came last, or it was opened.
    heard: Instant,
    /// When a bookmark came last.
    bookmarked: Option<Instant>,
    /// The longest time between two of them.
    bookmark_gap: Option<Duration>,
    has_news: bool,
    /// The server began with synthetic events, whose revisions are in no order, and has not come to its first real one.
    is_synthetic: bool,
}

impl<T: Object> Reflector<T> {
    pub(super) fn open_watch(&mut self) -> Command {
        let timeout = self.watch_timeout();
        self.phase = Phase::OpeningWatch { timeout };
        Command::Watch(self.watch_options(self.resource_version.clone(), timeout))
    }

    /// Goes on after a watch. Without a revision nobody tells what was deleted since, so a list has to.
    pub(super) fn resume_watch(&mut self) -> Command {
        if self.has_revision() { self.open_watch() } else { self.begin_round() }
    }

    fn has_revision(&self) -> bool {
        !matches!(self.resource_version.as_str(), "" | "0")
    }

    pub(super) fn watch_opened(&mut self, now: Instant, timeout: Duration, answer: Result<(), ApiError>) -> Step<T> {
        let error = match answer {
            Ok(()) => {
                // That watches end at once is over when one does not; all else, now that one is open.
                self.unanswered = 0;
                self.trouble.take_if(|(cause, _)| !matches!(cause, ReflectorError::VeryShortWatch));
                let is_synthetic = !self.has_revision();
                let stream = self.stream(now, timeout, is_synthetic);
                return self.watch(stream);
            }
            Err(error) => error,
        };
        // No answer says nothing of what the server holds either. But a list may get through where a watch does not.
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
                self.trouble = None;
                if matches!(event, WatchEvent::Bookmark(_)) {
                    self.silent_watches = 0;
                }
                self.bookmark_gap = stream.hear(now, &event).or(self.bookmark_gap);
                let output = self.accept(&mut stream, event);
                return Step { output, ..self.watch(stream) };
            }
            None => return self.watch_ended(now, &stream),
            Some(Err(error)) if is_cut(&error) => return self.watch_ended(now, &stream),
            Some(Err(error)) => error,
        };
        self.went_well(now, &stream);
        if error.is_expired() {
            return self.delay_watch(now, None, Then::Round);
        }
        let then = if is_passing(&error) { Then::Watch } else { Then::Round };
        self.delay_watch(now, Some(ReflectorError::watch(error)), then)
    }

    pub(super) fn watch_timed_out(&mut self, now: Instant, stream: Stream) -> Step<T> {
        if now >= stream.until {
            // The server has forgotten to end it, or nothing comes through any more.
            return self.watch_ended(now, &stream);
        }
        if self.falls_silent(&stream).is_some_and(|at| at <= now) {
            // It may be a server that sends bookmarks more seldom, or none, and asking it anew costs it something.
            self.silent_watches = self.silent_watches.saturating_add(1);
            let mut step = self.watch_ended(now, &stream);
            step.error.get_or_insert(ReflectorError::SilentWatch);
            return step;
        }
        // It has lasted long enough to be none of the short ones.
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
        // A lifetime beyond what the clock can count is no limit at all; a day is as good.
        const DAY: Duration = Duration::from_secs(24 * 3600);
        let until = now.checked_add(timeout.saturating_add(self.config.watch_grace)).unwrap_or(now + DAY);
        Stream { opened: now, until, heard: now, bookmarked: None, bookmark_gap: None, has_news: false, is_synthetic }
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

    /// When a watch counts as dead of which nothing more is heard, be it the first of its server: of one that sends no bookmarks, it is
    /// given up in vain once or twice. None: as good as never.
    fn falls_silent(&self, stream: &Stream) -> Option<Instant> {
        let by_bookmarks = || {
            let gap = self.bookmark_gap.map_or(BOOKMARK_PERIOD, |gap| gap.max(BOOKMARK_PERIOD));
            gap.saturating_add(self.config.watch_grace).checked_mul(1 << self.silent_watches.min(16))
        };
        stream.heard.checked_add(self.config.watch_idle_timeout.or_else(by_bookmarks)?)
    }

    fn accept(&mut self, stream: &mut Stream, event: WatchEvent<T>) -> Option<Output<T>> {
        let version = match &event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) | WatchEvent::Deleted(object) => {
                object.resource_version()
            }
            WatchEvent::Bookmark(Bookmark { resource_version, .. }) => resource_version,
            WatchEvent::Error(_) => return None,
        };
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
        if self.went_well(now, stream) {
            return self.resume_watch().into();
        }
        self.delay_watch(now, Some(ReflectorError::VeryShortWatch), Then::Watch)
    }

    /// Whether a watch that is over has done its work: it lasted, or it brought news and is not one of many short ones in a
    /// row. Then delays start over.
    fn went_well(&mut self, now: Instant, stream: &Stream) -> bool {
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
    /// What was a list up to now goes on as a watch.
    pub(super) fn after_list(self, now: Instant) -> Self {
        Self { opened: now, heard: now, has_news: true, is_synthetic: false, ..self }
    }

    /// Takes note of an event, and tells how far bookmarks are apart, if it is one and not the first.
    fn hear<T>(&mut self, now: Instant, event: &WatchEvent<T>) -> Option<Duration> {
        self.heard = now;
        self.has_news = true;
        if !matches!(event, WatchEvent::Bookmark(_)) {
            return None;
        }
        let gap = now.saturating_duration_since(self.bookmarked.replace(now)?);
        self.bookmark_gap = self.bookmark_gap.max(Some(gap));
        self.bookmark_gap
    }
}

/// The stream broke off, which is a common way for one to end.
pub(super) fn is_cut(error: &ApiError) -> bool {
    matches!(error.kind, ErrorKind::Transport(_) | ErrorKind::Timeout(_))
}

/// Says nothing of what the server holds: the same request may do later.
pub(super) fn is_passing(error: &ApiError) -> bool {
    error.is_connection_refused() || error.is_too_many_requests()
}
