//! Validates the resources of containers that the kubelet and the scheduler report in a pod status.

use std::collections::HashSet;

use pintle_apimachinery::validate::{FieldError, FieldErrors, NameRule, name_errors};
use pintle_json::Json;

const HEALTH: [&str; 3] = ["Healthy", "Unhealthy", "Unknown"];

/// Validates the mapping from extended resources to the requests of a resource claim.
pub(super) fn extended_claim_errors(pod: &Json) -> FieldErrors {
    const PATH: &str = "status.extendedResourceClaimStatus";
    let mut errors = FieldErrors::default();
    let Some(status) = pod.at("/status/extendedResourceClaimStatus").filter(|status| !status.is_null()) else {
        return errors;
    };
    let is_empty = status.list("/requestMappings").next().is_none();
    errors.required_if(is_empty, format!("{PATH}.requestMappings"), "at least one request mapping is required");
    let mut seen = HashSet::new();
    for (at, mapping) in status.list("/requestMappings").enumerate() {
        let path = format!("{PATH}.requestMappings[{at}]");
        let text = |name: &str| mapping[name].text("");
        let [container, resource, request] = ["containerName", "resourceName", "requestName"].map(text);
        let found = ["/spec/initContainers", "/spec/containers"]
            .into_iter()
            .flat_map(|list| pod.list(list))
            .find(|found| found.text("/name") == container);
        match found {
            None => {
                let why = "must match the name of an entry in spec.initContainers.name or spec.containers.name";
                errors.push(FieldError::invalid_text(format!("{path}.containerName"), container, why));
            }
            Some(found) => {
                let why = "must match the extended resource name of an entry in spec.initContainers.resources.requests or \
                           spec.containers.resources.requests";
                errors.invalid_text_if(!requests(found, resource), format!("{path}.resourceName"), resource, why);
            }
        }
        let name = name_errors(NameRule::Label, request, false);
        errors.extend(name.iter().map(|why| FieldError::invalid_text(format!("{PATH}.requestName"), request, why)));
        if !seen.insert([container, resource, request]) {
            for field in ["containerName", "resourceName", "requestName"] {
                errors.push(FieldError::duplicate(format!("{path}.{field}"), &text(field).into()));
            }
        }
    }
    let claim = status.text("/resourceClaimName");
    errors.required_if(claim.is_empty(), format!("{PATH}.resourceClaimName"), "");
    if !claim.is_empty() {
        let field = format!("{PATH}.resourceClaimName");
        let name = name_errors(NameRule::Subdomain, claim, false);
        errors.extend(name.iter().map(|why| FieldError::invalid_text(field.as_str(), claim, why)));
    }
    errors
}

/// Validates the health of the resources that are allocated to containers.
pub(super) fn allocated_errors(pod: &Json) -> FieldErrors {
    let mut errors = FieldErrors::default();
    for (key, spec_key) in
        [("containerStatuses", "/spec/containers"), ("initContainerStatuses", "/spec/initContainers")]
    {
        for (at, status) in pod.list(&format!("/status/{key}")).enumerate() {
            let container = pod.list(spec_key).find(|container| container.text("/name") == status.text("/name"));
            for (index, allocated) in status.list("/allocatedResourcesStatus").enumerate() {
                let path = format!("status.{key}[{at}].allocatedResourcesStatus[{index}]");
                errors.extend(container.and_then(|container| name_error(container, allocated.text("/name"), &path)));
                errors.extend(health_errors(allocated, &path));
            }
        }
    }
    for (at, status) in pod.list("/status/ephemeralContainerStatuses").enumerate() {
        let path = format!("status.ephemeralContainerStatuses[{at}].allocatedResourcesStatus");
        let is_set = status.list("/allocatedResourcesStatus").next().is_some();
        errors.forbidden_if(is_set, path, "must not be specified in container status");
    }
    errors
}

fn name_error(container: &Json, name: &str, path: &str) -> Option<FieldError> {
    let why = match name.strip_prefix("claim:") {
        Some(claim) => {
            let names = |named: &Json| match named.text("/request") {
                "" => claim == named.text("/name"),
                request => claim.split_once('/') == Some((named.text("/name"), request)),
            };
            if container.list("/resources/claims").any(names) {
                return None;
            }
            "must match one of the container's resource claims in a format 'claim:<claimName>/<request>' or \
             'claim:<claimName>' if request is empty"
        }
        None if requests(container, name) => return None,
        None => "must match one of the container's resource requests",
    };
    Some(FieldError::invalid_text(format!("{path}.name"), name, why))
}

fn health_errors(allocated: &Json, path: &str) -> FieldErrors {
    let mut errors = FieldErrors::default();
    let mut seen = HashSet::new();
    for (at, resource) in allocated.list("/resources").enumerate() {
        let health = resource.text("/health");
        if !HEALTH.contains(&health) {
            errors.push(FieldError::unsupported(format!("{path}.resources[{at}].health"), &health.into(), &HEALTH));
        }
        let id = resource.text("/resourceID");
        errors.duplicate_if(!seen.insert(id), format!("{path}.resources[{at}].resourceID"), &id.into());
    }
    errors
}

fn requests(container: &Json, resource: &str) -> bool {
    container.at("/resources/requests").is_some_and(|requests| requests.get(resource).is_some())
}
