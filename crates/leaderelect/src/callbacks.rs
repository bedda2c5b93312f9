//! Elector callbacks and events.

use std::fmt;
use std::future::Future;

use pintle_meta::{ApiResource, ObjectKey};

use crate::leadership::Leadership;
use crate::record::Version;
use crate::term::TermEnd;

/// The leader's work and an elector's callbacks, like client-go's `LeaderCallbacks`.
///
/// The elector calls `on_started_leading` once per term, unless the term is over before the elector is polled. The
/// elector calls `on_stopped_leading` once after the leader's work has ended, regardless of the reason. An elector that
/// never leads does not call `on_started_leading` or `on_stopped_leading`. The elector calls `on_new_leader` each time
/// it observes a new holder, in order.
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
    /// The leader's work. The elector starts the leader's work when a term begins, and drops it when the term is over.
    ///
    /// The work should return as soon as [`Leadership::cancelled`] returns. During a graceful shutdown, the elector
    /// keeps renewing the lock until the work has ended. If the work returns on its own, the election ends too. If the
    /// work returns because the term is over, the election continues, and the elector can lead again.
    pub on_started_leading: W,
    /// Called when a term has ended, even if the leader's work panicked. The elector first waits for the leader's work
    /// and for all concurrent work in [`Leadership::run`]. If the elector is dropped or another callback panics, the
    /// elector drops the leader's work and then immediately calls `on_stopped_leading`.
    ///
    /// The elector keeps the lock until this callback has returned. The callback may wait for threads of the leader's
    /// work. If the callback never returns, no other replica can lead, and
    /// [`ElectionStatus::check`](crate::ElectionStatus::check) fails. If the term was lost, the elector does not
    /// contend again until the callback has returned.
    pub on_stopped_leading: StoppedHook<T>,
    /// Called with the identity of the new holder, which may be this elector's own identity. An empty identity means
    /// that the lock is free. The elector does not start the leader's work until this callback has returned, so it must
    /// not block.
    pub on_new_leader: Box<dyn FnMut(&str) + Send>,
}

/// A callback for the end of a leadership term. The argument contains the result of the leader's work and the reason
/// why the term ended.
pub type StoppedHook<T> = Box<dyn FnMut(&TermEnd<T>) + Send>;

impl<W, Fut> LeaderCallbacks<W, Fut::Output>
where
    W: FnMut(Leadership) -> Fut,
    Fut: Future,
{
    /// Creates callbacks that run the given [work](Self::on_started_leading) while the elector leads. The callbacks for
    /// the end of a term and for new leaders do nothing.
    pub fn new(on_started_leading: W) -> Self {
        Self { on_started_leading, on_stopped_leading: Box::new(|_| {}), on_new_leader: Box::new(|_| {}) }
    }
}

pintle_meta::debug_struct! { LeaderCallbacks<W, T> { .. } }

/// The content of a Kubernetes Event that reports a change of leadership. Create the Event with the type `Normal`, the
/// reason `LeaderElection`, and the `Display` output of this value as the message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaderEvent {
    /// The kind of the event: the beginning or the end of a term.
    pub kind: LeaderEventKind,
    /// The contender's identity.
    pub identity: String,
    /// The resource type of the object that stores the lock.
    pub resource: ApiResource,
    /// The key of the lock.
    pub key: ObjectKey,
    /// The uid and resourceVersion of the lock object at the beginning of the term.
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
