//! Watches. A watch reads changes from the store's log and sends frames to one client.
//!
//! A [`Watcher`] reads the changes of its resource from a log that all watchers share. A write notifies the watchers of
//! the object, its namespace, its old and new field values, and the whole resource. The cost of a write does not depend
//! on the number of other watchers.
//!
//! [`WatchEvent`] computes the event for a change without side effects. A watcher has no queue of changes, and encodes
//! a frame only when the connection is ready to send the frame. If a watcher lags too far behind, the server
//! disconnects the client. The client can resume the watch at the last resource version that it received.

mod frame;
mod start;
mod watch_event;

use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::FutureExt;
use pintle_meta::__private::Mutex;
use pintle_meta::WatchEventType;
use tokio::time::Instant;

pub(crate) use frame::FrameShape;
use pintle_apimachinery::failure::{Failure, Outcome};
use pintle_apimachinery::request::Requester;
use pintle_apimachinery::request::accept::Media;
use pintle_apimachinery::request::options::ListOptions;
use pintle_apimachinery::request::webhook_calls::WebhookCalls;
use pintle_serving::offload::{self, Offload};
use pintle_storage::{Change, Feed, FeedEnd, Objects, Range, ResourceKey, Store, Stored};
use start::Start;
use thiserror::Error;
pub(crate) use watch_event::WatchEvent;

use crate::faults::{Lagging, View, WatchFault};
use crate::registry::{Registry, SCAN_BATCH, Selection, Served, VERSION_TIMEOUT, compacted, is_uncached, parse_number};

#[derive(Clone, Debug)]
pub(crate) struct Frame {
    pub(crate) bytes: Bytes,
    /// If `true`, a scripted fault cuts the frame: the server sends half of the frame and closes the connection.
    pub(crate) torn: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum Cut {
    /// The client reads so slowly that the watch has missed events.
    #[error("the watcher fell too far behind")]
    TooSlow,
    #[error("a scripted fault")]
    Fault,
}

/// The minimum default timeout of a watch. The server adds a random duration of up to the same length.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30 * 60);
/// The maximum duration of a watch. A bounded duration can be added to a time without an overflow.
const FOREVER: Duration = Duration::from_secs(u32::MAX as u64);
/// The approximate maximum size of the watch frames in one write, in bytes. 16 KiB is the default frame size of HTTP/2.
const WATCH_PIECE: usize = 16 << 10;
/// The server sends the last bookmark of a watch this long before the watch ends.
const LAST_BOOKMARK: Duration = Duration::from_secs(2);

/// One client's watch. Dropping the `Watcher` ends the watch.
#[derive(Debug)]
pub(crate) struct Watcher {
    registry: Arc<Registry>,
    selection: Selection,
    shape: FrameShape,
    feed: Feed,
    initial: Option<Initial>,
    /// The revision of the bookmark that follows the initial objects, or `None` if no bookmark follows them.
    end_mark: Option<u64>,
    ready: VecDeque<Bytes>,
    /// The frame that another thread is encoding. The `Mutex` is never contended, and only makes the watcher `Sync`.
    pending_frame: Option<Mutex<PendingFrame>>,
    state: WatchState,
    bookmarks: Option<Bookmarks>,
    deadline: Instant,
    wait_for: Option<u64>,
    fault: Option<WatchFault>,
    lag: Option<Lagging>,
    /// The next change, which a fault rule currently delays.
    held_change: Option<Arc<Change>>,
    start_revision: u64,
    /// Set if the stream ends directly after the last returned frames. The inner `Option` is the reason why the stream
    /// ends.
    queued_end: Option<Option<Cut>>,
    conversions: Option<Requester>,
}

/// A future that encodes a frame on another thread. The future returns the updated [`FrameShape`] and, if the object
/// matches the selectors, the frame.
type PendingFrame = Offload<(FrameShape, Option<Outcome<Bytes>>)>;

/// The initial objects of a watch. The objects stay available as long as the log contains all later changes. The
/// reference is weak, so a client that does not read its watch does not keep the objects in memory.
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

impl Watcher {
    /// Starts a watch. Returns an error if the options are invalid. Resource versions that are too old or too new cause
    /// an error event in the stream instead.
    pub(crate) fn start(
        registry: Arc<Registry>,
        selection: Selection,
        options: &ListOptions,
        shape: FrameShape,
        (fault, lag): (Option<WatchFault>, Option<Lagging>),
        conversions: Option<Requester>,
    ) -> Outcome<Self> {
        let version = match options.resource_version.as_str() {
            "" => 0,
            text => parse_number(text).map_err(|error| {
                let why = &error.status.message;
                Failure::plain(500, format!("resourceVersion: Invalid value: {text:?}: {why}"))
            })?,
        };
        let start = Start::new(options, version);
        let resource = selection.kind.resource_key().clone();
        let lagging = lag.as_ref().filter(|_| start.initial && !options.resource_version.is_empty());
        let ((initial, kept, revision), feed) = match lagging {
            Some(lagging) => {
                let (initial, seen, feed) = start_from_stale_view(&registry, &selection, lagging)?;
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
        let deadline = now + timeout;
        let uncached = is_uncached(&selection.kind);
        let bookmarks = options.allow_bookmarks.then(|| Bookmarks {
            next: now + bookmark_interval(&registry),
            before_end: (!uncached && timeout > LAST_BOOKMARK).then(|| deadline - LAST_BOOKMARK),
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
            pending_frame: None,
            state: WatchState::Live,
            bookmarks,
            deadline,
            wait_for,
            lag,
            held_change: None,
            start_revision: start.after.unwrap_or(revision),
            queued_end: None,
            conversions,
        };
        if timeout.is_zero() {
            watcher.state = WatchState::Ending;
        }
        watcher.end_if_withdrawn();
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

    pub(crate) fn media(&self) -> Media {
        self.shape.media
    }

    /// Returns the time at which the watch ends, even if the client does not read. Returns `None` if a fault rule has
    /// silenced the watch, because a silenced watch never ends.
    pub(crate) fn ends(&self) -> Option<Instant> {
        (!matches!(self.fault, Some(WatchFault::SilentAfter(_)))).then_some(self.deadline)
    }

    /// Waits for the next frame. Returns the frame together with other frames that are ready, up to a total size of
    /// [`WATCH_PIECE`]. One large write costs less than many small writes.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses no frames.
    pub(crate) async fn next_piece(&mut self) -> Option<Result<Frame, Cut>> {
        if let Some(end) = self.queued_end.take() {
            return end.map(Err);
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
                Some(Some(Err(cut))) => self.queued_end = Some(Some(cut)),
                Some(None) => self.queued_end = Some(None),
                None => break,
            }
        }
        Some(Ok(Frame { bytes: piece.freeze(), torn: false }))
    }

    /// Returns `true` if another frame can be added to the same write. Returns `false` if a fault rule applies to the
    /// watch, because fault rules count frames.
    fn has_more(&self) -> bool {
        let is_ready = !self.ready.is_empty() || self.initial.is_some() || self.feed.has_more();
        is_ready && self.fault.is_none() && self.queued_end.is_none()
    }

    /// Waits for the next frame. Returns `None` when the watch has ended.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses no frames.
    pub(crate) async fn next(&mut self) -> Option<Result<Frame, Cut>> {
        if let Some(version) = self.wait_for {
            self.await_version(version).await;
            self.wait_for = None;
        }
        loop {
            self.finish_frame().await;
            if let Err(end) = self.encode_initial().await {
                return self.end(end);
            }
            if self.fault == Some(WatchFault::CutAfter(0)) && !self.ready.is_empty() {
                // Yield before cutting the stream, so that the connection sends the earlier frames first.
                tokio::task::yield_now().await;
                return Some(Err(Cut::Fault));
            }
            if self.fault == Some(WatchFault::SilentAfter(0)) {
                return self.stay_silent().await;
            }
            if let Some(frame) = self.ready.pop_front() {
                return Some(Ok(self.apply_fault(frame)));
            }
            // Check the deadline before reading changes. Otherwise, a watch with a constant flow of changes would never
            // end.
            if self.state == WatchState::Ending || Instant::now() >= self.deadline {
                return None;
            }
            let wake = self.bookmarks.as_ref().map_or(self.deadline, |bookmarks| {
                bookmarks.before_end.unwrap_or(self.deadline).min(bookmarks.next).min(self.deadline)
            });
            tokio::select! {
                biased;
                change = self.next_change() => match change {
                    Ok(change) => self.push(change),
                    Err(end) => return self.end(end),
                },
                () = tokio::time::sleep_until(wake) => self.on_time(),
            }
        }
    }

    /// Waits for the next change that this watch may send, which can be delayed by a fault rule.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses no changes.
    async fn next_change(&mut self) -> Result<Arc<Change>, FeedEnd> {
        let change = match &self.held_change {
            Some(change) => change,
            None => self.held_change.insert(self.feed.next(&self.registry.db).await?),
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
        self.held_change = None;
        Ok(change)
    }

    fn lag(&self) -> Option<&Lagging> {
        self.lag.as_ref().filter(|lagging| !lagging.is_over())
    }

    /// Returns the revision up to which the watch has sent all changes. Returns `None` if there are unread changes, or
    /// if the store has not reached the start revision.
    fn sent_revision(&self) -> Option<u64> {
        let read = match &self.held_change {
            Some(change) => change.revision() - 1,
            None => self.registry.db.revision_if_read(&self.feed)?,
        };
        let sent = match self.lag() {
            Some(lagging) => self.registry.view_revision(&self.selection.kind, View::Behind(lagging.lag)).min(read),
            None => read,
        };
        (sent >= self.start_revision).then_some(sent)
    }

    /// Sends no events, and waits until the client disconnects or the resource is removed.
    async fn stay_silent(&mut self) -> Option<Result<Frame, Cut>> {
        loop {
            match self.feed.next(&self.registry.db).await {
                Ok(_) => {}
                Err(end) => return self.end(end),
            }
        }
    }

    /// Ends the watch if the kind was withdrawn or replaced before the feed started. Such a feed does not end by itself,
    /// because it follows the next resource of the same name.
    fn end_if_withdrawn(&mut self) {
        if !self.registry.serves(&self.selection.kind) {
            let _ = self.end(FeedEnd::Ended);
        }
    }

    fn end(&mut self, end: FeedEnd) -> Option<Result<Frame, Cut>> {
        (self.initial, self.end_mark, self.wait_for, self.state) = (None, None, None, WatchState::Ending);
        (end == FeedEnd::TooSlow).then_some(Err(Cut::TooSlow))
    }

    fn push(&mut self, change: Arc<Change>) {
        let states = change.old.iter().chain([&change.new]);
        let weight = states.map(|stored| self.weight(stored)).max().unwrap_or(0);
        self.encode(weight, move |shape, selection| {
            let event = WatchEvent::of(&change, selection)?;
            Some(shape.object(event.kind, &event.object, &selection.kind))
        });
    }

    fn weight(&self, stored: &Stored) -> usize {
        self.selection.search_weight(stored).max(self.shape.weight(stored, &self.selection.kind))
    }

    /// Encodes a frame, and adds it to the queue if the object matches the selectors. Expensive frames are encoded on
    /// another thread, and [`finish_frame`](Self::finish_frame) adds them to the queue.
    fn encode(
        &mut self,
        weight: usize,
        make: impl Fn(&mut FrameShape, &Selection) -> Option<Outcome<Bytes>> + Send + Sync + 'static,
    ) {
        if let Some(by) = self.conversions.clone() {
            let (mut shape, selection, registry) = (self.shape.clone(), self.selection.clone(), self.registry.clone());
            let pending = Offload::new(&self.registry.offload_permits, async move {
                let frame = loop {
                    let frame = make(&mut shape, &selection);
                    match registry.settle(&by).await {
                        Ok(true) => {}
                        Ok(false) => break frame,
                        // kube-apiserver returns the same error, because it can never fill its watch cache for this
                        // version.
                        Err(_) => break Some(Err(Failure::too_large_version(registry.db.revision(), 0, 1))),
                    }
                };
                by.webhooks().into_iter().for_each(WebhookCalls::forget_conversions);
                (shape, frame)
            });
            self.pending_frame = Some(Mutex::new(pending));
            return;
        }
        if !offload::is_long(weight) {
            let frame = make(&mut self.shape, &self.selection);
            frame.into_iter().for_each(|frame| self.send(frame));
            return;
        }
        let (mut shape, selection) = (self.shape.clone(), self.selection.clone());
        let pending = Offload::new(&self.registry.offload_permits, async move {
            offload::work_on(weight).await;
            let frame = make(&mut shape, &selection);
            (shape, frame)
        });
        self.pending_frame = Some(Mutex::new(pending));
    }

    async fn finish_frame(&mut self) {
        let Some(pending) = &mut self.pending_frame else { return };
        let (shape, frame) = pending.get_mut().await;
        (self.shape, self.pending_frame) = (shape, None);
        frame.into_iter().for_each(|frame| self.send(frame));
    }

    fn send(&mut self, frame: Outcome<Bytes>) {
        match frame {
            Ok(frame) => self.ready.push_back(frame),
            Err(failure) => self.fail(&failure),
        }
    }

    /// Encodes the next initial object if no other frame is ready. Returns an error if the initial objects are no
    /// longer available.
    async fn encode_initial(&mut self) -> Result<(), FeedEnd> {
        while self.ready.is_empty()
            && let Some(initial) = &mut self.initial
        {
            let gone = || self.feed.reason_for_lost_objects();
            let mut run = initial.objects.upgrade().ok_or_else(gone)?.run(&initial.range).take(SCAN_BATCH);
            let mut last = None;
            let mut is_checked = true;
            let found = run.find(|(key, stored)| {
                last = Some(key.clone());
                is_checked = self.conversions.is_none() && !offload::is_long(self.selection.search_weight(stored));
                !is_checked || self.selection.matches(stored)
            });
            drop(run);
            match &last {
                Some(last) => initial.range.start_after(last),
                None => self.initial = None,
            }
            match found {
                Some((_, stored)) => {
                    let weight = self.weight(&stored);
                    self.encode(weight, move |shape, selection| {
                        let object = || Served::stored(&selection.kind, &stored);
                        let is_match = is_checked || selection.matches(&stored);
                        is_match.then(|| shape.object(WatchEventType::Added, &object(), &selection.kind))
                    });
                    self.finish_frame().await;
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
        if now >= self.deadline {
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
        // Send a bookmark only if all changes have been read, because it must come after the events for all earlier
        // changes.
        if let Some(revision) = self.sent_revision() {
            self.push_bookmark(revision, false);
        }
    }

    fn push_bookmark(&mut self, revision: u64, end_mark: bool) {
        let frame = self.shape.bookmark(revision, end_mark, &self.selection.kind);
        self.send(frame);
    }

    fn fail(&mut self, failure: &Failure) {
        self.ready.push_back(self.shape.error(failure));
        (self.initial, self.end_mark) = (None, None);
        self.state = WatchState::Ending;
    }

    /// Waits until the store reaches the start revision of a streaming list. After a timeout, ends the watch with an
    /// ERROR event.
    async fn await_version(&mut self, version: u64) {
        let uncached = is_uncached(&self.selection.kind);
        let max_wait = if uncached { Duration::ZERO } else { VERSION_TIMEOUT };
        let kind = &self.selection.kind;
        let is_seen = async {
            if let Some(lagging) = self.lag() {
                tokio::select! {
                    () = self.registry.wait_until_visible(kind, version, lagging.lag) => return true,
                    () = lagging.end() => (),
                }
            }
            self.registry.db.wait_for(version, max_wait).await
        };
        let reached = tokio::time::timeout(max_wait, is_seen).await.unwrap_or(false);
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
            Some(lagging) => start_from_stale_view(&self.registry, &self.selection, lagging),
            None => {
                let resource = kind.resource_key().clone();
                let ((initial, revision), feed) = self.registry.db.follow(&resource, self.selection.scope(), |store| {
                    (Initial::new(store, &resource, &self.selection), store.revision())
                });
                Ok((initial, revision, feed))
            }
        };
        match begun {
            Ok((initial, revision, feed)) => {
                (self.feed, self.initial, self.start_revision) = (feed, Some(initial), revision);
                self.end_mark = self.bookmarks.as_ref().map(|_| revision);
                self.end_if_withdrawn();
            }
            Err(failure) => self.fail(&failure),
        }
    }

    fn apply_fault(&mut self, bytes: Bytes) -> Frame {
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

fn start_from_stale_view(
    registry: &Registry,
    selection: &Selection,
    lagging: &Lagging,
) -> Outcome<(Initial, u64, Feed)> {
    let resource = selection.kind.resource_key().clone();
    let seen = registry.view_revision(&selection.kind, View::Behind(lagging.lag));
    let objects = registry.db.past(&resource, seen).map_err(|error| compacted(error, seen))?;
    let (objects, feed) =
        registry.db.follow(&resource, selection.scope(), |store| store.keep(&resource, seen, &objects));
    Ok((Initial { objects, range: selection.range() }, seen, feed.starting_after(seen)))
}

fn bookmark_interval(registry: &Registry) -> Duration {
    registry.config.bookmark_interval.clamp(Duration::from_millis(1), FOREVER)
}

fn timeout(registry: &Registry, requested: Option<i64>) -> Duration {
    match requested {
        Some(seconds) if seconds < 0 => Duration::ZERO,
        Some(seconds) if seconds > 0 => Duration::from_secs(seconds.unsigned_abs()).min(FOREVER),
        _ => DEFAULT_TIMEOUT + registry.with_random(|random| DEFAULT_TIMEOUT.mul_f64(random.f64())),
    }
}
