//! The methods of a context that return conditions.

use pintle_meta::{Condition, ConditionStatus, Conditions, Resource, Time};
use serde::{Deserialize, Serialize};

use super::Context;

/// The condition type for an object that has reached its desired state.
const READY: &str = "Ready";

impl<K: Resource + Serialize> Context<K> {
    /// Returns the conditions of the reconciled object after setting `Ready` to true. All other conditions are
    /// unchanged. `reason` is one word in upper camel case.
    pub fn ready(&self, reason: &str) -> Conditions {
        self.with_condition(READY, ConditionStatus::True, reason, "")
    }

    /// Returns the conditions of the reconciled object after setting `Ready` to false. `reason` is one word in upper
    /// camel case. `message` is a sentence that a person can read.
    pub fn not_ready(&self, reason: &str, message: impl Into<String>) -> Conditions {
        self.with_condition(READY, ConditionStatus::False, reason, message)
    }

    /// Returns the conditions of the reconciled object after adding or replacing one condition. To set several
    /// conditions, call [`set_condition`](Self::set_condition) for each of them.
    pub fn with_condition(
        &self,
        condition_type: &str,
        status: ConditionStatus,
        reason: &str,
        message: impl Into<String>,
    ) -> Conditions {
        let mut conditions = self.conditions();
        self.set_condition(&mut conditions, condition_type, status, reason, message);
        conditions
    }

    /// Adds a condition to `conditions`, or replaces the condition of the same type. The condition gets the generation
    /// of the reconciled object as its `observedGeneration`. The transition time of the condition changes only if the
    /// status of the condition changes.
    pub fn set_condition(
        &self,
        conditions: &mut Conditions,
        condition_type: &str,
        status: ConditionStatus,
        reason: &str,
        message: impl Into<String>,
    ) {
        let generation = self.call.object.as_ref().map(|object| object.metadata().generation());
        let condition = Condition {
            condition_type: condition_type.into(),
            status,
            observed_generation: generation.filter(|generation| *generation > 0),
            reason: reason.into(),
            message: message.into(),
            ..Condition::default()
        };
        conditions.set(condition, Time::now());
    }

    /// Returns the conditions in `status.conditions` of the reconciled object. The result includes the conditions that
    /// this controller has just written.
    pub fn conditions(&self) -> Conditions {
        #[derive(Deserialize)]
        struct WithStatus {
            #[serde(default)]
            status: Option<Status>,
        }
        #[derive(Deserialize)]
        struct Status {
            #[serde(default)]
            conditions: Conditions,
        }
        let newest = self.shared.caches.get::<K>().ok().and_then(|cached| cached.get(self.key()));
        let object = newest.as_ref().or(self.call.object.as_ref());
        let read = object.and_then(|object| {
            let value = serde_json::to_value(&**object).ok()?;
            WithStatus::deserialize(value).ok()?.status
        });
        read.map(|status| status.conditions).unwrap_or_default()
    }
}
