//! The change log of one resource.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::mem;
use std::sync::{Arc, Weak};
use std::time::Instant;

use super::History;
use super::encodings::EncodingCache;
use super::objects::Objects;
use super::stored::Origin;
use crate::past::Past;
use crate::stored::{ResourceKey, StoreChange, Stored};

/// The maximum number of snapshots without readers that the change log keeps.
pub(super) const MAX_UNUSED_SNAPSHOTS: usize = 8;

/// The change log of one resource. [`followed`](Self::followed) also returns compacted changes while they are still in
/// the log.
#[derive(Debug, Default)]
pub struct ChangeLog {
    log: VecDeque<Arc<StoreChange>>,
    /// The snapshots by revision and era, including those without current readers. The log contains all changes after each
    /// snapshot.
    snapshots: BTreeMap<(u64, u64), Arc<Objects>>,
    /// The current era. A new era begins when a caller changes the content of past revisions, and only current readers can still
    /// use snapshots of earlier eras.
    era: u64,
    /// The [`Origin`] of each API version in which objects were written. Objects of the same API version share an origin, so
    /// there is at most one origin per API version.
    origins: Vec<Arc<Origin>>,
    log_bytes: usize,
    floor: u64,
    /// The revision of the last dropped change, which is at most `floor`.
    dropped: u64,
}

impl ChangeLog {
    /// Returns all changes after `revision`, oldest first, or `None` if the log no longer contains all of them.
    pub fn followed(&self, revision: u64) -> Option<impl Iterator<Item = &Arc<StoreChange>>> {
        self.keeps(revision).then(|| self.since(revision))
    }

    /// Returns the change with this revision if the log contains it.
    pub fn change(&self, revision: u64) -> Option<&Arc<StoreChange>> {
        self.since(revision.checked_sub(1)?).next().filter(|change| change.revision() == revision)
    }

    /// Returns the approximate size, in bytes, of all objects that the log keeps in memory. The log keeps the objects
    /// of its snapshots, and the objects before and after each change. Each object counts once. Do not hold a lock
    /// during the call, which visits all of these objects.
    pub fn retained_bytes(&self) -> usize {
        let (mut counted, mut visited) = (HashSet::new(), HashSet::new());
        let mut bytes = self.log.len() * size_of::<StoreChange>();
        let mut count = |object: &Arc<Stored>| bytes += object.uncounted_weight(&mut counted);
        for change in &self.log {
            change.old.iter().chain([&change.new]).for_each(&mut count);
        }
        for snapshot in self.snapshots.values() {
            snapshot.visit(&mut visited, &mut count);
        }
        bytes
    }

    /// Returns the approximate size, in bytes, of the objects in the changes of the log.
    pub(super) fn bytes(&self) -> usize {
        self.log_bytes
    }

    pub(super) fn floor(&self) -> u64 {
        self.floor
    }

    /// Returns the origin shared by all objects that were written in this API version.
    pub(super) fn version(
        &mut self,
        resource: &ResourceKey,
        text: &str,
        encoding_cache: &Arc<EncodingCache>,
    ) -> Arc<Origin> {
        if let Some(known) = self.origins.iter().find(|known| *known.version == *text) {
            return known.clone();
        }
        let version = Origin::new(resource, text, encoding_cache);
        self.origins.push(version.clone());
        version
    }

    pub(super) fn record(&mut self, change: StoreChange) -> Arc<StoreChange> {
        self.log_bytes += change.new.weight();
        let change = Arc::new(change);
        self.log.push_back(change.clone());
        change
    }

    /// Starts a new era. Call this method when the content of past revisions changes.
    pub(super) fn begin_era(&mut self) {
        self.drop_snapshots(false);
        self.era += 1;
    }

    pub(super) fn since(&self, revision: u64) -> impl Iterator<Item = &Arc<StoreChange>> {
        let first = self.log.partition_point(|change| change.revision() <= revision);
        self.log.range(first..)
    }

    pub(super) fn first_after(&self, time: Instant) -> Option<&Arc<StoreChange>> {
        self.log.get(self.log.partition_point(|change| change.at <= time))
    }

    pub(super) fn last_until(&self, revision: u64) -> Option<&Arc<StoreChange>> {
        let after = self.log.partition_point(|change| change.revision() <= revision);
        self.log.get(after.checked_sub(1)?)
    }

    pub(super) fn keeps(&self, revision: u64) -> bool {
        revision >= self.dropped
    }

    /// Returns the revision of the oldest change in the log, or `None` if the log contains at most one change.
    pub(super) fn oldest_past(&self) -> Option<u64> {
        self.log.front().filter(|_| self.log.len() > 1).map(|change| change.revision())
    }

    /// Returns the resource's state at `revision` by undoing changes in a later state. The later state is the oldest snapshot at
    /// or after `revision`, or the current objects `now` if there is no such snapshot.
    pub(super) fn past(&self, revision: u64, now: Objects) -> Past {
        let after = self.snapshots.range((revision, 0)..).find(|((_, era), _)| *era == self.era);
        let (at, objects) = after.map_or((u64::MAX, now), |((at, _), snapshot)| (*at, (**snapshot).clone()));
        let since = self.since(revision).take_while(|change| change.revision() <= at);
        Past { later: objects, since: since.cloned().collect() }
    }

    /// Keeps a snapshot at `revision` as long as the log contains all changes after this revision. If too many snapshots have no
    /// readers, drops the oldest of these snapshots.
    pub(super) fn keep(&mut self, revision: u64, objects: &Objects) -> Weak<Objects> {
        if !self.keeps(revision) {
            return Weak::new();
        }
        let snapshot =
            Arc::downgrade(self.snapshots.entry((revision, self.era)).or_insert_with(|| Arc::new(objects.clone())));
        let unused = self.snapshots.iter().filter(|(_, snapshot)| Arc::weak_count(snapshot) == 0).map(|(at, _)| *at);
        let unused: Vec<_> = unused.collect();
        for at in unused.iter().take(unused.len().saturating_sub(MAX_UNUSED_SNAPSHOTS)) {
            self.snapshots.remove(at);
        }
        snapshot
    }

    /// Makes revisions before `revision` unavailable. Callers that already follow the changes can still read these revisions.
    pub(super) fn compact(&mut self, revision: u64) {
        self.floor = self.floor.max(revision);
    }

    /// Removes and returns the log and the snapshots.
    pub(super) fn forget(&mut self, revision: u64) -> Self {
        let past = Self {
            log: mem::take(&mut self.log),
            snapshots: mem::take(&mut self.snapshots),
            log_bytes: mem::take(&mut self.log_bytes),
            dropped: self.dropped,
            ..Self::default()
        };
        self.dropped = self.dropped.max(revision);
        self.compact(revision);
        past
    }

    /// Drops the snapshots without readers, or all snapshots if `all` is `true`.
    pub(super) fn drop_snapshots(&mut self, all: bool) {
        self.snapshots.retain(|_, snapshot| !all && Arc::weak_count(snapshot) > 0);
    }

    pub(super) fn trim(&mut self, history: History) {
        if let Some(at) = self.log.len().checked_sub(history.max_changes.saturating_add(1)) {
            self.compact(self.log[at].revision());
        }
        let most = history.max_changes.max(history.followed);
        while self.log.len() > most {
            self.drop_oldest();
        }
    }

    pub(super) fn is_expired(&self, now: Instant, history: History) -> bool {
        self.log.front().is_some_and(|oldest| now.saturating_duration_since(oldest.at) > history.max_age)
    }

    pub(super) fn drop_oldest(&mut self) {
        let Some(oldest) = self.log.pop_front() else { return };
        self.log_bytes -= oldest.new.weight();
        self.dropped = oldest.revision();
        self.compact(oldest.revision());
        while self.snapshots.first_key_value().is_some_and(|((at, _), _)| *at < self.dropped) {
            self.snapshots.pop_first();
        }
    }
}
