//! The subresource `resize` of pods, which changes the resources of containers.

use pintle_apimachinery::object::{restore_except, restore_member};
use pintle_apimachinery::validate::{FieldError, FieldErrors};
use pintle_json::Json;

use super::{qos, spec};

const KEYS: [&str; 2] = ["containers", "initContainers"];

/// Restores everything except the resources and resize policies of the containers from the old object. If the names or
/// the order of the containers changed, keeps the containers of the request, so that the validation reports the change.
pub(super) fn take_resources(pod: &mut Json, old: &Json) {
    let new = pod.clone();
    restore_except(pod, old, &["apiVersion", "kind", "metadata"]);
    let Some(spec) = pod.get_mut("spec") else { return };
    if KEYS.iter().any(|key| count(&new["spec"], key) != count(&old["spec"], key)) {
        *spec = new["spec"].clone();
        return;
    }
    restore_member(spec, &new["spec"], "resources");
    for key in KEYS {
        let path = format!("/spec/{key}");
        if new.list(&path).zip(old.list(&path)).any(|(new, old)| new.text("/name") != old.text("/name")) {
            restore_member(spec, &new["spec"], key);
            continue;
        }
        for (container, sent) in spec.items_mut(key).zip(new.list(&path)) {
            restore_member(container, sent, "resources");
            restore_member(container, sent, "resizePolicy");
        }
    }
}

pub(super) fn errors(new: &Json, old: &Json) -> FieldErrors {
    if old["metadata"]["annotations"]["kubernetes.io/config.mirror"].is_string() {
        return FieldErrors::from([FieldError::forbidden("[]", "static pods cannot be resized")]);
    }
    if old.text("/spec/os/name") == "windows" {
        return FieldErrors::from([FieldError::forbidden("[]", "windows pods cannot be resized")]);
    }
    let mut errors = spec::pod(new);
    let class = old.text("/status/qosClass");
    let before = if class.is_empty() { qos::class(old) } else { class };
    if qos::class(new) != before {
        let why = "Pod QOS Class may not change as a result of resizing";
        errors.push(FieldError::invalid_text("spec", new.text("/status/qosClass"), why));
    }
    let order = order_errors(new, old);
    if !order.is_empty() {
        return errors.and(order);
    }
    let mut is_fixed = true;
    for key in KEYS {
        let path = format!("/spec/{key}");
        for (at, (new, old)) in new.list(&path).zip(old.list(&path)).enumerate() {
            for part in ["requests", "limits"] {
                let (new, old) = (&new["resources"][part], &old["resources"][part]);
                let is_removed = old.members("").any(|(name, _)| new.get(name).is_none());
                let why = format!("resource {part} cannot be removed");
                errors.forbidden_if(is_removed, format!("spec.{key}[{at}].resources.{part}"), why);
            }
            is_fixed &= fixed_part(new) == fixed_part(old);
        }
    }
    errors.forbidden_if(!is_fixed, "spec", "only cpu and memory resources are mutable");
    errors
}

/// Validates that the containers of both pods have the same names in the same order.
fn order_errors(new: &Json, old: &Json) -> FieldErrors {
    let mut errors = FieldErrors::default();
    for key in KEYS {
        let field = format!("spec.{key}");
        if count(&new["spec"], key) != count(&old["spec"], key) {
            errors.push(FieldError::forbidden(field, format_args!("{key} may not be added or removed on resize")));
            continue;
        }
        let path = format!("/spec/{key}");
        for (at, (new, old)) in new.list(&path).zip(old.list(&path)).enumerate() {
            let why = format_args!("{key} may not be renamed or reordered on resize");
            errors.forbidden_if(new.text("/name") != old.text("/name"), format!("{field}[{at}].name"), why);
        }
    }
    errors
}

fn count(spec: &Json, key: &str) -> usize {
    spec[key].as_array().map_or(0, Vec::len)
}

/// Returns a container without the members that a resize may change.
fn fixed_part(container: &Json) -> Json {
    let mut rest = container.clone();
    if let Some(resources) = rest.get_mut("resources") {
        // As in kube-apiserver, a change of the claims has no error of its own.
        resources.unset("claims");
        for part in ["requests", "limits"] {
            if let Some(amounts) = resources.get_mut(part) {
                amounts.unset("cpu");
                amounts.unset("memory");
            }
            if resources[part].is_empty() {
                resources.unset(part);
            }
        }
    }
    rest
}
