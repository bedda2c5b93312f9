//! Validates the resources of containers and pods.

use std::cell::OnceCell;
use std::collections::HashSet;

use pintle_apimachinery::validate::{FieldError, FieldErrors, NameRule, name_errors, qualified_name_faults};
use pintle_json::{Json, json};
use pintle_kinds::check::Check;
use pintle_schema::quantity;

use crate::resource_quantities::{is_extended, is_native, page_error, quantity_errors};

const CONTAINER_AMOUNTS: &[&str] = &["cpu", "memory", "ephemeral-storage"];
/// The standard resources that occur only in quotas and limit ranges.
const QUOTA_RESOURCES: &[&str] = &[
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

pub(super) struct PodClaims<'a> {
    names: HashSet<&'a str>,
    /// The names of all claims in one string, for errors about unknown claims, computed on first use.
    listed: OnceCell<String>,
}

impl<'a> PodClaims<'a> {
    pub(super) fn of(spec: &'a Json) -> Self {
        let names = spec.list("/resourceClaims").map(|claim| claim.text("/name")).collect();
        Self { names, listed: OnceCell::new() }
    }

    fn listed(&self) -> &str {
        self.listed.get_or_init(|| {
            let mut names: Vec<&str> = self.names.iter().copied().collect();
            names.sort_unstable();
            if names.is_empty() { " which is empty".to_owned() } else { format!(": {}", names.join(", ")) }
        })
    }
}

pub(super) fn of_container(spec: &Json, claims: &PodClaims<'_>, container: &Json, path: &str) -> FieldErrors {
    let field = format!("{path}.resources");
    let errors = requirements(&container["resources"], &field, resource_errors);
    let errors = errors.and(claim_errors(&container["resources"], claims, &field));
    errors.and(resize_policies(spec, container, path))
}

/// Validates the claims that the resources of a container or a pod use. `path` is the path of the resources.
fn claim_errors(resources: &Json, claims: &PodClaims<'_>, path: &str) -> FieldErrors {
    let mut errors = FieldErrors::default();
    // The names of claims that are used as a whole, the names of claims that are used in part, and the used pairs of
    // claim and request.
    let (mut whole, mut partial, mut parts) = (HashSet::new(), HashSet::new(), HashSet::new());
    for (at, claim) in resources.list("/claims").enumerate() {
        let (name, request, field) = (claim.text("/name"), claim.text("/request"), format!("{path}.claims[{at}]"));
        if name.is_empty() {
            errors.push(FieldError::required(field, ""));
            continue;
        }
        if whole.contains(name) {
            errors.push(FieldError::duplicate(&field, &name.into()));
        } else if request.is_empty() {
            errors.duplicate_if(partial.contains(name), &field, &name.into());
            whole.insert(name);
        } else {
            let why = name_errors(NameRule::Label, request, false);
            errors.extend(why.iter().map(|why| FieldError::invalid_text(format!("{field}.request"), request, why)));
            partial.insert(name);
            errors.duplicate_if(!parts.insert((name, request)), &field, &format!("{name}/{request}").into());
        }
        if !claims.names.contains(name) {
            errors.add(|| {
                let mut error = FieldError::not_found(field, name);
                let known = claims.listed();
                error.message =
                    format!("{}: must be one of the names in pod.spec.resourceClaims{known}", error.message);
                error
            });
        }
    }
    errors
}

/// Returns a claim of a pod with the names of its Go fields, which errors contain.
fn go_claim(claim: &Json) -> Json {
    json!({
        "Name": claim["name"],
        "ResourceClaimName": claim["resourceClaimName"],
        "ResourceClaimTemplateName": claim["resourceClaimTemplateName"],
    })
}

pub(super) fn claims(spec: &Json, path: &str) -> FieldErrors {
    let mut seen = HashSet::new();
    let duplicates: Vec<bool> = spec.list("/resourceClaims").map(|claim| !seen.insert(claim.text("/name"))).collect();
    let all = Check::at(spec, path).each("resourceClaims", |claim, at| {
        let object = claim.object();
        let name = object.text("/name");
        let (own, made) = (object.has("/resourceClaimName"), object.has("/resourceClaimTemplateName"));
        claim
            .required("name")
            .duplicate_if(!name.is_empty() && duplicates[at], "name", &name.into())
            .name("name", NameRule::Label)
            .refuse(own && made, || {
                let why = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified";
                FieldError::invalid("", &go_claim(object), why)
            })
            .refuse(!own && !made, || {
                FieldError::invalid(
                    "",
                    &go_claim(object),
                    "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`",
                )
            })
            .inside("resourceClaimName", |name| name.whole_is(NameRule::Subdomain))
            .inside("resourceClaimTemplateName", |name| name.whole_is(NameRule::Subdomain))
    });
    all.done()
}

pub(super) fn of_pod(spec: &Json, claims: &PodClaims<'_>, path: &str) -> FieldErrors {
    if !spec.has("/resources") {
        return FieldErrors::default();
    }
    let field = format!("{path}.resources");
    if spec.text("/os/name") == "windows" {
        return FieldErrors::from([FieldError::forbidden(field, "may not be set for a windows pod")]);
    }
    let object = &spec["resources"];
    let mut errors = Check::at(object, &field)
        .forbidden_if(object.has("/claims"), "claims", "claims may not be set for Resources at pod-level")
        .done();
    errors.extend(requirements(object, &field, |field, name| {
        let errors = name_of_resource(field, name);
        let known = matches!(name, "cpu" | "memory") || name.starts_with("hugepages-");
        if errors.is_empty() && !known {
            FieldErrors::from([FieldError::unsupported(field, &name.into(), &["cpu", "hugepages-", "memory"])])
        } else {
            errors
        }
    }));
    errors.extend(claim_errors(object, claims, &field));
    errors.extend(total_errors(spec, &field));
    errors.extend(container_limit_errors(spec, path));
    errors
}

/// Reports requests and huge page limits of a pod that are less than the total of its containers.
fn total_errors(spec: &Json, path: &str) -> FieldErrors {
    let mut errors = FieldErrors::default();
    for side in ["requests", "limits"] {
        let totals = pintle_admission::container_totals(spec, side);
        for (name, amount) in spec["resources"].members(&format!("/{side}")) {
            let is_compared = side == "requests" || name.starts_with("hugepages-");
            let (Some(total), Some(amount)) = (totals.get(name), amount.as_str()) else { continue };
            if is_compared && quantity::nanos(amount).is_some_and(|own| own < total.nanos()) {
                let why = format!("must be greater than or equal to aggregate container {side} of {total}");
                errors.push(FieldError::invalid_text(format!("{path}.{side}[{name}]"), amount, why));
            }
        }
    }
    errors
}

/// Reports containers whose limits exceed the limits of their pod.
fn container_limit_errors(spec: &Json, path: &str) -> FieldErrors {
    let mut errors = FieldErrors::default();
    for (at, container) in spec.list("/containers").enumerate() {
        for (name, limit) in container.members("/resources/limits") {
            let (Some(own), Some(all)) = (limit.as_str(), spec["resources"]["limits"][name.as_str()].as_str()) else {
                continue;
            };
            if quantity::nanos(own) > quantity::nanos(all) {
                let field = format!("{path}.resources.containers[{at}][{name}].limits");
                let why = format!("must be less than or equal to pod limits of {all}");
                errors.push(FieldError::invalid_text(field, own, why));
            }
        }
    }
    errors
}

pub(super) fn overhead(spec: &Json, path: &str) -> FieldErrors {
    let amounts = spec.at("/overhead").and_then(Json::as_object).into_iter().flatten();
    amounts
        .flat_map(|(name, amount)| {
            amount_errors(&format!("{path}.overhead.limits[{name}]"), name, amount, resource_errors)
        })
        .collect()
}

/// Validates the resource limits of a pod or another object that is not a container. `path` is the path of the
/// parent field.
pub(crate) fn limit_errors(limits: Option<&Json>, path: &str) -> FieldErrors {
    let limits = limits.and_then(Json::as_object).into_iter().flatten();
    limits
        .flat_map(|(name, amount)| amount_errors(&format!("{path}.limits[{name}]"), name, amount, resource_errors))
        .collect()
}

pub(crate) fn resource_errors(field: &str, name: &str) -> FieldErrors {
    let mut errors = name_of_resource(field, name);
    let of_container = CONTAINER_AMOUNTS.contains(&name) || name.starts_with("hugepages-");
    let why = match () {
        () if !name.contains('/') && !of_container => "must be a standard resource for containers",
        () if name.contains('/') && !is_native(name) && !is_extended(name) => {
            "doesn't follow extended resource name standard"
        }
        () => return errors,
    };
    errors.push(FieldError::invalid_text(field, name, why));
    errors
}

pub(crate) fn name_of_resource(field: &str, name: &str) -> FieldErrors {
    let why = qualified_name_faults(name);
    let standard =
        CONTAINER_AMOUNTS.contains(&name) || QUOTA_RESOURCES.contains(&name) || name.starts_with("hugepages-");
    if why.is_empty() && !name.contains('/') && !standard {
        let why = "must be a standard resource type or fully qualified";
        FieldErrors::from([FieldError::invalid_text(field, name, why)])
    } else {
        why.iter().map(|why| FieldError::invalid_text(field, name, why)).collect()
    }
}

fn amount_errors(field: &str, name: &str, amount: &Json, names: impl Fn(&str, &str) -> FieldErrors) -> FieldErrors {
    names(field, name).and(quantity_errors(field, name, amount.as_str().unwrap_or_default()))
}

fn requirements(object: &Json, path: &str, names: impl Fn(&str, &str) -> FieldErrors) -> FieldErrors {
    let mut errors = FieldErrors::default();
    let limits = &object["limits"];
    for side in ["limits", "requests"] {
        for (name, amount) in object.members(&format!("/{side}")) {
            let field = format!("{path}.{side}[{name}]");
            errors.extend(amount_errors(&field, name, amount, &names));
            if side == "requests" {
                errors.extend(limit_error(name, amount, limits, path));
            }
            errors.extend(page_error(&field, name, amount.as_str().unwrap_or_default()));
        }
    }
    let has_resource = |resource: fn(&str) -> bool| {
        ["/limits", "/requests"].iter().any(|side| object.members(side).any(|(name, _)| resource(name)))
    };
    if has_resource(|name| name.starts_with("hugepages-")) && !has_resource(|name| matches!(name, "cpu" | "memory")) {
        errors.push(FieldError::forbidden(path, "HugePages require cpu or memory"));
    }
    errors
}

/// Returns `true` if the request for a resource must equal its limit.
pub(crate) fn is_exact_resource(name: &str) -> bool {
    !is_native(name) || name.starts_with("hugepages-")
}

fn limit_error(name: &str, amount: &Json, limits: &Json, path: &str) -> Option<FieldError> {
    let exact = is_exact_resource(name);
    let amount = amount.as_str().unwrap_or_default();
    let Some(limit) = limits.get(name).and_then(Json::as_str) else {
        let why = "Limit must be set for non overcommitable resources";
        return exact.then(|| FieldError::required(format!("{path}.limits"), why));
    };
    let (requested, most) = (quantity::nanos(amount)?, quantity::nanos(limit)?);
    let how = match () {
        () if exact && requested != most => "equal to",
        () if requested > most => "less than or equal to",
        () => return None,
    };
    Some(FieldError::invalid_text(format!("{path}.requests"), amount, format!("must be {how} {name} limit of {limit}")))
}

/// Validates the resize policies. As in kube-apiserver, only errors about duplicates contain the list index.
fn resize_policies(spec: &Json, container: &Json, path: &str) -> FieldErrors {
    let list = format!("{path}.resizePolicy");
    let never = spec.text("/restartPolicy") == "Never";
    let (mut errors, mut seen) = (FieldErrors::default(), HashSet::new());
    for (at, policy) in container.list("/resizePolicy").enumerate() {
        let (resource, restart) = (policy.text("/resourceName"), policy.text("/restartPolicy"));
        errors.duplicate_if(!seen.insert(resource), format!("{list}[{at}]"), &resource.into());
        for (text, known) in [(resource, ["cpu", "memory"]), (restart, ["NotRequired", "RestartContainer"])] {
            match text {
                "" => errors.push(FieldError::required(list.as_str(), "")),
                text if !known.contains(&text) => {
                    errors.push(FieldError::unsupported(list.as_str(), &text.into(), &known));
                }
                _ => {}
            }
        }
        let why = "must be 'NotRequired' when pod `restartPolicy` is 'Never'";
        errors.invalid_text_if(never && restart != "NotRequired", list.as_str(), restart, why);
    }
    errors
}

#[cfg(test)]
mod tests {
    use pintle_effort::is_linear;
    use pintle_json::json;

    use super::*;

    #[test]
    fn claims_are_collected_once_per_pod() {
        for missing in [false, true] {
            let errors = |count: usize| {
                let name = |at: usize| if missing { "none".to_owned() } else { format!("c{at}") };
                let claims: Vec<_> = (0..count).map(|at| json!({"name": format!("c{at}")})).collect();
                let spec = json!({"resourceClaims": claims});
                let (claims, mut errors) = (PodClaims::of(&spec), FieldErrors::default());
                for at in 0..count {
                    let container = json!({"resources": {"claims": [{"name": name(at)}]}});
                    if !errors.is_full() {
                        errors.extend(of_container(&spec, &claims, &container, "c"));
                    }
                }
                assert_eq!(errors.is_empty(), !missing);
            };
            // Each error lists all resource claims, so the errors soon reach the size limit, and validation stops.
            if missing { errors(8_000) } else { assert!(is_linear(1_000, errors)) }
        }
    }
}
