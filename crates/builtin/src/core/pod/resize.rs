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
    let mut is_fixed = true;
    for key in KEYS {
        let path = format!("/spec/{key}");
        if count(&new["spec"], key) != count(&old["spec"], key) {
            let why = "containers may not be added or removed on resize";
            errors.push(FieldError::forbidden(format!("spec.{key}"), why));
            return errors;
        }
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

fn count(spec: &Json, key: &str) -> usize {
    spec[key].as_array().map_or(0, Vec::len)
}

/// Returns a container without the members that a resize may change.
fn fixed_part(container: &Json) -> Json {
    let mut rest = container.clone();
    if let Some(resources) = rest.get_mut("resources") {
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

#[cfg(test)]
mod tests {
    use pintle_json::json;

    use super::*;

    #[test]
    fn resize_changes_only_cpu_and_memory() {
        // The expected errors are from kube-apiserver 1.36.1.
        let pod = |container: Json| json!({"metadata": {"name": "a"}, "spec": {"containers": [container]}, "status": {"qosClass": "Burstable"}});
        let container = |resources: Json| json!({"name": "c", "image": "i", "resources": resources});
        let resources = json!({"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "2", "memory": "2Gi"}});
        let old = pod(container(resources.clone()));
        for (member, value, expected) in [
            ("requests", json!({"cpu": "2", "memory": "1Gi"}), ""),
            ("limits", json!({"memory": "2Gi"}), "spec.containers[0].resources.limits"),
            ("requests", json!({"memory": "1Gi"}), "spec.containers[0].resources.requests"),
            ("requests", json!({"cpu": "1", "memory": "1Gi", "ephemeral-storage": "1"}), "spec"),
        ] {
            let mut changed = resources.clone();
            changed.set(member, value);
            let mut new = pod(container(changed));
            take_resources(&mut new, &old);
            let errors = errors(&new, &old);
            let fields = errors.iter().map(|error| error.field.as_str());
            let found: Vec<_> = fields.filter(|field| *field == "spec" || field.contains("resources")).collect();
            assert_eq!(found, if expected.is_empty() { Vec::new() } else { vec![expected] }, "{member}: {errors:?}");
        }
        let mut two = old.clone();
        if let Some(spec) = two.get_mut("spec") {
            spec.set("containers", json!([container(json!({})), {"name": "d", "image": "i"}]));
        }
        take_resources(&mut two, &old);
        assert!(errors(&two, &old).iter().any(|error| error.field == "spec.containers"));
    }

    #[test]
    fn resize_does_not_rename_or_move_containers() {
        let container = |name: &str| json!({"name": name, "image": "i", "resources": {"requests": {"cpu": "1"}}});
        let pod = |names: [&str; 2]| json!({"spec": {"containers": names.map(container)}, "status": {"qosClass": "Burstable"}});
        let old = pod(["a", "b"]);
        for (names, is_accepted) in [(["a", "b"], true), (["a", "c"], false), (["b", "a"], false)] {
            let mut new = pod(names);
            take_resources(&mut new, &old);
            let fields = errors(&new, &old).fields();
            assert_eq!(!fields.iter().any(|field| field == "spec"), is_accepted, "{names:?}: {fields:?}");
        }
    }
}
