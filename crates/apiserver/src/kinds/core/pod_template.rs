//! PodTemplate.

use super::pod::{pod_template, template_warnings, validate_template};
use crate::kinds::table::{self, Column, Row};
use crate::kinds::{Pods, Strategy};
use crate::object::member;
use crate::request::Part;
use crate::validate::Faults;
use jiff::Timestamp;
use serde_json::Value;

/// `v1` PodTemplate.
#[derive(Clone, Copy, Debug)]
pub(in crate::kinds) struct PodTemplate;

impl Strategy for PodTemplate {
    fn warnings(&self, object: &Value, old: Option<&Value>, _: Part) -> Vec<String> {
        match old {
            None => template_warnings::of(object, "/template"),
            Some(old) => template_warnings::changed(object, old, "/template"),
        }
    }

    fn defaults(&self, object: &mut Value) {
        if let Some(template) = member(object, "template") {
            pod_template(template);
        }
    }

    fn validate_create(&self, object: &Value) -> Faults {
        validate_template(object.get("template").unwrap_or(&Value::Null), "template")
    }

    fn pods(&self) -> Pods {
        Pods::MadeFrom("/template")
    }

    fn columns(&self) -> Option<Vec<Column>> {
        table::columns("Name, Containers, Images, Pod Labels")
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let row = Row::new(object, now);
        let (names, images) = table::containers(object.pointer("/template/spec"));
        let labels = table::labels(object.pointer("/template/metadata/labels"));
        vec![row.name(), names, images, labels.into()]
    }
}
