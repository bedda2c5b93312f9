//! Functions that compute table cells of built-in kinds.

use jiff::Timestamp;
use pintle_apimachinery::object::text;
use pintle_apimachinery::selector::structured_text;
use pintle_json::Json;

use super::durations;

/// The maximum number of list items that one cell shows.
const SHOWN: usize = 3;

/// The object from which a table row is created.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    object: &'a Json,
    now: Timestamp,
}

impl<'a> Row<'a> {
    pub fn new(object: &'a Json, now: Timestamp) -> Self {
        Self { object, now }
    }

    pub fn name(&self) -> Json {
        self.text("/metadata/name")
    }

    pub fn age(&self) -> Json {
        self.since("/metadata/creationTimestamp", "<unknown>")
    }

    /// Formats the time since a timestamp. Returns `unset` if there is no timestamp.
    pub fn since(&self, pointer: &str, unset: &str) -> Json {
        let time = self.object.text(pointer).parse::<Timestamp>().ok();
        time.map_or_else(|| unset.into(), |time| durations::age(time, self.now).into())
    }

    /// Returns a string. Returns an empty text if the string is absent.
    pub fn text(&self, pointer: &str) -> Json {
        self.object.text(pointer).into()
    }

    /// Returns a string. Returns `none` if the string is empty.
    pub fn text_or(&self, pointer: &str, none: &str) -> Json {
        match self.object.text(pointer) {
            "" => none.into(),
            text => text.into(),
        }
    }

    /// Formats a scalar. Returns `<none>` if the value is not a scalar.
    pub fn scalar_or_none(&self, pointer: &str) -> Json {
        match self.object.has(pointer) {
            true => text(self.object.at(pointer)).into(),
            false => "<none>".into(),
        }
    }

    /// Returns an integer. Returns 0 if the integer is absent.
    pub fn number(&self, pointer: &str) -> Json {
        self.object.integer(pointer).unwrap_or(0).into()
    }

    pub fn boolean(&self, pointer: &str) -> Json {
        (self.object.is_true(pointer)).into()
    }

    /// Returns the number of members in an object, or the number of items in a list.
    pub fn size(&self, pointer: &str) -> Json {
        self.object.at(pointer).map_or(0, size).into()
    }

    /// Joins the strings in a list.
    pub fn joined(&self, pointer: &str) -> Json {
        self.object.texts(pointer).collect::<Vec<_>>().join(",").into()
    }

    /// Formats the numbers of ready and desired replicas.
    pub fn ready(&self) -> Json {
        format!("{}/{}", self.number("/status/readyReplicas"), self.number("/spec/replicas")).into()
    }

    /// Returns the phase of an object. If the object is being deleted, returns `Terminating`.
    pub fn phase(&self) -> Json {
        match self.object.has("/metadata/deletionTimestamp") {
            true => "Terminating".into(),
            false => self.text("/status/phase"),
        }
    }
}

/// Returns the number of members in an object, or the number of items in a list.
pub fn size(value: &Json) -> usize {
    match value {
        Json::Array(items) => items.len(),
        Json::Object(members) => members.len(),
        _ => 0,
    }
}

/// Joins the first items of a list, and appends the number of omitted items.
pub fn first_few(mut items: Vec<String>) -> String {
    let more = items.len().saturating_sub(SHOWN);
    items.truncate(SHOWN);
    match more {
        _ if items.is_empty() => "<none>".into(),
        0 => items.join(","),
        more => format!("{} + {more} more...", items.join(",")),
    }
}

/// Formats a map of labels.
pub fn labels(labels: Option<&Json>) -> String {
    let labels = labels.and_then(Json::as_object).into_iter().flatten();
    let texts: Vec<_> = labels.map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default())).collect();
    if texts.is_empty() { "<none>".into() } else { texts.join(",") }
}

/// Formats a `LabelSelector`.
pub fn selector(selector: Option<&Json>) -> String {
    let text = selector.map(structured_text).unwrap_or_default();
    if text.is_empty() { "<none>".into() } else { text }
}

/// Returns the names and images of the containers in a pod spec.
pub fn containers(spec: Option<&Json>) -> (Json, Json) {
    let all = |key: &str| {
        let containers = spec.into_iter().flat_map(|spec| spec.list("/containers"));
        Json::from(containers.map(|container| container.text(key)).collect::<Vec<_>>().join(","))
    };
    (all("/name"), all("/image"))
}

/// Returns the ingress addresses in a load balancer status.
pub fn ingress_addresses(object: &Json) -> String {
    let addresses = object.list("/status/loadBalancer/ingress").map(|ingress| match ingress.text("/ip") {
        "" => ingress.text("/hostname"),
        ip => ip,
    });
    addresses.collect::<Vec<_>>().join(",")
}

/// Abbreviates access modes, in a fixed order.
pub fn access_modes(object: &Json, pointer: &str) -> String {
    let known =
        [("ReadWriteOnce", "RWO"), ("ReadOnlyMany", "ROX"), ("ReadWriteMany", "RWX"), ("ReadWriteOncePod", "RWOP")];
    let there = |mode: &str| object.list(pointer).any(|found| found.as_str() == Some(mode));
    known.iter().filter(|(mode, _)| there(mode)).map(|(_, short)| *short).collect::<Vec<_>>().join(",")
}
