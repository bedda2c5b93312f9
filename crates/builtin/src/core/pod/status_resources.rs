//! Validates the resources of containers that the kubelet and the scheduler report in a pod status.

use std::collections::{HashMap, HashSet};

use pintle_apimachinery::validate::{FieldError, FieldErrors, NameRule, name_errors};
use pintle_json::Json;

const HEALTH: [&str; 3] = ["Healthy", "Unhealthy", "Unknown"];

/// Validates the names of generated resource claims.
pub(super) fn generated_claim_errors(new: &Json) -> FieldErrors {
    let mut errors = FieldErrors::default();
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

/// Validates the mapping from extended resources to the requests of a resource claim.
pub(super) fn extended_claim_errors(pod: &Json) -> FieldErrors {
    const PATH: &str = "status.extendedResourceClaimStatus";
    let mut errors = FieldErrors::default();
    let Some(status) = pod.at("/status/extendedResourceClaimStatus").filter(|status| !status.is_null()) else {
        return errors;
    };
    let is_empty = status.list("/requestMappings").next().is_none();
    errors.required_if(is_empty, format!("{PATH}.requestMappings"), "at least one request mapping is required");
    let [init_containers, containers] = ["/spec/initContainers", "/spec/containers"].map(|list| by_name(pod, list));
    let mut seen = HashSet::new();
    for (at, mapping) in status.list("/requestMappings").enumerate() {
        let path = format!("{PATH}.requestMappings[{at}]");
        let text = |name: &str| mapping[name].text("");
        let [container, resource, request] = ["containerName", "resourceName", "requestName"].map(text);
        if errors.is_full() {
            break;
        }
        match init_containers.get(container).or_else(|| containers.get(container)) {
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
        let containers = by_name(pod, spec_key);
        let mut claims = HashMap::new();
        for (at, status) in pod.list(&format!("/status/{key}")).enumerate() {
            let name = status.text("/name");
            let container = containers.get(name).copied().unwrap_or(&Json::Null);
            for (index, allocated) in status.list("/allocatedResourcesStatus").enumerate() {
                let path = format!("status.{key}[{at}].allocatedResourcesStatus[{index}]");
                let claims = claims.entry(name).or_insert_with(|| claim_texts(container));
                if !container.is_null() {
                    errors.extend(name_error(container, claims, allocated.text("/name"), &path));
                }
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

/// Returns the claims of a container as a pair of the claim and the request, which may be empty.
fn claim_texts(container: &Json) -> HashSet<(&str, &str)> {
    container.list("/resources/claims").map(|claim| (claim.text("/name"), claim.text("/request"))).collect()
}

fn name_error(container: &Json, claims: &HashSet<(&str, &str)>, name: &str, path: &str) -> Option<FieldError> {
    let why = match name.strip_prefix("claim:") {
        Some(claim) if claims.contains(&(claim, "")) => return None,
        Some(claim) if claim.split_once('/').is_some_and(|pair| !pair.1.is_empty() && claims.contains(&pair)) => {
            return None;
        }
        Some(_) => {
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

/// Maps the name of each list item to the item. Of several items with the same name, the map contains only the first.
pub(super) fn by_name<'a>(pod: &'a Json, pointer: &str) -> HashMap<&'a str, &'a Json> {
    let mut found = HashMap::new();
    for item in pod.list(pointer) {
        found.entry(item.text("/name")).or_insert(item);
    }
    found
}
