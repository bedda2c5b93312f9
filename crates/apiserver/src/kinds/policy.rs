//! Budgets, classes: what steers others.

use serde_json::{Value, json};

use super::check::{Check, immutable};
use super::{Context, Strategy, warnings};
use crate::object::{default, has, integer_at, member, set, text_at};
use crate::request::Part;
use crate::validate::{FieldFault, NameRule, label_value_faults};

const HIGHEST_PRIORITY: i64 = 1_000_000_000;

/// `policy/v1` PodDisruptionBudget.
#[derive(Clone, Copy, Debug)]
pub(super) struct PodDisruptionBudget;

impl Strategy for PodDisruptionBudget {
    fn defaults(&self, object: &mut Value) {
        member(object, "spec");
        if let Some(status) = member(object, "status") {
            for key in ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"] {
                default(status, key, 0);
            }
        }
    }

    fn prepare_for_create(&self, _: &Context<'_>, object: &mut Value) {
        set(object, "status", json!({}));
        self.defaults(object);
    }

    fn name_rule(&self) -> NameRule {
        NameRule::PathSegment
    }

    fn validate_create(&self, object: &Value) -> Vec<FieldFault> {
        let both = has(object, "/spec/minAvailable") && has(object, "/spec/maxUnavailable");
        let mut labels = Vec::new();
        for (_, value) in object.pointer("/spec/selector/matchLabels").and_then(Value::as_object).into_iter().flatten()
        {
            let value = value.as_str().unwrap_or_default();
            let why = label_value_faults(value);
            labels.extend(why.iter().map(|why| FieldFault::invalid_text("spec.selector.matchLabels", value, why)));
        }
        Check::of(object)
            .refuse(both, || {
                let spec = object.get("spec").unwrap_or(&Value::Null);
                FieldFault::invalid("spec", spec, "minAvailable and maxUnavailable cannot be both set")
            })
            .also(share_faults(object, "spec.minAvailable"))
            .also(share_faults(object, "spec.maxUnavailable"))
            .one_of("spec.unhealthyPodEvictionPolicy", &["AlwaysAllow", "IfHealthyBudget"])
            .also(labels)
            .done()
    }

    fn validate_update(&self, new: &Value, _: &Value, part: Part) -> Vec<FieldFault> {
        match part {
            Part::Status => {
                let fields = [
                    "status.disruptionsAllowed",
                    "status.currentHealthy",
                    "status.desiredHealthy",
                    "status.expectedPods",
                ];
                Check::of(new).not_negative(&fields).done()
            }
            _ => self.validate_create(new),
        }
    }
}

/// The faults of a number or a percentage.
fn share_faults(object: &Value, field: &str) -> Vec<FieldFault> {
    let Some(value) = object.pointer(&format!("/{}", field.replace('.', "/"))) else { return Vec::new() };
    let why = match value {
        Value::Number(_) if value.as_i64().is_some_and(|number| number < 0) => "must be greater than or equal to 0",
        Value::String(text) => match text.strip_suffix('%').map(str::parse::<u32>) {
            Some(Ok(share)) if share > 100 => "must not be greater than 100%",
            Some(Ok(_)) => return Vec::new(),
            _ => {
                "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for \
                 validation is '[0-9]+%')"
            }
        },
        _ => return Vec::new(),
    };
    vec![FieldFault::invalid(field, value, why)]
}

/// `scheduling.k8s.io/v1` PriorityClass.
#[derive(Clone, Copy, Debug)]
pub(super) struct PriorityClass;

impl Strategy for PriorityClass {
    fn defaults(&self, object: &mut Value) {
        default(object, "preemptionPolicy", "PreemptLowerPriority");
        default(object, "value", 0);
    }

    fn validate_create(&self, object: &Value) -> Vec<FieldFault> {
        let name = text_at(object, "/metadata/name");
        let system = name.starts_with("system-") && !matches!(name, "system-cluster-critical" | "system-node-critical");
        let high = !name.starts_with("system-") && integer_at(object, "/value").unwrap_or(0) > HIGHEST_PRIORITY;
        Check::of(object)
            .refuse(system, || {
                let why = format!(
                    "priority class names with 'system-' prefix are reserved for system use only. error: {name} is not a known system \
                     priority class"
                );
                FieldFault::forbidden("metadata.name", why)
            })
            .refuse(high, || {
                let why = format!("maximum allowed value of a user defined priority is {HIGHEST_PRIORITY}");
                FieldFault::forbidden("value", why)
            })
            .one_of("preemptionPolicy", &["PreemptLowerPriority", "Never"])
            .done()
    }

    fn validate_update(&self, new: &Value, old: &Value, _: Part) -> Vec<FieldFault> {
        let mut faults = Vec::new();
        if new.get("value") != old.get("value") {
            faults.push(FieldFault::forbidden("value", "may not be changed in an update."));
        }
        faults.extend(immutable(new, old, &["preemptionPolicy"]));
        faults
    }
}

/// `node.k8s.io/v1` RuntimeClass.
#[derive(Clone, Copy, Debug)]
pub(super) struct RuntimeClass;

impl Strategy for RuntimeClass {
    fn warnings(&self, object: &Value, _: Option<&Value>, _: Part) -> Vec<String> {
        let selector = object.pointer("/scheduling/nodeSelector").and_then(Value::as_object);
        let keys = selector.into_iter().flat_map(|selector| selector.keys());
        keys.filter_map(|key| warnings::node_label(key)).map(|why| format!("scheduling.nodeSelector: {why}")).collect()
    }

    fn validate_create(&self, object: &Value) -> Vec<FieldFault> {
        let check = Check::of(object).name("handler", NameRule::Label);
        check.required("handler").done()
    }

    fn validate_update(&self, new: &Value, old: &Value, _: Part) -> Vec<FieldFault> {
        immutable(new, old, &["handler"])
    }
}

/// `apps/v1` ControllerRevision.
#[derive(Clone, Copy, Debug)]
pub(super) struct ControllerRevision;

impl Strategy for ControllerRevision {
    fn defaults(&self, object: &mut Value) {
        default(object, "revision", 0);
    }

    fn validate_create(&self, object: &Value) -> Vec<FieldFault> {
        let data = object.get("data").filter(|data| !data.is_null());
        Check::of(object)
            .refuse(data.is_none(), || FieldFault::required("data", "data is mandatory"))
            .refuse(data.is_some_and(|data| !data.is_object()), || {
                FieldFault::required("data", "data must be a valid JSON object")
            })
            .not_negative(&["revision"])
            .done()
    }

    fn validate_update(&self, new: &Value, old: &Value, _: Part) -> Vec<FieldFault> {
        let mut faults = self.validate_create(new);
        faults.extend(immutable(new, old, &["data"]));
        faults
    }
}
