//! The Event object of `events.k8s.io/v1`.

use std::collections::BTreeMap;

use pintle_meta::{MicroTime, ObjectMeta, TypeMeta};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::event::{Event, EventSeries, ObjectReference};

/// An event of the `events.k8s.io/v1` API, which combines repetitions in a series. A server that supports both the
/// `events.k8s.io/v1` and the `v1` API stores each event only once, and returns it as a [`SeriesEvent`] or an
/// [`Event`], depending on the requested API.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SeriesEvent {
    /// `apiVersion` and `kind`.
    #[serde(flatten)]
    pub types: TypeMeta,
    /// The metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// The time at which the event first occurred.
    pub event_time: Option<MicroTime>,
    /// The repetitions of the event, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub series: Option<EventSeries>,
    /// The name of the controller that recorded the event, such as `example.com/website-controller`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reporting_controller: String,
    /// The instance of the controller, such as the name of its pod, in at most 128 bytes.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reporting_instance: String,
    /// The action that the controller took or attempted, as one word of at most 128 bytes.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub action: String,
    /// The reason for the event, as one word in upper camel case, of at most 128 bytes.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The object that the event describes.
    #[serde(default)]
    pub regarding: ObjectReference,
    /// A second object involved in the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub related: Option<ObjectReference>,
    /// A human-readable description of what happened, as a sentence of at most 1024 bytes.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
    /// `Normal` or `Warning`.
    #[serde(default, rename = "type", skip_serializing_if = "String::is_empty")]
    pub event_type: String,
    /// The fields of the event that this struct does not declare, such as the deprecated `v1` fields.
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}

pintle_meta::resource!(SeriesEvent, "events.k8s.io/v1", "Event", "events", Namespaced);

impl SeriesEvent {
    /// Converts a recorded event to an event of the `events.k8s.io/v1` API. The `events.k8s.io/v1` API requires an
    /// action and an instance, and limits the length of each string.
    pub(crate) fn of(event: &Event, host: &str) -> Self {
        const LONGEST: usize = 128;
        let or = |text: &str, other: &dyn Fn() -> String| if text.is_empty() { other() } else { text.to_owned() };
        let instance = or(&event.reporting_instance, &|| format!("{}-{host}", event.reporting_component));
        let happened = event.first_timestamp.map(|time| MicroTime(time.0));
        Self {
            types: TypeMeta { api_version: "events.k8s.io/v1".into(), kind: "Event".into() },
            metadata: event.metadata.clone(),
            event_time: event.event_time.or(happened),
            series: None,
            reporting_controller: event.reporting_component.clone(),
            reporting_instance: cut(instance, LONGEST, ""),
            action: cut(or(&event.action, &|| event.reason.clone()), LONGEST, ""),
            reason: cut(event.reason.clone(), LONGEST, ""),
            regarding: event.involved_object.clone(),
            related: event.related.clone(),
            note: cut(event.message.clone(), 1024, " ..."),
            event_type: event.event_type.clone(),
            other: BTreeMap::new(),
        }
    }
}

/// Truncates a string to at most `longest` bytes, where a truncated string ends with `mark`.
fn cut(mut text: String, longest: usize, mark: &str) -> String {
    if text.len() > longest {
        text.truncate(text.floor_char_boundary(longest - mark.len()));
        text.push_str(mark);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_round_trip_loses_nothing() {
        let text = r#"{"apiVersion":"events.k8s.io/v1","kind":"Event","metadata":{"name":"a.1","namespace":"ns"},
            "eventTime":"2026-11-20T08:30:00.000001Z","reportingController":"kubelet","reportingInstance":"node-1",
            "series":{"count":2,"lastObservedTime":"2026-11-20T08:30:00.000000Z"},"action":"Pull","reason":"Pulled",
            "regarding":{"kind":"Pod","namespace":"ns","name":"a"},"related":{"kind":"Node","name":"node-1"},
            "note":"done","type":"Normal","deprecatedCount":3}"#;
        let event: SeriesEvent = serde_json::from_str(text).unwrap();
        let expected: Value = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_value(&event).unwrap(), expected);
    }

    #[test]
    fn long_string_is_cut_at_a_character_boundary() {
        assert_eq!(cut("abc".into(), 3, ".."), "abc");
        assert_eq!(cut("abcd".into(), 3, ".."), "a..");
        assert_eq!(cut("aäbcd".into(), 4, ".."), "a..", "not in the middle of a two-byte character");
    }
}
