//! The core `LimitRange` kind.

use pintle_apimachinery::object::duplicates;
use pintle_apimachinery::validate::{FieldError, FieldErrors, qualified_name_faults};
use pintle_json::{Json, Text};
use pintle_kinds::Strategy;
use pintle_kinds::check::Check;
use pintle_schema::quantity;

use super::pod::{container_resource_errors, is_exact_resource, resource_name_errors};

pub(crate) struct LimitRange;

impl Strategy for LimitRange {
    fn defaults(&self, object: &mut Json) {
        let Some(spec) = object.member("spec") else { return };
        for limit in spec.items_mut("limits").filter(|limit| limit.text("/type") == "Container") {
            for (from, to) in [("max", "default"), ("default", "defaultRequest"), ("min", "defaultRequest")] {
                let amounts = limit[from].as_object().cloned().unwrap_or_default();
                for (resource, amount) in amounts {
                    if let Some(to) = limit.member(to) {
                        to.set_default(&resource, amount);
                    }
                }
            }
        }
    }

    fn validate_create(&self, object: &Json) -> FieldErrors {
        let duplicates = duplicates(object.list("/spec/limits").map(|limit| limit.text("/type")));
        Check::of(object)
            .each("spec.limits", |limit, at| {
                let kind = limit.object()["type"].clone();
                one_limit(limit.duplicate_if(duplicates[at], "type", &kind))
            })
            .done()
    }
}

fn one_limit(limit: Check<'_>) -> Check<'_> {
    let object = limit.object();
    let kind = object.text("/type");
    let known = ["Container", "PersistentVolumeClaim", "Pod"].contains(&kind);
    let mut why = if known { Vec::new() } else { qualified_name_faults(kind) };
    if why.is_empty() && !known && !kind.contains('/') {
        why.push("must be a standard limit type or fully qualified".to_owned());
    }
    let mut limit = why.iter().fold(limit, |check, why| check.invalid_text_if(true, "type", kind, why));
    if kind == "Pod" {
        for key in ["default", "defaultRequest"] {
            let there = object.get(key).is_some_and(|amounts| !amounts.is_empty());
            let error = || FieldError::forbidden(key, "may not be specified when `type` is 'Pod'");
            limit = limit.refuse(there, error);
        }
    }
    let of_pods = matches!(kind, "Pod" | "Container");
    for key in ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"] {
        let skipped = kind == "Pod" && key.starts_with("default");
        for (name, _) in object.members(&format!("/{key}")).filter(|_| !skipped) {
            let field = limit.path(&format!("{key}[{name}]"));
            let errors =
                if of_pods { container_resource_errors(&field, name) } else { resource_name_errors(&field, name) };
            limit = limit.also(errors);
        }
    }
    let bounded = object.has("/min/storage") || object.has("/max/storage");
    limit = limit.refuse(kind == "PersistentVolumeClaim" && !bounded, || {
        let why = "either minimum or maximum storage value is required, but neither was provided";
        FieldError::required("limits", why)
    });
    let mut resources: Vec<&Text> = Vec::new();
    for key in ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"] {
        resources.extend(object[key].as_object().into_iter().flat_map(|amounts| amounts.keys()));
    }
    resources.sort();
    resources.dedup();
    for resource in resources {
        let is_skipped = |key: &str| kind == "Pod" && key.starts_with("default");
        let amount = |key: &str| object[key][resource].as_str().filter(|_| !is_skipped(key));
        // As in kube-apiserver, some errors about limits show the value of another field.
        for (smaller, greater, field, shown, words) in [
            ("min", "max", "min", "min", "min value"),
            ("min", "defaultRequest", "defaultRequest", "defaultRequest", "min value"),
            ("defaultRequest", "max", "defaultRequest", "defaultRequest", "default request value"),
            ("defaultRequest", "default", "defaultRequest", "defaultRequest", "default request value"),
            ("min", "default", "default", "min", "min value"),
            ("default", "max", "default", "max", "default value"),
        ] {
            let (Some(small), Some(great)) = (amount(smaller), amount(greater)) else { continue };
            if quantity::nanos(small) <= quantity::nanos(great) {
                continue;
            }
            let other = match (smaller, greater) {
                (_, "max") => "max value",
                ("defaultRequest", "default") => "default limit value",
                (_, "default") => "default value",
                _ => "default request value",
            };
            let why = format!("{words} {small} is greater than {other} {great}");
            let value = amount(shown).unwrap_or_default();
            limit = limit.refuse(true, || FieldError::invalid_text(format!("{field}[{resource}]"), value, why));
        }
        limit = ratio_errors(limit, resource);
        if let (Some(default), Some(request)) = (amount("default"), amount("defaultRequest"))
            && is_exact_resource(resource)
            && quantity::nanos(default) != quantity::nanos(request)
        {
            let why = format!("default value {default} must equal to defaultRequest value {request} in {resource}");
            limit = limit.invalid_text_if(true, format!("defaultRequest[{resource}]"), request, why);
        }
    }
    limit
}

fn ratio_errors<'a>(limit: Check<'a>, resource: &str) -> Check<'a> {
    let object = limit.object();
    let Some(text) = object["maxLimitRequestRatio"].get(resource).and_then(Json::as_str) else { return limit };
    let field = || format!("maxLimitRequestRatio[{resource}]");
    let amount = |key: &str| object[key].get(resource).and_then(Json::as_str).and_then(quantity::nanos);
    let ratio = quantity::nanos(text).unwrap_or(0);
    let bound = amount("max").zip(amount("min")).filter(|(_, least)| *least != 0);
    let bound = bound.map(|(most, least)| most as f64 / least as f64);
    let exceeds = bound.is_some_and(|bound| ratio as f64 / 1e9 > bound);
    limit.invalid_text_if(ratio < 1_000_000_000, field(), text, format_args!("ratio {text} is less than 1")).refuse(
        exceeds,
        || {
            let why = format!("ratio {text} is greater than max/min = {:.6}", bound.unwrap_or(0.0));
            FieldError::invalid_text(field(), text, why)
        },
    )
}
