//! Event of `events.k8s.io`: the stored form by other names, and with rules of its own.

use std::sync::Arc;

use pintle_json::{Json, json};

use super::{CoreEvent, namespace_faults};
use crate::kinds::check::Check;
use crate::kinds::table::Column;
use crate::kinds::{Form, Strategy};
use crate::request::Part;
use crate::validate::{FieldFault, FieldFaults, NameRule};
use jiff::Timestamp;

/// `events.k8s.io/v1` Event.
#[derive(Clone, Copy, Debug)]
pub(in crate::kinds) struct Event;

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

const EVENTS_API_FIELD_LABELS: &[&str] = &[
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

impl Strategy for Event {
    fn defaults(&self, event: &mut Json) {
        event.member("regarding");
        event.member("deprecatedSource");
        for key in ["deprecatedFirstTimestamp", "deprecatedLastTimestamp", "eventTime"] {
            event.set_default(key, Json::Null);
        }
    }

    fn validate_create(&self, event: &Json) -> FieldFaults {
        new_faults(event)
    }

    fn validate_update(&self, new: &Json, old: &Json, _: Part) -> FieldFaults {
        let mut faults = common_faults(new);
        if new.get("series") != old.get("series") {
            faults.extend(series_faults(new));
        }
        faults.extend(fixed_faults(new, old));
        faults
    }

    fn is_report(&self) -> bool {
        true
    }

    fn name_rule(&self) -> NameRule {
        NameRule::Subdomain
    }

    fn field_labels(&self) -> Option<Vec<&str>> {
        Some(EVENTS_API_FIELD_LABELS.to_vec())
    }

    fn to_stored(&self, event: Json) -> Json {
        let mut stored = rename(event, |(core, new)| (new, core));
        if let Some(members) = stored.as_object_mut() {
            members.insert("apiVersion", "v1".into());
        }
        CoreEvent.defaults(&mut stored);
        stored
    }

    fn form(&self) -> Form {
        Form::Converted
    }

    fn shown(&self, stored: &Arc<Json>, _: &str) -> Arc<Json> {
        let mut event = rename(Json::clone(stored), |(core, new)| (core, new));
        if let Some(members) = event.as_object_mut() {
            members.insert("apiVersion", "events.k8s.io/v1".into());
            for key in ["reportingController", "reportingInstance"] {
                if members.get(key) == Some(&json!("")) {
                    members.remove(key);
                }
            }
        }
        Arc::new(event)
    }

    fn columns(&self) -> Option<Vec<Column>> {
        CoreEvent.columns()
    }

    fn cells(&self, event: &Json, now: Timestamp) -> Vec<Json> {
        CoreEvent.cells(&stored_event(event), now)
    }
}

/// An event of `events.k8s.io` in the form of the core group.
fn stored_event(event: &Json) -> Json {
    Event.to_stored(event.clone())
}

fn rename(event: Json, pair: impl Fn((&'static str, &'static str)) -> (&'static str, &'static str)) -> Json {
    let Json::Object(members) = event else { return event };
    let renamed = members.into_iter().map(|(key, value)| {
        let name = NAMES.iter().map(|names| pair(*names)).find(|(from, _)| *from == key).map(|(_, to)| to.into());
        (name.unwrap_or(key), value)
    });
    Json::Object(renamed.collect())
}

/// The faults of a new event of `events.k8s.io`, told by the names of the core group.
fn new_faults(event: &Json) -> FieldFaults {
    let mut faults = common_faults(event);
    faults.extend(series_faults(event));
    let kind = event.text("/type");
    if !event.has("/eventTime") {
        faults.push(FieldFault::required("eventTime", ""));
    }
    if !matches!(kind, "Normal" | "Warning") {
        faults.push(FieldFault::invalid_text("type", "", format!("has invalid value: {kind}")));
    }
    for (key, told) in [
        ("deprecatedFirstTimestamp", "firstTimestamp"),
        ("deprecatedLastTimestamp", "lastTimestamp"),
        ("deprecatedCount", "count"),
        ("deprecatedSource", "source"),
    ] {
        if event.get(key).is_some_and(|value| !value.is_empty() && value != &json!(0)) {
            faults.push(FieldFault::invalid_text(told, "", "needs to be unset"));
        }
    }
    faults
}

/// What holds of new and of changed events; of those without a time of their own, little.
fn common_faults(event: &Json) -> FieldFaults {
    const NOTE_AT_MOST: usize = 1024;
    let stored = stored_event(event);
    let faults = namespace_faults(&stored);
    if !event.has("/eventTime") {
        return faults;
    }
    Check::of(event)
        .also(faults)
        .required("reportingController")
        .qualified("reportingController")
        .required("reportingInstance")
        .also(too_long(event, "reportingInstance"))
        .required("action")
        .also(too_long(event, "action"))
        .required("reason")
        .also(too_long(event, "reason"))
        .refuse(event.text("/note").len() > NOTE_AT_MOST, || {
            FieldFault::invalid_text("message", "", format!("can have at most {NOTE_AT_MOST} characters"))
        })
        .done()
}

fn series_faults(event: &Json) -> FieldFaults {
    let series = event.has("/series");
    Check::of(event)
        .refuse(series && event.integer("/series/count").unwrap_or(0) < 2, || {
            FieldFault::invalid_text("series.count", "", "should be at least 2")
        })
        .refuse(series && !event.has("/series/lastObservedTime"), || {
            FieldFault::required("series.lastObservedTime", "")
        })
        .done()
}

/// What no update of an event of `events.k8s.io` changes. Reasons are told twice.
fn fixed_faults(new: &Json, old: &Json) -> FieldFaults {
    let fields = [
        ("regarding", "involvedObject"),
        ("reason", "reason"),
        ("reason", "reason"),
        ("note", "message"),
        ("type", "type"),
        ("action", "action"),
        ("related", "related"),
        ("reportingController", "reportingController"),
        ("reportingInstance", "reportingInstance"),
        ("eventTime", "eventTime"),
    ];
    let changed = fields.iter().filter(|(key, _)| new.get(key) != old.get(key));
    let fault = |(key, told): &(&str, &str)| {
        FieldFault::invalid(*told, new.get(key).unwrap_or(&Json::Null), "field is immutable")
    };
    changed.map(fault).collect()
}

fn too_long(event: &Json, key: &str) -> Option<FieldFault> {
    const AT_MOST: usize = 128;
    let long = event.text(&format!("/{key}")).len() > AT_MOST;
    long.then(|| FieldFault::invalid_text(key, "", format!("can have at most {AT_MOST} characters")))
}
