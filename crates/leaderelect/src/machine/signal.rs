//! What the machine takes in, and what it gives out.

use std::time::Duration;

use pintle_meta::ApiError;

use crate::{Deadline, EndReason, LeaderElectionRecord, LockState, Term, Version};

/// What happened.
#[derive(Clone, Debug)]
pub enum Signal {
    /// Time passed.
    Tick,
    /// The answer to [`LockRequest::Read`]; none if there is no object.
    Read(Result<Option<LockState>, Failure>),
    /// The answer to [`LockRequest::Create`] or [`LockRequest::Update`]: the version in which the record was stored.
    Written(Result<Version, Failure>),
    /// The watch has something to tell.
    Watch(Hint),
    /// Who should have the lock has changed.
    Prefer(Preference),
    /// The work of the term has ended: it returned, or was dropped.
    WorkEnded,
    /// The end was asked for: end the work, release, finish.
    Stop,
}

/// Who should have the lock, among those who share several. Whoever that is, one only leads; this says who tries first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Preference {
    /// For how long after anybody could take the lock this contender leaves it to others.
    pub defer: Duration,
    /// To whom this contender gives the lock up if it leads: its work is asked to end, under renewals, and then the lock is released.
    /// One that leads because it deferred, and nobody came, keeps the lock.
    pub yield_to: Option<String>,
}

/// What a watch of the lock says. It may be old, and its silence means nothing: all it does is make an elector look sooner.
#[derive(Clone, Debug)]
pub enum Hint {
    /// The watch is up.
    Up,
    /// The watch is down.
    Down,
    /// The object is, or was, like this.
    Changed(LockState),
    /// Something about it changed.
    MaybeChanged,
    /// The object of this uid is gone.
    Deleted {
        /// The uid.
        uid: String,
    },
}

/// What to do next.
#[derive(Clone, Debug, PartialEq)]
pub enum Instruction {
    /// Send this request, and give the answer back. Never more than one is under way.
    Send {
        /// The request.
        request: LockRequest,
        /// The time after which to give it up, with [`Failure::unknown`].
        timeout: Duration,
    },
    /// The observed holder changed. Empty when nobody holds the lock.
    NewLeader(String),
    /// A term begins: start the work.
    StartLeading {
        /// The term.
        term: Term,
        /// The moment until which it holds.
        deadline: Deadline,
    },
    /// The term holds for longer.
    Extend(Deadline),
    /// Ask the work to end, for that reason. The term goes on until it has.
    Drain(EndReason),
    /// The term is over: end the work at once.
    StopLeading(EndReason),
    /// Nothing more will be done.
    Finish,
}

/// A request to the lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LockRequest {
    /// Read the newest state.
    Read,
    /// Create the object.
    Create(LeaderElectionRecord),
    /// Replace the record, if the object is still in this version.
    Update {
        /// The version.
        base: Version,
        /// The record.
        record: LeaderElectionRecord,
    },
}

/// How a request failed, as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What is known of its effect.
    pub effect: Effect,
    /// How long the server asks to wait.
    pub retry_after: Option<Duration>,
}

/// What a failed request has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing: the object is not in the expected version, or exists already.
    Conflict,
    /// Nothing: there is no object.
    NotFound,
    /// Nothing: it was refused, or never sent.
    None,
    /// That is not known.
    Unknown,
}

impl Failure {
    /// No answer: the request may have been done, and may still be.
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
