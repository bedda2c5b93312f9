//! Who follows which changes: found by what is followed, not asked one by one.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use tokio::sync::watch;

use super::Db;
use crate::store::{Change, ResourceKey};

/// How many changes a feed takes from the log at once, how many bytes of them, about, and how many it looks at.
const BATCH: usize = 64;
const BATCH_BYTES: usize = 1 << 20;
const FEED_LOOKS: usize = 4096;

/// What of a resource is followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FeedScope {
    All,
    Namespace(String),
    /// One object, by its key.
    Object(String),
    /// The objects that have, or had until now, this value where their kind has that field of those that can be selected.
    Field {
        at: usize,
        value: String,
    },
}

impl FeedScope {
    fn holds(&self, change: &Change) -> bool {
        match self {
            Self::All => true,
            Self::Namespace(namespace) => namespace_of(&change.key) == Some(namespace),
            Self::Object(object) => **object == *change.key,
            Self::Field { at, value } => values_of(change, *at).any(|found| found == value),
        }
    }
}

fn namespace_of(key: &str) -> Option<&str> {
    key.split_once('/').map(|(namespace, _)| namespace)
}

/// The values that a field has now, and has had until now if that was another.
fn values_of(change: &Change, at: usize) -> impl Iterator<Item = &str> {
    let new = change.new.kept_field(at);
    let old = change.old.as_ref().and_then(|old| old.kept_field(at));
    new.into_iter().chain(old.filter(|_| old != new))
}

/// Those who follow something of one resource. A change costs the same however many follow what it is not about.
#[derive(Debug, Default)]
pub(super) struct Followers {
    all: Option<News>,
    namespaces: HashMap<String, News>,
    objects: HashMap<String, News>,
    /// By the place of a field, and then by its value.
    fields: HashMap<usize, HashMap<String, News>>,
    /// When there are so many places, those that nobody follows any more are let go.
    swept_at: usize,
}

/// The last changes of what somebody follows, by their revisions.
#[derive(Debug)]
struct News {
    revisions: VecDeque<u64>,
    /// Every change after this revision is among them.
    dropped: u64,
    /// The revision of the last.
    last: watch::Sender<u64>,
}

impl News {
    fn new(now: u64) -> Self {
        Self { revisions: VecDeque::new(), dropped: now, last: watch::Sender::new(now) }
    }

    fn is_followed(&self) -> bool {
        self.last.receiver_count() > 0
    }

    fn add(&mut self, revision: u64, most: usize) {
        self.revisions.push_back(revision);
        while self.revisions.len() > most {
            self.dropped = self.revisions.pop_front().unwrap_or(self.dropped);
        }
        self.last.send_replace(revision);
    }

    /// The changes after a revision; none if some of them are no longer known.
    fn since(&self, revision: u64) -> Option<impl Iterator<Item = u64>> {
        let first = self.revisions.partition_point(|change| *change <= revision);
        (revision >= self.dropped).then(|| self.revisions.range(first..).copied())
    }
}

impl Followers {
    /// Whoever has the answer follows `scope` from `now` on.
    pub(super) fn follow(&mut self, scope: &FeedScope, now: u64) -> watch::Receiver<u64> {
        if self.parts() >= self.swept_at {
            let places = [&mut self.namespaces, &mut self.objects].into_iter().chain(self.fields.values_mut());
            places.for_each(|news| news.retain(|_, news| news.is_followed()));
            self.swept_at = 64 + 2 * self.parts();
        }
        let news = match scope {
            FeedScope::All => self.all.get_or_insert_with(|| News::new(now)),
            FeedScope::Namespace(name) => self.namespaces.entry(name.clone()).or_insert_with(|| News::new(now)),
            FeedScope::Object(key) => self.objects.entry(key.clone()).or_insert_with(|| News::new(now)),
            FeedScope::Field { at, value } => {
                let values = self.fields.entry(*at).or_default();
                values.entry(value.clone()).or_insert_with(|| News::new(now))
            }
        };
        news.last.subscribe()
    }

    /// How many parts of the resource are known to have been followed.
    fn parts(&self) -> usize {
        self.namespaces.len() + self.objects.len() + self.fields.values().map(HashMap::len).sum::<usize>()
    }

    /// Tells those whom a change is about. They may lag behind by at most so many.
    pub(super) fn tell(&mut self, change: &Change, most: usize) {
        let namespace = namespace_of(&change.key).and_then(|namespace| self.namespaces.get_mut(namespace));
        let object = self.objects.get_mut(&*change.key);
        for news in self.all.iter_mut().chain(namespace).chain(object) {
            news.add(change.revision(), most);
        }
        for (at, values) in &mut self.fields {
            for value in values_of(change, *at) {
                if let Some(news) = values.get_mut(value) {
                    news.add(change.revision(), most);
                }
            }
        }
    }

    fn since(&self, scope: &FeedScope, revision: u64) -> Option<impl Iterator<Item = u64>> {
        let news = match scope {
            FeedScope::All => self.all.as_ref(),
            FeedScope::Namespace(name) => self.namespaces.get(name),
            FeedScope::Object(key) => self.objects.get(key),
            FeedScope::Field { at, value } => self.fields.get(at)?.get(value),
        };
        news?.since(revision)
    }
}

/// The changes of a part of a resource, read from the log as far as it has come. It keeps none of them alive but those that it is
/// about to give out, however slowly it is read.
#[derive(Debug)]
pub(crate) struct Feed {
    resource: ResourceKey,
    scope: FeedScope,
    /// Up to which revision they have been read from the log.
    after: u64,
    /// Whether it has come to the end of the log once. Before, it does not lag: it begins in the past, of which it looks at the
    /// changes of the whole resource.
    live: bool,
    news: watch::Receiver<u64>,
    ready: VecDeque<Arc<Change>>,
}

/// Why a feed gives out no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Over {
    /// It was read so slowly that changes were lost for it.
    TooSlow,
    /// The resource is no more, or was made anew.
    Ended,
}

impl Feed {
    pub(super) fn new(resource: ResourceKey, scope: FeedScope, after: u64, news: watch::Receiver<u64>) -> Self {
        Self { resource, scope, after, live: true, news, ready: VecDeque::new() }
    }

    /// The same from an earlier revision on.
    pub(crate) fn starting_after(mut self, revision: u64) -> Self {
        self.after = revision;
        self.live = false;
        self
    }

    /// The next change. Dropping the future loses nothing.
    pub(crate) async fn next(&mut self, db: &Db) -> Result<Arc<Change>, Over> {
        loop {
            if let Some(change) = self.ready.pop_front() {
                return Ok(change);
            }
            let last = *self.news.borrow_and_update();
            let ended = self.has_ended();
            match self.read(db, if ended { last } else { u64::MAX }) {
                Err(_) if ended => return Err(Over::Ended),
                Err(over) => return Err(over),
                Ok(at_end) if at_end && self.ready.is_empty() => {
                    if ended {
                        return Err(Over::Ended);
                    }
                    self.live = true;
                    // If nobody tells any more, there is an end to what is left.
                    let _ = self.news.changed().await;
                }
                Ok(_) => (),
            }
        }
    }

    /// Whether nothing more will be told of: the resource is no more, or was made anew.
    pub(crate) fn has_ended(&self) -> bool {
        self.news.has_changed().is_err()
    }

    /// Whether a change may be there already, or the end.
    pub(crate) fn has_more(&self) -> bool {
        !self.ready.is_empty() || self.news.has_changed().unwrap_or(true)
    }

    /// Takes what comes next from the log, up to that revision; answers whether that is all.
    fn read(&mut self, db: &Db, last: u64) -> Result<bool, Over> {
        let inner = db.lock();
        if self.live {
            let Some(followers) = inner.followers.get(&self.resource) else { return Ok(true) };
            let unread = followers.since(&self.scope, self.after).ok_or(Over::TooSlow)?;
            for revision in unread.take_while(|revision| *revision <= last) {
                let change = inner.store.change(&self.resource, revision).ok_or(Over::TooSlow)?;
                self.after = revision;
                self.ready.push_back(change.clone());
                if self.is_full() {
                    return Ok(false);
                }
            }
            return Ok(true);
        }
        let changes = inner.store.followed(&self.resource, self.after).ok_or(Over::TooSlow)?;
        for (at, change) in changes.take_while(|change| change.revision() <= last).enumerate() {
            if self.is_full() || at == FEED_LOOKS {
                return Ok(false);
            }
            self.after = change.revision();
            if self.scope.holds(change) {
                self.ready.push_back(change.clone());
            }
        }
        // Nothing that it follows came between the last change and now.
        self.after = self.after.max(inner.store.revision());
        Ok(true)
    }

    fn is_full(&self) -> bool {
        let bytes: usize = self.ready.iter().map(|change| change.new.weight()).sum();
        self.ready.len() >= BATCH || bytes > BATCH_BYTES
    }

    /// Whether all changes up to now have been taken.
    pub(super) fn is_read(&self, inner: &super::Inner) -> bool {
        let nothing_left = || match self.live {
            true => inner.followers.get(&self.resource)?.since(&self.scope, self.after)?.next().is_none().then_some(()),
            false => {
                let mut left = inner.store.followed(&self.resource, self.after)?;
                (!left.any(|change| self.scope.holds(change))).then_some(())
            }
        };
        self.ready.is_empty() && nothing_left().is_some()
    }
}
