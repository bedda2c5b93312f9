//! Parses the annotations of v1 objects, and returns `None` if an annotation is invalid.

use pintle_json::{Json, Map};
use pintle_schema::quantity::Quantity;

use super::metric_fields::{CURRENT, FieldForm, MetricField, POLICY, SCALING_RULE, SCALING_RULES, SOURCES, by_source};

pub(super) fn metrics(text: &str) -> Option<Json> {
    read_all(text, |metric| {
        let mut new = read_metric(metric, SOURCES)?;
        for (source, _) in by_source(SOURCES) {
            if let Some(target) = new.get_mut(source).and_then(|source| source.member("target")) {
                complete_target(source, target);
            }
        }
        Some(new)
    })
}

pub(super) fn current_metrics(text: &str) -> Option<Json> {
    read_all(text, |metric| read_metric(metric, CURRENT))
}

pub(super) fn behavior(text: &str) -> Option<Json> {
    let behavior: Json = serde_json::from_str(text).ok()?;
    let mut behavior = renamed(&behavior, SCALING_RULES)?;
    for rules in behavior.as_object_mut()?.values_mut() {
        *rules = renamed(rules, SCALING_RULE)?;
        if let Some(policies) = rules.get_mut("policies").and_then(Json::as_array_mut) {
            for policy in policies {
                *policy = renamed(policy, POLICY)?;
            }
        }
    }
    Some(behavior).filter(|behavior| !behavior.is_empty())
}

fn read_all(text: &str, read: impl Fn(&Json) -> Option<Json>) -> Option<Json> {
    let items: Json = serde_json::from_str(text).ok()?;
    items.as_array()?.iter().map(read).collect::<Option<Vec<_>>>().map(Json::Array)
}

fn read_metric(metric: &Json, fields: &'static [MetricField]) -> Option<Json> {
    let mut new = Map::new();
    let kind = metric.as_object()?.get("type").cloned();
    new.insert("type", kind.unwrap_or_else(|| "".into()));
    for (key, fields) in by_source(fields) {
        let Some(source) = metric.get(key).filter(|source| !source.is_null()) else { continue };
        let mut read = Json::Object(Map::new());
        for (_, name, pointer, form) in fields {
            let value = source.get(name).filter(|value| !value.is_null()).cloned();
            let value = match form {
                FieldForm::Text => value.or_else(|| Some("".into())),
                FieldForm::Amount => value.or_else(|| Some("0".into())),
                _ => value,
            };
            if let Some(value) = value {
                put_at(&mut read, pointer, value)?;
            }
        }
        new.insert(key, read);
    }
    Some(Json::Object(new))
}

/// Determines the type of a metric target from its values. Removes quantities of zero, which v1 objects contain in
/// place of a missing quantity.
fn complete_target(source: &str, target: &mut Json) {
    let has_target_field = |key: &str| target.get(key).is_some();
    let kind = match source {
        "object" if !has_target_field("averageValue") => "Value",
        "external" if has_target_field("value") => "Value",
        "resource" | "containerResource" if has_target_field("averageUtilization") => "Utilization",
        _ => "AverageValue",
    };
    let nothing = Quantity::parse(target.text("/value")).is_some_and(|value| value.nanos() == 0);
    if source == "object" && kind == "AverageValue" && nothing {
        target.unset("value");
    }
    target.set("type", kind);
}

/// Sets the value at a JSON pointer, and creates missing objects on the path.
fn put_at(object: &mut Json, pointer: &str, value: Json) -> Option<()> {
    let mut keys: Vec<_> = pointer.split('/').skip(1).collect();
    let last = keys.pop()?;
    let at = keys.into_iter().try_fold(object, |object, key| object.member(key))?;
    at.set(last, value);
    Some(())
}

/// Renames the members of an object and drops nulls, ignoring letter case in the original names.
fn renamed(object: &Json, names: &[(&str, &str)]) -> Option<Json> {
    let known = |key: &str| names.iter().find(|(name, _)| name.eq_ignore_ascii_case(key)).map(|(_, to)| *to);
    let members = object.as_object()?.iter().filter(|(_, value)| !value.is_null());
    Some(members.filter_map(|(key, value)| Some((known(key)?.to_owned(), value.clone()))).collect::<Map>().into())
}
