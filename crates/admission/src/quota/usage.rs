//! Computes how much of a quota an object uses.

use pintle_apimachinery::request::Subresource;
use pintle_json::Json;
use pintle_schema::quantity::Quantity;

use super::pod_usage;
use crate::Attempt;
use crate::amounts::Amounts;

/// The core resources that quotas can count by their plain names, such as `pods`. Quotas for other resources need the
/// prefix `count/`.
const BARE: &[&str] = &["configmaps", "replicationcontrollers", "resourcequotas", "secrets"];
const SERVICE_RESOURCES: &[&str] = &["services", "services.nodeports", "services.loadbalancers"];
const CLAIM_RESOURCES: &[&str] = &["persistentvolumeclaims", "requests.storage"];
const OF_CLASS: &str = ".storageclass.storage.k8s.io/";
/// The storage class annotation, which older Kubernetes versions used instead of a field.
const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";

/// Returns `true` if quotas apply to the write. For most kinds, quotas apply only to creates.
pub fn applies(attempt: &Attempt<'_>) -> bool {
    if attempt.resource.resource == "events" && matches!(attempt.resource.group.as_str(), "" | "events.k8s.io") {
        return false;
    }
    let Some(old) = attempt.old else { return attempt.subresource == Subresource::None };
    match attempt.subresource {
        Subresource::None if attempt.is_of("pods") => {
            pod_usage::has_deadline(old) != pod_usage::has_deadline(attempt.object)
        }
        Subresource::None => attempt.is_of("services") || attempt.is_of("persistentvolumeclaims"),
        Subresource::Resize => attempt.is_of("pods"),
        // Check status updates, because they can increase the usage. For example, a PersistentVolumeClaim can have
        // more storage allocated than requested.
        Subresource::Status => attempt.is_of("persistentvolumeclaims"),
        _ => false,
    }
}

pub(super) fn counts(attempt: &Attempt<'_>, resource: &str) -> bool {
    if resource.strip_prefix("count/") == Some(&attempt.resource.to_string()) {
        return true;
    }
    let known = |known: &[&str]| known.contains(&resource);
    match attempt.resource.resource.as_str() {
        _ if !attempt.resource.group.is_empty() => false,
        "pods" => pod_usage::counts(resource),
        "services" => known(SERVICE_RESOURCES),
        "persistentvolumeclaims" => {
            known(CLAIM_RESOURCES)
                || CLAIM_RESOURCES.iter().any(|one| resource.strip_suffix(one).is_some_and(|c| c.ends_with(OF_CLASS)))
        }
        bare => resource == bare && BARE.contains(&bare),
    }
}

pub(super) fn of(attempt: &Attempt<'_>, object: &Json, now: jiff::Timestamp) -> Amounts {
    let mut used = match attempt.resource.resource.as_str() {
        _ if !attempt.resource.group.is_empty() => Amounts::default(),
        "pods" => pod_usage::usage(object, now),
        "services" => of_service(object),
        "persistentvolumeclaims" => of_claim(object),
        bare if BARE.contains(&bare) => one(bare),
        _ => Amounts::default(),
    };
    used.set(format!("count/{}", attempt.resource), Quantity::count(1));
    used
}

fn one(resource: &str) -> Amounts {
    let mut amounts = Amounts::default();
    amounts.set(resource, Quantity::count(1));
    amounts
}

fn of_service(service: &Json) -> Amounts {
    let mut used = one("services");
    let kind = service.text("/spec/type");
    let balanced = kind == "LoadBalancer";
    let chosen = balanced && service.at("/spec/allocateLoadBalancerNodePorts") == Some(&Json::Bool(false));
    let has_node_port = |port: &&Json| !chosen || port.integer("/nodePort").unwrap_or(0) != 0;
    let ports =
        if balanced || kind == "NodePort" { service.list("/spec/ports").filter(has_node_port).count() } else { 0 };
    used.set("services.nodeports", Quantity::count(ports));
    used.set("services.loadbalancers", Quantity::count(balanced.into()));
    used
}

fn of_claim(claim: &Json) -> Amounts {
    let mut used = one("persistentvolumeclaims");
    if let Some(requested) = Amounts::at(claim, "/spec/resources/requests").get("storage") {
        let allocated = Amounts::at(claim, "/status/allocatedResources").get("storage");
        let storage = allocated.filter(|storage| storage.nanos() > requested.nanos()).unwrap_or(requested);
        used.set("requests.storage", storage.rounded());
    }
    let class = storage_class(claim);
    if !class.is_empty() {
        let of_class: Vec<_> = used.iter().map(|(name, amount)| (format!("{class}{OF_CLASS}{name}"), amount)).collect();
        used.0.extend(of_class);
    }
    used
}

fn storage_class(claim: &Json) -> &str {
    match claim.at("/metadata/annotations").and_then(|annotations| annotations.get(CLASS_ANNOTATION)) {
        Some(class) => class.as_str().unwrap_or_default(),
        None => claim.text("/spec/storageClassName"),
    }
}
