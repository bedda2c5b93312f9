//! A state machine that lists and watches a resource.

mod initial;
mod list;
mod silence;
mod streaming;
mod watch;

use std::fmt;
use std::time::{Duration, Instant};

use pintle_meta::{ApiError, List, ListOptions, Object, WatchEvent, WatchOptions};
use pintle_ratelimit::{Backoff, Jitter};

use self::initial::Initial;
use self::list::Pages;
use self::silence::Silence;
use self::streaming::PAUSES;
use self::watch::Stream;

use crate::error::ReflectorError;
use crate::reflector_config::ReflectorConfig;
use crate::state::{InformerState, ListProgress};
use crate::version::is_older;

/// The minimum timeout of a watch, as in client-go.
const SHORTEST_WATCH_TIMEOUT: Duration = Duration::from_secs(300);

/// The time for which a server must have returned older states before the reflector accepts an older state. At least
/// [`RESTORE_ANSWERS`] consecutive lists must also have returned older states.
const RESTORE_PERIOD: Duration = Duration::from_secs(60);
const RESTORE_ANSWERS: u32 = 3;

/// Lists a resource and then watches it, starting at the list's revision. If this revision is no longer available on
/// the server, the reflector lists the resource again.
///
/// A reflector is a state machine without I/O and without a clock. [`start`](Self::start) returns the first
/// [`Command`]. The driver executes each command and passes the result to [`step`](Self::step), which returns the next
/// command. `step` also returns the changes to store as [`Output`]s.
///
/// | state | event | next |
/// |---|---|---|
/// | streaming list | the bookmark that ends it | output, watch on the same stream |
/// | streaming list | connection refused, 429, another error with a `Retry-After` | delay, streaming list |
/// | streaming list | expired or too large revision | streaming list of the newest state |
/// | streaming list | another error, no new object for too long, three unfinished streams | list |
/// | list | the last page | output, open watch |
/// | list, streaming list | complete, but older than a known revision | delay, new round that requests the newest state |
/// | list, streaming list | older than a known revision, at least three times over a minute | output, as for any other list |
/// | list | a later page expired | the whole list in one page |
/// | list | expired or too large revision | list of the newest state |
/// | list | another error | delay, new round |
/// | open watch | connection refused, 429 | delay, open watch |
/// | open watch | no answer, up to five times in a row | delay, open watch |
/// | open watch | another error | delay, new round |
/// | watch | end, lost connection, silence for too long | open watch at the last revision; without revisions, list |
/// | reopened watch | the second consecutive end without an event or bookmark | new round |
/// | watch | an event or bookmark below the revision at which the watch was opened | delay, new round |
/// | watch | end within 1 s without any event, or for the sixth time in a row | delay, open watch at the last revision |
/// | watch | 429 | delay, open watch at the last revision |
/// | watch | expired, another error, malformed event | delay, new round |
///
/// Delays between retries grow after each failure, and a success resets them. A watch is successful if it lasts for a
/// second. A shorter watch is successful if it delivers an event and there were at most four consecutive short watches
/// before it. A complete list also resets the delays, except after a failed watch. After a failed watch, only a
/// successful watch resets the delays, because a server that rejects all watches would otherwise receive list requests
/// without delays.
///
/// Each round starts with a list. If streaming lists are enabled and have not failed recently, this list is a streaming
/// list. The list requests at least the last known revision, so that the state never goes back. If the last known
/// revision is not available on the server, the reflector requests the newest state. The first list accepts any state
/// that is not older than [`not_older_than`](ReflectorConfig::not_older_than), including states from the server's watch
/// cache.
///
/// After a server was restored from a backup, its revisions are older than the last known revision, so the reflector
/// requests the newest state. If the server returns older states for a minute, the reflector accepts an older state.
/// The restored server accepts a watch at the last known revision, but sends no event until it has reached this
/// revision. To detect a restore, the reflector lists if a watch delivers a revision below the revision at which the
/// watch was opened. The reflector also lists after at least two consecutive silent watches that lasted for at least
/// the *silence limit* in total. This limit is one minute at first. A watch is silent if it ends without an event or
/// bookmark. Watches of unchanged resources are also silent if the server sends no bookmarks. Each list that was caused
/// by silent watches doubles the silence limit, up to two hours. A bookmark resets the silence limit to one minute. If
/// the server reaches the last known revision before the reflector lists, the reflector does not notice the restore.
///
/// The revision of the outputs never decreases, except after a restore. A list after a restore does not contain objects
/// that were created after the backup. A recreated object has a different uid than the previous object.
///
/// If the resource does not exist, the reflector retries with increasing delays and outputs no deletions. The custom
/// resource definition (CRD) of the resource may be added later, or a server that was just started may not have loaded
/// it yet. If a CRD is deleted, the watch reports the deletion of its objects first. If the CRD is added again, the
/// next list returns the current objects.
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
    watch_failed: bool,
    jitter: Jitter,
    phase: Phase<T>,
    /// The revision of the last output. The reflector's output contains all changes up to this revision. The revision
    /// is empty before the first list.
    resource_version: String,
    /// The newest revision that other reflectors of the same server had received when this reflector started, or an empty
    /// string.
    known_elsewhere: String,
    /// Whether the server lacks the last requested revision, so that the next list must request the newest state.
    version_unavailable: bool,
    /// The number of consecutive lists that returned an older state, and the time of the first of these lists.
    older: Option<(u32, Instant)>,
    /// Whether the server has no watch cache, so that the reflector uses paged lists. A server that returns several
    /// pages for a list at revision "0" has no watch cache.
    is_paginated: bool,
    /// The time until which the reflector uses no streaming lists. The pause is set when the server has rejected or not
    /// finished a streaming list.
    streams_paused_until: Option<Instant>,
    stream_pauses: Backoff,
    unfinished: u32,
    unanswered: u32,
    short_watches: u32,
    bookmark_gap: Option<Duration>,
    idle_timeouts: u32,
    silence: Silence,
    /// The current failure, and the time of the first failure since the last success.
    trouble: Option<(ReflectorError, Instant)>,
}

/// A command from a [`Reflector`] to its driver. The driver must respond to each command with an [`Input`].
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// List one page. The driver responds with [`Input::Listed`].
    List(ListOptions),
    /// Open a watch that replaces the open watch, if any. The driver responds with [`Input::Opened`].
    Watch(WatchOptions),
    /// Wait for the next event of the watch. The driver responds with [`Input::Received`], or with [`Input::TimedOut`]
    /// at the deadline.
    Read {
        /// The deadline of the wait.
        until: Instant,
    },
    /// Drop the open watch, if any, and wait for this duration. The driver responds with [`Input::Woke`].
    Sleep(Duration),
}

/// The driver's response to a [`Command`].
#[derive(Debug)]
pub enum Input<T> {
    /// The response to [`Command::List`]: the page, or the error of the request.
    Listed(Result<List<T>, ApiError>),
    /// The response to [`Command::Watch`]: `Ok` if the server accepted the watch.
    Opened(Result<(), ApiError>),
    /// An event or an error from the watch, or `None` if the watch has ended.
    Received(Option<Result<WatchEvent<T>, ApiError>>),
    /// The deadline of a [`Command::Read`] has passed.
    TimedOut,
    /// The delay of a [`Command::Sleep`] has passed.
    Woke,
}

/// A change that the driver must store.
///
/// Each output contains a resourceVersion. The outputs contain all changes up to this resourceVersion. The
/// resourceVersion comes from the server, even if a transform has changed the resourceVersion in the object. If
/// versions are numbers, the version of the outputs never decreases, except after the server was restored from a
/// backup. The version is empty if the server does not send versions.
#[derive(Clone, Debug, PartialEq)]
pub enum Output<T> {
    /// The complete objects of a list, which replace all previous objects.
    Replaced {
        /// All current objects.
        objects: Vec<T>,
        /// The revision of the list.
        resource_version: String,
    },
    /// An object was added.
    Added {
        /// The added object.
        object: T,
        /// The revision of this change.
        resource_version: String,
    },
    /// An object was updated.
    Updated {
        /// The new state of the object.
        object: T,
        /// The revision of this change.
        resource_version: String,
    },
    /// An object was deleted.
    Deleted {
        /// The last state of the deleted object.
        object: T,
        /// The revision of this change.
        resource_version: String,
    },
    /// The revision has advanced, but no object has changed.
    Bookmark {
        /// The new revision.
        resource_version: String,
    },
}

/// The result of [`Reflector::step`].
#[derive(Debug)]
pub struct Step<T> {
    /// The change that the driver must store before it executes the command.
    pub output: Option<Output<T>>,
    /// The failure that the driver should log, if any. A failure does not always cause a delay before the next command.
    pub error: Option<ReflectorError>,
    /// The next command for the driver.
    pub command: Command,
    /// The objects of an abandoned list. The driver must drop these objects, because dropping many objects may take a
    /// long time.
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
        is_reopened: bool,
    },
    Watching(Stream),
    /// `until` is `None` if the clock cannot represent the end of the delay.
    Sleeping {
        then: Then,
        until: Option<Instant>,
    },
}

#[derive(Clone, Copy, Debug)]
enum Then {
    Round,
    Watch,
    StreamingList,
}

impl<T: Object> Reflector<T> {
    /// Creates a reflector. `seed` is the seed for random delays and timeouts.
    pub fn new(config: ReflectorConfig, seed: u64) -> Self {
        Self {
            delays: Backoff::new(config.backoff, seed),
            watch_failed: false,
            // Derive a second seed, so that timeouts are independent of the delays.
            jitter: Jitter::new(!seed),
            phase: Phase::Starting,
            resource_version: String::new(),
            known_elsewhere: String::new(),
            version_unavailable: false,
            older: None,
            is_paginated: false,
            streams_paused_until: None,
            stream_pauses: Backoff::new(PAUSES, seed),
            unfinished: 0,
            unanswered: 0,
            short_watches: 0,
            bookmark_gap: None,
            idle_timeouts: 0,
            silence: Silence::default(),
            trouble: None,
            config,
        }
    }

    /// Makes the reflector reject states older than `known_elsewhere`, the newest revision received by other reflectors of
    /// the same server.
    pub(crate) fn after(self, known_elsewhere: String) -> Self {
        Self { known_elsewhere, ..self }
    }

    /// Starts the reflector, and returns the first command.
    pub fn start(&mut self) -> Command {
        self.begin_round()
    }

    /// Processes the result of the previous command, and returns the next command.
    ///
    /// # Panics
    ///
    /// Panics if `input` is not a response to the previous command.
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
            (Phase::OpeningWatch { timeout, is_reopened }, Input::Opened(answer)) => {
                self.watch_opened(now, timeout, is_reopened, answer)
            }
            (Phase::Watching(stream), Input::Received(event)) => self.watched(now, stream, event),
            (Phase::Watching(stream), Input::TimedOut) => self.watch_timed_out(now, stream),
            (phase, input) => {
                panic!("{} is not an answer to the command of the reflector in phase {phase:?}", input.name())
            }
        }
    }

    /// Returns the current state. A reflector never ends, so this method never returns
    /// [`Stopped`](InformerState::Stopped).
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

    /// Returns the revision of the last output, or an empty string before the first list. The reflector's output
    /// contains all changes up to this revision.
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

    /// Returns a command that waits before the reflector continues with `then`. Records `error`, if any, as the current
    /// failure.
    fn delay(&mut self, now: Instant, error: Option<ReflectorError>, then: Then) -> Step<T> {
        let retry_after = error.as_ref().and_then(ReflectorError::cause).and_then(|cause| cause.retry_after);
        if let Some(cause) = &error {
            let since = self.trouble.as_ref().map_or(now, |(_, since)| *since);
            self.trouble = Some((cause.clone(), since));
        }
        let delay = self.delays.next(retry_after);
        self.phase = Phase::Sleeping { then, until: now.checked_add(delay) };
        Step { error, ..Command::Sleep(delay).into() }
    }

    /// Returns a command that waits, like [`delay`](Self::delay), and records that a watch has failed.
    fn delay_watch(&mut self, now: Instant, error: Option<ReflectorError>, then: Then) -> Step<T> {
        self.watch_failed = true;
        self.delay(now, error, then)
    }

    /// Resets the delays after a complete list, unless a watch has failed since the last successful watch.
    fn list_succeeded(&mut self) {
        self.silence.end();
        if !self.watch_failed {
            self.delays.reset();
        }
    }

    /// Returns the minimum acceptable revision, or an empty string if any revision is acceptable.
    fn floor(&self) -> &str {
        let returned = [&self.resource_version, &self.known_elsewhere];
        returned.into_iter().find(|returned| !returned.is_empty()).unwrap_or(&self.config.not_older_than)
    }

    /// Returns an error if `returned`, the revision of a list, is too old. If enough consecutive lists were too old,
    /// this method accepts the older state and returns `None`.
    fn goes_back(&mut self, now: Instant, returned: &str) -> Option<ReflectorError> {
        if !is_older(returned, self.floor()) {
            self.older = None;
            return None;
        }
        let (times, since) = self.older.map_or((1, now), |(times, since)| (times + 1, since));
        // Accept an older state only if this server has returned a newer state before. The configured `not_older_than`
        // does not prove that the server has returned a newer state.
        let is_its_own = !self.resource_version.is_empty() || !self.known_elsewhere.is_empty();
        if is_its_own && times >= RESTORE_ANSWERS && now.saturating_duration_since(since) >= RESTORE_PERIOD {
            self.older = None;
            return None;
        }
        self.older = Some((times, since));
        self.version_unavailable = true;
        Some(ReflectorError::WentBack { returned: returned.into(), known: self.floor().into() })
    }

    /// Returns a random timeout in whole seconds, as the Kubernetes API requires.
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
