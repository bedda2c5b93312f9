//! The `Event` kind in `events.k8s.io`. Compared with the core `Event` kind, in which events are stored, this kind
//! renames some fields and has stricter validation.

use std::sync::Arc;

use pintle_apimachinery::request::Subresource;
use pintle_apimachinery::validate::{FieldError, FieldErrors};
use pintle_json::{Json, json};
use pintle_kinds::check::Check;
use pintle_kinds::table::{ComputedCells, Table};
use pintle_kinds::{Form, Strategy, defaults};

use super::{CoreEvent, errors};
use crate::sections;
use jiff::Timestamp;

pub(crate) struct Event;

/// The renamed fields. Each entry contains the field's name in the core group, followed by its name in `events.k8s.io`.
const NAMES: &[(&str, &str)] = &[
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("reportingComponent", "reportingController"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
];

impl Strategy for Event {
    fn validate_create(&self, event: &Json) -> FieldErrors {
        new_errors(event)
    }

    fn validate_update(&self, new: &Json, old: &Json, _: Subresource) -> FieldErrors {
        let mut found = errors(&stored_event(new), "reportingController");
        if new.get("series") != old.get("series") {
            found.extend(series_errors(new));
        }
        found.extend(fixed_errors(new, old));
        found
    }

    fn to_stored(&self, event: Json) -> Json {
        let mut stored = rename(event, |(core, new)| (new, core));
        if let Some(members) = stored.as_object_mut() {
            members.insert("apiVersion", "v1".into());
        }
        defaults::fill(sections::DEFAULTS.of("v1 Event"), &mut stored);
        stored
    }

    fn form(&self) -> Form {
        Form::Converted
    }

    fn to_version(&self, stored: &Arc<Json>, _: &str) -> Arc<Json> {
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

    fn computed_cells(&self) -> ComputedCells {
        CoreEvent.computed_cells()
    }

    fn cells(&self, table: Table, event: &Json, now: Timestamp) -> Vec<Json> {
        CoreEvent.cells(table, &stored_event(event), now)
    }
}

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

/// Validates a new event. Errors use the field names of the core group.
fn new_errors(event: &Json) -> FieldErrors {
    let mut found = errors(&stored_event(event), "reportingController");
    found.extend(series_errors(event));
    let kind = event.text("/type");
    found.required_if(!event.has("/eventTime"), "eventTime", "");
    if !matches!(kind, "Normal" | "Warning") {
        found.push(FieldError::invalid_text("type", "", format!("has invalid value: {kind}")));
    }
    for (key, reported) in [
        ("deprecatedFirstTimestamp", "firstTimestamp"),
        ("deprecatedLastTimestamp", "lastTimestamp"),
        ("deprecatedCount", "count"),
        ("deprecatedSource", "source"),
    ] {
        if event.get(key).is_some_and(|value| !value.is_empty() && value != &json!(0)) {
            found.push(FieldError::invalid_text(reported, "", "needs to be unset"));
        }
    }
    found
}

fn series_errors(event: &Json) -> FieldErrors {
    let series = event.has("/series");
    Check::of(event)
        .refuse(series && event.integer("/series/count").unwrap_or(0) < 2, || {
            FieldError::invalid_text("series.count", "", "should be at least 2")
        })
        .required_if(series && !event.has("/series/lastObservedTime"), "series.lastObservedTime", "")
        .done()
}

/// The immutable fields of an event, with their names in the core group. The list contains `reason` twice, because
/// kube-apiserver reports it twice.
const FIXED_FIELDS: &[&str] = &[
    "involvedObject",
    "reason",
    "message",
    "source",
    "firstTimestamp",
    "lastTimestamp",
    "count",
    "reason",
    "type",
    "eventTime",
    "action",
    "related",
    "reportingComponent",
    "reportingInstance",
];

fn fixed_errors(new: &Json, old: &Json) -> FieldErrors {
    let (new, old) = (stored_event(new), stored_event(old));
    let changed = FIXED_FIELDS.iter().filter(|key| new[**key] != old[**key]);
    let name = |key: &str| if key == "reportingComponent" { "reportingController".into() } else { key.to_owned() };
    changed.map(|key| FieldError::invalid(name(key), &new[*key], "field is immutable")).collect()
}
