//! Validates the spec of a pod or of a pod template.

use std::collections::HashSet;

use pintle_apimachinery::validate::{FieldError, FieldErrors, NameRule, annotation_key_errors, label_key_faults};
use pintle_json::Json;
use pintle_kinds::check::Check;
use pintle_kinds::label_selector::label_errors;

use super::resource_amounts::PodClaims;
use super::{SpecOwner, affinity, container, environment, network, placing, resource_amounts, security, volumes};

pub(super) const CONTAINERS: [&str; 3] = ["containers", "initContainers", "ephemeralContainers"];

/// Validates a pod, except for most of its metadata, which the metadata rules validate.
pub(super) fn pod(pod: &Json) -> FieldErrors {
    let mut errors: FieldErrors = annotation_errors(pod, "metadata.annotations").into_iter().collect();
    errors.extend(spec(&pod["spec"], "spec", SpecOwner::Pod(pod.text("/metadata/name"))));
    if pod.text("/spec/serviceAccountName").is_empty() {
        for (at, volume) in pod.list("/spec/volumes").enumerate() {
            for (source, _) in
                volume.list("/projected/sources").enumerate().filter(|(_, source)| source.has("/serviceAccountToken"))
            {
                let field = format!("spec.volumes[{at}].projected.sources[{source}].serviceAccountToken");
                errors.push(FieldError::forbidden(field, "must not be specified when serviceAccountName is not set"));
            }
        }
    }
    for key in ["containers", "initContainers"] {
        for (at, container) in pod.list(&format!("/spec/{key}")).enumerate() {
            errors.extend(container::padded_image(container, &format!("spec.{key}[{at}]")));
        }
    }
    errors
}

pub(crate) fn template(template: &Json, path: &str) -> FieldErrors {
    let mut errors = template_metadata(template, path);
    errors.extend(spec(&template["spec"], &format!("{path}.spec"), SpecOwner::Template));
    if template.list("/spec/ephemeralContainers").next().is_some() {
        let why = "ephemeral containers not allowed in pod template";
        errors.push(FieldError::forbidden(format!("{path}.spec.ephemeralContainers"), why));
    }
    errors
}

pub(crate) fn template_metadata(template: &Json, path: &str) -> FieldErrors {
    let mut errors = label_errors(template, "/metadata/labels", &format!("{path}.labels"));
    for (key, _) in template.members("/metadata/annotations") {
        let why = annotation_key_errors(key);
        errors.extend(why.iter().map(|why| FieldError::invalid_text(format!("{path}.annotations"), key, why)));
    }
    errors.extend(annotation_errors(template, &format!("{path}.annotations")));
    errors
}

fn annotation_errors(object: &Json, path: &str) -> Option<FieldError> {
    const COST: &str = "controller.kubernetes.io/pod-deletion-cost";
    let cost = object.at("/metadata/annotations")?.get(COST)?.as_str()?;
    let good = cost.parse::<i32>().is_ok() && !cost.starts_with('+') && !(cost.len() > 1 && cost.starts_with('0'));
    (!good).then(|| FieldError::invalid_text(format!("{path}[{COST}]"), cost, "must be a 32bit integer"))
}

fn spec(spec: &Json, path: &str, owner: SpecOwner<'_>) -> FieldErrors {
    let (mut errors, volumes) = volumes::errors(spec, path, owner);
    errors.extend(resource_amounts::claims(spec, path));
    errors.required_if(spec.list("/containers").next().is_none(), format!("{path}.containers"), "");
    let (mut names, claims): (HashSet<&str>, _) = (HashSet::new(), PodClaims::of(spec));
    for key in CONTAINERS {
        for (at, container) in spec.list(&format!("/{key}")).enumerate() {
            if errors.is_full() {
                return errors;
            }
            let path = format!("{path}.{key}[{at}]");
            let double = !names.insert(container.text("/name"));
            errors.extend(container::errors(spec, key, container, &path, &volumes, &claims, double));
        }
        errors.extend(network::host_ports(spec, key, path));
    }
    errors.extend(resource_amounts::of_pod(spec, &claims, path));
    errors.extend(network::host_network_ports(spec, path, matches!(owner, SpecOwner::Pod(_))));
    errors.extend(placement(spec, path).done());
    let all = spec.list("/volumes").map(|volume| (volume.text("/name"), volume)).collect();
    for key in CONTAINERS {
        for (at, container) in spec.list(&format!("/{key}")).enumerate() {
            errors.extend(environment::file_errors(&all, container, &format!("{path}.{key}[{at}]")));
        }
    }
    errors
}

/// Validates the fields of a pod spec that are unrelated to volumes and containers.
fn placement<'a>(spec: &'a Json, path: &str) -> Check<'a> {
    Check::at(spec, path)
        .one_of("restartPolicy", &["Always", "OnFailure", "Never"])
        .one_of("dnsPolicy", &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"])
        .also(placing::node_selector(spec, path))
        .also(security::of_pod(spec, path))
        .also(affinity::errors(spec, path))
        .also(network::resolution(spec, path))
        .each("readinessGates", |gate, _| gate.qualified("conditionType"))
        .also(gates(spec, path))
        .also(affinity::spread(spec, path))
        .also(super::operating_system::host_process_errors(spec, path))
        .also(security::own_users(spec, path))
        .also(network::hostname_override(spec, path))
        .name("serviceAccountName", NameRule::Subdomain)
        .name("nodeName", NameRule::Subdomain)
        .within("activeDeadlineSeconds", 1, i64::from(i32::MAX), "must be between 1 and 2147483647, inclusive")
        .name("hostname", NameRule::Label)
        .name("subdomain", NameRule::Label)
        .also(placing::tolerations(spec, path))
        .also(network::host_aliases(spec, path))
        .name("priorityClassName", NameRule::Subdomain)
        .inside("runtimeClassName", |class| class.whole_is(NameRule::Subdomain))
        .inside("preemptionPolicy", |policy| {
            let empty = policy.object().is_empty();
            policy.required_if(empty, "", "")
        })
        .one_of("preemptionPolicy", &["PreemptLowerPriority", "Never"])
        .also(resource_amounts::overhead(spec, path))
        .inside("os", |os| {
            let name = os.object().text("/name");
            let known = ["linux", "windows"];
            os.required("name").unsupported_if(!name.is_empty() && !known.contains(&name), "", &name.into(), &known)
        })
        .also(super::operating_system::errors(spec, path))
}

fn gates(spec: &Json, path: &str) -> FieldErrors {
    let mut seen = HashSet::new();
    let duplicates: Vec<bool> = spec.list("/schedulingGates").map(|gate| !seen.insert(gate.text("/name"))).collect();
    let all = Check::at(spec, path).each("schedulingGates", |gate, at| {
        let name = gate.object().text("/name");
        let why = label_key_faults(name);
        let gate = why.iter().fold(gate, |gate, why| gate.invalid_text_if(true, "", name, why));
        gate.duplicate_if(duplicates[at], "", &name.into())
    });
    all.done()
}
