//! ReplicaSet.

use super::{TEMPLATE, selector_changed, status_faults, workload_faults, workload_spec};
use crate::kinds::table::{self, Column, Row};
use crate::kinds::{Context, Scale, Strategy, warnings};
use crate::object::{default, member, set};
use crate::request::Part;
use crate::validate::FieldFault;
use jiff::Timestamp;
use serde_json::{Value, json};

/// `apps/v1` ReplicaSet.
#[derive(Clone, Copy, Debug)]
pub(in crate::kinds) struct ReplicaSet;

impl Strategy for ReplicaSet {
    fn warnings(&self, object: &Value, old: Option<&Value>, _: Part) -> Vec<String> {
        match old {
            None => warnings::maker_of_pods(object, TEMPLATE),
            Some(old) => warnings::changed_template(object, old, TEMPLATE),
        }
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

    fn validate_create(&self, object: &Value) -> Vec<FieldFault> {
        workload_faults(object, "deployment")
    }

    fn validate_update(&self, new: &Value, old: &Value, part: Part) -> Vec<FieldFault> {
        match part {
            Part::Status => status_faults(new, &["fullyLabeledReplicas", "readyReplicas", "availableReplicas"]),
            _ => {
                let mut faults = self.validate_create(new);
                faults.extend(selector_changed(new, old));
                faults
            }
        }
    }

    fn columns(&self) -> Option<Vec<Column>> {
        table::columns(
            "Name, Desired:integer, Current:integer, Ready:integer, Age, Containers*, Images*, \
             Selector*",
        )
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let row = Row::new(object, now);
        let (containers, images) = table::containers(object.pointer("/spec/template/spec"));
        vec![
            row.name(),
            row.number("/spec/replicas"),
            row.number("/status/replicas"),
            row.number("/status/readyReplicas"),
            row.age(),
            containers,
            images,
            table::selector(object.pointer("/spec/selector")).into(),
        ]
    }
}
