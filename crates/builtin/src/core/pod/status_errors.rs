//! Validates fields of a pod status that the kubelet and the controllers report.

use std::collections::HashSet;
use std::net::IpAddr;

use pintle_apimachinery::validate::{FieldError, FieldErrors, qualified_name_faults};
use pintle_json::{Json, json};

use super::status_resources::by_name;
use crate::network_rules::ip_errors;

pub(super) fn condition_errors(new: &Json) -> FieldErrors {
    const SYSTEM: [&str; 3] = ["PodScheduled", "Ready", "Initialized"];
    let mut errors = FieldErrors::default();
    for (at, condition) in new.list("/status/conditions").enumerate() {
        let observed = condition.integer("/observedGeneration").unwrap_or(0);
        if observed < 0 {
            let field = format!("status.conditions[{at}].observedGeneration");
            errors.push(FieldError::invalid(field, &observed.into(), "must be a non-negative integer"));
        }
        let kind = condition.text("/type");
        if !SYSTEM.contains(&kind) {
            let field = format!("status.conditions[{at}].Type");
            let why = qualified_name_faults(kind);
            errors.extend(why.iter().map(|why| FieldError::invalid_text(field.as_str(), kind, why)));
        }
    }
    errors
}

/// Validates that a terminated container is only restarted if its restart policy allows it.
pub(super) fn restart_errors(new: &Json, old: &Json) -> FieldErrors {
    let mut errors = FieldErrors::default();
    let restarts_all = ["/spec/initContainers", "/spec/containers"].iter().any(|list| {
        let mut rules = old.list(list).flat_map(|container| container.list("/restartPolicyRules"));
        rules.any(|rule| rule.text("/action") == "RestartAllContainers")
    });
    for (key, spec_key) in [
        ("containerStatuses", Some("/spec/containers")),
        ("initContainerStatuses", Some("/spec/initContainers")),
        ("ephemeralContainerStatuses", None),
    ] {
        if restarts_all && spec_key.is_some() {
            continue;
        }
        let pointer = format!("/status/{key}");
        let after = by_name(new, &pointer);
        let containers = spec_key.map(|list| by_name(old, list)).unwrap_or_default();
        for (at, was) in old.list(&pointer).enumerate() {
            let (name, ended) = (was.text("/name"), was.at("/state/terminated").filter(|ended| !ended.is_null()));
            let (Some(ended), Some(is)) = (ended, after.get(name)) else { continue };
            let code = ended.integer("/exitCode").unwrap_or(0);
            let may_restart = containers.get(name).is_some_and(|container| restarts(container, old, code));
            let is_restarted = !is.has("/state/terminated");
            let why = "may not be transitioned to non-terminated state";
            errors.forbidden_if(is_restarted && !may_restart, format!("status.{key}[{at}].state"), why);
        }
    }
    errors
}

/// Returns `true` if the container restarts after it ended with the exit code `code`. The first matching rule of the
/// container takes precedence over the restart policy of the container, and this policy over the policy of the pod.
fn restarts(container: &Json, pod: &Json, code: i64) -> bool {
    let by_policy = |policy: &str| match policy {
        "Never" => false,
        "OnFailure" => code != 0,
        _ => true,
    };
    let own = container.text("/restartPolicy");
    if own.is_empty() {
        return by_policy(pod.text("/spec/restartPolicy"));
    }
    let matches = |rule: &&Json| {
        let is_listed = rule.list("/exitCodes/values").any(|value| value.as_i64() == Some(code));
        match rule.text("/exitCodes/operator") {
            "In" => is_listed,
            "NotIn" => !is_listed,
            _ => false,
        }
    };
    match container.list("/restartPolicyRules").find(matches).map(|rule| rule.text("/action")) {
        Some("Restart" | "RestartAllContainers") => true,
        _ => by_policy(own),
    }
}

/// Validates the addresses of the pod and its node.
pub(super) fn address_errors(new: &Json, old: &Json) -> FieldErrors {
    let mut errors = list_errors(new, old, "podIPs");
    if let Some(first) = new.list("/status/hostIPs").next().map(|address| address.text("/ip")) {
        let differs = first != new.text("/status/hostIP");
        errors.invalid_text_if(differs, "status.hostIPs[0].ip", first, "must be equal to `hostIP`");
    }
    errors.and(list_errors(new, old, "hostIPs"))
}

/// Validates a list of addresses, which must contain at most one address per IP family. A stored invalid address stays
/// valid.
fn list_errors(new: &Json, old: &Json, key: &str) -> FieldErrors {
    let pointer = format!("/status/{key}");
    let before: HashSet<&str> = old.list(&pointer).map(|address| address.text("/ip")).collect();
    let addresses: Vec<_> = new.list(&pointer).map(|address| address.text("/ip")).collect();
    let mut errors = FieldErrors::default();
    for (at, address) in addresses.iter().enumerate().filter(|(_, address)| !before.contains(*address)) {
        errors.extend(ip_errors(address, &format!("status.{key}[{at}]")));
    }
    if addresses.len() < 2 {
        return errors;
    }
    let parsed: Vec<Option<IpAddr>> = addresses.iter().map(|address| address.parse().ok()).collect();
    let invalid = parsed.iter().position(Option::is_none);
    if let Some(at) = invalid {
        let why = format!("failed to check for dual stack with error:invalid IP[{at}]: {}", addresses[at]);
        errors.push(FieldError::internal(format!("status.{key}"), why));
    }
    let of_v6 = parsed.iter().filter(|address| matches!(address, Some(IpAddr::V6(_)))).count();
    if invalid.is_some() || addresses.len() > 2 || of_v6 != 1 {
        // The Go type of the addresses has no JSON names.
        let value: Json = addresses.iter().map(|address| json!({"IP": *address})).collect();
        let why = "may specify no more than one IP for each IP family";
        errors.push(FieldError::invalid(format!("status.{key}"), &value, why));
    }
    errors
}

pub(super) fn user_errors(new: &Json) -> FieldErrors {
    const RANGE: &str = "must be between 0 and 2147483647, inclusive";
    let mut errors = FieldErrors::default();
    for key in ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"] {
        for (at, container) in new.list(&format!("/status/{key}")).enumerate() {
            let Some(user) = container.at("/user/linux").filter(|user| !user.is_null()) else { continue };
            let path = format!("status.{key}[{at}].user.linux");
            if new.text("/spec/os/name") == "windows" {
                errors.push(FieldError::forbidden(path, "cannot be set for a windows pod"));
                continue;
            }
            let is_wrong = |id: i64| !(0..=i64::from(i32::MAX)).contains(&id);
            for field in ["uid", "gid"] {
                let id = user.integer(&format!("/{field}")).unwrap_or(0);
                if is_wrong(id) {
                    errors.push(FieldError::invalid(format!("{path}.{field}"), &id.into(), RANGE));
                }
            }
            for (group, id) in user.list("/supplementalGroups").enumerate() {
                if id.as_i64().is_some_and(is_wrong) {
                    errors.push(FieldError::invalid(format!("{path}.supplementalGroups[{group}]"), id, RANGE));
                }
            }
        }
    }
    errors
}
