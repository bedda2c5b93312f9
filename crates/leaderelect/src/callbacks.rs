//! Elector callbacks and events.

use std::fmt;
use std::future::Future;

use pintle_meta::{ApiResource, ObjectKey};

use crate::leadership::Leadership;
use crate::record::Version;
use crate::term::TermEnd;

/// The leader's work and the callbacks of an elector, like client-go's `LeaderCallbacks`.
///
/// In each term, the elector calls `on_started_leading` once, unless the term is already over when the elector is
/// polled. After the leader's work has ended for any reason, the elector calls `on_stopped_leading` once. An elector
/// that never leads does not call these two callbacks. The elector calls `on_new_leader` for each change of the
/// observed holder, in order.
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
    /// The leader's work. The elector starts the work when a term begins, and drops the work when the term is over.
    ///
    /// The work should return when [`Leadership::cancelled`] returns. After a stop was requested, the elector renews
    /// the lock until the work has ended. If the work returns although the elector has not asked it to end, the
    /// election ends too. If the work returns because its term is over, the election continues and can begin another
    /// term.
    pub on_started_leading: W,
    /// Called when a term ends, even if its work panicked. Before the call, the elector waits for the leader's work and
    /// for all concurrent work that [runs](Leadership::run) inside the term. If the elector is dropped or another
    /// callback panics, the elector calls `on_stopped_leading` right after it has dropped the leader's work.
    pub on_stopped_leading: StoppedHook<T>,
    /// Called with the lock's new holder, which can be this elector itself. An empty holder means that the lock is
    /// free.
    pub on_new_leader: Box<dyn FnMut(&str) + Send>,
}

/// A callback for the end of a term. The argument contains the reason for the end and the work's result.
pub type StoppedHook<T> = Box<dyn FnMut(&TermEnd<T>) + Send>;

impl<W, Fut> LeaderCallbacks<W, Fut::Output>
where
    W: FnMut(Leadership) -> Fut,
    Fut: Future,
{
    /// Creates callbacks with the leader's [work](Self::on_started_leading). The other callbacks do nothing.
    pub fn new(on_started_leading: W) -> Self {
        Self { on_started_leading, on_stopped_leading: Box::new(|_| {}), on_new_leader: Box::new(|_| {}) }
    }
}

impl<W, T> fmt::Debug for LeaderCallbacks<W, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaderCallbacks").finish_non_exhaustive()
    }
}

/// The content of a Kubernetes Event that reports that a contender has become the leader or has stopped leading. The
/// Event should have the type `Normal`, the reason `LeaderElection`, and the `Display` output of the `LeaderEvent` as
/// its message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaderEvent {
    /// What happened.
    pub kind: LeaderEventKind,
    /// The contender's identity.
    pub identity: String,
    /// The resource type of the object that stores the lock.
    pub resource: ApiResource,
    /// The key of the lock.
    pub key: ObjectKey,
    /// The version of the lock's object at the beginning of the term.
    pub version: Version,
}

/// The kind of a [`LeaderEvent`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaderEventKind {
    /// A term began.
    BecameLeader,
    /// A term ended.
    StoppedLeading,
}

impl fmt::Display for LeaderEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let change = match self.kind {
            LeaderEventKind::BecameLeader => "became leader",
            LeaderEventKind::StoppedLeading => "stopped leading",
        };
        write!(f, "{} {change}", self.identity)
    }
}
