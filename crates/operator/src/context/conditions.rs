//! The context's methods for conditions.

use std::collections::BTreeSet;

use pintle_meta::{Condition, ConditionStatus, Conditions, Object, Resource, Time};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Context;
use crate::shared::read_raw;
use crate::{Result, own_conditions};

/// The condition type that indicates that an object has reached its desired state.
const READY: &str = "Ready";

impl<K: Resource + Serialize> Context<K> {
    /// Returns the conditions of the reconciled object with `Ready` set to true. All other conditions are unchanged.
    /// `reason` is a single word in UpperCamelCase. [`apply_status`](Self::apply_status) ignores the conditions of
    /// other field managers.
    pub fn ready(&self, reason: &str) -> Conditions {
        self.with_condition(READY, ConditionStatus::True, reason, "")
    }

    /// Returns the conditions of the reconciled object with `Ready` set to false. `reason` is a single word in
    /// UpperCamelCase. `message` is a human-readable sentence.
    pub fn not_ready(&self, reason: &str, message: impl Into<String>) -> Conditions {
        self.with_condition(READY, ConditionStatus::False, reason, message)
    }

    /// Returns the conditions of the reconciled object with one condition added or replaced. To set several conditions,
    /// call [`set_condition`](Self::set_condition) several times.
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

    /// Adds a condition to `conditions`. An existing condition of the same type is replaced. The `observedGeneration`
    /// of the condition is set to the generation of the reconciled object. The transition time changes only if the
    /// status of the condition changes.
    pub fn set_condition(
        &self,
        conditions: &mut Conditions,
        condition_type: &str,
        status: ConditionStatus,
        reason: &str,
        message: impl Into<String>,
    ) {
        self.call.conditions.lock().set.insert(condition_type.to_owned());
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

    /// Returns the `status.conditions` of the reconciled object, including this controller's latest writes.
    pub fn conditions(&self) -> Conditions {
        let newest = self.shared.caches.get::<K>().ok().and_then(|cached| cached.get(self.key()));
        let newest = newest.filter(|newest| self.is_reconciled(newest.uid()));
        let object = newest.as_ref().or(self.call.object.as_ref());
        let conditions = object.map(|object| conditions_of(&**object)).unwrap_or_default();
        self.add_read_conditions(&conditions);
        conditions
    }

    /// Removes the conditions of other field managers from the status in `configuration`. Returns `true` if conditions
    /// were removed, in which case the caller must read the field managers from the server. The reason is that an
    /// earlier process of this controller may have set a removed condition.
    pub(super) fn remove_others_conditions(&self, configuration: &mut Value, live: &K, own: &BTreeSet<String>) -> bool {
        let own = &self.call.conditions.lock().set | own;
        if own_conditions::types(configuration).is_subset(&own) {
            return false;
        }
        self.call.object.as_deref().into_iter().chain([live]).for_each(|read| {
            self.add_read_conditions(&conditions_of(read));
        });
        own_conditions::remove_others(configuration, &own, &self.call.conditions.lock().read)
    }

    /// Reads the condition types of this field manager from the server, because cached objects have no `managedFields`.
    pub(super) async fn read_own_conditions(&self, configuration: &Value) -> Result<BTreeSet<String>> {
        let object = match read_raw(self.cluster(), &K::api_resource(), self.key()).await {
            Ok(object) => object,
            Err(error) if error.is_object_not_found() => return Err(self.gone()),
            Err(error) => return Err(error.into()),
        };
        let own = own_conditions::types_of_manager(&object, self.field_manager());
        Ok(own.unwrap_or_else(|| own_conditions::types(configuration)))
    }

    fn add_read_conditions(&self, conditions: &Conditions) {
        let read = &mut self.call.conditions.lock().read;
        for condition in &conditions.0 {
            if !read.contains(condition) {
                read.push(condition.clone());
            }
        }
    }
}

fn conditions_of(object: &(impl Object + Serialize)) -> Conditions {
    #[derive(Deserialize)]
    struct WithStatus {
        status: Option<Status>,
    }
    #[derive(Deserialize)]
    struct Status {
        #[serde(default)]
        conditions: Conditions,
    }
    let value = serde_json::to_value(object).ok();
    let read = value.and_then(|value| WithStatus::deserialize(value).ok()?.status);
    read.map(|status| status.conditions).unwrap_or_default()
}
