//! A feed, which reads the changes of one resource from its log.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::sync::watch;

use super::Db;
use super::followers::{FeedScope, Followers};
use super::retired::LogEnd;
use crate::{Change, ChangeLog, ResourceKey};

/// The limits of one read from the log: the number of returned changes, their approximate size in bytes, and the number
/// of examined changes.
const MAX_BATCH: usize = 64;
const MAX_BATCH_BYTES: usize = 1 << 20;
const MAX_SCANNED: usize = 4096;

/// A stream of the changes of a resource in one scope. A feed reads the changes from the log, and buffers at most one
/// batch of changes, even if it is read slowly.
#[derive(Debug)]
pub struct Feed {
    resource: ResourceKey,
    scope: FeedScope,
    after: u64,
    /// `true` if the feed has reached the end of the log. A feed that starts at a past revision can have any number of
    /// unread changes until it reaches the end of the log.
    live: bool,
    last: watch::Receiver<u64>,
    end: Arc<LogEnd>,
    ready: VecDeque<Arc<Change>>,
}

/// The reason why a feed has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FeedEnd {
    /// The feed has missed changes because it was read too slowly.
    TooSlow,
    /// The resource was removed, or replaced by a new resource without its history. The feed has returned all changes
    /// of the old resource.
    Ended,
}

impl Feed {
    pub(super) fn new(
        resource: ResourceKey,
        scope: FeedScope,
        after: u64,
        (last, end): (watch::Receiver<u64>, Arc<LogEnd>),
    ) -> Self {
        Self { resource, scope, after, live: true, last, end, ready: VecDeque::new() }
    }

    /// Makes the feed start with the first change after `revision`, which may be an earlier revision.
    pub fn starting_after(mut self, revision: u64) -> Self {
        self.after = revision;
        self.live = false;
        self
    }

    /// Waits for the next change.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, no change is lost.
    pub async fn next(&mut self, db: &Db) -> Result<Arc<Change>, FeedEnd> {
        loop {
            if let Some(change) = self.ready.pop_front() {
                return Ok(change);
            }
            self.last.mark_unchanged();
            if self.read(db)? && self.ready.is_empty() {
                self.live = true;
                // Ignore an error, because the sender is dropped only with an evicted log, and the next iteration then
                // ends the feed.
                let _ = self.last.changed().await;
            }
        }
    }

    /// Returns the reason why the feed can no longer read the objects of an earlier revision.
    pub fn reason_for_lost_objects(&self) -> FeedEnd {
        match self.end.retired().as_deref() {
            Some(retired) if !retired.is_evicted => FeedEnd::Ended,
            _ => FeedEnd::TooSlow,
        }
    }

    /// Returns `true` if the next read may return a change or the end of the feed without waiting.
    pub fn has_more(&self) -> bool {
        !self.ready.is_empty() || self.last.has_changed().unwrap_or(true) || self.end.retired().is_some()
    }

    /// Reads the next batch of changes from the log. Returns `true` if the feed has reached the end of the log, and an
    /// error if no more changes can follow.
    fn read(&mut self, db: &Db) -> Result<bool, FeedEnd> {
        let inner = db.inner.lock();
        // Check for a retired log under the lock, because a renewal replaces the log under the lock.
        if let Some(retired) = self.end.retired() {
            drop(inner);
            if retired.is_evicted {
                return Err(FeedEnd::TooSlow);
            }
            let is_at_end = self.read_log(&retired.followers, Some(&retired.log))?;
            return if is_at_end && self.ready.is_empty() { Err(FeedEnd::Ended) } else { Ok(false) };
        }
        let followers = inner.followers.get(&self.resource).ok_or(FeedEnd::Ended)?;
        let is_at_end = self.read_log(&followers.followers, inner.store.log(&self.resource))?;
        if is_at_end && !self.live {
            // Continue from the current revision, because the log contains no further changes in the feed's scope.
            self.after = self.after.max(inner.store.revision());
        }
        Ok(is_at_end)
    }

    fn read_log(&mut self, followers: &Followers, log: Option<&ChangeLog>) -> Result<bool, FeedEnd> {
        if self.live {
            for revision in followers.since(&self.scope, self.after).ok_or(FeedEnd::TooSlow)? {
                let change = log.and_then(|log| log.change(revision)).ok_or(FeedEnd::TooSlow)?;
                self.after = revision;
                self.ready.push_back(change.clone());
                if self.is_full() {
                    return Ok(false);
                }
            }
            return Ok(true);
        }
        let Some(log) = log else { return Ok(true) };
        for (at, change) in log.followed(self.after).ok_or(FeedEnd::TooSlow)?.enumerate() {
            if self.is_full() || at == MAX_SCANNED {
                return Ok(false);
            }
            self.after = change.revision();
            if self.scope.contains(change) {
                self.ready.push_back(change.clone());
            }
        }
        Ok(true)
    }

    fn is_full(&self) -> bool {
        let bytes: usize = self.ready.iter().map(|change| change.new.weight()).sum();
        self.ready.len() >= MAX_BATCH || bytes > MAX_BATCH_BYTES
    }

    /// Returns `true` if the feed has read all changes, and the log has not been retired.
    pub(super) fn is_read(&self, inner: &super::Inner) -> bool {
        if !self.ready.is_empty() || self.end.retired().is_some() {
            return false;
        }
        if self.live {
            let unread =
                inner.followers.get(&self.resource).and_then(|all| all.followers.since(&self.scope, self.after));
            return unread.is_some_and(|mut unread| unread.next().is_none());
        }
        let Some(log) = inner.store.log(&self.resource) else { return true };
        log.followed(self.after).is_some_and(|mut unread| !unread.any(|change| self.scope.contains(change)))
    }
}
