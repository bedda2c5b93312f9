//! Validates fields of a pod status that the kubelet and the controllers report.

use std::collections::HashSet;
use std::net::IpAddr;

use pintle_apimachinery::validate::{FieldError, FieldErrors, NameRule, name_errors};
use pintle_json::Json;

use crate::network_rules::ip_errors;

/// Validates the observed generation and the names of generated resource claims.
pub(super) fn report_errors(new: &Json) -> FieldErrors {
    let mut errors = FieldErrors::default();
    let observed = new.integer("/status/observedGeneration").unwrap_or(0);
    if observed < 0 {
        let why = "must be a non-negative integer";
        errors.push(FieldError::invalid("status.observedGeneration", &observed.into(), why));
    }
    let claims: HashSet<&str> = new.list("/spec/resourceClaims").map(|claim| claim.text("/name")).collect();
    let mut seen = HashSet::new();
    for (at, status) in new.list("/status/resourceClaimStatuses").enumerate() {
        let (name, path) = (status.text("/name"), format!("status.resourceClaimStatuses[{at}]"));
        let why = "must match the name of an entry in `spec.resourceClaims`";
        errors.invalid_text_if(!claims.contains(name), format!("{path}.name"), name, why);
        errors.duplicate_if(!seen.insert(name), format!("{path}.name"), &name.into());
        if let Some(claim) = status.get("resourceClaimName").and_then(Json::as_str) {
            let why = name_errors(NameRule::Subdomain, claim, false);
            let field = format!("{path}.resourceClaimName");
            errors.extend(why.iter().map(|why| FieldError::invalid_text(field.as_str(), claim, why)));
        }
    }
    errors
}

/// Validates the addresses of the node, and that the lists of node and pod addresses contain one address per IP family.
pub(super) fn address_errors(new: &Json, old: &Json) -> FieldErrors {
    let mut errors = family_errors(new, "podIPs");
    if let Some(first) = new.list("/status/hostIPs").next().map(|address| address.text("/ip")) {
        let differs = first != new.text("/status/hostIP");
        errors.invalid_text_if(differs, "status.hostIPs[0].ip", first, "must be equal to `hostIP`");
    }
    let before: HashSet<&str> = old.list("/status/hostIPs").map(|address| address.text("/ip")).collect();
    for (at, address) in new.list("/status/hostIPs").enumerate() {
        let address = address.text("/ip");
        if !before.contains(address) {
            errors.extend(ip_errors(address, &format!("status.hostIPs[{at}]")));
        }
    }
    errors.and(family_errors(new, "hostIPs"))
}

fn family_errors(new: &Json, key: &str) -> FieldErrors {
    let addresses: Vec<_> = new.list(&format!("/status/{key}")).map(|address| address.text("/ip").parse()).collect();
    let of_v6 = addresses.iter().filter(|address| matches!(address, Ok(IpAddr::V6(_)))).count();
    let is_pair = addresses.len() == 2 && of_v6 == 1;
    if addresses.len() < 2 || is_pair || addresses.iter().any(Result::is_err) {
        return FieldErrors::default();
    }
    let why = "may specify no more than one IP for each IP family";
    FieldErrors::from([FieldError::invalid(format!("status.{key}"), &new["status"][key], why)])
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
