//! Validates the amounts of resources that containers and pods ask for.

use std::cell::OnceCell;
use std::collections::HashSet;

use pintle_json::Json;
use pintle_schema::quantity;

use crate::kinds::amounts_of_resources::{is_extended, is_native, page_fault, quantity_faults};
use crate::kinds::check::Check;
use crate::validate::{FieldFault, FieldFaults, NameRule, qualified_name_faults};

const CONTAINER_AMOUNTS: &[&str] = &["cpu", "memory", "ephemeral-storage"];
/// Standard as well, though no container has them.
const OF_NAMESPACES: &[&str] = &[
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
    "quotas",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "storage",
    "services.nodeports",
    "services.loadbalancers",
];

/// The names of the claims that a pod makes.
pub(super) struct PodClaims<'a> {
    names: HashSet<&'a str>,
    /// As they are told where one is missing.
    told: OnceCell<String>,
}

impl<'a> PodClaims<'a> {
    pub(super) fn of(spec: &'a Json) -> Self {
        let names = spec.list("/resourceClaims").map(|claim| claim.text("/name")).collect();
        Self { names, told: OnceCell::new() }
    }

    fn told(&self) -> &str {
        self.told.get_or_init(|| {
            let mut names: Vec<&str> = self.names.iter().copied().collect();
            names.sort_unstable();
            if names.is_empty() { " which is empty".to_owned() } else { format!(": {}", names.join(", ")) }
        })
    }
}

/// The faults of what a container asks for, and of how it takes more.
pub(super) fn of_container(spec: &Json, claims: &PodClaims<'_>, container: &Json, path: &str) -> FieldFaults {
    let field = format!("{path}.resources");
    let mut faults = requirements(&container["resources"], &field, resource_faults);
    let (mut seen, object) = (HashSet::new(), &container["resources"]);
    for (at, claim) in object.list("/claims").enumerate() {
        let (name, field) = (claim.text("/name"), format!("{field}.claims[{at}]"));
        if name.is_empty() {
            faults.push(FieldFault::required(field, ""));
            continue;
        }
        if !seen.insert((name, claim.text("/request"))) {
            faults.push(FieldFault::duplicate(field.as_str(), &name.into()));
        }
        if !claims.names.contains(name) {
            faults.tell(|| {
                let mut fault = FieldFault::not_found(field, name);
                let known = claims.told();
                fault.message =
                    format!("{}: must be one of the names in pod.spec.resourceClaims{known}", fault.message);
                fault
            });
        }
    }
    faults.extend(resize_policies(spec, container, path));
    faults
}

/// The faults of the claims that a pod makes.
pub(super) fn claims(spec: &Json, path: &str) -> FieldFaults {
    let mut seen = HashSet::new();
    let doubles: Vec<bool> = spec.list("/resourceClaims").map(|claim| !seen.insert(claim.text("/name"))).collect();
    let all = Check::at(spec, path).each("resourceClaims", |claim, at| {
        let object = claim.object();
        let name = object.text("/name");
        let (own, made) = (object.has("/resourceClaimName"), object.has("/resourceClaimTemplateName"));
        claim
            .required("name")
            .refuse(!name.is_empty() && doubles[at], || FieldFault::duplicate("name", &name.into()))
            .name("name", NameRule::Label)
            .refuse(own && made, || {
                let why = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified";
                FieldFault::invalid("", object, why)
            })
            .refuse(!own && !made, || {
                FieldFault::invalid("", object, "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`")
            })
            .name("resourceClaimName", NameRule::Subdomain)
            .name("resourceClaimTemplateName", NameRule::Subdomain)
    });
    all.done()
}

/// What a pod asks for as a whole.
pub(super) fn of_pod(spec: &Json, path: &str) -> FieldFaults {
    if !spec.has("/resources") {
        return FieldFaults::default();
    }
    let field = format!("{path}.resources");
    let object = &spec["resources"];
    let mut faults = Check::at(object, &field)
        .refuse(object.has("/claims"), || {
            FieldFault::forbidden("claims", "claims may not be set for Resources at pod-level")
        })
        .done();
    faults.extend(requirements(object, &field, |field, name| {
        let faults = name_of_resource(field, name);
        let known = matches!(name, "cpu" | "memory") || name.starts_with("hugepages-");
        match faults.is_empty() && !known {
            true => FieldFaults::from([FieldFault::unsupported(field, &name.into(), &["cpu", "hugepages-", "memory"])]),
            false => faults,
        }
    }));
    faults
}

/// What a pod costs beyond its containers.
pub(super) fn overhead(spec: &Json, path: &str) -> FieldFaults {
    let amounts = spec.at("/overhead").and_then(Json::as_object).into_iter().flatten();
    amounts
        .flat_map(|(name, amount)| {
            amount_faults(&format!("{path}.overhead.limits[{name}]"), name, amount, resource_faults)
        })
        .collect()
}

/// The faults of amounts that bound what containers use, beyond what one asks for; told at a path.
pub(crate) fn limit_faults(limits: Option<&Json>, path: &str) -> FieldFaults {
    let limits = limits.and_then(Json::as_object).into_iter().flatten();
    limits
        .flat_map(|(name, amount)| amount_faults(&format!("{path}.limits[{name}]"), name, amount, resource_faults))
        .collect()
}

/// The faults of the name of a resource that containers ask for.
pub(crate) fn resource_faults(field: &str, name: &str) -> FieldFaults {
    let mut faults = name_of_resource(field, name);
    let of_container = CONTAINER_AMOUNTS.contains(&name) || name.starts_with("hugepages-");
    let why = match () {
        () if !name.contains('/') && !of_container => "must be a standard resource for containers",
        () if name.contains('/') && !is_native(name) && !is_extended(name) => {
            "doesn't follow extended resource name standard"
        }
        () => return faults,
    };
    faults.push(FieldFault::invalid_text(field, name, why));
    faults
}

/// Of the name of any resource.
pub(crate) fn name_of_resource(field: &str, name: &str) -> FieldFaults {
    let why = qualified_name_faults(name);
    let standard = CONTAINER_AMOUNTS.contains(&name) || OF_NAMESPACES.contains(&name) || name.starts_with("hugepages-");
    match why.is_empty() && !name.contains('/') && !standard {
        true => {
            let why = "must be a standard resource type or fully qualified";
            FieldFaults::from([FieldFault::invalid_text(field, name, why)])
        }
        false => why.iter().map(|why| FieldFault::invalid_text(field, name, why)).collect(),
    }
}

fn amount_faults(field: &str, name: &str, amount: &Json, names: impl Fn(&str, &str) -> FieldFaults) -> FieldFaults {
    let mut faults = names(field, name);
    faults.extend(quantity_faults(field, name, amount.as_str().unwrap_or_default()));
    faults
}

fn requirements(object: &Json, path: &str, names: impl Fn(&str, &str) -> FieldFaults) -> FieldFaults {
    let mut faults = FieldFaults::default();
    let limits = &object["limits"];
    for side in ["limits", "requests"] {
        for (name, amount) in object.members(&format!("/{side}")) {
            let field = format!("{path}.{side}[{name}]");
            faults.extend(amount_faults(&field, name, amount, &names));
            if side == "requests" {
                faults.extend(against_limit(name, amount, limits, path));
            }
            faults.extend(page_fault(&field, name, amount.as_str().unwrap_or_default()));
        }
    }
    let has = |resource: fn(&str) -> bool| {
        ["/limits", "/requests"].iter().any(|side| object.members(side).any(|(name, _)| resource(name)))
    };
    if has(|name| name.starts_with("hugepages-")) && !has(|name| matches!(name, "cpu" | "memory")) {
        faults.push(FieldFault::forbidden(path, "HugePages require cpu or memory"));
    }
    faults
}

fn against_limit(name: &str, amount: &Json, limits: &Json, path: &str) -> Option<FieldFault> {
    let exact = !is_native(name) || name.starts_with("hugepages-");
    let amount = amount.as_str().unwrap_or_default();
    let Some(limit) = limits.get(name).and_then(Json::as_str) else {
        let why = "Limit must be set for non overcommitable resources";
        return exact.then(|| FieldFault::required(format!("{path}.limits"), why));
    };
    let (asked, most) = (quantity::nanos(amount)?, quantity::nanos(limit)?);
    let how = match () {
        () if exact && asked != most => "equal to",
        () if asked > most => "less than or equal to",
        () => return None,
    };
    Some(FieldFault::invalid_text(format!("{path}.requests"), amount, format!("must be {how} {name} limit of {limit}")))
}

/// Told at the path of the list, but for a resource that stands twice.
fn resize_policies(spec: &Json, container: &Json, path: &str) -> FieldFaults {
    let list = format!("{path}.resizePolicy");
    let never = spec.text("/restartPolicy") == "Never";
    let (mut faults, mut seen) = (FieldFaults::default(), HashSet::new());
    for (at, policy) in container.list("/resizePolicy").enumerate() {
        let (resource, restart) = (policy.text("/resourceName"), policy.text("/restartPolicy"));
        if !seen.insert(resource) {
            faults.push(FieldFault::duplicate(format!("{list}[{at}]"), &resource.into()));
        }
        for (text, known) in [(resource, ["cpu", "memory"]), (restart, ["NotRequired", "RestartContainer"])] {
            match text {
                "" => faults.push(FieldFault::required(list.as_str(), "")),
                text if !known.contains(&text) => {
                    faults.push(FieldFault::unsupported(list.as_str(), &text.into(), &known));
                }
                _ => {}
            }
        }
        if never && restart != "NotRequired" {
            let why = "must be 'NotRequired' when pod `restartPolicy` is 'Never'";
            faults.push(FieldFault::invalid_text(list.as_str(), restart, why));
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use pintle_json::json;

    use super::*;
    use crate::clock::effort::is_linear;

    #[test]
    fn the_claims_of_a_pod_are_gathered_once_for_all_its_containers() {
        for missing in [false, true] {
            let faults = |count: usize| {
                let name = |at: usize| if missing { "none".to_owned() } else { format!("c{at}") };
                let claims: Vec<_> = (0..count).map(|at| json!({"name": format!("c{at}")})).collect();
                let spec = json!({"resourceClaims": claims});
                let (claims, mut faults) = (PodClaims::of(&spec), FieldFaults::default());
                for at in 0..count {
                    let container = json!({"resources": {"claims": [{"name": name(at)}]}});
                    if !faults.is_full() {
                        faults.extend(of_container(&spec, &claims, &container, "c"));
                    }
                }
                assert_eq!(faults.is_empty(), !missing);
            };
            // Where each tells of all, there is an end to what is told.
            if missing { faults(8_000) } else { assert!(is_linear(1_000, faults)) }
        }
    }
}
