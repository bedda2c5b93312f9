//! Autoscalers: one stored form, that of `autoscaling/v2`, and an older view of it that keeps in annotations what it has no fields
//! for.

mod convert;
mod fields;
mod notes;
mod read;
#[cfg(test)]
mod tests;
mod validate;

use std::sync::Arc;

use serde_json::{Value, json};

use super::check::Check;
use super::{Context, Convert, Form, Strategy};
use crate::object::{default, is_empty, member, set};
use crate::request::Part;
use crate::validate::FieldFault;

/// `autoscaling/v2` HorizontalPodAutoscaler.
#[derive(Clone, Copy, Debug)]
pub(super) struct New;

/// `autoscaling/v1` HorizontalPodAutoscaler.
#[derive(Clone, Copy, Debug)]
pub(super) struct Old;

impl Strategy for New {
    fn defaults(&self, object: &mut Value) {
        // They are for the older version alone.
        notes::ALL.iter().for_each(|name| notes::drop(object, name));
        if let Some(spec) = member(object, "spec") {
            member(spec, "scaleTargetRef");
            default(spec, "minReplicas", 1);
            if spec.get("metrics").is_none_or(is_empty) {
                let target = json!({"type": "Utilization", "averageUtilization": 80});
                set(spec, "metrics", json!([{"type": "Resource", "resource": {"name": "cpu", "target": target}}]));
            }
            if let Some(behavior) = spec.get_mut("behavior").filter(|behavior| behavior.is_object()) {
                fill_behavior(behavior);
            }
        }
        if let Some(status) = member(object, "status") {
            default(status, "desiredReplicas", 0);
            default(status, "currentMetrics", Value::Null);
        }
    }

    fn prepare_for_create(&self, _: &Context<'_>, object: &mut Value) {
        set(object, "status", json!({"desiredReplicas": 0, "currentMetrics": null}));
    }

    fn validate_create(&self, object: &Value) -> Vec<FieldFault> {
        validate::spec(object, None)
    }

    fn validate_update(&self, new: &Value, old: &Value, part: Part) -> Vec<FieldFault> {
        match part {
            Part::Status => Check::of(new).not_negative(&["status.currentReplicas", "status.desiredReplicas"]).done(),
            _ => validate::spec(new, Some(old)),
        }
    }

    fn conversion(&self) -> Option<Convert> {
        Some(convert::between)
    }
}

impl Strategy for Old {
    fn defaults(&self, object: &mut Value) {
        if let Some(spec) = member(object, "spec") {
            default(spec, "minReplicas", 1);
        }
        // What the annotations say is taken at its word, and written again as the server writes it.
        *object = convert::to_old(&convert::to_new(object));
    }

    fn prepare_for_create(&self, _: &Context<'_>, object: &mut Value) {
        set(object, "status", json!({"currentReplicas": 0, "desiredReplicas": 0}));
        notes::OF_STATUS.iter().for_each(|name| notes::drop(object, name));
    }

    fn prepare_for_update(&self, _: &Context<'_>, new: &mut Value, old: &Value, part: Part) {
        let kept = if part == Part::Status { notes::OF_SPEC } else { notes::OF_STATUS };
        kept.iter().for_each(|name| notes::put_back(new, old, name));
    }

    fn validate_create(&self, object: &Value) -> Vec<FieldFault> {
        New.validate_create(&convert::to_new(object))
    }

    fn validate_update(&self, new: &Value, old: &Value, part: Part) -> Vec<FieldFault> {
        New.validate_update(&convert::to_new(new), &convert::to_new(old), part)
    }

    fn to_stored(&self, object: Value) -> Value {
        convert::to_new(&object)
    }

    fn form(&self) -> Form {
        Form::Converted
    }

    fn shown(&self, stored: &Arc<Value>, _: &str) -> Arc<Value> {
        Arc::new(convert::to_old(stored))
    }

    fn conversion(&self) -> Option<Convert> {
        Some(convert::between)
    }
}

fn fill_behavior(behavior: &mut Value) {
    let up = json!([{"type": "Pods", "value": 4, "periodSeconds": 15}, {"type": "Percent", "value": 100, "periodSeconds": 15}]);
    if let Some(rules) = member(behavior, "scaleUp") {
        default(rules, "stabilizationWindowSeconds", 0);
        default(rules, "selectPolicy", "Max");
        default(rules, "policies", up);
    }
    if let Some(rules) = member(behavior, "scaleDown") {
        default(rules, "selectPolicy", "Max");
        default(rules, "policies", json!([{"type": "Percent", "value": 100, "periodSeconds": 15}]));
    }
}
