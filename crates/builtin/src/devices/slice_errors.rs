//! Validates the spec of a ResourceSlice.

use std::collections::HashSet;

use pintle_apimachinery::validate::{FieldError, FieldErrors, NameRule};
use pintle_json::Json;
use pintle_kinds::check::{Check, immutable};

use super::claim_errors::driver_errors;
use super::device_errors::{counters_errors, device_errors};
use crate::core::pod::placing;

const ONE_OF: &str = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required";
const SELECTORS: [&str; 4] = ["nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection"];
const MAX_DEVICES: usize = 128;
/// The maximum number of devices if any of them has taints or consumes counters.
const MAX_COMPLEX_DEVICES: usize = 64;
const MAX_COUNTER_SETS: usize = 8;

pub(super) fn errors(object: &Json) -> FieldErrors {
    let spec = &object["spec"];
    let count = spec.integer("/pool/resourceSliceCount").unwrap_or(0);
    let generation = spec.integer("/pool/generation").unwrap_or(0);
    let check = driver_errors(Check::at(spec, "spec"), "driver", spec.text("/driver"))
        .also(pool_name_errors(spec.text("/pool/name"), "spec.pool.name"))
        .invalid_if(count <= 0, "pool.resourceSliceCount", &count.into(), "must be greater than zero")
        .invalid_if(generation < 0, "pool.generation", &generation.into(), "must be greater than or equal to zero");
    let per_device = spec.is_true("/perDeviceNodeSelection");
    let both = spec.has("/sharedCounters") && spec.has("/devices");
    let check =
        node_errors(check).invalid_text_if(both, "", "", "only one of `sharedCounters` or `devices` is allowed");
    let is_complex = spec
        .list("/devices")
        .any(|device| ["/taints", "/consumesCounters"].iter().any(|field| device.list(field).next().is_some()));
    let most = if is_complex { MAX_COMPLEX_DEVICES } else { MAX_DEVICES };
    let check = named(check, "devices", most, |device| device_errors(device, per_device));
    named(check, "sharedCounters", MAX_COUNTER_SETS, |set| counters_errors(set.required_name("name", NameRule::Label)))
        .done()
}

/// Validates the items of a list, which must have different names.
fn named<'a>(check: Check<'a>, field: &str, most: usize, rules: impl Fn(Check<'a>) -> Check<'a>) -> Check<'a> {
    let count = check.object().list(&format!("/{field}")).count();
    if count > most {
        return check.refuse(true, || FieldError::too_many(field, count, most));
    }
    let duplicates = duplicate_names(check.object(), field);
    check.each(field, |item, _| rules(item)).also(duplicates)
}

pub(super) fn update_errors(new: &Json, old: &Json) -> FieldErrors {
    errors(new).and(immutable(new, old, &["spec.pool.name", "spec.driver", "spec.nodeName"]))
}

/// Validates the name of a pool, whose parts are separated by slashes.
pub(super) fn pool_name_errors(name: &str, field: &str) -> FieldErrors {
    if name.is_empty() {
        return FieldErrors::from([FieldError::required(field, "")]);
    }
    let faults = name.split('/').flat_map(|part| {
        let why = pintle_apimachinery::validate::name_errors(NameRule::Subdomain, part, false);
        why.into_iter().map(move |why| FieldError::invalid_text(field, part, why))
    });
    (name.len() > 253).then(|| FieldError::too_long(field, 253)).into_iter().chain(faults).collect()
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
        .name("nodeName", NameRule::Subdomain)
        .inside("nodeSelector", |selector| {
            let terms = &selector.object()["nodeSelectorTerms"];
            let count = terms.as_array().map_or(0, Vec::len);
            let errors = placing::terms(selector.object(), "spec.nodeSelector");
            selector.also(errors).invalid_if(
                count != 1,
                "nodeSelectorTerms",
                terms,
                "must have exactly one node selector term",
            )
        });
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
