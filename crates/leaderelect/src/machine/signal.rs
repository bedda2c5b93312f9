//! The inputs and outputs of the `Machine`.

use std::time::Duration;

use pintle_meta::ApiError;

use crate::clocks::Deadline;
use crate::record::{LeaderElectionRecord, LockState, Version};
use crate::term::{EndReason, Term};

/// An input of the machine.
#[derive(Clone, Debug)]
pub enum Signal {
    /// Time passed.
    Tick,
    /// The result of [`LockRequest::Read`]. The value is `None` if the object does not exist.
    Read(Result<Option<LockState>, Failure>),
    /// The result of [`LockRequest::Create`] or [`LockRequest::Update`]. The result is the version of the object that
    /// contains the written record.
    Written(Result<Version, Failure>),
    /// A message from the watch.
    Watch(Hint),
    /// The preferred holder has changed.
    Prefer(Preference),
    /// The work of the leadership term has returned or was dropped.
    WorkEnded,
    /// A request to stop. After this signal, the `Machine` asks the leader's work to end, releases the lock, and
    /// finishes.
    Stop,
}

/// Describes which replica should hold the lock if replicas share several locks. This preference only determines which
/// replica tries to take the lock first. Regardless of the preference, at most one replica leads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Preference {
    /// How long this contender waits before it takes a free lock, so that other contenders can take the lock first.
    pub defer: Duration,
    /// If this field is set, this contender gives up its lock so that the contender with this identity can take it. In
    /// this case, the `Machine` asks the work to end, renews the leadership term until the work has ended, and releases
    /// the lock. If no other contender takes the lock during the time that this contender waits, this contender ignores
    /// the preference and keeps the lock.
    pub yield_to: Option<String>,
}

/// A message from the watch about the lock. A message may describe an old state, and some messages may never arrive. A
/// message can only make an elector act sooner.
#[derive(Clone, Debug)]
pub enum Hint {
    /// The watch is open.
    Up,
    /// The watch has ended.
    Down,
    /// The object had this state when the server sent the event.
    Changed(LockState),
    /// The object may have changed.
    MaybeChanged,
    /// The object with the given uid was deleted.
    Deleted {
        /// The uid of the deleted object.
        uid: String,
    },
}

/// An output of the machine.
#[derive(Clone, Debug, PartialEq)]
pub enum Instruction {
    /// Send this request, and pass its result to the `Machine`. The `Machine` never has more than one request in
    /// flight.
    Send {
        /// The request.
        request: LockRequest,
        /// The timeout of the request. If the timeout passes before there is a result, pass [`Failure::unknown`] to the
        /// `Machine`.
        timeout: Duration,
    },
    /// The observed holder has changed. If the lock is free, the new holder is an empty string.
    NewLeader(String),
    /// A leadership term begins, and the owner must start the work.
    StartLeading {
        /// The term.
        term: Term,
        /// The deadline of the term.
        deadline: Deadline,
    },
    /// The deadline of the leadership term has been extended.
    Extend(Deadline),
    /// The owner must ask the leader's work to end, for the given reason. The leadership term continues until the work
    /// has ended.
    Drain(EndReason),
    /// The leadership term is over, and the owner must stop the work immediately.
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
    /// A request that replaces the record, provided that the object still has this version.
    Update {
        /// The version.
        base: Version,
        /// The record.
        record: LeaderElectionRecord,
    },
}

/// A failed request. This type contains only the data that the `Machine` needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The known effect.
    pub effect: Effect,
    /// The server's retry-after.
    pub retry_after: Option<Duration>,
}

/// Describes whether a failed request may have had an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The write was not executed. The server rejected the write because the object has another version or already
    /// exists.
    Conflict,
    /// The write was not executed. The object does not exist.
    NotFound,
    /// The request was not executed. The server rejected the request, or the request was not sent.
    None,
    /// Unknown. A response with the code 404 that does not come from the API server also has this effect.
    Unknown,
}

impl Failure {
    /// Returns the failure of a request that got no response. The server may have executed the request, or may execute
    /// it later.
    pub fn unknown() -> Self {
        Self { effect: Effect::Unknown, retry_after: None }
    }
}

impl From<&ApiError> for Failure {
    fn from(error: &ApiError) -> Self {
        let effect = match error {
            _ if error.may_have_acted() => Effect::Unknown,
            // A proxy sent this page, so the page does not show whether the object exists. If this failure counted as
            // `NotFound`, it would end the leadership term.
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
