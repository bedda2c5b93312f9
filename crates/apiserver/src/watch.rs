//! Watches: from the log to the frames of one client.
//!
//! A [`Watcher`] reads the changes of its resource from the log that all watchers of the resource share. A write wakes those that
//! watch its namespace, its object, a value that one of its fields has or had, or all of the resource, and costs the same however many
//! watch something else. What one of them shows is decided by [`WatchEvent`] alone, which is pure. There is no queue for each
//! watcher, and nothing is encoded before it can go out; one that falls too far behind is cut, and its client comes back with the last
//! version it saw.

mod frame;
mod watch_event;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::FutureExt;
use pintle_meta::WatchEventType;
use tokio::time::Instant;

pub(crate) use frame::FrameShape;
pub(crate) use watch_event::WatchEvent;

use crate::failure::{Failure, Outcome};
use crate::faults::{Lagging, View, WatchFault};
use crate::offload::{self, Offload};
use crate::registry::{
    Registry, SCAN_BATCH, Selection, Served, VERSION_PATIENCE, compacted, is_uncached, parse_number,
};
use crate::request::accept::Media;
use crate::request::options::ListOptions;
use crate::store::{Change, Feed, Objects, Over, Range, ResourceKey, Store, Stored};

/// What goes out at once.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    pub(crate) bytes: Bytes,
    /// Only half of it gets out, for a fault that a test asked for. A cut follows.
    pub(crate) torn: bool,
}

/// Why a stream ends without an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// The client read so slowly that events were lost for it.
    TooSlow,
    /// A fault that a test asked for.
    Fault,
}

impl std::fmt::Display for Cut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::TooSlow => "the watcher fell too far behind",
            Self::Fault => "a scripted fault",
        })
    }
}

impl std::error::Error for Cut {}

/// How long a watch lasts where the client does not say: half an hour, and up to as much again.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30 * 60);
/// Longer than any watch: what is added to a time is no more than this, so that it does not overflow.
const FOREVER: Duration = Duration::from_secs(u32::MAX as u64);
/// How long a piece of the stream gets, about, that has several frames: as long as a frame of HTTP/2 may be where nobody has said otherwise.
const WATCH_PIECE: usize = 16 << 10;
/// How long before the end of a watch its last bookmark comes.
const LAST_BOOKMARK: Duration = Duration::from_secs(2);

/// One client's watch. Dropping it ends the watch.
#[derive(Debug)]
pub(crate) struct Watcher {
    registry: Arc<Registry>,
    selection: Selection,
    shape: FrameShape,
    feed: Feed,
    /// What is there, as far as it has not been sent yet.
    initial: Option<Initial>,
    /// The revision of what is there, if a bookmark is to close it.
    end_mark: Option<u64>,
    ready: VecDeque<Bytes>,
    /// A frame that is made apart, if anything comes of it. Nobody waits for the lock.
    shaping: Option<Mutex<Shaping>>,
    state: WatchState,
    bookmarks: Option<Bookmarks>,
    ends: Instant,
    wait_for: Option<u64>,
    fault: Option<WatchFault>,
    lag: Option<Lagging>,
    /// What is to be told once the view that it sees has come to it.
    held: Option<Arc<Change>>,
    /// The revision that it began at.
    began: u64,
    /// How it ends, once what was sent before is out.
    over: Option<Option<Cut>>,
}

/// What comes of a frame that is made apart, and what made it.
type Shaping = Offload<(FrameShape, Option<Outcome<Bytes>>)>;

/// What was there when a watch began, and is yet to be sent. It is there for as long as the changes since are kept: whoever reads it more
/// slowly has lost what comes after it in any case, and one that does not read keeps nothing.
#[derive(Debug)]
struct Initial {
    objects: Weak<Objects>,
    range: Range,
}

impl Initial {
    fn new(store: &mut Store, resource: &ResourceKey, selection: &Selection) -> Self {
        let (revision, objects) = (store.revision(), store.objects(resource));
        Self { objects: store.keep(resource, revision, &objects), range: selection.range() }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum WatchState {
    Live,
    Ending,
}

#[derive(Debug)]
struct Bookmarks {
    next: Instant,
    before_end: Option<Instant>,
}

/// How a watch begins.
struct Start {
    /// Show what is there first.
    initial: bool,
    /// Close that part with a marked bookmark.
    end_mark: bool,
    /// Then send what comes after this revision; none: after now.
    after: Option<u64>,
}

impl Watcher {
    /// Begins a watch. What is wrong with its options is told now; a version that is too old, or too far ahead, in the stream.
    pub(crate) fn start(
        registry: Arc<Registry>,
        selection: Selection,
        options: &ListOptions,
        shape: FrameShape,
        (fault, lag): (Option<WatchFault>, Option<Lagging>),
    ) -> Outcome<Self> {
        let version = match options.resource_version.as_str() {
            "" => 0,
            text => parse_number(text).map_err(|error| {
                let why = &error.status.message;
                Failure::plain(500, format!("resourceVersion: Invalid value: {text:?}: {why}"))
            })?,
        };
        let start = Start::new(options, version);
        let resource = selection.kind.store.to_string().into();
        let lagging = lag.as_ref().filter(|_| start.initial && !options.resource_version.is_empty());
        let ((initial, kept, revision), feed) = match lagging {
            Some(lagging) => {
                let (initial, seen, feed) = begin_behind(&registry, &selection, lagging)?;
                ((Some(initial), Ok(()), seen), feed)
            }
            None => registry.db.follow(&resource, selection.scope(), |store| {
                let initial = start.initial.then(|| Initial::new(store, &resource, &selection));
                let kept = start.after.map_or(Ok(()), |after| store.changes_since(&resource, after).map(|_| ()));
                (initial, kept, store.revision())
            }),
        };
        let wait_for = (start.initial && version > revision).then_some(version);
        let now = Instant::now();
        let timeout = timeout(&registry, options.timeout);
        let ends = now + timeout;
        let uncached = is_uncached(&selection.kind);
        let bookmarks = options.allow_bookmarks.then(|| Bookmarks {
            next: now + bookmark_interval(&registry),
            before_end: (!uncached && timeout > LAST_BOOKMARK).then(|| ends - LAST_BOOKMARK),
        });
        let mut watcher = Self {
            fault,
            registry,
            selection,
            shape,
            feed: match start.after {
                Some(after) => feed.starting_after(after),
                None => feed,
            },
            initial: initial.filter(|_| wait_for.is_none()),
            end_mark: (start.end_mark && wait_for.is_none()).then_some(revision),
            ready: VecDeque::new(),
            shaping: None,
            state: WatchState::Live,
            bookmarks,
            ends,
            wait_for,
            lag,
            held: None,
            began: start.after.unwrap_or(revision),
            over: None,
        };
        if timeout.is_zero() {
            watcher.state = WatchState::Ending;
        }
        if watcher.fault == Some(WatchFault::Expired) {
            watcher.fail(&Failure::expired(format!("too old resource version: {version} ({revision})")));
            return Ok(watcher);
        }
        match kept {
            Ok(()) => (),
            Err(_) if uncached => {
                watcher.fail(&Failure::expired("The resourceVersion for the provided watch is too old."));
            }
            Err(error) => watcher.fail(&compacted(error, version)),
        }
        Ok(watcher)
    }

    /// What the frames are written in.
    pub(crate) fn media(&self) -> Media {
        self.shape.media
    }

    /// When it ends, whether it has been read by then or not; none of one that says nothing until somebody else ends it, for a fault that a
    /// test asked for.
    pub(crate) fn ends(&self) -> Option<Instant> {
        (!matches!(self.fault, Some(WatchFault::SilentAfter(_)))).then_some(self.ends)
    }

    /// The next frames, as many as are there already, in one piece: it costs both sides the same however much is in it. Dropping the
    /// future loses nothing.
    pub(crate) async fn next_piece(&mut self) -> Option<Result<Frame, Cut>> {
        if let Some(over) = self.over.take() {
            return over.map(Err);
        }
        let first = self.next().await;
        let Some(Ok(Frame { bytes, torn: false })) = first else { return first };
        if !self.has_more() {
            return Some(Ok(Frame { bytes, torn: false }));
        }
        let mut piece = BytesMut::from(bytes);
        while piece.len() < WATCH_PIECE && self.has_more() {
            match self.next().now_or_never() {
                Some(Some(Ok(frame))) => piece.extend_from_slice(&frame.bytes),
                Some(Some(Err(cut))) => self.over = Some(Some(cut)),
                Some(None) => self.over = Some(None),
                None => break,
            }
        }
        Some(Ok(Frame { bytes: piece.freeze(), torn: false }))
    }

    /// Whether a frame may be there already. Under a fault each goes out alone, since it counts them.
    fn has_more(&self) -> bool {
        let is_told = !self.ready.is_empty() || self.initial.is_some() || self.feed.has_more();
        is_told && self.fault.is_none() && self.over.is_none()
    }

    /// The next frame; none at the end. Dropping the future loses nothing.
    pub(crate) async fn next(&mut self) -> Option<Result<Frame, Cut>> {
        if let Some(version) = self.wait_for {
            self.await_version(version).await;
            self.wait_for = None;
        }
        loop {
            self.shaped().await;
            if let Err(over) = self.encode_initial().await {
                return self.end(over);
            }
            if self.fault == Some(WatchFault::CutAfter(0)) && !self.ready.is_empty() {
                // What was sent before reaches the client first.
                tokio::task::yield_now().await;
                return Some(Err(Cut::Fault));
            }
            if self.fault == Some(WatchFault::SilentAfter(0)) {
                return self.fall_silent().await;
            }
            if let Some(frame) = self.ready.pop_front() {
                return Some(Ok(self.faulted(frame)));
            }
            // However much there is to tell, there is an end to it.
            if self.state == WatchState::Ending || Instant::now() >= self.ends {
                return None;
            }
            let wake = self.bookmarks.as_ref().map_or(self.ends, |bookmarks| {
                bookmarks.before_end.unwrap_or(self.ends).min(bookmarks.next).min(self.ends)
            });
            tokio::select! {
                biased;
                change = self.next_change() => match change {
                    Ok(change) => self.push(change),
                    Err(over) => return self.end(over),
                },
                () = tokio::time::sleep_until(wake) => self.on_time(),
            }
        }
    }

    /// The next change that it sees. Dropping the future loses nothing.
    async fn next_change(&mut self) -> Result<Arc<Change>, Over> {
        let change = match &self.held {
            Some(change) => change,
            None => self.held.insert(self.feed.next(&self.registry.db).await?),
        };
        if let Some(lagging) = &self.lag {
            let is_over = tokio::select! {
                biased;
                () = lagging.end() => true,
                () = self.registry.wait_until_visible(&self.selection.kind, change.revision(), lagging.lag) => false,
            };
            if is_over {
                self.lag = None;
            }
        }
        let change = change.clone();
        self.held = None;
        Ok(change)
    }

    /// How far behind its view is, if it still is.
    fn lag(&self) -> Option<&Lagging> {
        self.lag.as_ref().filter(|lagging| !lagging.is_over())
    }

    /// Up to which revision everything that it is to see has been sent, if that is so up to any. None before where it began, which may be
    /// yet to come.
    fn sent(&self) -> Option<u64> {
        let read = match &self.held {
            Some(change) => change.revision() - 1,
            None => self.registry.db.revision_if_read(&self.feed)?,
        };
        let sent = match self.lag() {
            Some(lagging) => self.registry.view_revision(&self.selection.kind, View::Behind(lagging.lag)).min(read),
            None => read,
        };
        (sent >= self.began).then_some(sent)
    }

    /// Says nothing until the client goes, or the server.
    async fn fall_silent(&mut self) -> Option<Result<Frame, Cut>> {
        loop {
            match self.feed.next(&self.registry.db).await {
                Ok(_) => {}
                Err(over) => return self.end(over),
            }
        }
    }

    fn end(&mut self, over: Over) -> Option<Result<Frame, Cut>> {
        (self.initial, self.end_mark, self.state) = (None, None, WatchState::Ending);
        (over == Over::TooSlow).then_some(Err(Cut::TooSlow))
    }

    /// What a change means for this watch, if anything.
    fn push(&mut self, change: Arc<Change>) {
        let states = change.old.iter().chain([&change.new]);
        let weight = states.map(|stored| self.weight(stored)).max().unwrap_or(0);
        self.shape(weight, move |shape, selection| {
            let event = WatchEvent::of(&change, selection)?;
            Some(shape.object(event.kind, &event.object, &selection.kind))
        });
    }

    /// What it takes to find out whether an object is meant, and to make a frame of it.
    fn weight(&self, stored: &Stored) -> usize {
        self.selection.search_weight(stored).max(self.shape.weight(stored, &self.selection.kind))
    }

    /// Has a frame made and sent, if anything comes of it: now, or if it takes long, [apart](Self::shaped).
    fn shape(
        &mut self,
        weight: usize,
        make: impl FnOnce(&mut FrameShape, &Selection) -> Option<Outcome<Bytes>> + Send + 'static,
    ) {
        if !offload::is_long(weight) {
            let frame = make(&mut self.shape, &self.selection);
            frame.into_iter().for_each(|frame| self.send(frame));
            return;
        }
        let (mut shape, selection) = (self.shape.clone(), self.selection.clone());
        let shaping = Offload::new(&self.registry.offload_permits, async move {
            offload::work_on(weight).await;
            let frame = make(&mut shape, &selection);
            (shape, frame)
        });
        self.shaping = Some(Mutex::new(shaping));
    }

    /// Waits for the frame that is made apart, if there is one. Dropping the future loses nothing.
    async fn shaped(&mut self) {
        let Some(shaping) = &mut self.shaping else { return };
        let (shape, frame) = shaping.get_mut().unwrap_or_else(PoisonError::into_inner).await;
        (self.shape, self.shaping) = (shape, None);
        frame.into_iter().for_each(|frame| self.send(frame));
    }

    /// Sends a frame; tells the client of one that could not be made, and ends there.
    fn send(&mut self, frame: Outcome<Bytes>) {
        match frame {
            Ok(frame) => self.ready.push_back(frame),
            Err(failure) => self.fail(&failure),
        }
    }

    /// Makes the next frame of what was there at the beginning, if none is ready. Fails if that is no longer kept.
    async fn encode_initial(&mut self) -> Result<(), Over> {
        while self.ready.is_empty()
            && let Some(initial) = &mut self.initial
        {
            let gone = if self.feed.has_ended() { Over::Ended } else { Over::TooSlow };
            let mut run = initial.objects.upgrade().ok_or(gone)?.run(&initial.range).take(SCAN_BATCH);
            let mut last = None;
            // Of one for which that takes long, it is found out apart.
            let mut is_meant = true;
            let found = run.find(|(key, stored)| {
                last = Some(key.clone());
                is_meant = !offload::is_long(self.selection.search_weight(stored));
                !is_meant || self.selection.matches(stored)
            });
            drop(run);
            match &last {
                Some(last) => initial.range.start_after(last),
                None => self.initial = None,
            }
            match found {
                Some((_, stored)) => {
                    let weight = self.weight(&stored);
                    self.shape(weight, move |shape, selection| {
                        let object = || Served::stored(&selection.kind, &stored);
                        let is_meant = is_meant || selection.matches(&stored);
                        is_meant.then(|| shape.object(WatchEventType::Added, &object(), &selection.kind))
                    });
                    self.shaped().await;
                }
                None => tokio::task::yield_now().await,
            }
        }
        if self.ready.is_empty()
            && let Some(revision) = self.end_mark.take()
        {
            self.push_bookmark(revision, true);
        }
        Ok(())
    }

    fn on_time(&mut self) {
        let now = Instant::now();
        if now >= self.ends {
            self.state = WatchState::Ending;
            return;
        }
        let Some(bookmarks) = &mut self.bookmarks else { return };
        if bookmarks.before_end.is_some_and(|at| now >= at) {
            bookmarks.before_end = None;
        }
        if now >= bookmarks.next {
            bookmarks.next = now + bookmark_interval(&self.registry);
        }
        // Where changes are waiting to be read, the next round sends them first.
        if let Some(revision) = self.sent() {
            self.push_bookmark(revision, false);
        }
    }

    fn push_bookmark(&mut self, revision: u64, end_mark: bool) {
        let frame = self.shape.bookmark(revision, end_mark, &self.selection.kind);
        self.send(frame);
    }

    /// Ends the stream with an ERROR event.
    fn fail(&mut self, failure: &Failure) {
        self.ready.push_back(self.shape.error(failure));
        (self.initial, self.end_mark) = (None, None);
        self.state = WatchState::Ending;
    }

    /// A streaming list from a revision that is yet to come waits for it, or fails.
    async fn await_version(&mut self, version: u64) {
        let uncached = is_uncached(&self.selection.kind);
        let patience = if uncached { Duration::ZERO } else { VERSION_PATIENCE };
        let kind = &self.selection.kind;
        let is_seen = async {
            if let Some(lagging) = self.lag() {
                tokio::select! {
                    () = self.registry.wait_until_visible(kind, version, lagging.lag) => return true,
                    () = lagging.end() => (),
                }
            }
            self.registry.db.wait_for(version, patience).await
        };
        let reached = tokio::time::timeout(patience, is_seen).await.unwrap_or(false);
        let seen = match self.lag() {
            Some(lagging) => self.registry.view_revision(kind, View::Behind(lagging.lag)),
            None => self.registry.db.revision(),
        };
        if !reached {
            let retry = if uncached { 2 } else { 1 };
            self.fail(&Failure::too_large_version(version, seen, retry));
            return;
        }
        let begun = match self.lag() {
            Some(lagging) => begin_behind(&self.registry, &self.selection, lagging),
            None => {
                let resource = kind.store.to_string().into();
                let ((initial, revision), feed) = self.registry.db.follow(&resource, self.selection.scope(), |store| {
                    (Initial::new(store, &resource, &self.selection), store.revision())
                });
                Ok((initial, revision, feed))
            }
        };
        match begun {
            Ok((initial, revision, feed)) => {
                (self.feed, self.initial, self.began) = (feed, Some(initial), revision);
                self.end_mark = self.bookmarks.as_ref().map(|_| revision);
            }
            Err(failure) => self.fail(&failure),
        }
    }

    /// The frame as a scripted fault leaves it.
    fn faulted(&mut self, bytes: Bytes) -> Frame {
        let torn = self.fault == Some(WatchFault::CutMidFrame(0));
        match &mut self.fault {
            Some(WatchFault::CutMidFrame(0)) => {
                self.fault = Some(WatchFault::CutAfter(0));
                self.ready.push_front(bytes.clone());
            }
            Some(WatchFault::CutAfter(frames) | WatchFault::CutMidFrame(frames) | WatchFault::SilentAfter(frames)) => {
                *frames -= 1
            }
            Some(WatchFault::Expired) | None => (),
        }
        Frame { bytes, torn }
    }
}

/// What a view that lags shows, its revision, and what comes after that.
fn begin_behind(registry: &Registry, selection: &Selection, lagging: &Lagging) -> Outcome<(Initial, u64, Feed)> {
    let resource = ResourceKey::from(selection.kind.store.to_string());
    let seen = registry.view_revision(&selection.kind, View::Behind(lagging.lag));
    let objects = registry.db.past(&resource, seen).map_err(|error| compacted(error, seen))?;
    let (objects, feed) =
        registry.db.follow(&resource, selection.scope(), |store| store.keep(&resource, seen, &objects));
    Ok((Initial { objects, range: selection.range() }, seen, feed.starting_after(seen)))
}

impl Start {
    fn new(options: &ListOptions, version: u64) -> Self {
        let text = options.resource_version.as_str();
        match options.send_initial_events {
            Some(true) => Self { initial: true, end_mark: options.allow_bookmarks, after: None },
            Some(false) => Self { initial: false, end_mark: false, after: (version > 0).then_some(version) },
            None if version > 0 => Self { initial: false, end_mark: false, after: Some(version) },
            None => {
                let plain = matches!(text, "" | "0");
                Self { initial: true, end_mark: plain && options.allow_bookmarks, after: None }
            }
        }
    }
}

fn bookmark_interval(registry: &Registry) -> Duration {
    registry.config.bookmark_interval.clamp(Duration::from_millis(1), FOREVER)
}

fn timeout(registry: &Registry, asked: Option<i64>) -> Duration {
    match asked {
        Some(seconds) if seconds < 0 => Duration::ZERO,
        Some(seconds) if seconds > 0 => Duration::from_secs(seconds.unsigned_abs()).min(FOREVER),
        _ => DEFAULT_TIMEOUT + registry.with_random(|random| DEFAULT_TIMEOUT.mul_f64(random.f64())),
    }
}
