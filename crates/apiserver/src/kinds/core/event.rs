//! Event: one stored form, that of the core group, and two views of it.

use std::sync::Arc;

use pintle_json::{Json, json};

use crate::kinds::check::Check;
use crate::kinds::table::{self, Column, Row};
use crate::kinds::{Form, Strategy};
use crate::object::{metadata, text};
use crate::request::Part;
use crate::validate::{Faults, FieldFault, NameRule, qualified_name_faults};
use jiff::Timestamp;

/// `v1` Event.
#[derive(Clone, Copy, Debug)]
pub(in crate::kinds) struct CoreEvent;

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

impl Strategy for CoreEvent {
    fn defaults(&self, event: &mut Json) {
        event.member("involvedObject");
        event.member("source");
        for key in ["firstTimestamp", "lastTimestamp", "eventTime"] {
            event.default(key, Json::Null);
        }
        event.default("reportingComponent", "");
        event.default("reportingInstance", "");
    }

    fn validate_create(&self, event: &Json) -> Faults {
        core_faults(event)
    }

    fn validate_update(&self, new: &Json, _: &Json, _: Part) -> Faults {
        namespace_faults(new)
    }

    fn name_rule(&self) -> NameRule {
        NameRule::PathSegment
    }

    fn field_labels(&self) -> Option<Vec<&str>> {
        Some(CORE_LABELS.to_vec())
    }

    fn field_paths<'a>(&self, label: &'a str) -> Vec<&'a str> {
        match label {
            "source" => vec!["source.component", "reportingComponent"],
            label => vec![label],
        }
    }

    fn field(&self, event: &Json, label: &str) -> Option<String> {
        if label == "source" {
            let component = event.text("/source/component");
            let component = if component.is_empty() { event.text("/reportingComponent") } else { component };
            return Some(component.into());
        }
        Some(text(event.at(&format!("/{}", label.replace('.', "/")))))
    }

    fn columns(&self) -> Option<Vec<Column>> {
        table::described(
            "Last Seen, Type, Reason, Object, Subobject*, Source*, Message, First Seen*, Count*, Name*",
            DESCRIPTIONS,
        )
    }

    fn cells(&self, event: &Json, now: Timestamp) -> Vec<Json> {
        let row = Row::new(event, now);
        let there = |pointers: [&'static str; 2]| pointers.into_iter().find(|pointer| event.has(pointer));
        let first = row.since(there(["/firstTimestamp", "/eventTime"]).unwrap_or_default(), "<unknown>");
        let last = match there(["/series/lastObservedTime", "/lastTimestamp"]) {
            Some(time) => row.since(time, "<unknown>"),
            None => first.clone(),
        };
        let count = match (event.integer("/series/count"), event.integer("/count").unwrap_or(0)) {
            (Some(count), _) => count,
            (None, 0) => 1,
            (None, count) => count,
        };
        let kind = event.text("/involvedObject/kind").to_lowercase();
        let object = match event.text("/involvedObject/name") {
            "" => kind,
            name => format!("{kind}/{name}"),
        };
        let (component, instance) = match event.text("/source/component") {
            "" => (event.text("/reportingComponent"), event.text("/reportingInstance")),
            component => (component, event.text("/source/host")),
        };
        let source = if instance.is_empty() { component.to_owned() } else { format!("{component}, {instance}") };
        vec![
            last,
            row.text("/type"),
            row.text("/reason"),
            object.into(),
            row.text("/involvedObject/fieldPath"),
            source.into(),
            event.text("/message").trim().into(),
            first,
            count.into(),
            row.name(),
        ]
    }
}

impl Strategy for Event {
    fn defaults(&self, event: &mut Json) {
        event.member("regarding");
        event.member("deprecatedSource");
        for key in ["deprecatedFirstTimestamp", "deprecatedLastTimestamp", "eventTime"] {
            event.default(key, Json::Null);
        }
    }

    fn validate_create(&self, event: &Json) -> Faults {
        new_faults(event)
    }

    fn validate_update(&self, new: &Json, old: &Json, _: Part) -> Faults {
        let mut faults = new_faults(new);
        faults.extend(fixed_faults(new, old));
        faults
    }

    fn name_rule(&self) -> NameRule {
        NameRule::PathSegment
    }

    fn field_labels(&self) -> Option<Vec<&str>> {
        Some(NEW_LABELS.to_vec())
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

/// The faults of an event in its stored form, where its involved object is concerned.
fn namespace_faults(event: &Json) -> Faults {
    let involved = event.text("/involvedObject/namespace");
    let namespace = metadata::namespace(event);
    // Newer events, which say when they were, can be of anything that is in a namespace, and of the cluster in that of the system, too.
    let fits = match (involved, event.has("/eventTime")) {
        ("", true) => matches!(namespace, "default" | "kube-system"),
        ("", false) => matches!(namespace, "default" | ""),
        (_, true) => true,
        (involved, false) => involved == namespace,
    };
    match fits {
        true => Faults::default(),
        false => Faults::from([FieldFault::invalid_text(
            "involvedObject.namespace",
            involved,
            "does not match event.namespace",
        )]),
    }
}

/// The faults of an event in its stored form: one with an `eventTime` follows the newer rules.
fn core_faults(event: &Json) -> Faults {
    if !event.has("/eventTime") {
        return namespace_faults(event);
    }
    let controller = event.text("/reportingComponent");
    let why = qualified_name_faults(controller);
    let check = Check::of(event).also(namespace_faults(event)).required("reportingComponent");
    let check = why.iter().fold(check, |check, why| {
        check.refuse(true, || FieldFault::invalid_text("reportingComponent", controller, why))
    });
    check.required("reportingInstance").required("action").required("reason").done()
}

/// The faults of an event of `events.k8s.io`, told by the names of the core group.
fn new_faults(event: &Json) -> Faults {
    const NOTE_AT_MOST: usize = 1024;
    let stored = stored_event(event);
    let mut faults = namespace_faults(&stored);
    let kind = event.text("/type");
    let unknown = || FieldFault::invalid_text("type", "", format!("has invalid value: {kind}"));
    let odd = !matches!(kind, "Normal" | "Warning");
    if !event.has("/eventTime") {
        faults.push(FieldFault::required("eventTime", ""));
        if odd {
            faults.push(unknown());
        }
        return faults;
    }
    let controller = event.text("/reportingController");
    let why = if controller.is_empty() { Vec::new() } else { qualified_name_faults(controller) };
    let series = event.integer("/series/count");
    let check = Check::of(event).also(faults).required("reportingController");
    let mut check = why
        .iter()
        .fold(check, |check, why| {
            check.refuse(true, || FieldFault::invalid_text("reportingController", controller, why))
        })
        .required("reportingInstance")
        .required("action")
        .required("reason")
        .refuse(event.text("/note").len() > NOTE_AT_MOST, || {
            FieldFault::invalid_text("message", "", format!("can have at most {NOTE_AT_MOST} characters"))
        })
        .refuse(odd, unknown)
        .refuse(series.is_some_and(|count| count < 2), || {
            FieldFault::invalid_text("series.count", "", "should be at least 2")
        });
    for (key, told) in [
        ("deprecatedFirstTimestamp", "firstTimestamp"),
        ("deprecatedLastTimestamp", "lastTimestamp"),
        ("deprecatedCount", "count"),
    ] {
        let set = event.get(key).is_some_and(|value| !value.is_null() && value != &json!(0));
        check = check.refuse(set, || FieldFault::invalid_text(told, "", "needs to be unset"));
    }
    check.done()
}

/// What no update of an event of `events.k8s.io` changes. Reasons are told twice.
fn fixed_faults(new: &Json, old: &Json) -> Faults {
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
    let changed = fields.iter().filter(|(key, _)| new.get(*key) != old.get(*key));
    let fault = |(key, told): &(&str, &str)| {
        FieldFault::invalid(*told, new.get(*key).unwrap_or(&Json::Null), "field is immutable")
    };
    changed.map(fault).collect()
}

/// What the API says of the columns.
const DESCRIPTIONS: &[(&str, &str)] = &[
    ("Last Seen", "The time at which the most recent occurrence of this event was recorded."),
    ("Type", "Type of this event (Normal, Warning), new types could be added in the future"),
    (
        "Reason",
        "This should be a short, machine understandable string that gives the reason for the transition into the object's current status.",
    ),
    ("Object", "The object that this event is about."),
    (
        "Subobject",
        "If referring to a piece of an object instead of an entire object, this string should contain a valid JSON/Go field access statement, such as desiredState.manifest.containers[2]. For example, if the object reference is to a container within a pod, this would take on a value like: \"spec.containers{name}\" (where \"name\" refers to the name of the container that triggered the event) or if no container name is specified \"spec.containers[2]\" (container with index 2 in this pod). This syntax is chosen only to have some well-defined way of referencing a part of an object.",
    ),
    ("Source", "The component reporting this event. Should be a short machine understandable string."),
    ("Message", "A human-readable description of the status of this operation."),
    ("First Seen", "The time at which the event was first recorded. (Time of server receipt is in TypeMeta.)"),
    ("Count", "The number of times this event has occurred."),
];
