//! The state machine that lists and watches: what it is told, what it asks for, and what it has to store.

mod initial;
mod list;
mod streaming;
mod watch;

use std::fmt;
use std::time::{Duration, Instant};

use pintle_meta::{ApiError, List, ListOptions, Object, WatchEvent, WatchOptions};
use pintle_ratelimit::{Backoff, Jitter};

use self::initial::Initial;
use self::list::Pages;
use self::streaming::PAUSES;
use self::watch::Stream;

use crate::cache::version::is_older;
use crate::{InformerState, ListProgress, ReflectorConfig, ReflectorError};

/// The shortest time for which a watch is asked for, be it configured to less: client-go's rule.
const SHORTEST_WATCH_TIMEOUT: Duration = Duration::from_secs(300);

/// For how long, and how often in that time, a server has to tell an older state than it told before, until that counts as its own.
const INSISTS_FOR: Duration = Duration::from_secs(60);
const INSISTS: u32 = 3;

/// Follows one resource: lists it, watches it from there on, and begins anew where the server has lost track.
///
/// It is a state machine without I/O and without a clock. [`start`](Self::start) gives the first [`Command`]; whoever drives
/// it carries the command out and tells the result to [`step`](Self::step), which gives the next. What there is to store
/// comes as [`Output`]s on the way.
///
/// | State | What comes | What follows |
/// |---|---|---|
/// | streaming list | the bookmark that ends it | output, watch on the same stream |
/// | streaming list | connection refused, 429, another error with a `Retry-After` | delay, streaming list |
/// | streaming list | expired or too large revision | streaming list of the newest state |
/// | streaming list | another error, nothing new for too long, three unfinished streams | list |
/// | list | the last page | output, open watch |
/// | list, streaming list | all of it, as of an older revision than is known | delay, new round that asks for the newest state |
/// | list, streaming list | the same, at least three times and for a minute | output, as of any other list |
/// | list | a later page expired | the whole list in one page |
/// | list | expired or too large revision | list of the newest state |
/// | list | another error | delay, new round |
/// | open watch | connection refused, 429 | delay, open watch |
/// | open watch | no answer, up to five times in a row | delay, open watch |
/// | open watch | another error | delay, new round |
/// | watch | its end, a cut connection, silence past its time | open watch at the last revision; without revisions, list |
/// | watch | its end within 1 s without any news | delay, open watch at the last revision |
/// | watch | 429 | delay, open watch at the last revision |
/// | watch | expired, another error, an event that cannot be read | delay, new round |
///
/// Delays grow from one to the next, and start over after a success. A watch has done its work if it lasted for a second, or
/// brought news and is not one of many short ones in a row. A list has done its work when it is complete; but after a watch
/// failed, only another watch can show that watches work again, so that a server that lets nobody watch is not asked for one
/// list after the other.
///
/// A new round begins with the streaming list, where that is on and has not failed of late, and else with the list: at the last
/// revision, so that it never goes back in time, and only if the server does not have that, of the newest state. The first list takes
/// what the server's cache holds, but nothing [older than it is told](ReflectorConfig::not_older_than).
///
/// A server that was restored from a backup has an older state for good. It is believed once it has told so for a minute, asked for its
/// newest state each time; nothing else makes what is output go back. What was made since the backup is then missing from the list, and
/// an object that was made anew is told from the one before by its uid.
///
/// A resource that does not exist is waited for with the same delays, and nothing that was output is taken back: its definition may be
/// on its way, and a server that has just started may not know of it yet. If it was deleted, its objects were deleted first, and the watch
/// told so; and if it comes back, the next list tells what is there then.
///
/// # Examples
///
/// ```
/// use std::time::Instant;
///
/// use pintle_informer::ReflectorConfig;
/// use pintle_informer::reflector::{Command, Input, Output, Reflector};
/// use pintle_meta::{List, ListMeta, PartialObject};
///
/// let mut reflector: Reflector<PartialObject> = Reflector::new(ReflectorConfig::default(), 1);
/// let Command::List(options) = reflector.start() else { panic!("it lists first") };
/// assert_eq!(options.resource_version, "0");
///
/// let metadata = ListMeta { resource_version: "17".into(), ..ListMeta::default() };
/// let list = List { types: Default::default(), metadata, items: vec![] };
/// let step = reflector.step(Instant::now(), Input::Listed(Ok(list)));
/// assert!(matches!(step.output, Some(Output::Replaced { .. })));
/// let Command::Watch(options) = step.command else { panic!("and watches then") };
/// assert_eq!(options.resource_version, "17");
/// ```
#[derive(Debug)]
pub struct Reflector<T> {
    config: ReflectorConfig,
    delays: Backoff,
    /// A watch has failed, and none has done its work since.
    watch_failed: bool,
    jitter: Jitter,
    phase: Phase<T>,
    /// Up to where everything has been output. Empty before the first list.
    resource_version: String,
    /// Up to where the same server told others, before it was asked here. Empty: nobody.
    told_others: String,
    /// The server does not have that revision: ask for the newest.
    version_unavailable: bool,
    /// How often it has told a state that is older than that revision, and since when. None: what it told last was not.
    older: Option<(u32, Instant)>,
    /// The server pages lists that its cache should have answered in one piece, so it has none, and pages are welcome.
    is_paginated: bool,
    /// The server does not finish streaming lists, and is not asked for one until then.
    streams_paused_until: Option<Instant>,
    stream_pauses: Backoff,
    /// Streaming lists in a row that ended unfinished.
    unfinished: u32,
    /// Tries in a row to open a watch that got no answer.
    unanswered: u32,
    /// Watches in a row that ended when they had hardly begun.
    short_watches: u32,
    /// How far apart bookmarks are, as far as that is known.
    bookmark_gap: Option<Duration>,
    /// Watches that fell silent since the last bookmark.
    silent_watches: u32,
    /// What keeps it from going on, and since when.
    trouble: Option<(ReflectorError, Instant)>,
}

/// What to do next for a [`Reflector`], and with what to answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// List a page: [`Input::Listed`].
    List(ListOptions),
    /// Open a watch, in place of the one before: [`Input::Opened`].
    Watch(WatchOptions),
    /// Wait for the next event of the watch: [`Input::Received`], or [`Input::TimedOut`] when the time has come.
    Read {
        /// When to give the watch up.
        until: Instant,
    },
    /// Drop the watch, if one is open, and wait: [`Input::Woke`].
    Sleep(Duration),
}

/// What came of a [`Command`].
#[derive(Debug)]
pub enum Input<T> {
    /// The answer to a list.
    Listed(Result<List<T>, ApiError>),
    /// Whether the server took up the watch.
    Opened(Result<(), ApiError>),
    /// An event, a failure of the stream, or its end.
    Received(Option<Result<WatchEvent<T>, ApiError>>),
    /// Nothing was received in time.
    TimedOut,
    /// The delay is over.
    Woke,
}

/// What there is to store.
///
/// Each comes with the revision up to which everything has been output with it. It is as the server told it, whatever becomes of the
/// objects, and never older than the one before, as far as that can be told: revisions that are numbers are compared as such. It is empty
/// where the server tells none.
#[derive(Clone, Debug, PartialEq)]
pub enum Output<T> {
    /// These are all objects.
    Replaced {
        /// The objects.
        objects: Vec<T>,
        /// The revision.
        resource_version: String,
    },
    /// The object is new, as far as the server knows what we know.
    Added {
        /// The object.
        object: T,
        /// The revision.
        resource_version: String,
    },
    /// The object changed.
    Updated {
        /// The object as it is now.
        object: T,
        /// The revision.
        resource_version: String,
    },
    /// The object is gone.
    Deleted {
        /// Its last state.
        object: T,
        /// The revision.
        resource_version: String,
    },
    /// Nothing else changed.
    Bookmark {
        /// The revision.
        resource_version: String,
    },
}

/// The outcome of a step.
#[derive(Debug)]
pub struct Step<T> {
    /// What there is to store, before the command is carried out.
    pub output: Option<Output<T>>,
    /// What went wrong, for the log. It need not delay anything.
    pub error: Option<ReflectorError>,
    /// What to do next.
    pub command: Command,
    /// What came of a list that is given up. It is of no use, and may take long to drop.
    pub discarded: Vec<T>,
}

enum Phase<T> {
    Starting,
    Listing(Pages<T>),
    OpeningStream {
        timeout: Duration,
    },
    Streaming(Stream, Initial<T>),
    OpeningWatch {
        timeout: Duration,
    },
    Watching(Stream),
    /// Until then; for ever, where the clock does not reach that far.
    Sleeping {
        then: Then,
        until: Option<Instant>,
    },
}

/// What follows a delay.
#[derive(Clone, Copy, Debug)]
enum Then {
    Round,
    Watch,
    StreamingList,
}

impl<T: Object> Reflector<T> {
    /// A reflector that has done nothing yet. The seed is for its delays and timeouts.
    pub fn new(config: ReflectorConfig, seed: u64) -> Self {
        Self {
            delays: Backoff::new(config.backoff, seed),
            watch_failed: false,
            // Another seed, so that the two do not go in step.
            jitter: Jitter::new(!seed),
            phase: Phase::Starting,
            resource_version: String::new(),
            told_others: String::new(),
            version_unavailable: false,
            older: None,
            is_paginated: false,
            streams_paused_until: None,
            stream_pauses: Backoff::new(PAUSES, seed),
            unfinished: 0,
            unanswered: 0,
            short_watches: 0,
            bookmark_gap: None,
            silent_watches: 0,
            trouble: None,
            config,
        }
    }

    /// The same, for which nothing is news that is older than what the server told others.
    pub(crate) fn after(self, told_others: String) -> Self {
        Self { told_others, ..self }
    }

    /// What to do first.
    pub fn start(&mut self) -> Command {
        self.begin_round()
    }

    /// Takes up what came of the last command.
    ///
    /// # Panics
    ///
    /// If the input does not answer the last command.
    pub fn step(&mut self, now: Instant, input: Input<T>) -> Step<T> {
        let phase = std::mem::replace(&mut self.phase, Phase::Starting);
        match (phase, input) {
            (Phase::Sleeping { then, .. }, Input::Woke) => self.wake(now, then).into(),
            (Phase::Listing(pages), Input::Listed(answer)) => self.listed(now, pages, answer),
            (Phase::OpeningStream { timeout }, Input::Opened(answer)) => self.stream_opened(now, timeout, answer),
            (Phase::Streaming(stream, initial), Input::Received(event)) => {
                self.initial_event(now, stream, initial, event)
            }
            (Phase::Streaming(_, initial), Input::TimedOut) => {
                Step { discarded: initial.into_objects(), ..self.streaming_failed(now) }
            }
            (Phase::OpeningWatch { timeout }, Input::Opened(answer)) => self.watch_opened(now, timeout, answer),
            (Phase::Watching(stream), Input::Received(event)) => self.watched(now, stream, event),
            (Phase::Watching(stream), Input::TimedOut) => self.watch_timed_out(now, stream),
            (phase, input) => panic!("{} does not answer what the reflector asked for during {phase:?}", input.name()),
        }
    }

    /// How it is getting on. A reflector by itself never stops.
    pub fn state(&self) -> InformerState {
        if let Some((cause, since)) = &self.trouble {
            let next_try = if let Phase::Sleeping { until, .. } = self.phase { until } else { None };
            return InformerState::Degraded { cause: cause.clone(), since: *since, next_try };
        }
        let listing = |progress| InformerState::Listing { progress };
        let streaming = |progress| InformerState::Streaming { progress };
        match &self.phase {
            Phase::Starting => InformerState::Starting,
            Phase::Listing(pages) => listing(pages.progress()),
            Phase::Sleeping { then: Then::Round, .. } => listing(ListProgress::default()),
            Phase::Streaming(_, initial) => streaming(initial.progress()),
            Phase::OpeningStream { .. } | Phase::Sleeping { then: Then::StreamingList, .. } => {
                streaming(ListProgress::default())
            }
            Phase::OpeningWatch { .. } | Phase::Watching(_) | Phase::Sleeping { then: Then::Watch, .. } => {
                InformerState::Synced { resource_version: self.resource_version.clone() }
            }
        }
    }

    /// Up to where everything has been output; empty before the first list.
    pub fn resource_version(&self) -> &str {
        &self.resource_version
    }

    fn wake(&mut self, now: Instant, then: Then) -> Command {
        self.streams_paused_until.take_if(|until| *until <= now);
        match then {
            Then::Round => self.begin_round(),
            Then::Watch => self.resume_watch(),
            Then::StreamingList => self.open_stream(),
        }
    }

    fn begin_round(&mut self) -> Command {
        self.unfinished = 0;
        let is_streamed = self.config.streaming_list && self.streams_paused_until.is_none();
        if is_streamed { self.open_stream() } else { self.begin_list() }
    }

    /// Waits, since of `error` or, without one, since of something that is nobody's fault.
    fn delay(&mut self, now: Instant, error: Option<ReflectorError>, then: Then) -> Step<T> {
        let asked = error.as_ref().and_then(ReflectorError::cause).and_then(|cause| cause.retry_after);
        if let Some(cause) = &error {
            let since = self.trouble.as_ref().map_or(now, |(_, since)| *since);
            self.trouble = Some((cause.clone(), since));
        }
        let delay = self.delays.next(asked);
        self.phase = Phase::Sleeping { then, until: now.checked_add(delay) };
        Step { error, ..Command::Sleep(delay).into() }
    }

    /// Waits since a watch could not be opened, or did not go well in the end.
    fn delay_watch(&mut self, now: Instant, error: Option<ReflectorError>, then: Then) -> Step<T> {
        self.watch_failed = true;
        self.delay(now, error, then)
    }

    /// A list is complete.
    fn list_succeeded(&mut self) {
        if !self.watch_failed {
            self.delays.reset();
        }
    }

    /// Nothing older is taken up; empty before anything is known.
    fn floor(&self) -> &str {
        let told = [&self.resource_version, &self.told_others];
        told.into_iter().find(|told| !told.is_empty()).unwrap_or(&self.config.not_older_than)
    }

    /// Why a list of that revision is not taken up, if it is not: it is older than the floor, and the server does not insist.
    fn goes_back(&mut self, now: Instant, told: &str) -> Option<ReflectorError> {
        if !is_older(told, self.floor()) {
            self.older = None;
            return None;
        }
        let (times, since) = self.older.map_or((1, now), |(times, since)| (times + 1, since));
        // What it never told itself, it cannot take back.
        let is_its_own = !self.resource_version.is_empty() || !self.told_others.is_empty();
        if is_its_own && times >= INSISTS && now.saturating_duration_since(since) >= INSISTS_FOR {
            self.older = None;
            return None;
        }
        self.older = Some((times, since));
        self.version_unavailable = true;
        Some(ReflectorError::WentBack { told: told.into(), known: self.floor().into() })
    }

    /// In whole seconds, since that is what servers take.
    fn watch_timeout(&mut self) -> Duration {
        let shortest = self.config.watch_timeout.max(SHORTEST_WATCH_TIMEOUT);
        Duration::from_secs(shortest.saturating_add(self.jitter.up_to(shortest)).as_secs())
    }
}

impl<T> From<Command> for Step<T> {
    fn from(command: Command) -> Self {
        Self { output: None, error: None, command, discarded: Vec::new() }
    }
}

impl<T> Input<T> {
    fn name(&self) -> &'static str {
        match self {
            Self::Listed(_) => "Listed",
            Self::Opened(_) => "Opened",
            Self::Received(_) => "Received",
            Self::TimedOut => "TimedOut",
            Self::Woke => "Woke",
        }
    }
}

impl<T> fmt::Debug for Phase<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Starting => "starting",
            Self::Listing(_) => "a list",
            Self::OpeningStream { .. } | Self::Streaming(..) => "a streaming list",
            Self::OpeningWatch { .. } | Self::Watching(_) => "a watch",
            Self::Sleeping { .. } => "a delay",
        })
    }
}
