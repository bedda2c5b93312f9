//! The annotations for v2 fields in v1 objects. The annotations contain JSON in the format of Go types that only
//! v1 uses.

use pintle_json::Json;

use super::metric_fields::{CURRENT, FieldForm, MetricField, POLICY, SCALING_RULE, SCALING_RULES, SOURCES, by_source};

pub(super) const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
pub(super) const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";
pub(super) const CURRENT_METRICS: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
pub(super) const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
pub(super) const OF_SPEC: &[&str] = &[METRICS, BEHAVIOR];
pub(super) const OF_STATUS: &[&str] = &[CURRENT_METRICS, CONDITIONS];
/// All annotations that v1 objects can have. Only older Kubernetes versions write the last two annotations in this
/// list.
pub(super) const ALL: &[&str] = &[
    METRICS,
    BEHAVIOR,
    CURRENT_METRICS,
    CONDITIONS,
    "autoscaling.alpha.kubernetes.io/scale-down-tolerance",
    "autoscaling.alpha.kubernetes.io/scale-up-tolerance",
];

pub(super) fn text<'a>(object: &'a Json, name: &str) -> Option<&'a str> {
    object.at("/metadata/annotations")?.get(name)?.as_str()
}

pub(super) fn put(object: &mut Json, name: &str, text: String) {
    if let Some(annotations) = object.member("metadata").and_then(|metadata| metadata.member("annotations")) {
        annotations.set(name, text);
    }
}

pub(super) fn drop(object: &mut Json, name: &str) {
    let Some(metadata) = object.get_mut("metadata") else { return };
    let Some(annotations) = metadata.get_mut("annotations") else { return };
    annotations.unset(name);
    if annotations.is_empty() {
        metadata.unset("annotations");
    }
}

/// Copies the annotation `name` from `old` to `new`, or removes it if `old` does not have it.
pub(super) fn restore_member(new: &mut Json, old: &Json, name: &str) {
    match text(old, name) {
        Some(text) => put(new, name, text.into()),
        None => drop(new, name),
    }
}

pub(super) fn write_metrics(metrics: &[&Json]) -> String {
    array(metrics.iter().map(|metric| write_metric(metric, SOURCES)))
}

pub(super) fn write_current_metrics(metrics: &[&Json]) -> String {
    array(metrics.iter().map(|metric| write_metric(metric, CURRENT)))
}

pub(super) fn write_conditions(conditions: &[&Json]) -> String {
    let write = |condition: &&Json| {
        let text = |key: &str| condition.get(key).filter(|value| value.as_str() != Some("")).map(json);
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

/// Formats scaling rules with the field names of Go's internal types.
pub(super) fn write_behavior(behavior: &Json) -> String {
    let null = || "null".to_owned();
    let value = |object: &Json, key: &str| object.get(key).map_or_else(null, json);
    let policy = |policy: &Json| members(POLICY.iter().map(|(name, key)| (*name, Some(value(policy, key)))));
    let rule = |rule: &Json| {
        members(SCALING_RULE.iter().map(|(name, key)| match *key {
            "policies" if rule.get("policies").is_some_and(Json::is_array) => {
                (*name, Some(array(rule.list("/policies").map(policy))))
            }
            key => (*name, Some(value(rule, key))),
        }))
    };
    let non_null = |key: &str| behavior.get(key).filter(|rules| !rules.is_null());
    members(SCALING_RULES.iter().map(|(name, key)| (*name, Some(non_null(key).map_or_else(null, rule)))))
}

fn write_metric(metric: &Json, fields: &'static [MetricField]) -> String {
    let source = |source: &Json, fields: &[MetricField]| {
        members(fields.iter().map(|(_, name, pointer, form)| (*name, write_field(source.at(pointer), *form))))
    };
    let non_null = |key: &str| metric.get(key).filter(|source| !source.is_null());
    let sources = by_source(fields).map(|(key, fields)| (key, non_null(key).map(|one| source(one, fields))));
    members([("type", Some(plain(metric, "type")))].into_iter().chain(sources))
}

fn write_field(value: Option<&Json>, form: FieldForm) -> Option<String> {
    let value = value.filter(|value| !value.is_null());
    match form {
        FieldForm::Text => Some(value.map_or_else(|| "\"\"".into(), json)),
        FieldForm::Amount => Some(value.map_or_else(|| "\"0\"".into(), json)),
        FieldForm::Optional => value.map(json),
        FieldForm::Reference => {
            let empty = Json::Null;
            let object = value.unwrap_or(&empty);
            let version = object.get("apiVersion").filter(|version| version.as_str() != Some("")).map(json);
            let both = [("kind", Some(plain(object, "kind"))), ("name", Some(plain(object, "name")))];
            Some(members(both.into_iter().chain([("apiVersion", version)])))
        }
        FieldForm::Selector => value.map(|selector| {
            let part = |key: &str| selector.get(key).filter(|part| !part.is_empty()).map(json);
            members(["matchLabels", "matchExpressions"].map(|key| (key, part(key))))
        }),
    }
}

fn plain(object: &Json, key: &str) -> String {
    json(&object.text(&format!("/{key}")).into())
}

fn members(members: impl IntoIterator<Item = (&'static str, Option<String>)>) -> String {
    let written = members.into_iter().filter_map(|(name, value)| Some(format!("\"{name}\":{}", value?)));
    format!("{{{}}}", written.collect::<Vec<_>>().join(","))
}

fn array(items: impl Iterator<Item = String>) -> String {
    format!("[{}]", items.collect::<Vec<_>>().join(","))
}

/// Formats JSON as Go does, with escaped HTML characters.
fn json(value: &Json) -> String {
    let text = value.to_string();
    let escapes =
        [("<", "\\u003c"), (">", "\\u003e"), ("&", "\\u0026"), ("\u{2028}", "\\u2028"), ("\u{2029}", "\\u2029")];
    escapes.iter().fold(text, |text, (from, to)| text.replace(from, to))
}
