//! Validates one device of a ResourceSlice.

use std::borrow::Cow;
use std::collections::HashSet;

use pintle_apimachinery::validate::{FieldError, NameRule, label_key_faults, label_value_faults};
use pintle_json::Json;
use pintle_kinds::check::Check;

use super::capacity::capacity_errors;
use super::claim_errors::{keyed_items, qualified_name_errors, required_label};
use crate::core::pod::placing;
use crate::go_struct::invalid_struct;

const MAX_TEXT: usize = 64;
const MAX_ATTRIBUTES: usize = 32;
const MAX_VALUES: usize = 48;
/// The maximum length of the name of an attribute or a capacity, with its domain.
const MAX_KEY: usize = 96;
const MAX_TAINTS: usize = 16;
const MAX_CONSUMED: usize = 2;
const MAX_COUNTERS: usize = 32;
const MAX_CONDITIONS: usize = 4;
const NOT_PER_DEVICE: &str = "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in the ResourceSlice spec";
const ONE_OF: &str = "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to true in the ResourceSlice spec";
const ONE_VALUE: &str = "exactly one value must be specified";
const GO_ATTRIBUTE: &[(&str, &str)] = &[
    ("int", "IntValue"),
    ("bool", "BoolValue"),
    ("string", "StringValue"),
    ("version", "VersionValue"),
    ("ints", "IntValues"),
    ("bools", "BoolValues"),
    ("strings", "StringValues"),
    ("versions", "VersionValues"),
];
const UNSET_OR_TRUE: &str = "must be either unset or set to true";

pub(super) fn device_errors(device: Check<'_>, is_per_device: bool) -> Check<'_> {
    let object = device.object();
    let [attributes, capacities] = ["/attributes", "/capacity"].map(|field| object.members(field).count());
    let total = attributes + capacities;
    let device = required_label(device, "name")
        .invalid_if(
            total > MAX_ATTRIBUTES,
            "",
            &total.into(),
            format_args!("the total number of attributes and capacities must not exceed {MAX_ATTRIBUTES}"),
        )
        .invalid_if(
            attributes > MAX_VALUES,
            "",
            &attributes.into(),
            format_args!("the total number of attribute values must not exceed {MAX_VALUES}"),
        );
    let device = object.members("/attributes").fold(device, |device, (name, attribute)| {
        let path = format!("attributes[{}]", shortened(name));
        attribute_errors(qualified_name_errors(device, "attributes", name), &path, attribute)
    });
    let is_shared = object.is_true("/allowMultipleAllocations");
    let device = object.members("/capacity").fold(device, |device, (name, capacity)| {
        let path = device.path(&format!("capacity[{}]", shortened(name)));
        let errors = capacity_errors(capacity, &path, is_shared);
        qualified_name_errors(device, "capacity", name).also(errors)
    });
    let device = keyed_items(device, ("taints", ""), MAX_TAINTS, taint_errors);
    let device = keyed_items(device, ("consumesCounters", "counterSet"), MAX_CONSUMED, |consumed| {
        counters_errors(consumed.required("counterSet").name("counterSet", NameRule::Label))
    });
    binding_errors(node_errors(device, is_per_device))
}

/// Shortens a long key in the middle, for a field path in an error.
fn shortened(key: &str) -> Cow<'_, str> {
    const ELLIPSIS: &str = "...";
    let (bytes, kept) = (key.as_bytes(), MAX_KEY - ELLIPSIS.len());
    if bytes.len() <= MAX_KEY {
        return key.into();
    }
    let (first, last) = (&bytes[..kept.div_ceil(2)], &bytes[bytes.len() - kept / 2..]);
    format!("{}{ELLIPSIS}{}", String::from_utf8_lossy(first), String::from_utf8_lossy(last)).into()
}

/// Validates the counters of a counter set or of a device that consumes counters.
pub(super) fn counters_errors(set: Check<'_>) -> Check<'_> {
    let counters: Vec<_> = set.object().members("/counters").map(|(name, _)| name).collect();
    if counters.len() > MAX_COUNTERS {
        return set.refuse(true, || FieldError::too_many("counters", counters.len(), MAX_COUNTERS));
    }
    counters.iter().fold(set.required("counters"), |set, name| {
        let why = pintle_apimachinery::validate::name_errors(NameRule::Label, name, false);
        why.iter().fold(set, |set, why| set.invalid_text_if(true, "counters", name, why))
    })
}

/// Validates the conditions for binding a device. Each kind of conditions requires the other.
pub(super) fn binding_errors(device: Check<'_>) -> Check<'_> {
    const GOOD: &str = "bindingConditions";
    const BAD: &str = "bindingFailureConditions";
    let object = device.object();
    let [good, bad] = [GOOD, BAD].map(|field| object.texts(&format!("/{field}")));
    let (good, bad): (HashSet<&str>, Vec<&str>) = (good.collect(), bad.collect());
    let device = [GOOD, BAD].into_iter().fold(device, |device, field| {
        keyed_items(device, (field, ""), MAX_CONDITIONS, |condition| {
            let text = condition.object().as_str().unwrap_or_default();
            let why = label_key_faults(text);
            why.iter().fold(condition, |condition, why| condition.invalid_text_if(true, "", text, why))
        })
    });
    let overlaps = bad.iter().enumerate().filter(|(_, name)| good.contains(*name));
    let device = overlaps.fold(device, |device, (at, name)| {
        let why = "bindingFailureConditions must not overlap with bindingConditions";
        device.invalid_text_if(true, format!("{BAD}[{at}]"), name, why)
    });
    device
        .invalid_if(
            !good.is_empty() && bad.is_empty(),
            BAD,
            &object[BAD],
            "bindingFailureConditions are required to use bindingConditions",
        )
        .invalid_if(
            good.is_empty() && !bad.is_empty(),
            GOOD,
            &object[GOOD],
            "bindingConditions are required to use bindingFailureConditions",
        )
}

/// Validates the nodes that can access a device. Only a slice with node selection per device allows these fields.
fn node_errors(device: Check<'_>, is_per_device: bool) -> Check<'_> {
    let object = device.object();
    let mut given = vec!["nodeName", "nodeSelector", "allNodes"];
    given.retain(|field| object.has(&format!("/{field}")));
    if !is_per_device {
        return device.invalid_if(!given.is_empty(), "", &Json::Null, NOT_PER_DEVICE);
    }
    given.retain(|field| object[*field] != false && object[*field].as_str() != Some(""));
    let listed: Vec<_> = given.iter().map(|field| format!("`{field}`")).collect();
    device
        .invalid_text_if(object["nodeName"].as_str() == Some(""), "nodeName", "", "must not be empty")
        .name("nodeName", NameRule::Subdomain)
        .inside("nodeSelector", |selector| {
            let errors = placing::terms(selector.object(), selector.path("").trim_end_matches('.'));
            selector.also(errors)
        })
        .invalid_if(object["allNodes"] == false, "allNodes", &false.into(), UNSET_OR_TRUE)
        .required_if(given.is_empty(), "", ONE_OF)
        .refuse(given.len() > 1, || FieldError::invalid_text("", &format!("{{{}}}", listed.join(", ")), ONE_OF))
}

fn attribute_errors<'a>(device: Check<'a>, path: &str, attribute: &Json) -> Check<'a> {
    // The lists of values belong to a feature that is off by default.
    let kinds = ["int", "bool", "string", "version"];
    let count = kinds.iter().filter(|kind| attribute.has(&format!("/{kind}"))).count();
    let version = attribute.get("version").and_then(Json::as_str);
    let wrong = version.filter(|version| !is_semantic_version(version));
    let why = "must be a string compatible with semver.org spec 2.0.0";
    let long = ["string", "version"].into_iter().find(|kind| attribute.text(&format!("/{kind}")).len() > MAX_TEXT);
    device
        .invalid_text_if(wrong.is_some(), format!("{path}.version"), wrong.unwrap_or_default(), why)
        .refuse(long.is_some(), || FieldError::too_long(format!("{path}.{}", long.unwrap_or_default()), MAX_TEXT))
        .invalid_text_if(count == 0, path, "", ONE_VALUE)
        .refuse(count > 1, || invalid_struct(path, attribute, GO_ATTRIBUTE, ONE_VALUE))
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
