//! Events: one stored form, that of the core group, and two views of it.

use std::sync::Arc;

use serde_json::{Value, json};

use super::Strategy;
use super::edit::{default, member, text, text_at};
use crate::validate::{FieldFault, NameRule};

/// `v1` Event.
#[derive(Clone, Copy, Debug)]
pub(super) struct Core;

/// `events.k8s.io/v1` Event.
#[derive(Clone, Copy, Debug)]
pub(super) struct New;

/// What the two views call one field: in the core group, and in `events.k8s.io`.
const NAMES: &[(&str, &str)] = &[
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("reportingComponent", "reportingController"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
];

const CORE_LABELS: &[&str] = &[
    "involvedObject.kind",
    "involvedObject.namespace",
    "involvedObject.name",
    "involvedObject.uid",
    "involvedObject.apiVersion",
    "involvedObject.resourceVersion",
    "involvedObject.fieldPath",
    "reason",
    "reportingComponent",
    "source",
    "type",
];

const NEW_LABELS: &[&str] = &[
    "regarding.kind",
    "regarding.namespace",
    "regarding.name",
    "regarding.uid",
    "regarding.apiVersion",
    "regarding.resourceVersion",
    "regarding.fieldPath",
    "reason",
    "reportingController",
    "type",
];

impl Strategy for Core {
    fn defaults(&self, event: &mut Value) {
        member(event, "involvedObject");
        member(event, "source");
        for key in ["firstTimestamp", "lastTimestamp", "eventTime"] {
            default(event, key, Value::Null);
        }
        default(event, "reportingComponent", "");
        default(event, "reportingInstance", "");
    }

    fn validate_create(&self, event: &Value) -> Vec<FieldFault> {
        faults(event)
    }

    fn name_rule(&self) -> NameRule {
        NameRule::PathSegment
    }

    fn field_labels(&self) -> Option<Vec<&str>> {
        Some(CORE_LABELS.to_vec())
    }

    fn field(&self, event: &Value, label: &str) -> Option<String> {
        if label == "source" {
            let component = text_at(event, "/source/component");
            let component = if component.is_empty() { text_at(event, "/reportingComponent") } else { component };
            return Some(component.into());
        }
        Some(text(event.pointer(&format!("/{}", label.replace('.', "/")))))
    }
}

impl Strategy for New {
    fn defaults(&self, event: &mut Value) {
        member(event, "regarding");
        member(event, "deprecatedSource");
        for key in ["deprecatedFirstTimestamp", "deprecatedLastTimestamp", "eventTime"] {
            default(event, key, Value::Null);
        }
    }

    fn validate_create(&self, event: &Value) -> Vec<FieldFault> {
        faults(&self.to_stored(event.clone()))
    }

    fn name_rule(&self) -> NameRule {
        NameRule::PathSegment
    }

    fn field_labels(&self) -> Option<Vec<&str>> {
        Some(NEW_LABELS.to_vec())
    }

    fn to_stored(&self, event: Value) -> Value {
        let mut stored = rename(event, |(core, new)| (new, core));
        if let Some(members) = stored.as_object_mut() {
            members.insert("apiVersion".into(), "v1".into());
        }
        Core.defaults(&mut stored);
        stored
    }

    fn from_stored(&self, stored: &Arc<Value>) -> Arc<Value> {
        let mut event = rename(Value::clone(stored), |(core, new)| (core, new));
        if let Some(members) = event.as_object_mut() {
            members.insert("apiVersion".into(), "events.k8s.io/v1".into());
            for key in ["reportingController", "reportingInstance"] {
                if members.get(key) == Some(&json!("")) {
                    members.remove(key);
                }
            }
        }
        Arc::new(event)
    }
}

/// An event of `events.k8s.io` in the form of the core group.
pub(crate) fn stored_event(event: &Value) -> Value {
    New.to_stored(event.clone())
}

fn rename(event: Value, pair: impl Fn((&'static str, &'static str)) -> (&'static str, &'static str)) -> Value {
    let Value::Object(members) = event else { return event };
    let renamed = members.into_iter().map(|(key, value)| {
        let name = NAMES.iter().map(|names| pair(*names)).find(|(from, _)| *from == key).map(|(_, to)| to.to_owned());
        (name.unwrap_or(key), value)
    });
    Value::Object(renamed.collect())
}

/// The faults of an event in its stored form.
fn faults(event: &Value) -> Vec<FieldFault> {
    let involved = text_at(event, "/involvedObject/namespace");
    let namespace = text_at(event, "/metadata/namespace");
    let fits = match involved {
        "" => namespace == "default" || namespace.is_empty(),
        involved => involved == namespace,
    };
    match fits {
        true => Vec::new(),
        false => vec![FieldFault::invalid_text("involvedObject.namespace", involved, "does not match event.namespace")],
    }
}
