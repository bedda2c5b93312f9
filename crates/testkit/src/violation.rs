//! [`Violation`], the error of a failed check.

use std::fmt;
use std::time::Duration;

use pintle_apiserver::StartError;
use pintle_meta::ApiError;

use crate::request::SentRequest;

/// A rule that the operator violated, or the reason why a check could not run.
///
/// `Debug` and `Display` write the same report, so that the report is readable if a test calls `unwrap` or returns a
/// `Violation`.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Violation {
    /// The embedded server or a client could not be started.
    #[error("cannot start the test cluster: {0}")]
    Start(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// A condition was not met in time.
    #[error("{what}: not within {} s; last observed: {observed}{}", .within.as_secs_f64(), reported(.errors))]
    NotInTime {
        /// A description of the condition.
        what: String,
        /// The time limit.
        within: Duration,
        /// The last observed value.
        observed: String,
        /// The errors that the operator reported: failed reconciliations, sources that have not synced, and undecodable
        /// objects.
        errors: Vec<String>,
    },
    /// A condition was no longer met.
    #[error("{what}: no longer true after {} s; observed: {observed}", .after.as_secs_f64())]
    NotConsistent {
        /// A description of the condition.
        what: String,
        /// The time for which the condition was met.
        after: Duration,
        /// The value that did not meet the condition.
        observed: String,
    },
    /// A request of the test failed, or a step of the user timed out.
    #[error("{what}: {cause}")]
    Step {
        /// A description of the request or the step.
        what: String,
        /// The last error of the request or the step.
        cause: String,
    },
    /// The operator panicked, or a process ended although the check did not disturb it.
    #[error("the process {process} ended: {cause}")]
    Ended {
        /// The name of the process.
        process: String,
        /// The manager's error.
        cause: String,
    },
    /// The operator did not become idle.
    #[error("the operator does not come to rest: {what}; the last writes are:{}{}", lines(.requests), reported(.errors))]
    NotSteady {
        /// The limit that the run reached.
        what: String,
        /// The last write requests.
        requests: Vec<SentRequest>,
        /// The errors that the operator reported: failed reconciliations, sources that have not synced, and undecodable
        /// objects.
        errors: Vec<String>,
    },
    /// The operator sent a write when it should have been idle. Depending on the check, writes that do not change an
    /// object are allowed.
    #[error("{what}:{}", lines(.requests))]
    Wrote {
        /// The rule that was violated.
        what: String,
        /// The requests that violated the rule.
        requests: Vec<SentRequest>,
    },
    /// The state differs from the state of an undisturbed run. If a field differs because the operator generates its
    /// value, such as a password, use [`Kit::ignore`](crate::Kit::ignore).
    #[error("{what}: the state differs from that of an undisturbed run (`Kit::ignore` accepts a field with a generated value):{}\nthe last requests are:{}{}", lines(.differences), lines(.requests), reported(.errors))]
    NotConverged {
        /// A description of the disturbance.
        what: String,
        /// The objects and fields that are different. In each difference, the value from the undisturbed run comes
        /// first.
        differences: Vec<String>,
        /// The last requests of the operator.
        requests: Vec<SentRequest>,
        /// The errors that the operator reported: failed reconciliations, sources that have not synced, and undecodable
        /// objects.
        errors: Vec<String>,
    },
    /// A rule of [`Lab::fail`](crate::Lab::fail) did not affect any request, so the test did not check how the operator
    /// handles the failure.
    #[error("no request was failed by the rule {rule:?}; the last requests are:{}{}", lines(.requests), reported(.errors))]
    UnusedRule {
        /// The kind of the request and the status, such as `patch configmaps: 503`.
        rule: String,
        /// The last requests of the operator.
        requests: Vec<SentRequest>,
        /// The errors that the operator reported: failed reconciliations, sources that have not synced, and undecodable
        /// objects.
        errors: Vec<String>,
    },
    /// The operator changed nothing in the run without disturbances, so other runs would not test anything.
    /// Definitions, webhook registrations and finalizers do not count as changes. Events count as changes, and so does
    /// a world that differs from its initial state after a step.
    #[error("the operator changed nothing after the steps of the user, not even without a disturbance; its last requests are:{}{}", lines(.requests), reported(.errors))]
    NoEffect {
        /// The last requests of the operator.
        requests: Vec<SentRequest>,
        /// The errors that the operator reported: failed reconciliations, sources that have not synced, and undecodable
        /// objects.
        errors: Vec<String>,
    },
    /// In a run without disturbances, reconciliations of a key failed until the operator was idle or the user deleted
    /// the object. After such failures, runs with disturbances would not test anything. The check also returns this
    /// violation if reconciliations of a key still failed half an hour after the last disturbance. If the failures are
    /// expected, use [`Kit::may_fail`](crate::Kit::may_fail). If the operator only needs more time, increase
    /// [`Kit::quiet`](crate::Kit::quiet).
    #[error("{what}: calls fail (`Kit::may_fail` accepts failures of a key):{}", lines(.errors))]
    FailedCalls {
        /// A description of the disturbance.
        what: String,
        /// For each key, the process, the controller, the key and the error.
        errors: Vec<String>,
    },
    /// In a run that is [restricted](crate::Kit::restricted) to a role, the server rejected requests because the role does
    /// not allow them. The check returns this violation even if the operator tolerates or only logs the rejections. If the
    /// role lacks a permission on purpose, use [`Kit::may_lack`](crate::Kit::may_lack).
    #[error("{what}: the role of {name} does not allow the operator's requests (`Kit::may_lack` accepts a missing permission):{}", lines(.requests))]
    Forbidden {
        /// A description of the disturbance.
        what: String,
        /// The name of the role.
        name: String,
        /// The first rejected request for each verb, resource and namespace.
        requests: Vec<SentRequest>,
    },
    /// The operator did not send the request at which it should have crashed, although it sent the request in the run
    /// without a crash. The check could not test this crash, probably because the operator is not deterministic.
    #[error("{what}: the operator did not send this request in {runs} runs, so the crash did not happen; the last requests are:{}", lines(.requests))]
    NoCrash {
        /// A description of the crash.
        what: String,
        /// The number of runs without the planned crash.
        runs: u64,
        /// The last requests of the operator.
        requests: Vec<SentRequest>,
    },
    /// A process sent writes although it was not the leader.
    #[error("{what}: a process wrote without leading:{}", lines(.writes))]
    TwoLeaders {
        /// A description of the disturbance.
        what: String,
        /// The writes that the process sent when it was not the leader.
        writes: Vec<String>,
    },
    /// A run with disturbances ended with more tasks than an undisturbed run.
    #[error(
        "{what}: {found} tasks are alive at the end, and {expected} in an undisturbed run: the operator leaks tasks"
    )]
    Leak {
        /// A description of the disturbance.
        what: String,
        /// The number of tasks at the end of the run.
        found: usize,
        /// The number of tasks at the end of an undisturbed run.
        expected: usize,
    },
}

impl fmt::Debug for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Violation {
    /// Adds the disturbance of a run to a violation that does not describe the disturbance yet.
    pub(crate) fn with_disturbance(mut self, disturbance: &str) -> Self {
        match &mut self {
            Self::NotSteady { what: text, .. }
            | Self::NotInTime { what: text, .. }
            | Self::Ended { cause: text, .. } => *text = format!("{text} ({disturbance})"),
            Self::FailedCalls { what, .. } | Self::Forbidden { what, .. } => *what = disturbance.into(),
            _ => {}
        }
        self
    }
}

/// Allows tests to use `?` on their own requests.
impl From<ApiError> for Violation {
    fn from(error: ApiError) -> Self {
        Self::Step { what: "a request of the test".into(), cause: error.to_string() }
    }
}

impl From<StartError> for Violation {
    fn from(error: StartError) -> Self {
        Self::Start(Box::new(error))
    }
}

fn lines<T: fmt::Display>(items: &[T]) -> String {
    items.iter().map(|item| format!("\n  {item}")).collect()
}

fn reported(errors: &[String]) -> String {
    if errors.is_empty() { String::new() } else { format!("\nthe operator reported:{}", lines(errors)) }
}
