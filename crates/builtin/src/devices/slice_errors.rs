//! Validates the spec of a ResourceSlice.

use std::collections::HashSet;

use pintle_apimachinery::validate::{FieldError, FieldErrors, NameRule, label_key_faults, label_value_faults};
use pintle_json::Json;
use pintle_kinds::check::{Check, immutable};

use super::claim_errors::{driver_errors, required_label};

const ONE_OF: &str = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required";
const NOT_PER_DEVICE: &str = "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in the ResourceSlice spec";
const SELECTORS: [&str; 4] = ["nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection"];
const MAX_TEXT: usize = 64;

pub(super) fn errors(object: &Json) -> FieldErrors {
    let spec = &object["spec"];
    let count = spec.integer("/pool/resourceSliceCount").unwrap_or(0);
    let generation = spec.integer("/pool/generation").unwrap_or(0);
    let check = driver_errors(Check::at(spec, "spec"), "driver", spec.text("/driver"))
        .also(pool_name_errors(spec.text("/pool/name")))
        .invalid_if(count <= 0, "pool.resourceSliceCount", &count.into(), "must be greater than zero")
        .invalid_if(generation < 0, "pool.generation", &generation.into(), "must be greater than or equal to zero");
    let per_device = spec.is_true("/perDeviceNodeSelection");
    let both = spec.has("/sharedCounters") && spec.has("/devices");
    node_errors(check)
        .invalid_text_if(both, "", "", "only one of `sharedCounters` or `devices` is allowed")
        .each("devices", |device, _| {
            let nodes = ["/nodeName", "/nodeSelector", "/allNodes"].iter().any(|pointer| device.object().has(pointer));
            device_errors(device).invalid_if(nodes && !per_device, "", &Json::Null, NOT_PER_DEVICE)
        })
        .also(duplicate_names(spec, "devices"))
        .each("sharedCounters", |set, _| set.required_name("name", NameRule::Label).required("counters"))
        .also(duplicate_names(spec, "sharedCounters"))
        .done()
}

pub(super) fn update_errors(new: &Json, old: &Json) -> FieldErrors {
    errors(new).and(immutable(new, old, &["spec.pool.name", "spec.driver", "spec.nodeName"]))
}

fn pool_name_errors(name: &str) -> FieldErrors {
    const FIELD: &str = "spec.pool.name";
    if name.is_empty() {
        return FieldErrors::from([FieldError::required(FIELD, "")]);
    }
    let faults = name.split('/').flat_map(|part| {
        let why = pintle_apimachinery::validate::name_errors(NameRule::Subdomain, part, false);
        why.into_iter().map(move |why| FieldError::invalid_text(FIELD, part, why))
    });
    (name.len() > 253).then(|| FieldError::too_long(FIELD, 253)).into_iter().chain(faults).collect()
}

fn node_errors(spec: Check<'_>) -> Check<'_> {
    let object = spec.object();
    let is_given = |field: &&str| match &object[*field] {
        Json::Null => false,
        value => value.as_str() != Some("") && *value != false,
    };
    let given: Vec<&str> = SELECTORS.into_iter().filter(is_given).collect();
    let node = object.at("/nodeName").and_then(Json::as_str);
    let spec = spec
        .invalid_text_if(node == Some(""), "nodeName", "", "must be either unset or set to a non-empty string")
        .name("nodeName", NameRule::Subdomain);
    let spec = ["allNodes", "perDeviceNodeSelection"].into_iter().fold(spec, |spec, field| {
        let refused = object[field] == false;
        spec.invalid_if(refused, field, &false.into(), "must be either unset or set to true")
    });
    let listed: Vec<_> = given.iter().map(|field| format!("`{field}`")).collect();
    spec.required_if(given.is_empty(), "", ONE_OF).refuse(given.len() > 1, || {
        let why = format!("{ONE_OF}, but multiple fields are set");
        FieldError::invalid_text("", &format!("{{{}}}", listed.join(", ")), why)
    })
}

fn duplicate_names(spec: &Json, field: &str) -> FieldErrors {
    let mut seen = HashSet::new();
    let again = spec.list(&format!("/{field}")).enumerate().filter(|(_, item)| !seen.insert(item.text("/name")));
    again.map(|(at, item)| FieldError::duplicate(format!("spec.{field}[{at}]"), &item["name"])).collect()
}

fn device_errors(device: Check<'_>) -> Check<'_> {
    let object = device.object();
    let device = object.members("/attributes").fold(required_label(device, "name"), |device, (name, attribute)| {
        let path = format!("attributes[{name}]");
        let kinds = ["int", "bool", "string", "version", "ints", "bools", "strings", "versions"];
        let count = kinds.iter().filter(|kind| attribute.has(&format!("/{kind}"))).count();
        let shown = if count == 0 { Json::from("") } else { attribute.clone() };
        let version = attribute.get("version").and_then(Json::as_str);
        let wrong = version.filter(|version| !is_semantic_version(version));
        let why = "must be a string compatible with semver.org spec 2.0.0";
        let long = ["string", "version"].into_iter().find(|kind| attribute.text(&format!("/{kind}")).len() > MAX_TEXT);
        device
            .invalid_text_if(wrong.is_some(), format!("{path}.version"), wrong.unwrap_or_default(), why)
            .refuse(long.is_some(), || FieldError::too_long(format!("{path}.{}", long.unwrap_or_default()), MAX_TEXT))
            .invalid_if(count != 1, path, &shown, "exactly one value must be specified")
    });
    device.each("taints", |taint, _| taint_errors(taint)).each("consumesCounters", |consumed, _| {
        consumed.required("counterSet").name("counterSet", NameRule::Label).required("counters")
    })
}

fn taint_errors(taint: Check<'_>) -> Check<'_> {
    const EFFECTS: &[&str] = &["NoExecute", "NoSchedule", "None"];
    let (key, value) = (taint.object().text("/key"), taint.object().text("/value"));
    let (key_faults, value_faults) = (label_key_faults(key), label_value_faults(value));
    let taint = key_faults.iter().fold(taint, |taint, why| taint.invalid_text_if(true, "key", key, why));
    let taint = value_faults.iter().fold(taint, |taint, why| taint.invalid_text_if(true, "value", value, why));
    taint.required_one_of("effect", EFFECTS)
}

fn is_semantic_version(version: &str) -> bool {
    let is_number = |part: &str| {
        !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()) && (part == "0" || !part.starts_with('0'))
    };
    let is_word =
        |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    let is_identifier =
        |part: &str| is_word(part) && (!part.bytes().all(|byte| byte.is_ascii_digit()) || is_number(part));
    let (version, build) = version.split_once('+').map_or((version, None), |(version, build)| (version, Some(build)));
    let (numbers, pre) = version.split_once('-').map_or((version, None), |(numbers, pre)| (numbers, Some(pre)));
    numbers.split('.').count() == 3
        && numbers.split('.').all(is_number)
        && pre.is_none_or(|pre| pre.split('.').all(is_identifier))
        && build.is_none_or(|build| build.split('.').all(is_word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pintle_json::json;

    #[test]
    fn slices_are_validated_as_by_kube_apiserver() {
        let full = json!({
            "driver": "d", "nodeName": "n", "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "d0", "attributes": {"a": {"string": "x"}}, "taints": [{"key": "k", "effect": "NoSchedule"}]}],
        });
        for (pointer, value, expected) in [
            ("/driver", json!("d"), &[][..]),
            ("/driver", json!(""), &["driver"]),
            ("/nodeName", json!(null), &[""]),
            ("/allNodes", json!(true), &[""]),
            ("/allNodes", json!(false), &["allNodes"]),
            ("/pool/resourceSliceCount", json!(0), &["pool.resourceSliceCount"]),
            ("/devices/0/name", json!("UPPER"), &["devices[0].name"]),
            ("/devices/0/attributes/a", json!({}), &["devices[0].attributes[a]"]),
            ("/devices/0/attributes/a", json!({"version": "01.2.3"}), &["devices[0].attributes[a].version"]),
            ("/devices/0/taints", json!([{"key": "k", "effect": "x"}]), &["devices[0].taints[0].effect"]),
            ("/devices/0/nodeName", json!("n"), &["devices[0]"]),
            ("/sharedCounters", json!([{"name": "c", "counters": {"m": {"value": "1"}}}]), &[""]),
        ] {
            let mut spec = full.clone();
            let (holder, key) = pointer.rsplit_once('/').expect("a pointer");
            let holder = if holder.is_empty() { Some(&mut spec) } else { spec.at_mut(holder) };
            holder.expect("a parent").set(key, value);
            let expected: Vec<_> =
                expected.iter().map(|field| format!("spec.{field}").trim_end_matches('.').to_owned()).collect();
            assert_eq!(errors(&json!({"spec": spec})).fields(), expected, "{pointer}");
        }
    }
}
