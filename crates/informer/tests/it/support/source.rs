//! A resource in memory, with faults on demand.

use std::collections::{BTreeMap, VecDeque};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};

use futures_core::Stream;
use pintle_meta::{
    ApiError, Bookmark, ErrorKind, List, ListMeta, ListOptions, Object, ObjectKey, ObjectSource, WatchEvent,
    WatchOptions,
};
use tokio::sync::mpsc::error::TryRecvError;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};

use super::{Pod, cut, expired, too_large};

pub(crate) type Item = Result<WatchEvent<Pod>, ApiError>;

/// A resource in memory, with revisions, a log, watches, pages; and with faults on demand.
#[derive(Clone, Default)]
pub(crate) struct Source {
    inner: Arc<Mutex<Inner>>,
}

#[derive(Default)]
struct Inner {
    revision: u64,
    objects: BTreeMap<ObjectKey, Pod>,
    log: Vec<(u64, WatchEvent<Pod>)>,
    /// Revisions up to this one are forgotten.
    compacted: u64,
    /// All objects after each revision.
    history: BTreeMap<u64, BTreeMap<ObjectKey, Pod>>,
    watches: Vec<UnboundedSender<Item>>,
    /// Watches that are open and will never say anything again.
    stuck: Vec<UnboundedSender<Item>>,
    requests: Vec<String>,
    list_faults: VecDeque<Fault>,
    watch_faults: VecDeque<Fault>,
    /// Whether lists come in pages even at revision "0", as from a server without a watch cache.
    pub(crate) pages_always: bool,
}

/// What becomes of a request.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    /// It fails.
    Fails(ApiError),
    /// It is never answered.
    Hangs,
    /// A watch that ends as soon as it begins.
    Empty,
    /// A watch that says nothing more, not even what it should, and does not end.
    Silent,
    /// A streaming list that gives everything but the bookmark at the end.
    NoBookmark,
    /// An error event on a watch that was opened well.
    Event(ApiError),
}

/// How an open watch is treated.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Break {
    /// It ends as it should.
    End,
    /// The connection is cut.
    Cut,
    /// It is told that it has expired.
    Expire,
    /// It is told to come again later.
    Throttle,
}

impl Source {
    pub(crate) fn with(names: &[&str]) -> Self {
        let source = Self::default();
        names.iter().for_each(|name| source.put(super::pod(name, "")));
        source
    }

    /// Creates or updates, and tells the watches.
    pub(crate) fn put(&self, pod: Pod) {
        let mut inner = self.lock();
        let event = inner.write(pod);
        inner.tell(event);
    }

    /// The same, while all open watches are stuck: they stay open, and say nothing of this or of anything later.
    pub(crate) fn put_silently(&self, pod: Pod) {
        self.lock().get_stuck();
        self.put(pod);
    }

    pub(crate) fn delete(&self, name: &str) {
        let mut inner = self.lock();
        if let Some(event) = inner.remove(name) {
            inner.tell(event);
        }
    }

    /// As [`put_silently`](Self::put_silently).
    pub(crate) fn delete_silently(&self, name: &str) {
        self.lock().get_stuck();
        self.delete(name);
    }

    /// Something else got a new revision.
    pub(crate) fn advance(&self) {
        self.lock().revision += 1;
    }

    pub(crate) fn bookmark(&self) {
        let mut inner = self.lock();
        let event = WatchEvent::Bookmark(inner.bookmark(false));
        inner.watches.retain(|watch| watch.send(Ok(event.clone())).is_ok());
    }

    /// Does something to all open watches.
    pub(crate) fn break_watches(&self, how: Break) {
        let status = |error: ApiError| match error.kind() {
            ErrorKind::Status(status) => Ok(WatchEvent::Error(status.clone())),
            _ => Err(error),
        };
        let mut inner = self.lock();
        inner.get_stuck();
        for watch in inner.stuck.drain(..) {
            // Nobody may be listening any more, which is as good.
            let _ = match how {
                Break::End => Ok(()),
                Break::Cut => watch.send(Err(cut())),
                Break::Expire => watch.send(status(expired())),
                Break::Throttle => watch.send(status(super::too_many_requests())),
            };
        }
    }

    /// Forgets the log, so that old revisions cannot be watched from.
    pub(crate) fn compact(&self) {
        let mut inner = self.lock();
        inner.compacted = inner.revision;
        inner.log.clear();
    }

    pub(crate) fn fail_list(&self, fault: Fault) {
        self.lock().list_faults.push_back(fault);
    }

    pub(crate) fn fail_watch(&self, fault: Fault) {
        self.lock().watch_faults.push_back(fault);
    }

    pub(crate) fn always_page(&self) {
        self.lock().pages_always = true;
    }

    /// The requests since the last call, such as `LIST rv=0 limit=500` and `WATCH rv=7`.
    pub(crate) fn requests(&self) -> Vec<String> {
        std::mem::take(&mut self.lock().requests)
    }

    pub(crate) fn open_watches(&self) -> usize {
        let mut inner = self.lock();
        inner.watches.retain(|watch| !watch.is_closed());
        inner.stuck.retain(|watch| !watch.is_closed());
        inner.watches.len() + inner.stuck.len()
    }

    pub(crate) fn revision(&self) -> u64 {
        self.lock().revision
    }

    pub(crate) fn state(&self) -> BTreeMap<ObjectKey, Pod> {
        self.lock().objects.clone()
    }

    /// All objects as they were after that revision.
    pub(crate) fn state_at(&self, revision: u64) -> BTreeMap<ObjectKey, Pod> {
        self.lock().history.range(..=revision).next_back().map(|(_, state)| state.clone()).unwrap_or_default()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap()
    }
}

impl Inner {
    fn write(&mut self, mut pod: Pod) -> WatchEvent<Pod> {
        self.revision += 1;
        let key = pod.key();
        let old = self.objects.get(&key);
        pod.metadata.resource_version = self.revision.to_string();
        pod.metadata.uid = old.map_or_else(|| format!("uid-{}", self.revision), |old| old.metadata.uid.clone());
        let event = if old.is_some() { WatchEvent::Modified(pod.clone()) } else { WatchEvent::Added(pod.clone()) };
        self.objects.insert(key, pod);
        self.history.insert(self.revision, self.objects.clone());
        event
    }

    fn remove(&mut self, name: &str) -> Option<WatchEvent<Pod>> {
        let mut pod = self.objects.remove(&ObjectKey::new("ns", name))?;
        self.revision += 1;
        pod.metadata.resource_version = self.revision.to_string();
        self.history.insert(self.revision, self.objects.clone());
        Some(WatchEvent::Deleted(pod))
    }

    fn tell(&mut self, event: WatchEvent<Pod>) {
        self.watches.retain(|watch| watch.send(Ok(event.clone())).is_ok());
        self.log.push((self.revision, event));
    }

    fn get_stuck(&mut self) {
        let watches = std::mem::take(&mut self.watches);
        self.stuck.extend(watches);
    }

    fn bookmark(&self, initial_events_end: bool) -> Bookmark {
        Bookmark { resource_version: self.revision.to_string(), initial_events_end }
    }

    /// The revision asked for, if it can be served.
    fn check(&self, version: &str) -> Result<u64, ApiError> {
        match version.parse() {
            _ if version.is_empty() => Ok(0),
            Ok(revision) if revision > self.revision => Err(too_large()),
            Ok(revision) => Ok(revision),
            Err(_) => Err(super::failure(400, pintle_meta::Reason::BadRequest)),
        }
    }

    fn page(&self, options: &ListOptions) -> Result<List<Pod>, ApiError> {
        self.check(&options.resource_version)?;
        let (revision, after) = match options.continue_token.split_once(':') {
            Some((revision, _)) if revision.parse::<u64>().unwrap() < self.compacted => return Err(expired()),
            Some((revision, after)) => (revision.parse().unwrap(), after.to_owned()),
            None => (self.revision, String::new()),
        };
        let is_cached = options.resource_version == "0" && !self.pages_always;
        let limit = if options.limit == 0 || is_cached { usize::MAX } else { options.limit as usize };
        let state = self.history.range(..=revision).next_back().map(|(_, state)| state.clone()).unwrap_or_default();
        let mut rest = state.into_values().filter(|pod| pod.key().as_str() > after.as_str());
        let items: Vec<Pod> = rest.by_ref().take(limit).collect();
        let more = rest.next().is_some();
        let continue_token = items.last().filter(|_| more).map(|last| format!("{revision}:{}", last.key()));
        let metadata = ListMeta {
            resource_version: revision.to_string(),
            continue_token: continue_token.unwrap_or_default(),
            remaining_item_count: None,
        };
        Ok(List { types: Default::default(), metadata, items })
    }

    fn open(&mut self, options: &WatchOptions, fault: Option<Fault>) -> Result<Events, ApiError> {
        let revision = self.check(&options.resource_version)?;
        if revision != 0 && revision < self.compacted {
            return Err(expired());
        }
        let (sender, receiver) = mpsc::unbounded_channel();
        let mut first: Vec<Item> = Vec::new();
        if options.send_initial_events || revision == 0 {
            first.extend(self.objects.values().map(|pod| Ok(WatchEvent::Added(pod.clone()))));
        } else {
            let later = self.log.iter().filter(|(at, _)| *at > revision);
            first.extend(later.map(|(_, event)| Ok(event.clone())));
        }
        if options.send_initial_events && !matches!(fault, Some(Fault::NoBookmark)) {
            first.push(Ok(WatchEvent::Bookmark(self.bookmark(true))));
        }
        match fault {
            Some(Fault::Empty) => return Ok(Events { receiver, _open: None }),
            Some(Fault::Silent) => return Ok(Events { receiver, _open: Some(sender) }),
            Some(Fault::Event(error)) => {
                first = vec![match error.kind() {
                    ErrorKind::Status(status) => Ok(WatchEvent::Error(status.clone())),
                    _ => Err(error),
                }];
            }
            _ => {}
        }
        first.into_iter().for_each(|item| sender.send(item).unwrap());
        self.watches.push(sender);
        Ok(Events { receiver, _open: None })
    }
}

impl ObjectSource for Source {
    type Object = Pod;
    type Events = Events;

    async fn list(&self, options: &ListOptions) -> Result<List<Pod>, ApiError> {
        let fault = {
            let mut inner = self.lock();
            inner.requests.push(describe_list(options));
            inner.list_faults.pop_front()
        };
        match fault {
            Some(Fault::Fails(error)) => Err(error),
            Some(Fault::Hangs) => std::future::pending().await,
            _ => self.lock().page(options),
        }
    }

    async fn watch(&self, options: &WatchOptions) -> Result<Events, ApiError> {
        let fault = {
            let mut inner = self.lock();
            inner.requests.push(describe_watch(options));
            inner.watch_faults.pop_front()
        };
        match fault {
            Some(Fault::Fails(error)) => Err(error),
            Some(Fault::Hangs) => std::future::pending().await,
            fault => self.lock().open(options, fault),
        }
    }
}

pub(crate) fn describe_list(options: &ListOptions) -> String {
    let next = if options.continue_token.is_empty() { "" } else { " next" };
    format!("LIST rv={} limit={}{next}", options.resource_version, options.limit)
}

pub(crate) fn describe_watch(options: &WatchOptions) -> String {
    let initial = if options.send_initial_events { " initial" } else { "" };
    format!("WATCH rv={}{initial}", options.resource_version)
}

pub(crate) struct Events {
    receiver: UnboundedReceiver<Item>,
    /// Keeps a silent watch open.
    _open: Option<UnboundedSender<Item>>,
}

impl Events {
    /// The next event, or the end, if it is there.
    pub(crate) fn ready(&mut self) -> Option<Option<Item>> {
        match self.receiver.try_recv() {
            Ok(item) => Some(Some(item)),
            Err(TryRecvError::Disconnected) => Some(None),
            Err(TryRecvError::Empty) => None,
        }
    }
}

impl Stream for Events {
    type Item = Item;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Item>> {
        self.receiver.poll_recv(context)
    }
}
