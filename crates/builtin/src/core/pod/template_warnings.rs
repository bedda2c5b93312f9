//! Warnings about the names and pod templates of workloads.

use pintle_apimachinery::object::metadata;
use pintle_apimachinery::validate::{NameRule, name_errors};
use pintle_json::Json;

use super::pod_warnings::pod;
use crate::warnings::is_new;

/// Warns if the name of a workload is not a DNS label. The names of pods and workloads are used in host names.
pub(crate) fn name(object: &Json, used: &str) -> Vec<String> {
    let name = metadata::name(object);
    let why = name_errors(NameRule::Label, name, false);
    if name.is_empty() || why.is_empty() {
        return Vec::new();
    }
    let why = why.join(" ");
    vec![format!(
        "metadata.name: this is used in {used}, which can result in surprising behavior; a DNS label is recommended: [{why}]"
    )]
}

pub(crate) fn on_write(object: &Json, old: Option<&Json>, pointer: &str) -> Vec<String> {
    match old {
        None => on_create(object, pointer),
        Some(old) => on_update(object, old, pointer),
    }
}

pub(crate) fn on_create(object: &Json, pointer: &str) -> Vec<String> {
    let mut found = name(object, "Pod names and hostnames");
    found.extend(of(object, pointer));
    found
}

/// Returns the warnings for an update of a workload. Returns no warnings if the update does not change the
/// desired state.
pub(crate) fn on_update(object: &Json, old: &Json, pointer: &str) -> Vec<String> {
    if is_new(object, old) { of(object, pointer) } else { Vec::new() }
}

pub(crate) fn of(object: &Json, pointer: &str) -> Vec<String> {
    let path = format!("{}.", pointer.trim_start_matches('/').replace('/', "."));
    object.at(pointer).map(|template| pod(template, &path)).unwrap_or_default()
}
