//! Table cells of events.

use jiff::Timestamp;
use serde_json::Value;

use super::since;
use crate::kinds::stored_event;
use crate::object::{has, integer_at, text_at};

/// A row of `events.k8s.io`, which shows the same as one of the core group.
pub(super) fn new_cells(event: &Value, now: Timestamp) -> Vec<Value> {
    cells(&stored_event(event), now)
}

pub(super) fn cells(event: &Value, now: Timestamp) -> Vec<Value> {
    let time = |pointers: &[&str]| {
        pointers.iter().copied().find(|pointer| has(event, pointer)).and_then(|pointer| event.pointer(pointer))
    };
    let first = since(time(&["/firstTimestamp", "/eventTime"]), now, "<unknown>");
    let last = match time(&["/series/lastObservedTime", "/lastTimestamp"]) {
        Some(time) => since(Some(time), now, "<unknown>"),
        None => first.clone(),
    };
    let count = match (integer_at(event, "/series/count"), integer_at(event, "/count").unwrap_or(0)) {
        (Some(count), _) => count,
        (None, 0) => 1,
        (None, count) => count,
    };
    let kind = text_at(event, "/involvedObject/kind").to_lowercase();
    let object = match text_at(event, "/involvedObject/name") {
        "" => kind,
        name => format!("{kind}/{name}"),
    };
    let (component, instance) = match text_at(event, "/source/component") {
        "" => (text_at(event, "/reportingComponent"), text_at(event, "/reportingInstance")),
        component => (component, text_at(event, "/source/host")),
    };
    let source = if instance.is_empty() { component.to_owned() } else { format!("{component}, {instance}") };
    vec![
        last.into(),
        text_at(event, "/type").into(),
        text_at(event, "/reason").into(),
        object.into(),
        text_at(event, "/involvedObject/fieldPath").into(),
        source.into(),
        text_at(event, "/message").trim().into(),
        first.into(),
        count.into(),
        text_at(event, "/metadata/name").into(),
    ]
}
