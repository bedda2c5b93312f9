//! ReplicaSet.

use super::{
    TEMPLATE, replica_cells, replica_columns, selector_changed, status_faults, workload_faults, workload_spec,
};
use crate::kinds::core::pod::template_warnings;
use crate::kinds::table::{self, Column};
use crate::kinds::{Context, Pods, Scale, Strategy};
use crate::object::{default, member, set};
use crate::request::Part;
use crate::validate::Faults;
use jiff::Timestamp;
use serde_json::{Value, json};

/// `apps/v1` ReplicaSet.
#[derive(Clone, Copy, Debug)]
pub(in crate::kinds) struct ReplicaSet;

impl Strategy for ReplicaSet {
    fn warnings(&self, object: &Value, old: Option<&Value>, _: Part) -> Vec<String> {
        template_warnings::written(object, old, TEMPLATE)
    }

    fn scale(&self) -> Option<&Scale> {
        Some(Scale::workload())
    }

    fn defaults(&self, object: &mut Value) {
        if let Some(spec) = workload_spec(object) {
            default(spec, "replicas", 1);
        }
        if let Some(status) = member(object, "status") {
            default(status, "replicas", 0);
        }
    }

    fn prepare_for_create(&self, _: &Context<'_>, object: &mut Value) {
        set(object, "status", json!({"replicas": 0}));
    }

    fn validate_create(&self, object: &Value) -> Faults {
        workload_faults(object, "deployment")
    }

    fn validate_update(&self, new: &Value, old: &Value, part: Part) -> Faults {
        match part {
            Part::Status => status_faults(new, &["fullyLabeledReplicas", "readyReplicas", "availableReplicas"]),
            _ => {
                let mut faults = self.validate_create(new);
                faults.extend(selector_changed(new, old));
                faults
            }
        }
    }

    fn pods(&self) -> Pods {
        Pods::MadeFrom(TEMPLATE)
    }

    fn columns(&self) -> Option<Vec<Column>> {
        replica_columns()
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        replica_cells(object, now, table::selector(object.pointer("/spec/selector")))
    }
}
