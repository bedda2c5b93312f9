//! The table cells of built-in kinds.

use jiff::Timestamp;
use pintle_apimachinery::object::text;
use pintle_apimachinery::selector::structured_text;
use pintle_json::Json;

use super::durations;

/// The maximum number of list items in a cell.
const SHOWN: usize = 3;

/// The columns of a table, each with the source of its cells. A column is written as `Name[:type][*]`. The default type
/// is `string`. A `*` marks a column of the wide output.
pub type Table = &'static [(&'static str, Cell)];

/// The source of the cells in a column. The first string in a variant is a JSON pointer.
#[derive(Clone, Copy, Debug)]
pub enum Cell {
    Name,
    /// The time since the creation of the object.
    Age,
    /// A string, or an empty string if the value is absent.
    Text(&'static str),
    /// A string, or the second string if the value is empty.
    TextOr(&'static str, &'static str),
    /// A scalar, or the second string if the value is absent.
    ScalarOr(&'static str, &'static str),
    /// An integer, or 0 if the value is absent.
    Number(&'static str),
    Boolean(&'static str),
    /// The number of members of an object or items of a list.
    Size(&'static str),
    /// A list of strings, separated by commas.
    Joined(&'static str),
    /// The abbreviated access modes in a list.
    AccessModes(&'static str),
    /// The time since a timestamp, or the second string if there is no timestamp.
    Since(&'static str, &'static str),
    /// The numbers of ready and desired replicas.
    Ready,
    /// The phase, or `Terminating` if the object is being deleted.
    Phase,
    /// A map of labels.
    Labels(&'static str),
    /// A `LabelSelector`.
    Selector(&'static str),
    /// The names of the containers in the pod spec.
    Containers(&'static str),
    /// The images of the containers in the pod spec.
    Images(&'static str),
    /// A function's result.
    Computed(fn(&Json) -> Json),
    /// The result of a function that receives the current time.
    Timed(fn(&Json, Timestamp) -> Json),
}

impl Cell {
    /// Returns an object's cell.
    pub fn of(self, object: &Json, now: Timestamp) -> Json {
        let number = |pointer| object.integer(pointer).unwrap_or(0);
        match self {
            Self::Name => object.text("/metadata/name").into(),
            Self::Age => since(object, "/metadata/creationTimestamp", now).unwrap_or_else(|| "<unknown>".into()).into(),
            Self::Text(pointer) => object.text(pointer).into(),
            Self::TextOr(pointer, none) => {
                Some(object.text(pointer)).filter(|text| !text.is_empty()).unwrap_or(none).into()
            }
            Self::ScalarOr(pointer, none) if !object.has(pointer) => none.into(),
            Self::ScalarOr(pointer, _) => text(object.at(pointer)).into(),
            Self::Number(pointer) => number(pointer).into(),
            Self::Boolean(pointer) => object.is_true(pointer).into(),
            Self::Size(pointer) => object.at(pointer).map_or(0, size).into(),
            Self::Joined(pointer) => object.texts(pointer).collect::<Vec<_>>().join(",").into(),
            Self::AccessModes(pointer) => access_modes(object, pointer).into(),
            Self::Since(pointer, unset) => since(object, pointer, now).unwrap_or_else(|| unset.into()).into(),
            Self::Ready => format!("{}/{}", number("/status/readyReplicas"), number("/spec/replicas")).into(),
            Self::Phase if object.has("/metadata/deletionTimestamp") => "Terminating".into(),
            Self::Phase => object.text("/status/phase").into(),
            Self::Labels(pointer) => labels(object.at(pointer)).into(),
            Self::Selector(pointer) => selector(object.at(pointer)).into(),
            Self::Containers(spec) => of_containers(object.at(spec), "/name").into(),
            Self::Images(spec) => of_containers(object.at(spec), "/image").into(),
            Self::Computed(cell) => cell(object),
            Self::Timed(cell) => cell(object, now),
        }
    }
}

fn since(object: &Json, pointer: &str, now: Timestamp) -> Option<String> {
    object.text(pointer).parse().ok().map(|time| durations::age(time, now))
}

/// Returns the number of members of an object or items of a list.
pub fn size(value: &Json) -> usize {
    match value {
        Json::Array(items) => items.len(),
        Json::Object(members) => members.len(),
        _ => 0,
    }
}

/// Joins the first items of a list and appends the number of omitted items.
pub fn first_few(mut items: Vec<String>) -> String {
    let more = items.len().saturating_sub(SHOWN);
    items.truncate(SHOWN);
    match more {
        _ if items.is_empty() => "<none>".into(),
        0 => items.join(","),
        more => format!("{} + {more} more...", items.join(",")),
    }
}

fn labels(labels: Option<&Json>) -> String {
    let labels = labels.and_then(Json::as_object).into_iter().flatten();
    let texts: Vec<_> = labels.map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default())).collect();
    if texts.is_empty() { "<none>".into() } else { texts.join(",") }
}

fn selector(selector: Option<&Json>) -> String {
    let text = selector.map(structured_text).unwrap_or_default();
    if text.is_empty() { "<none>".into() } else { text }
}

fn of_containers(spec: Option<&Json>, pointer: &str) -> String {
    let containers = spec.into_iter().flat_map(|spec| spec.list("/containers"));
    containers.map(|container| container.text(pointer)).collect::<Vec<_>>().join(",")
}

/// Returns the ingress addresses in the status of a load balancer.
pub fn ingress_addresses(object: &Json) -> String {
    let addresses = object.list("/status/loadBalancer/ingress").map(|ingress| match ingress.text("/ip") {
        "" => ingress.text("/hostname"),
        ip => ip,
    });
    addresses.collect::<Vec<_>>().join(",")
}

/// Abbreviates access modes in a fixed order.
fn access_modes(object: &Json, pointer: &str) -> String {
    let known =
        [("ReadWriteOnce", "RWO"), ("ReadOnlyMany", "ROX"), ("ReadWriteMany", "RWX"), ("ReadWriteOncePod", "RWOP")];
    let has_mode = |mode: &str| object.list(pointer).any(|found| found.as_str() == Some(mode));
    known.iter().filter(|(mode, _)| has_mode(mode)).map(|(_, short)| *short).collect::<Vec<_>>().join(",")
}
