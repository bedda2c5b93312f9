//! Status conditions.

use serde::{Deserialize, Serialize};

use crate::null::or_empty;
use crate::time::Time;

/// A condition in the status of an object, like Kubernetes' `metav1.Condition`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// The condition type, such as `Ready`. An object has at most one condition of each type.
    #[serde(rename = "type", default, deserialize_with = "or_empty")]
    pub condition_type: String,
    /// Whether the condition is met.
    #[serde(default, deserialize_with = "or_empty")]
    pub status: ConditionStatus,
    /// The `metadata.generation` of the object when this condition was computed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The time at which `status` last changed. If `None`, [`Conditions::set`] uses its argument `now` instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
    /// A machine-readable reason for the status, as one word in upper camel case.
    #[serde(default, deserialize_with = "or_empty")]
    pub reason: String,
    /// A human-readable explanation of the status.
    #[serde(default, deserialize_with = "or_empty")]
    pub message: String,
}

/// The status of a [`Condition`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
pub enum ConditionStatus {
    /// The condition is met.
    True,
    /// The condition is not met.
    False,
    /// The controller does not know whether the condition is met. When decoding, any other status string also becomes
    /// `Unknown`.
    #[default]
    #[serde(other)]
    Unknown,
}

/// The `conditions` in the status of an object. The methods of `Conditions` work like `meta.SetStatusCondition` and
/// related functions in apimachinery.
///
/// # Examples
///
/// ```
/// use pintle_meta::{Condition, ConditionStatus, Conditions, Time};
///
/// let mut conditions = Conditions::default();
/// let ready = |status, reason: &str| Condition {
///     condition_type: "Ready".into(),
///     status,
///     reason: reason.into(),
///     ..Condition::default()
/// };
/// let (noon, one): (Time, Time) = (Time("2026-11-20T12:00:00Z".parse()?), Time("2026-11-20T13:00:00Z".parse()?));
/// assert!(conditions.set(ready(ConditionStatus::True, "Started"), noon));
/// assert!(conditions.set(ready(ConditionStatus::True, "Serving"), one));
/// assert!(conditions.is_true("Ready"));
/// assert_eq!(conditions.find("Ready").unwrap().last_transition_time, Some(noon), "it has been so since then");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(from = "Option<Vec<Condition>>")]
pub struct Conditions(pub Vec<Condition>);

impl From<Option<Vec<Condition>>> for Conditions {
    fn from(conditions: Option<Vec<Condition>>) -> Self {
        Self(conditions.unwrap_or_default())
    }
}

impl Conditions {
    /// Adds `condition`, or replaces the existing condition with the same type. Returns `true` if the conditions
    /// changed.
    ///
    /// The transition time changes only if the status changes. The new transition time is
    /// `condition.last_transition_time`, or `now` if that field is `None`.
    pub fn set(&mut self, condition: Condition, now: Time) -> bool {
        let at = condition.last_transition_time.unwrap_or(now);
        let Some(present) = self.0.iter_mut().find(|other| other.condition_type == condition.condition_type) else {
            self.0.push(Condition { last_transition_time: Some(at), ..condition });
            return true;
        };
        let is_transition = present.status != condition.status;
        let last_transition_time = if is_transition { Some(at) } else { present.last_transition_time };
        let new = Condition { last_transition_time, ..condition };
        let is_change = *present != new;
        *present = new;
        is_change
    }

    /// Removes the condition of type `condition_type`. Returns `true` if the condition existed.
    pub fn remove(&mut self, condition_type: &str) -> bool {
        let before = self.0.len();
        self.0.retain(|condition| condition.condition_type != condition_type);
        self.0.len() < before
    }

    /// Returns the condition of type `condition_type`, if present.
    pub fn find(&self, condition_type: &str) -> Option<&Condition> {
        self.0.iter().find(|condition| condition.condition_type == condition_type)
    }

    /// Returns `true` if a condition of type `condition_type` exists and has the status `status`.
    pub fn has(&self, condition_type: &str, status: ConditionStatus) -> bool {
        self.find(condition_type).is_some_and(|condition| condition.status == status)
    }

    /// Returns `true` if a condition of type `condition_type` exists and has the status `True`.
    pub fn is_true(&self, condition_type: &str) -> bool {
        self.has(condition_type, ConditionStatus::True)
    }

    /// Returns `true` if a condition of type `condition_type` exists and has the status `False`.
    pub fn is_false(&self, condition_type: &str) -> bool {
        self.has(condition_type, ConditionStatus::False)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(hour: u8) -> Time {
        Time(format!("2026-11-20T{hour:02}:00:00Z").parse().unwrap())
    }

    fn ready(status: ConditionStatus) -> Condition {
        Condition { condition_type: "Ready".into(), status, ..Condition::default() }
    }

    #[test]
    fn transition_time_changes_only_with_the_status() {
        use ConditionStatus::{False, True};
        let mut conditions = Conditions::default();
        let since = |conditions: &Conditions| conditions.find("Ready").unwrap().last_transition_time;
        assert!(conditions.set(ready(True), at(1)));
        assert!(!conditions.set(ready(True), at(2)), "the same condition is not a change");
        assert!(conditions.set(Condition { reason: "Why".into(), ..ready(True) }, at(3)));
        assert_eq!(since(&conditions), Some(at(1)));
        assert!(conditions.set(ready(False), at(4)));
        assert_eq!(since(&conditions), Some(at(4)));
        let given = Condition { last_transition_time: Some(at(9)), ..ready(True) };
        assert!(conditions.set(given, at(5)));
        assert_eq!(since(&conditions), Some(at(9)), "the given time is used");
        let given = Condition { last_transition_time: Some(at(10)), ..ready(True) };
        assert!(!conditions.set(given, at(6)), "the time is ignored without a transition");
    }

    #[test]
    fn conditions_are_found_by_type() {
        let mut conditions = Conditions::default();
        conditions.set(ready(ConditionStatus::False), at(1));
        conditions.set(Condition { condition_type: "Other".into(), ..ready(ConditionStatus::True) }, at(1));
        assert!(conditions.is_false("Ready") && !conditions.is_true("Ready") && conditions.is_true("Other"));
        assert!(
            !conditions.is_true("Gone") && !conditions.is_false("Gone"),
            "a missing condition is neither true nor false"
        );
        assert!(conditions.remove("Ready") && !conditions.remove("Ready"));
        assert_eq!(conditions.0.len(), 1);
    }

    #[test]
    fn null_and_unknown_status_values_are_accepted() {
        assert_eq!(serde_json::from_str::<Conditions>("null").unwrap(), Conditions::default());
        let text = r#"[{"type":"Ready","status":"Perhaps","lastTransitionTime":null}]"#;
        let read: Conditions = serde_json::from_str(text).unwrap();
        assert!(read.has("Ready", ConditionStatus::Unknown));
        let text = r#"[{"type":"Ready","status":"True","lastTransitionTime":"2026-11-20T01:00:00Z","reason":"","message":""}]"#;
        let read: Conditions = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), text);
    }
}
