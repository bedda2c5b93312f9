//! The watching half: watches, and lists that come as one.

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant};

use pintle_meta::{
    ApiError, Bookmark, ErrorKind, Object, ObjectKey, Reason, ResourceVersionMatch, WatchEvent, WatchOptions,
};

use super::{Command, Output, Phase, Reflector, Step, Then};
use crate::ReflectorError;

/// A watch that ends earlier than this has hardly begun.
const SHORT_WATCH: Duration = Duration::from_secs(1);

/// So many short watches in a row are reopened at once if they brought news. More look like a loop.
const SHORT_WATCHES: u32 = 5;

/// So many times in a row a watch is tried to be opened that gets no answer, before a list is tried.
const UNANSWERED_WATCHES: u32 = 5;

/// So many streaming lists in a row may end unfinished.
const UNFINISHED_STREAMS: u32 = 3;

/// An open watch.
#[derive(Debug)]
pub(super) struct Stream {
    opened: Instant,
    until: Instant,
    has_news: bool,
    /// The server began with synthetic events, whose revisions are in no order, and has not come to its first real one.
    is_synthetic: bool,
}

/// What a streaming list has brought so far.
pub(super) struct Initial<T> {
    /// In order, so that the same stream makes the same list.
    objects: BTreeMap<ObjectKey, T>,
    /// When it must be complete.
    until: Instant,
}

impl<T: Object> Reflector<T> {
    pub(super) fn open_watch(&mut self) -> Command {
        let timeout = self.watch_timeout();
        self.phase = Phase::OpeningWatch { timeout };
        Command::Watch(self.watch_options(self.resource_version.clone(), timeout))
    }

    pub(super) fn watch_opened(&mut self, now: Instant, timeout: Duration, answer: Result<(), ApiError>) -> Step<T> {
        let error = match answer {
            Ok(()) => {
                // That watches end at once is over when one does not; all else, now that one is open.
                self.unanswered = 0;
                self.trouble.take_if(|(cause, _)| !matches!(cause, ReflectorError::VeryShortWatch));
                let is_synthetic = matches!(self.resource_version.as_str(), "" | "0");
                let stream = self.stream(now, timeout.saturating_add(self.config.watch_grace), is_synthetic);
                return self.watch(stream);
            }
            Err(error) => error,
        };
        // No answer says nothing of what the server holds either. But a list may get through where a watch does not.
        let is_unanswered = error.is_unanswered() && !error.is_connection_refused();
        self.unanswered = if is_unanswered { self.unanswered + 1 } else { 0 };
        let goes_on = is_passing(&error) || (is_unanswered && self.unanswered <= UNANSWERED_WATCHES);
        let then = if goes_on { Then::Watch } else { Then::Round };
        self.delay_watch(now, Some(ReflectorError::Watch(error)), then)
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
                stream.has_news = true;
                self.trouble = None;
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
        self.delay_watch(now, Some(ReflectorError::Watch(error)), then)
    }

    pub(super) fn watch_timed_out(&mut self, now: Instant, stream: Stream) -> Step<T> {
        if now < stream.until {
            // It has lasted long enough to be none of the short ones.
            self.trouble = None;
            return self.watch(stream);
        }
        // A connection that says nothing for so long is dead, whatever it pretends.
        self.watch_ended(now, &stream)
    }

    pub(super) fn open_stream(&mut self) -> Command {
        let timeout = self.watch_timeout();
        self.phase = Phase::OpeningStream { timeout };
        Command::Watch(WatchOptions {
            resource_version_match: Some(ResourceVersionMatch::NotOlderThan),
            send_initial_events: true,
            ..self.watch_options(self.watch_version(), timeout)
        })
    }

    pub(super) fn stream_opened(&mut self, now: Instant, timeout: Duration, answer: Result<(), ApiError>) -> Step<T> {
        if let Err(error) = answer {
            return self.streaming_refused(now, error);
        }
        let stream = self.stream(now, timeout.saturating_add(self.config.watch_grace), true);
        let deadline = now.checked_add(self.config.streaming_list_deadline);
        let until = deadline.map_or(stream.until, |deadline| deadline.min(stream.until));
        self.receive_initial(stream, Initial { objects: BTreeMap::new(), until })
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
                initial.objects.insert(object.key(), object);
            }
            Some(Ok(WatchEvent::Deleted(object))) => _ = initial.objects.remove(&object.key()),
            Some(Ok(WatchEvent::Bookmark(Bookmark { initial_events_end: false, .. }))) => {}
            Some(Ok(WatchEvent::Bookmark(Bookmark { resource_version, initial_events_end: true }))) => {
                return self.streaming_done(now, stream, initial, resource_version);
            }
            Some(Ok(WatchEvent::Error(status))) => return self.streaming_refused(now, (*status).into()),
            Some(Err(error)) if !is_cut(&error) => return self.streaming_refused(now, error),
            None | Some(Err(_)) => {
                self.unfinished += 1;
                let is_short = now.saturating_duration_since(stream.opened) < SHORT_WATCH;
                if is_short || self.unfinished >= UNFINISHED_STREAMS {
                    return self.streaming_failed();
                }
                return self.open_stream().into();
            }
        }
        if now >= initial.until {
            // A stream that always has something ready never times out.
            return self.streaming_failed();
        }
        self.receive_initial(stream, initial)
    }

    /// The server took a streaming list up and did not finish it. It may know the parameters no better than to ignore them.
    pub(super) fn streaming_failed(&mut self) -> Step<T> {
        self.can_stream = false;
        Step { error: Some(ReflectorError::StreamingListUnfinished), ..self.begin_list().into() }
    }

    fn streaming_refused(&mut self, now: Instant, error: ApiError) -> Step<T> {
        if (error.is_expired() || error.is_too_large_resource_version()) && !self.version_unavailable {
            self.version_unavailable = true;
            return self.open_stream().into();
        }
        if is_passing(&error) {
            return self.delay(now, Some(ReflectorError::Watch(error)), Then::StreamingList);
        }
        if matches!(error.reason(), Some(Reason::Invalid | Reason::BadRequest)) {
            self.can_stream = false;
        }
        Step { error: Some(ReflectorError::Watch(error)), ..self.begin_list().into() }
    }

    fn streaming_done(
        &mut self,
        now: Instant,
        stream: Stream,
        initial: Initial<T>,
        resource_version: String,
    ) -> Step<T> {
        self.trouble = None;
        self.version_unavailable = false;
        self.list_succeeded();
        self.resource_version.clone_from(&resource_version);
        let objects = initial.objects.into_values().collect();
        let output = Some(Output::Replaced { objects, resource_version });
        let watch = Stream { opened: now, has_news: true, is_synthetic: false, ..stream };
        Step { output, ..self.watch(watch) }
    }

    fn receive_initial(&mut self, stream: Stream, initial: Initial<T>) -> Step<T> {
        let until = initial.until;
        self.phase = Phase::Streaming(stream, initial);
        Command::Read { until }.into()
    }

    fn watch(&mut self, stream: Stream) -> Step<T> {
        let until = if self.trouble.is_some() { stream.until.min(stream.opened + SHORT_WATCH) } else { stream.until };
        self.phase = Phase::Watching(stream);
        Command::Read { until }.into()
    }

    fn accept(&mut self, stream: &mut Stream, event: WatchEvent<T>) -> Option<Output<T>> {
        let is_added = matches!(event, WatchEvent::Added(_));
        stream.is_synthetic &= is_added;
        let (version, output) = match event {
            WatchEvent::Added(object) => (object.resource_version().to_owned(), Output::Added(object)),
            WatchEvent::Modified(object) => (object.resource_version().to_owned(), Output::Updated(object)),
            WatchEvent::Deleted(object) => (object.resource_version().to_owned(), Output::Deleted(object)),
            WatchEvent::Bookmark(Bookmark { resource_version, .. }) => {
                (resource_version.clone(), Output::Bookmark { resource_version })
            }
            WatchEvent::Error(_) => return None,
        };
        if !stream.is_synthetic && !version.is_empty() {
            self.resource_version = version;
        }
        Some(output)
    }

    fn watch_ended(&mut self, now: Instant, stream: &Stream) -> Step<T> {
        if self.went_well(now, stream) {
            return self.open_watch().into();
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

    fn stream(&self, now: Instant, lasts: Duration, is_synthetic: bool) -> Stream {
        // A lifetime beyond what the clock can count is no limit at all; a day is as good.
        const DAY: Duration = Duration::from_secs(24 * 3600);
        let until = now.checked_add(lasts).unwrap_or(now + DAY);
        Stream { opened: now, until, has_news: false, is_synthetic }
    }

    fn watch_options(&self, resource_version: String, timeout: Duration) -> WatchOptions {
        WatchOptions {
            label_selector: self.config.label_selector.clone(),
            field_selector: self.config.field_selector.clone(),
            resource_version,
            allow_bookmarks: true,
            timeout: Some(timeout),
            ..WatchOptions::default()
        }
    }
}

/// The stream broke off, which is a common way for one to end.
fn is_cut(error: &ApiError) -> bool {
    matches!(error.kind, ErrorKind::Transport(_) | ErrorKind::Timeout(_))
}

/// Says nothing of what the server holds: the same request may do later.
fn is_passing(error: &ApiError) -> bool {
    error.is_connection_refused() || error.is_too_many_requests()
}

impl<T> fmt::Debug for Initial<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Initial").field("objects", &self.objects.len()).finish()
    }
}
