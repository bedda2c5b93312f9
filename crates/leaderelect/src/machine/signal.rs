//! The inputs and outputs of a `Machine`.

use std::time::Duration;

use pintle_meta::ApiError;

use crate::clocks::Deadline;
use crate::record::{LeaderElectionRecord, LockState, Version};
use crate::term::{EndReason, Term};

/// An input to the [`Machine`](super::Machine).
#[derive(Clone, Debug)]
pub enum Signal {
    /// Time has passed. The owner of the `Machine` must send a tick no later than [`wake_at`](super::Machine::wake_at).
    Tick,
    /// The result of [`LockRequest::Read`]: the state of the lock, or `None` if the object does not exist.
    Read(Result<Option<LockState>, Failure>),
    /// The result of [`LockRequest::Create`] or [`LockRequest::Update`]: the version of the object after the write.
    Written(Result<Version, Failure>),
    /// A message from the watch of the lock.
    Watch(Hint),
    /// The preferred holder has changed.
    Prefer(Preference),
    /// The leader's work has returned or was dropped.
    WorkEnded,
    /// The elector was stopped. The `Machine` asks the leader's work to finish, releases the lock, and finishes.
    Stop,
}

/// The preferred holder of a lock when replicas share several locks. A preference only affects which replica tries to
/// acquire the lock first. At most one replica leads, regardless of the preferences.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Preference {
    /// How long this contender waits before it acquires a free lock, so that other contenders can acquire it first.
    pub defer: Duration,
    /// The identity of the contender that should get the lock from this contender. To hand over the lock, the `Machine`
    /// asks the leader's work to finish, renews the lock until the work has ended, and then releases the lock. If no
    /// other contender acquires the lock within `defer`, this contender acquires it again and keeps it.
    pub yield_to: Option<String>,
}

/// A message from the watch of the lock. Hints may be outdated or lost. A hint can only make an elector act sooner.
#[derive(Clone, Debug)]
pub enum Hint {
    /// The watch is open.
    Up,
    /// The watch has ended.
    Down,
    /// The object was created or changed. The `LockState` is the state of the object at the time of the event.
    Changed(LockState),
    /// The object may have changed.
    MaybeChanged,
    /// The object was deleted.
    Deleted {
        /// The uid of the deleted object.
        uid: String,
    },
}

/// An output of the [`Machine`](super::Machine).
#[derive(Clone, Debug, PartialEq)]
pub enum Instruction {
    /// Send this request, and pass its result to the `Machine`. A `Machine` has at most one request in flight.
    Send {
        /// The request.
        request: LockRequest,
        /// The request's timeout. After this timeout, the owner must pass [`Failure::unknown`] to the `Machine`.
        timeout: Duration,
    },
    /// The identity of the new holder of the lock, which is empty if the lock is free.
    NewLeader(String),
    /// A term begins. Start the leader's work.
    StartLeading {
        /// The term.
        term: Term,
        /// The term's first deadline.
        deadline: Deadline,
    },
    /// The new deadline of the term, which is later than the previous one.
    Extend(Deadline),
    /// Ask the leader's work to finish. The term continues until the leader's work has ended.
    Drain(EndReason),
    /// The term is over. Stop the leader's work immediately.
    StopLeading(EndReason),
    /// The machine has finished.
    Finish,
}

/// A request to the lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LockRequest {
    /// Read the newest state of the lock.
    Read,
    /// Create the object with this record.
    Create(LeaderElectionRecord),
    /// Replace the record if the object still has the version `base`.
    Update {
        /// The version that the object must still have.
        base: Version,
        /// The new record.
        record: LeaderElectionRecord,
    },
}

/// The properties of a failed request that determine how the `Machine` reacts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Whether the server may have executed the request.
    pub effect: Effect,
    /// The delay requested by the server (`Retry-After`).
    pub retry_after: Option<Duration>,
}

/// Whether the server may have executed a failed request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The write was rejected because the object has another version or already exists.
    Conflict,
    /// The write was rejected because the object does not exist.
    NotFound,
    /// The request had no effect: the server rejected it, or it was never sent.
    None,
    /// The effect is unknown, for example after a timeout, or after a 404 response from a proxy.
    Unknown,
}

impl Failure {
    /// Returns the failure for a request without a response. The server may have executed the request or may still
    /// execute it.
    pub fn unknown() -> Self {
        Self { effect: Effect::Unknown, retry_after: None }
    }
}

impl From<&ApiError> for Failure {
    fn from(error: &ApiError) -> Self {
        let effect = match error {
            _ if error.may_have_acted() => Effect::Unknown,
            // The 404 response came from a proxy, so the lock object may exist. The effect `NotFound` would wrongly end
            // the term.
            _ if error.is_not_found() && !error.is_object_not_found() => Effect::Unknown,
            _ if error.is_conflict() || error.is_already_exists() => Effect::Conflict,
            _ if error.is_not_found() => Effect::NotFound,
            _ => Effect::None,
        };
        Self { effect, retry_after: error.retry_after }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use pintle_meta::{Reason, Status, StatusCause, StatusDetails};

    use super::*;

    #[test]
    fn refusal_after_uncertain_attempt_has_unknown_effect() {
        let refusal = |code, reason| ApiError::from(Status::failure(code, reason, "no"));
        let cause = StatusCause { reason: "UnexpectedServerResponse".into(), ..StatusCause::default() };
        let details = Some(StatusDetails { causes: vec![cause], ..StatusDetails::default() });
        let page = Status { details, ..Status::failure(404, Reason::NotFound, "no backend") };
        let after_doubt = |error| ApiError { earlier: Some(Arc::new(ApiError::transport("cut"))), ..error };
        for (error, expected) in [
            (refusal(409, Reason::Conflict), Effect::Conflict),
            (refusal(409, Reason::AlreadyExists), Effect::Conflict),
            (refusal(404, Reason::NotFound), Effect::NotFound),
            (page.into(), Effect::Unknown),
            (refusal(403, Reason::Forbidden), Effect::None),
            (ApiError::connection_refused("nobody"), Effect::None),
            (refusal(504, Reason::Timeout), Effect::Unknown),
            (ApiError::transport("cut"), Effect::Unknown),
            (after_doubt(refusal(409, Reason::Conflict)), Effect::Unknown),
            (after_doubt(refusal(403, Reason::Forbidden)), Effect::Unknown),
            (after_doubt(ApiError::connection_refused("nobody")), Effect::Unknown),
        ] {
            assert_eq!(Failure::from(&error).effect, expected, "{error}");
        }
    }
}
