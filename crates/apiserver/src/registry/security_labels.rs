//! Admission of namespaces: labels that say to which security standard their pods are held have to make sense, whoever holds them to it.

use serde_json::Value;

use super::Registry;
use super::admission_chain::Plugin;
use super::pipeline::Write;
use crate::failure::Outcome;
use crate::object::metadata::text;
use crate::request::Part;
use crate::store::Charge;
use crate::validate::{Faults, FieldFault};

const PREFIX: &str = "pod-security.kubernetes.io/";
const MODES: [&str; 3] = ["enforce", "audit", "warn"];
const LEVELS: [&str; 3] = ["privileged", "baseline", "restricted"];

/// What is wrong with the labels.
pub(super) struct SecurityLabels;

impl Plugin for SecurityLabels {
    /// Fails where labels are wrong that were right before, or wrong in another way.
    fn check(&self, _: &Registry, write: &Write<'_>) -> Outcome<Vec<Charge>> {
        let kind = &write.place.kind;
        if kind.kind != "Namespace" || kind.is_custom() || write.place.part != Part::Object {
            return Ok(Vec::new());
        }
        let faults = faults(&write.new);
        let is_known = write.old.is_some_and(|old| self::faults(old) == faults);
        match faults.is_empty() || is_known {
            true => Ok(Vec::new()),
            false => Err(kind.invalid(text(&write.new, "name"), faults)),
        }
    }
}

fn faults(namespace: &Value) -> Faults {
    let labels = namespace.pointer("/metadata/labels");
    let mut faults = Faults::default();
    let mut check = |label: String, is_right: fn(&str) -> bool, why: &str| {
        let value = labels.and_then(|labels| labels.get(&label)).and_then(Value::as_str);
        if let Some(value) = value.filter(|value| !is_right(value)) {
            faults.push(FieldFault::invalid_text(format!("metadata.labels[{label}]"), value, why));
        }
    };
    for mode in MODES {
        check(
            format!("{PREFIX}{mode}"),
            |level| LEVELS.contains(&level),
            "must be one of privileged, baseline, restricted",
        );
        check(format!("{PREFIX}{mode}-version"), is_version, "must be \"latest\" or \"v1.x\"");
    }
    faults
}

fn is_version(text: &str) -> bool {
    let minor = text.strip_prefix("v1.").filter(|minor| !minor.is_empty());
    text == "latest"
        || minor.is_some_and(|minor| {
            minor == "0" || !minor.starts_with('0') && minor.bytes().all(|byte| byte.is_ascii_digit())
        })
}
