//! The past of one resource.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Weak};
use std::time::Instant;

use super::kept::Room;
use super::objects::Objects;
use super::stored::WrittenIn;
use super::{History, Past, ResourceKey, StoreChange};

/// So many states of the past are kept that nobody holds at present.
pub(super) const ROOTS: usize = 8;

/// The changes that made the objects of one resource, oldest first.
#[derive(Debug, Default)]
pub(super) struct Table {
    log: VecDeque<Arc<StoreChange>>,
    /// What was there at revisions that somebody reads, or may come back to. The log goes back as far as each of them, and holds what
    /// of it is no longer there.
    /// With each, the era that it is of.
    roots: BTreeMap<(u64, u64), Arc<Objects>>,
    /// It ends when what was there at every revision is told otherwise: then only those who hold a state of it read on.
    era: u64,
    /// The versions that the objects were written in. There are no more than the resource ever had, and the objects share them.
    versions: Vec<Arc<WrittenIn>>,
    /// What the log takes, about.
    logged: usize,
    /// No older revision can be asked for.
    floor: u64,
    /// Every change after this revision is in `log`; never above the floor.
    dropped: u64,
}

impl Table {
    pub(super) fn floor(&self) -> u64 {
        self.floor
    }

    /// A version as all objects that were written in it share it.
    pub(super) fn version(&mut self, resource: &ResourceKey, text: &str, room: &Arc<Room>) -> Arc<WrittenIn> {
        if let Some(known) = self.versions.iter().find(|known| known.version() == text) {
            return known.clone();
        }
        let version = WrittenIn::new(resource, text, room);
        self.versions.push(version.clone());
        version
    }

    pub(super) fn record(&mut self, change: StoreChange) -> Arc<StoreChange> {
        self.logged += change.new.weight();
        let change = Arc::new(change);
        self.log.push_back(change.clone());
        change
    }

    /// Has what was there at every revision told otherwise from now on.
    pub(super) fn begin_era(&mut self) {
        self.roots.retain(|_, root| Arc::weak_count(root) > 0);
        self.era += 1;
    }

    pub(super) fn since(&self, revision: u64) -> impl Iterator<Item = &Arc<StoreChange>> {
        let first = self.log.partition_point(|change| change.revision() <= revision);
        self.log.range(first..)
    }

    /// The first change after that time.
    pub(super) fn first_after(&self, time: Instant) -> Option<&Arc<StoreChange>> {
        self.log.get(self.log.partition_point(|change| change.at <= time))
    }

    /// The last change up to that revision.
    pub(super) fn last_until(&self, revision: u64) -> Option<&Arc<StoreChange>> {
        let after = self.log.partition_point(|change| change.revision() <= revision);
        self.log.get(after.checked_sub(1)?)
    }

    /// Whether all changes after that revision are there still.
    pub(super) fn keeps(&self, revision: u64) -> bool {
        revision >= self.dropped
    }

    pub(super) fn logged(&self) -> usize {
        self.logged
    }

    /// The revision of the oldest change, if that is not the last as well.
    pub(super) fn oldest_past(&self) -> Option<u64> {
        self.log.front().filter(|_| self.log.len() > 1).map(|change| change.revision())
    }

    /// What was there at a revision: made of what is known to have been there soonest after it, be it what is there `now`.
    pub(super) fn past(&self, revision: u64, now: Objects) -> Past {
        let after = self.roots.range((revision, 0)..).find(|((_, era), _)| *era == self.era);
        let (at, objects) = after.map_or((u64::MAX, now), |((at, _), root)| (*at, (**root).clone()));
        let since = self.since(revision).take_while(|change| change.revision() <= at);
        Past { later: objects, since: since.cloned().collect() }
    }

    /// Keeps what was there at a revision until a change after it is dropped. Of those that nobody holds, the oldest go.
    pub(super) fn keep(&mut self, revision: u64, objects: &Objects) -> Weak<Objects> {
        if !self.keeps(revision) {
            return Weak::new();
        }
        let root = Arc::downgrade(self.roots.entry((revision, self.era)).or_insert_with(|| Arc::new(objects.clone())));
        let unheld = self.roots.iter().filter(|(_, root)| Arc::weak_count(root) == 0).map(|(at, _)| *at);
        let unheld: Vec<_> = unheld.collect();
        for at in unheld.iter().take(unheld.len().saturating_sub(ROOTS)) {
            self.roots.remove(at);
        }
        root
    }

    /// Lets nobody ask for what came before. Who follows the changes reads on.
    pub(super) fn compact(&mut self, revision: u64) {
        self.floor = self.floor.max(revision);
    }

    /// Drops the whole log.
    pub(super) fn forget(&mut self, revision: u64) {
        self.log.clear();
        self.roots.clear();
        self.logged = 0;
        self.dropped = self.dropped.max(revision);
        self.compact(revision);
    }

    /// Drops what are more changes than `history` keeps.
    pub(super) fn trim(&mut self, history: History) {
        if let Some(at) = self.log.len().checked_sub(history.max_changes.saturating_add(1)) {
            self.compact(self.log[at].revision());
        }
        let most = history.max_changes.max(history.followed);
        while self.log.len() > most {
            self.drop_oldest();
        }
    }

    /// Whether the oldest change is older than `history` keeps.
    pub(super) fn is_expired(&self, now: Instant, history: History) -> bool {
        self.log.front().is_some_and(|oldest| now.saturating_duration_since(oldest.at) > history.max_age)
    }

    /// Drops the oldest change.
    pub(super) fn drop_oldest(&mut self) {
        let Some(oldest) = self.log.pop_front() else { return };
        self.logged -= oldest.new.weight();
        self.dropped = oldest.revision();
        self.compact(oldest.revision());
        while self.roots.first_key_value().is_some_and(|((at, _), _)| *at < self.dropped) {
            self.roots.pop_first();
        }
    }
}
