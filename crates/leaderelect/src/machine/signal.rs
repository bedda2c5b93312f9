//! The inputs and outputs of a `Machine`.

use std::time::Duration;

use pintle_meta::ApiError;

use crate::clocks::Deadline;
use crate::record::{LeaderElectionRecord, LockState, Version};
use crate::term::{EndReason, Term};

/// An input to the [`Machine`](super::Machine).
#[derive(Clone, Debug)]
pub enum Signal {
    /// Time has passed. The owner of the `Machine` sends a tick at the time from [`wake_at`](super::Machine::wake_at)
    /// at the latest.
    Tick,
    /// The result of [`LockRequest::Read`]: the lock's state, or `None` if the object does not exist.
    Read(Result<Option<LockState>, Failure>),
    /// The result of [`LockRequest::Create`] or [`LockRequest::Update`]: the version of the written object.
    Written(Result<Version, Failure>),
    /// A message from the watch.
    Watch(Hint),
    /// The preferred holder has changed.
    Prefer(Preference),
    /// The term's work has returned or was dropped.
    WorkEnded,
    /// The elector was stopped. The `Machine` asks the leader's work to end, releases the lock, and finishes.
    Stop,
}

/// Describes which replica should hold the lock if replicas share several locks. The preference only determines which
/// replica tries to take the lock first. At most one replica leads, regardless of preferences.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Preference {
    /// How long this contender lets other contenders take a free lock first.
    pub defer: Duration,
    /// The identity of the contender for which this contender gives up the lock. The `Machine` asks the work to end,
    /// renews the lock until the work has ended, and releases the lock. If no other contender then takes the lock
    /// within `defer`, this contender takes the lock again and keeps it.
    pub yield_to: Option<String>,
}

/// A message from the lock's watch. Hints may be outdated or missing. A hint can only make an elector act sooner.
#[derive(Clone, Debug)]
pub enum Hint {
    /// The watch is open.
    Up,
    /// The watch has ended.
    Down,
    /// The object was created or changed. The `LockState` is the object's state at the time of the event.
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
    /// Send this request, and pass its result to the `Machine`. The `Machine` never has more than one request in
    /// flight.
    Send {
        /// The request.
        request: LockRequest,
        /// The request's timeout. After the timeout, the owner passes [`Failure::unknown`] to the `Machine`.
        timeout: Duration,
    },
    /// The lock has this new holder. The holder is an empty string if the lock is free.
    NewLeader(String),
    /// A term begins. Start the leader's work.
    StartLeading {
        /// The term.
        term: Term,
        /// The term's first deadline.
        deadline: Deadline,
    },
    /// The term has this new, later deadline.
    Extend(Deadline),
    /// Ask the leader's work to end. The term continues until the work has ended.
    Drain(EndReason),
    /// The term is over. Stop the leader's work immediately.
    StopLeading(EndReason),
    /// The machine has finished.
    Finish,
}

/// A request to the lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LockRequest {
    /// Read the newest state.
    Read,
    /// Create the object with this record.
    Create(LeaderElectionRecord),
    /// Replace the record if the object still has the version `base`.
    Update {
        /// The expected version of the object.
        base: Version,
        /// The new record.
        record: LeaderElectionRecord,
    },
}

/// The properties of a failed request that determine the `Machine`'s reaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Whether the request may have had an effect.
    pub effect: Effect,
    /// The pause that the server has requested (`Retry-After`).
    pub retry_after: Option<Duration>,
}

/// Whether a failed request may have had an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The server rejected the write, because the object has another version or already exists.
    Conflict,
    /// The server rejected the write, because the object does not exist.
    NotFound,
    /// The request had no effect, because the server rejected it or because it was not sent.
    None,
    /// The effect is unknown, for example after a timeout, or after a 404 response that does not come from the API
    /// server.
    Unknown,
}

impl Failure {
    /// Returns the failure of an unanswered request. The server may have executed the request, or may execute it later.
    pub fn unknown() -> Self {
        Self { effect: Effect::Unknown, retry_after: None }
    }
}

impl From<&ApiError> for Failure {
    fn from(error: &ApiError) -> Self {
        let effect = match error {
            _ if error.may_have_acted() => Effect::Unknown,
            // A proxy sent this 404 response, so the object may exist. The effect `NotFound` would end the term.
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
    use pintle_meta::{Reason, Status, StatusCause, StatusDetails};

    use super::*;

    #[test]
    fn refusal_after_uncertain_attempt_has_unknown_effect() {
        let refusal = |code, reason| ApiError::from(Status::failure(code, reason, "no"));
        let cause = StatusCause { reason: "UnexpectedServerResponse".into(), ..StatusCause::default() };
        let details = Some(StatusDetails { causes: vec![cause], ..StatusDetails::default() });
        let page = Status { details, ..Status::failure(404, Reason::NotFound, "no backend") };
        let after_doubt = |error| ApiError { earlier_may_have_acted: true, ..error };
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
