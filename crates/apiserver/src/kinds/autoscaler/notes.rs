//! The annotations in which the older version keeps what it has no fields for: JSON in the words and the order of its own types.

use serde_json::{Map, Value};

use crate::kinds::edit::{list, member, remove, set, text_at};
use crate::schema::quantity::Quantity;

pub(super) const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
pub(super) const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";
pub(super) const CURRENT_METRICS: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
pub(super) const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
pub(super) const OF_SPEC: &[&str] = &[METRICS, BEHAVIOR];
pub(super) const OF_STATUS: &[&str] = &[CURRENT_METRICS, CONDITIONS];
/// All of them, and two that are no longer written.
pub(super) const ALL: &[&str] = &[
    METRICS,
    BEHAVIOR,
    CURRENT_METRICS,
    CONDITIONS,
    "autoscaling.alpha.kubernetes.io/scale-down-tolerance",
    "autoscaling.alpha.kubernetes.io/scale-up-tolerance",
];

/// What a field of the older version holds.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Form {
    /// Text that is there even if it is empty.
    Text,
    /// An amount that is there even if it is nothing.
    Amount,
    /// Anything, or nothing at all.
    Optional,
    /// What names another object.
    Reference,
    Selector,
}

/// A field of the older version, where the newer has it, and what it holds.
type Field = (&'static str, &'static str, Form);

/// The sources of metrics with their fields, in the order of the older version.
const SOURCES: &[(&str, &[Field])] = &[
    (
        "object",
        &[
            ("target", "/describedObject", Form::Reference),
            ("metricName", "/metric/name", Form::Text),
            ("targetValue", "/target/value", Form::Amount),
            ("selector", "/metric/selector", Form::Selector),
            ("averageValue", "/target/averageValue", Form::Optional),
        ],
    ),
    (
        "pods",
        &[
            ("metricName", "/metric/name", Form::Text),
            ("targetAverageValue", "/target/averageValue", Form::Amount),
            ("selector", "/metric/selector", Form::Selector),
        ],
    ),
    (
        "resource",
        &[
            ("name", "/name", Form::Text),
            ("targetAverageUtilization", "/target/averageUtilization", Form::Optional),
            ("targetAverageValue", "/target/averageValue", Form::Optional),
        ],
    ),
    (
        "containerResource",
        &[
            ("name", "/name", Form::Text),
            ("targetAverageUtilization", "/target/averageUtilization", Form::Optional),
            ("targetAverageValue", "/target/averageValue", Form::Optional),
            ("container", "/container", Form::Text),
        ],
    ),
    (
        "external",
        &[
            ("metricName", "/metric/name", Form::Text),
            ("metricSelector", "/metric/selector", Form::Selector),
            ("targetValue", "/target/value", Form::Optional),
            ("targetAverageValue", "/target/averageValue", Form::Optional),
        ],
    ),
];

/// The same for metrics as they are measured.
const CURRENT: &[(&str, &[Field])] = &[
    (
        "object",
        &[
            ("target", "/describedObject", Form::Reference),
            ("metricName", "/metric/name", Form::Text),
            ("currentValue", "/current/value", Form::Amount),
            ("selector", "/metric/selector", Form::Selector),
            ("averageValue", "/current/averageValue", Form::Optional),
        ],
    ),
    (
        "pods",
        &[
            ("metricName", "/metric/name", Form::Text),
            ("currentAverageValue", "/current/averageValue", Form::Amount),
            ("selector", "/metric/selector", Form::Selector),
        ],
    ),
    (
        "resource",
        &[
            ("name", "/name", Form::Text),
            ("currentAverageUtilization", "/current/averageUtilization", Form::Optional),
            ("currentAverageValue", "/current/averageValue", Form::Amount),
        ],
    ),
    (
        "containerResource",
        &[
            ("name", "/name", Form::Text),
            ("currentAverageUtilization", "/current/averageUtilization", Form::Optional),
            ("currentAverageValue", "/current/averageValue", Form::Amount),
            ("container", "/container", Form::Text),
        ],
    ),
    (
        "external",
        &[
            ("metricName", "/metric/name", Form::Text),
            ("metricSelector", "/metric/selector", Form::Selector),
            ("currentValue", "/current/value", Form::Amount),
            ("currentAverageValue", "/current/averageValue", Form::Optional),
        ],
    ),
];

const RULES: &[(&str, &str)] = &[("ScaleUp", "scaleUp"), ("ScaleDown", "scaleDown")];
const RULE: &[(&str, &str)] = &[
    ("StabilizationWindowSeconds", "stabilizationWindowSeconds"),
    ("SelectPolicy", "selectPolicy"),
    ("Policies", "policies"),
    ("Tolerance", "tolerance"),
];
const POLICY: &[(&str, &str)] = &[("Type", "type"), ("Value", "value"), ("PeriodSeconds", "periodSeconds")];

/// What an annotation says.
pub(super) fn text<'a>(object: &'a Value, name: &str) -> Option<&'a str> {
    object.pointer("/metadata/annotations")?.get(name)?.as_str()
}

pub(super) fn put(object: &mut Value, name: &str, text: String) {
    if let Some(annotations) = member(object, "metadata").and_then(|metadata| member(metadata, "annotations")) {
        set(annotations, name, text.into());
    }
}

pub(super) fn drop(object: &mut Value, name: &str) {
    let Some(metadata) = object.get_mut("metadata") else { return };
    let Some(annotations) = metadata.get_mut("annotations") else { return };
    remove(annotations, name);
    if crate::kinds::edit::is_empty(annotations) {
        remove(metadata, "annotations");
    }
}

/// Gives `new` the annotation of `old`, or none.
pub(super) fn put_back(new: &mut Value, old: &Value, name: &str) {
    match text(old, name) {
        Some(text) => put(new, name, text.into()),
        None => drop(new, name),
    }
}

pub(super) fn write_metrics(metrics: &[&Value]) -> String {
    array(metrics.iter().map(|metric| write_metric(metric, SOURCES)))
}

pub(super) fn write_current_metrics(metrics: &[&Value]) -> String {
    array(metrics.iter().map(|metric| write_metric(metric, CURRENT)))
}

pub(super) fn write_conditions(conditions: &[&Value]) -> String {
    let write = |condition: &&Value| {
        let text = |key: &str| condition.get(key).filter(|value| **value != "").map(json);
        members([
            ("type", Some(plain(condition, "type"))),
            ("status", Some(plain(condition, "status"))),
            ("lastTransitionTime", Some(text("lastTransitionTime").unwrap_or_else(|| "null".into()))),
            ("reason", text("reason")),
            ("message", text("message")),
        ])
    };
    array(conditions.iter().map(write))
}

/// The rules of scaling are written by the names that they have within the server.
pub(super) fn write_behavior(behavior: &Value) -> String {
    let null = || "null".to_owned();
    let value = |object: &Value, key: &str| object.get(key).map_or_else(null, json);
    let policy = |policy: &Value| members(POLICY.iter().map(|(name, key)| (*name, Some(value(policy, key)))));
    let rule = |rule: &Value| {
        members(RULE.iter().map(|(name, key)| match *key {
            "policies" if rule.get("policies").is_some_and(Value::is_array) => {
                (*name, Some(array(list(rule, "/policies").map(policy))))
            }
            key => (*name, Some(value(rule, key))),
        }))
    };
    let there = |key: &str| behavior.get(key).filter(|rules| !rules.is_null());
    members(RULES.iter().map(|(name, key)| (*name, Some(there(key).map_or_else(null, rule)))))
}

pub(super) fn read_metrics(text: &str) -> Option<Value> {
    read_all(text, |metric| {
        let mut new = read_metric(metric, SOURCES)?;
        for (source, _) in SOURCES {
            if let Some(target) = new.get_mut(source).and_then(|source| member(source, "target")) {
                complete_target(source, target);
            }
        }
        Some(new)
    })
}

pub(super) fn read_current_metrics(text: &str) -> Option<Value> {
    read_all(text, |metric| read_metric(metric, CURRENT))
}

pub(super) fn read_behavior(text: &str) -> Option<Value> {
    let behavior: Value = serde_json::from_str(text).ok()?;
    let mut behavior = renamed(&behavior, RULES)?;
    for rules in behavior.as_object_mut()?.values_mut() {
        *rules = renamed(rules, RULE)?;
        if let Some(policies) = rules.get_mut("policies").and_then(Value::as_array_mut) {
            for policy in policies {
                *policy = renamed(policy, POLICY)?;
            }
        }
    }
    Some(behavior).filter(|behavior| !crate::kinds::edit::is_empty(behavior))
}

fn write_metric(metric: &Value, sources: &[(&'static str, &[Field])]) -> String {
    let source = |source: &Value, fields: &[Field]| {
        members(fields.iter().map(|(name, pointer, form)| (*name, write_field(source.pointer(pointer), *form))))
    };
    let there = |key: &str| metric.get(key).filter(|source| !source.is_null());
    let sources = sources.iter().map(|(key, fields)| (*key, there(key).map(|one| source(one, fields))));
    members([("type", Some(plain(metric, "type")))].into_iter().chain(sources))
}

fn write_field(value: Option<&Value>, form: Form) -> Option<String> {
    let value = value.filter(|value| !value.is_null());
    match form {
        Form::Text => Some(value.map_or_else(|| "\"\"".into(), json)),
        Form::Amount => Some(value.map_or_else(|| "\"0\"".into(), json)),
        Form::Optional => value.map(json),
        Form::Reference => {
            let empty = Value::Null;
            let object = value.unwrap_or(&empty);
            let version = object.get("apiVersion").filter(|version| **version != "").map(json);
            let both = [("kind", Some(plain(object, "kind"))), ("name", Some(plain(object, "name")))];
            Some(members(both.into_iter().chain([("apiVersion", version)])))
        }
        Form::Selector => value.map(|selector| {
            let part = |key: &str| selector.get(key).filter(|part| !crate::kinds::edit::is_empty(part)).map(json);
            members(["matchLabels", "matchExpressions"].map(|key| (key, part(key))))
        }),
    }
}

fn read_all(text: &str, read: impl Fn(&Value) -> Option<Value>) -> Option<Value> {
    let items: Value = serde_json::from_str(text).ok()?;
    items.as_array()?.iter().map(read).collect::<Option<Vec<_>>>().map(Value::Array)
}

fn read_metric(metric: &Value, sources: &[(&'static str, &[Field])]) -> Option<Value> {
    let mut new = Map::new();
    let kind = metric.as_object()?.get("type").cloned();
    new.insert("type".into(), kind.unwrap_or_else(|| "".into()));
    for (key, fields) in sources {
        let Some(source) = metric.get(key).filter(|source| !source.is_null()) else { continue };
        let mut read = Value::Object(Map::new());
        for (name, pointer, form) in *fields {
            let value = source.get(name).filter(|value| !value.is_null()).cloned();
            let value = match form {
                Form::Text => value.or_else(|| Some("".into())),
                Form::Amount => value.or_else(|| Some("0".into())),
                _ => value,
            };
            if let Some(value) = value {
                put_at(&mut read, pointer, value)?;
            }
        }
        new.insert((*key).into(), read);
    }
    Some(Value::Object(new))
}

/// The kind of target shows in which values are set. An amount that had to be there though nothing was meant goes.
fn complete_target(source: &str, target: &mut Value) {
    let has = |key: &str| target.get(key).is_some();
    let kind = match source {
        "object" if !has("averageValue") => "Value",
        "external" if has("value") => "Value",
        "resource" | "containerResource" if has("averageUtilization") => "Utilization",
        _ => "AverageValue",
    };
    let nothing = Quantity::parse(text_at(target, "/value")).is_some_and(|value| value.nanos() == 0);
    if source == "object" && kind == "AverageValue" && nothing {
        remove(target, "value");
    }
    set(target, "type", kind.into());
}

/// Sets a value at a pointer, and makes the objects on the way.
fn put_at(object: &mut Value, pointer: &str, value: Value) -> Option<()> {
    let mut keys: Vec<_> = pointer.split('/').skip(1).collect();
    let last = keys.pop()?;
    let at = keys.into_iter().try_fold(object, |object, key| member(object, key))?;
    set(at, last, value);
    Some(())
}

/// The members under their other names, whatever the case they are written in. Null ones go.
fn renamed(object: &Value, names: &[(&str, &str)]) -> Option<Value> {
    let known = |key: &str| names.iter().find(|(name, _)| name.eq_ignore_ascii_case(key)).map(|(_, to)| *to);
    let members = object.as_object()?.iter().filter(|(_, value)| !value.is_null());
    Some(members.filter_map(|(key, value)| Some((known(key)?.to_owned(), value.clone()))).collect::<Map<_, _>>().into())
}

/// A text member, empty if it is absent.
fn plain(object: &Value, key: &str) -> String {
    json(&text_at(object, &format!("/{key}")).into())
}

fn members(members: impl IntoIterator<Item = (&'static str, Option<String>)>) -> String {
    let written = members.into_iter().filter_map(|(name, value)| Some(format!("\"{name}\":{}", value?)));
    format!("{{{}}}", written.collect::<Vec<_>>().join(","))
}

fn array(items: impl Iterator<Item = String>) -> String {
    format!("[{}]", items.collect::<Vec<_>>().join(","))
}

/// JSON as Go writes it: what could be taken for markup is escaped.
fn json(value: &Value) -> String {
    let text = value.to_string();
    let escapes =
        [("<", "\\u003c"), (">", "\\u003e"), ("&", "\\u0026"), ("\u{2028}", "\\u2028"), ("\u{2029}", "\\u2029")];
    escapes.iter().fold(text, |text, (from, to)| text.replace(from, to))
}
