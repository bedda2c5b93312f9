//! The inputs and outputs of the machine.

use std::time::Duration;

use pintle_meta::ApiError;

use crate::{Deadline, EndReason, LeaderElectionRecord, LockState, Term, Version};

/// An input of the machine.
#[derive(Clone, Debug)]
pub enum Signal {
    /// Time passed.
    Tick,
    /// The result of [`LockRequest::Read`]. `None` if the object does not exist.
    Read(Result<Option<LockState>, Failure>),
    /// The result of [`LockRequest::Create`] or [`LockRequest::Update`]: the version of the object with the stored
    /// record.
    Written(Result<Version, Failure>),
    /// A message from the watch.
    Watch(Hint),
    /// The preferred holder has changed.
    Prefer(Preference),
    /// The work of the term has returned or was dropped.
    WorkEnded,
    /// A request to stop. The machine asks the work to end, releases the lock, and finishes.
    Stop,
}

/// The preferred holder among replicas that share several locks. The preference only determines which replica tries
/// first. At most one replica leads in any case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Preference {
    /// The time for which this contender leaves a free lock to other contenders.
    pub defer: Duration,
    /// If set, this contender gives up its lock in favor of the named contender. The machine asks the work to end,
    /// renews the term until the work has ended, and releases the lock. If no other contender took the lock while this
    /// contender deferred, this contender ignores the preference and keeps the lock.
    pub yield_to: Option<String>,
}

/// A message from the watch of the lock. A message may be stale, and may be missing. It only makes an elector act
/// sooner.
#[derive(Clone, Debug)]
pub enum Hint {
    /// The watch is open.
    Up,
    /// The watch has ended.
    Down,
    /// The object had this state when the event was sent.
    Changed(LockState),
    /// The object may have changed.
    MaybeChanged,
    /// The object with this uid was deleted.
    Deleted {
        /// The uid of the deleted object.
        uid: String,
    },
}

/// An output of the machine.
#[derive(Clone, Debug, PartialEq)]
pub enum Instruction {
    /// Send this request, and pass the result to the machine. The machine has at most one request in flight.
    Send {
        /// The request.
        request: LockRequest,
        /// The timeout of the request. After the timeout, pass [`Failure::unknown`] to the machine.
        timeout: Duration,
    },
    /// The observed holder has changed. It is empty if the lock is free.
    NewLeader(String),
    /// A term begins: start the work.
    StartLeading {
        /// The term.
        term: Term,
        /// The deadline of the term.
        deadline: Deadline,
    },
    /// The deadline of the term was extended.
    Extend(Deadline),
    /// Ask the work to end, for this reason. The term continues until the work has ended.
    Drain(EndReason),
    /// The term is over: end the work immediately.
    StopLeading(EndReason),
    /// The machine has finished.
    Finish,
}

/// A request to the lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LockRequest {
    /// Read the newest state.
    Read,
    /// Create the object.
    Create(LeaderElectionRecord),
    /// Replace the record if the object still has this version.
    Update {
        /// The version.
        base: Version,
        /// The record.
        record: LeaderElectionRecord,
    },
}

/// A failed request, with only the data that the machine needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The known effect.
    pub effect: Effect,
    /// The server's retry-after.
    pub retry_after: Option<Duration>,
}

/// The effect of a failed request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The write was not executed. The object has another version, or already exists.
    Conflict,
    /// The write was not executed. The object does not exist.
    NotFound,
    /// The request was not executed. The server rejected it, or it was never sent.
    None,
    /// Unknown.
    Unknown,
}

impl Failure {
    /// Returns the failure of a request without a response. The server may have executed the request, or may still
    /// execute it.
    pub fn unknown() -> Self {
        Self { effect: Effect::Unknown, retry_after: None }
    }
}

impl From<&ApiError> for Failure {
    fn from(error: &ApiError) -> Self {
        let effect = match error {
            _ if error.may_have_acted() => Effect::Unknown,
            _ if error.is_conflict() || error.is_already_exists() => Effect::Conflict,
            _ if error.is_not_found() => Effect::NotFound,
            _ => Effect::None,
        };
        Self { effect, retry_after: error.retry_after }
    }
}

#[cfg(test)]
mod tests {
    use pintle_meta::{Reason, Status};

    use super::*;

    #[test]
    fn refusal_after_uncertain_attempt_has_unknown_effect() {
        let refusal = |code, reason| ApiError::from(Status::failure(code, reason, "no"));
        let after_doubt = |error| ApiError { earlier_may_have_acted: true, ..error };
        for (error, expected) in [
            (refusal(409, Reason::Conflict), Effect::Conflict),
            (refusal(409, Reason::AlreadyExists), Effect::Conflict),
            (refusal(404, Reason::NotFound), Effect::NotFound),
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
