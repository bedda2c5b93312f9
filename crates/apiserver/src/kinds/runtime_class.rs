//! RuntimeClass.

use crate::kinds::check::{Check, immutable};
use crate::kinds::table::{self, Column, Row};
use crate::kinds::{Strategy, warnings};
use crate::request::Part;
use crate::validate::{Faults, NameRule};
use jiff::Timestamp;
use serde_json::Value;

/// `node.k8s.io/v1` RuntimeClass.
#[derive(Clone, Copy, Debug)]
pub(in crate::kinds) struct RuntimeClass;

impl Strategy for RuntimeClass {
    fn warnings(&self, object: &Value, _: Option<&Value>, _: Part) -> Vec<String> {
        let selector = object.pointer("/scheduling/nodeSelector").and_then(Value::as_object);
        let keys = selector.into_iter().flat_map(|selector| selector.keys());
        keys.filter_map(|key| warnings::node_label(key)).map(|why| format!("scheduling.nodeSelector: {why}")).collect()
    }

    fn validate_create(&self, object: &Value) -> Faults {
        let check = Check::of(object).name("handler", NameRule::Label);
        check.required("handler").done()
    }

    fn validate_update(&self, new: &Value, old: &Value, _: Part) -> Faults {
        immutable(new, old, &["handler"])
    }

    fn columns(&self) -> Option<Vec<Column>> {
        table::columns("Name, Handler, Age")
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let row = Row::new(object, now);
        vec![row.name(), row.text("/handler"), row.age()]
    }
}
