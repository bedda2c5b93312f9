//! What an elector calls and what it reports.

use std::fmt;
use std::future::Future;

use pintle_meta::{ApiResource, ObjectKey};

use crate::{Leadership, TermEnd, Version};

/// What an elector calls: the `LeaderCallbacks` of client-go.
///
/// Each term calls `on_started_leading` once, unless it is over before anybody polls the run, and `on_stopped_leading` once after
/// the work has ended in any way. An elector that never led calls neither. `on_new_leader` is called in order for each change of
/// the observed holder.
///
/// # Examples
///
/// ```
/// use pintle_leaderelect::{LeaderCallbacks, Leadership};
///
/// let callbacks = LeaderCallbacks {
///     on_new_leader: Box::new(|identity| println!("{identity} leads")),
///     on_stopped_leading: Box::new(|end| println!("no longer the leader: {}", end.reason)),
///     ..LeaderCallbacks::new(async |leadership: Leadership| leadership.cancelled().await)
/// };
/// # drop(callbacks);
/// ```
pub struct LeaderCallbacks<W, T> {
    /// The work of a leader. It is started for each term, and dropped when the term is over.
    ///
    /// It should end when [`Leadership::cancelled`] does; until it has, a term that was asked to end is renewed. Work that ends by
    /// itself ends the election; work that returns because its term is over does not.
    pub on_started_leading: W,
    /// Called after a term's work has ended, with all that [runs](Leadership::run) beside it, and told how; also when the work
    /// panicked. When the elector is dropped, or another callback panics, it is called as soon as the work is dropped.
    pub on_stopped_leading: StoppedHook<T>,
    /// Called when another holder is observed, which may be this elector itself. An empty holder means that nobody leads.
    pub on_new_leader: Box<dyn FnMut(&str) + Send>,
}

/// Called with the end of a term.
pub type StoppedHook<T> = Box<dyn FnMut(&TermEnd<T>) + Send>;

impl<W, Fut> LeaderCallbacks<W, Fut::Output>
where
    W: FnMut(Leadership) -> Fut,
    Fut: Future,
{
    /// Callbacks with [this work](Self::on_started_leading) of a leader, and nobody else to tell.
    pub fn new(on_started_leading: W) -> Self {
        Self { on_started_leading, on_stopped_leading: Box::new(|_| {}), on_new_leader: Box::new(|_| {}) }
    }
}

impl<W, T> fmt::Debug for LeaderCallbacks<W, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaderCallbacks").finish_non_exhaustive()
    }
}

/// What an Event about a lock should say. Its type is `Normal`, its reason `LeaderElection`, and its message what this displays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaderEvent {
    /// What happened.
    pub kind: LeaderEventKind,
    /// The contender that it happened to.
    pub identity: String,
    /// What kind of object the lock is.
    pub resource: ApiResource,
    /// Which object it is.
    pub key: ObjectKey,
    /// The version in which the term began.
    pub version: Version,
}

/// What happened to a contender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaderEventKind {
    /// A term began.
    BecameLeader,
    /// It ended.
    StoppedLeading,
}

impl fmt::Display for LeaderEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.kind {
            LeaderEventKind::BecameLeader => "became leader",
            LeaderEventKind::StoppedLeading => "stopped leading",
        };
        write!(f, "{} {what}", self.identity)
    }
}
