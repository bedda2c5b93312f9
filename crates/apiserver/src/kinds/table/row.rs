//! What the cells of built-in kinds are made of.

use jiff::Timestamp;
use pintle_json::Json;

use super::durations;
use crate::object::text;
use crate::selector::structured_text;

/// How many of many things a cell shows.
const SHOWN: usize = 3;

/// An object of which a row tells.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row<'a> {
    object: &'a Json,
    now: Timestamp,
}

impl<'a> Row<'a> {
    pub(crate) fn new(object: &'a Json, now: Timestamp) -> Self {
        Self { object, now }
    }

    pub(crate) fn name(&self) -> Json {
        self.text("/metadata/name")
    }

    pub(crate) fn age(&self) -> Json {
        self.since("/metadata/creationTimestamp", "<unknown>")
    }

    /// How long ago a time is.
    pub(crate) fn since(&self, pointer: &str, unset: &str) -> Json {
        let time = self.object.text(pointer).parse::<Timestamp>().ok();
        time.map_or_else(|| unset.into(), |time| durations::age(time, self.now).into())
    }

    /// A text; empty if there is none.
    pub(crate) fn text(&self, pointer: &str) -> Json {
        self.object.text(pointer).into()
    }

    /// A text, or what stands for none.
    pub(crate) fn text_or(&self, pointer: &str, none: &str) -> Json {
        match self.object.text(pointer) {
            "" => none.into(),
            text => text.into(),
        }
    }

    /// Any scalar as a text.
    pub(crate) fn scalar_or_none(&self, pointer: &str) -> Json {
        match self.object.has(pointer) {
            true => text(self.object.at(pointer)).into(),
            false => "<none>".into(),
        }
    }

    /// A whole number; 0 if there is none.
    pub(crate) fn number(&self, pointer: &str) -> Json {
        self.object.integer(pointer).unwrap_or(0).into()
    }

    pub(crate) fn truth(&self, pointer: &str) -> Json {
        (self.object.is_true(pointer)).into()
    }

    /// How many members or items.
    pub(crate) fn size(&self, pointer: &str) -> Json {
        self.object.at(pointer).map_or(0, size).into()
    }

    /// The texts of a list.
    pub(crate) fn joined(&self, pointer: &str) -> Json {
        self.object.texts(pointer).collect::<Vec<_>>().join(",").into()
    }

    /// How many of the replicas are ready.
    pub(crate) fn ready(&self) -> Json {
        format!("{}/{}", self.number("/status/readyReplicas"), self.number("/spec/replicas")).into()
    }

    /// The phase of what is still there when it goes.
    pub(crate) fn phase(&self) -> Json {
        match self.object.has("/metadata/deletionTimestamp") {
            true => "Terminating".into(),
            false => self.text("/status/phase"),
        }
    }
}

/// How many members or items.
pub(crate) fn size(value: &Json) -> usize {
    match value {
        Json::Array(items) => items.len(),
        Json::Object(members) => members.len(),
        _ => 0,
    }
}

/// The first few of many, and how many more.
pub(crate) fn some(mut items: Vec<String>) -> String {
    let more = items.len().saturating_sub(SHOWN);
    items.truncate(SHOWN);
    match more {
        _ if items.is_empty() => "<none>".into(),
        0 => items.join(","),
        more => format!("{} + {more} more...", items.join(",")),
    }
}

/// A map of labels as a text.
pub(crate) fn labels(labels: Option<&Json>) -> String {
    let labels = labels.and_then(Json::as_object).into_iter().flatten();
    let texts: Vec<_> = labels.map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default())).collect();
    if texts.is_empty() { "<none>".into() } else { texts.join(",") }
}

/// A structured selector as a text.
pub(crate) fn selector(selector: Option<&Json>) -> String {
    let text = selector.map(structured_text).unwrap_or_default();
    if text.is_empty() { "<none>".into() } else { text }
}

/// The names and the images of the containers of a template's spec.
pub(crate) fn containers(spec: Option<&Json>) -> (Json, Json) {
    let all = |key: &str| {
        let containers = spec.into_iter().flat_map(|spec| spec.list("/containers"));
        Json::from(containers.map(|container| container.text(key)).collect::<Vec<_>>().join(","))
    };
    (all("/name"), all("/image"))
}

/// Where the balancer of a Service or an Ingress is reached.
pub(crate) fn ingress_addresses(object: &Json) -> String {
    let addresses = object.list("/status/loadBalancer/ingress").map(|ingress| match ingress.text("/ip") {
        "" => ingress.text("/hostname"),
        ip => ip,
    });
    addresses.collect::<Vec<_>>().join(",")
}

/// Access modes by their abbreviations, in a fixed order.
pub(crate) fn access_modes(object: &Json, pointer: &str) -> String {
    let known =
        [("ReadWriteOnce", "RWO"), ("ReadOnlyMany", "ROX"), ("ReadWriteMany", "RWX"), ("ReadWriteOncePod", "RWOP")];
    let there = |mode: &str| object.list(pointer).any(|found| found.as_str() == Some(mode));
    known.iter().filter(|(mode, _)| there(mode)).map(|(_, short)| *short).collect::<Vec<_>>().join(",")
}
