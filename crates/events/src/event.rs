//! The Event object of `v1`.

use std::collections::BTreeMap;
use std::fmt;

use pintle_meta::{MicroTime, Object, ObjectMeta, Resource, Time, TypeMeta};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// An `Event` of the `v1` API: a human-readable message about an object. By default, the server deletes events after
/// one hour.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Event {
    /// `apiVersion` and `kind`.
    #[serde(flatten)]
    pub types: TypeMeta,
    /// The metadata.
    pub metadata: ObjectMeta,
    /// The object that the event describes. This object must be cluster-scoped or in the same namespace as the event.
    pub involved_object: ObjectReference,
    /// The reason for the event, as one word in upper camel case, such as `Scheduled`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// A human-readable description of what happened, as a sentence.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The component that recorded the event.
    pub source: EventSource,
    /// The time at which the event first occurred.
    pub first_timestamp: Option<Time>,
    /// The time at which the event last occurred.
    pub last_timestamp: Option<Time>,
    /// The number of occurrences of the event.
    #[serde(skip_serializing_if = "is_zero")]
    pub count: i32,
    /// `Normal` or `Warning`.
    #[serde(rename = "type", skip_serializing_if = "String::is_empty")]
    pub event_type: String,
    /// The time at which the event first occurred, which recorders for the `events.k8s.io` API set.
    pub event_time: Option<MicroTime>,
    /// The name of the controller that recorded the event, such as `example.com/website-controller`. Only recorders
    /// for the `events.k8s.io` API set this name.
    pub reporting_component: String,
    /// The instance of the controller, such as the name of its pod.
    pub reporting_instance: String,
    /// The action that the controller took or attempted, as one word such as `Binding`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub action: String,
    /// A second object that is involved in the event, such as the node that a pod was bound to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub related: Option<ObjectReference>,
    /// The repetitions of the event, which recorders for the `events.k8s.io` API set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub series: Option<EventSeries>,
    /// The fields of the event that this struct does not declare.
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}

pintle_meta::resource!(Event, "v1", "Event", "events", Namespaced);

/// Formats the event like client-go's `FakeRecorder`, as in `Normal Pulled done`, followed by the annotations, if any.
/// The alternate form `{:#}` also includes the kind of the object.
impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.event_type, self.reason, self.message)?;
        if f.alternate() {
            let ObjectReference { kind, api_version, .. } = &self.involved_object;
            write!(f, " involvedObject{{kind={kind},apiVersion={api_version}}}")?;
        }
        if !self.metadata.annotations.is_empty() {
            let annotations: Vec<_> =
                self.metadata.annotations.iter().map(|(key, value)| format!("{key}:{value}")).collect();
            write!(f, " map[{}]", annotations.join(" "))?;
        }
        Ok(())
    }
}

/// The repetitions of an event.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct EventSeries {
    /// The number of occurrences when the series was last updated, at least 2.
    pub count: i32,
    /// The time at which the event last occurred before the last update of the series.
    pub last_observed_time: Option<MicroTime>,
}

/// A reference to an object of any kind, like Kubernetes' `ObjectReference`.
///
/// # Examples
///
/// ```
/// use pintle_events::ObjectReference;
/// use pintle_meta::ObjectMeta;
///
/// struct Website {
///     metadata: ObjectMeta,
/// }
/// pintle_meta::resource!(Website, "example.com/v1", "Website", "websites", Namespaced);
///
/// let site = Website { metadata: ObjectMeta::new("team-a", "blog") };
/// let part = ObjectReference { field_path: "spec.template".into(), ..ObjectReference::from(&site) };
/// assert_eq!((part.kind.as_str(), part.name.as_str()), ("Website", "blog"));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectReference {
    /// `version` or `group/version`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub api_version: String,
    /// The object's kind.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// The object's namespace, or an empty string for cluster-scoped objects.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// The object's name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The object's UID. `kubectl describe` lists only the events that contain the UID of the object.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// The `resourceVersion` that the object had when the event was recorded.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub resource_version: String,
    /// The part of the object that the event describes, such as `spec.containers{web}`, or an empty string for the
    /// whole object.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub field_path: String,
}

impl<T: Resource> From<&T> for ObjectReference {
    fn from(object: &T) -> Self {
        let resource = T::api_resource();
        Self {
            api_version: resource.group_version.to_string(),
            kind: resource.kind,
            namespace: Object::namespace(object).unwrap_or_default().into(),
            name: object.name().into(),
            uid: object.uid().into(),
            resource_version: object.resource_version().into(),
            field_path: String::new(),
        }
    }
}

/// The program that records events, with its node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
pub struct EventSource {
    /// The name of the program that recorded the event, such as `website-controller`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub component: String,
    /// The node on which the program runs, if it is relevant to the event.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub host: String,
}

/// The severity of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventType {
    /// The event is informational and reports no problem.
    Normal,
    /// The event reports a possible problem.
    Warning,
}

impl EventType {
    /// Returns the value of this type in the API: `Normal` or `Warning`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

impl fmt::Display for EventType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

fn is_zero(number: &i32) -> bool {
    *number == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_round_trip_loses_nothing() {
        let text = r#"{"apiVersion":"v1","kind":"Event","metadata":{"name":"a.1","namespace":"ns"},
            "involvedObject":{"kind":"Pod","namespace":"ns","name":"a","apiVersion":"v1","fieldPath":"spec.containers{web}"},
            "reason":"Pulled","message":"done","source":{"component":"kubelet","host":"node-1"},
            "firstTimestamp":"2026-11-20T08:30:00Z","lastTimestamp":"2026-11-20T08:30:00Z","count":3,"type":"Normal",
            "eventTime":null,"reportingComponent":"kubelet","reportingInstance":"node-1","action":"Pull",
            "related":{"kind":"Node","name":"node-1"},
            "series":{"count":2,"lastObservedTime":"2026-11-20T08:30:00.000000Z"},"new":1}"#;
        let event: Event = serde_json::from_str(text).unwrap();
        let expected: Value = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_value(&event).unwrap(), expected);
        assert_eq!(event.to_string(), "Normal Pulled done");
        assert_eq!(format!("{event:#}"), "Normal Pulled done involvedObject{kind=Pod,apiVersion=v1}");
    }
}
