//! Validates a pod's container.

use pintle_apimachinery::object::duplicates;
use pintle_apimachinery::validate::{FieldError, FieldErrors, NameRule};
use pintle_json::Json;
use pintle_kinds::check::Check;

use super::port_names::{PORT_RANGE, port_name_errors};
use super::resource_amounts::PodClaims;
use super::volumes::Volumes;
use super::{environment, handlers, mounts, resource_amounts, security};
use crate::network_rules::PROTOCOLS;

const RESTART_POLICIES: &[&str] = &["Always", "Never", "OnFailure"];
/// The fields that ephemeral containers must not have, in reporting order.
const NOT_EPHEMERAL: [&str; 9] = [
    "ports",
    "resources",
    "resizePolicy",
    "restartPolicy",
    "restartPolicyRules",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle",
];

/// Validates a container in a pod spec. The caller sets `double` if an earlier container has the same name.
pub(super) fn errors(
    spec: &Json,
    list: &str,
    container: &Json,
    path: &str,
    volumes: &Volumes<'_>,
    claims: &PodClaims<'_>,
    double: bool,
) -> FieldErrors {
    let name = container.text("/name");
    let host_users = spec.get("hostUsers").and_then(Json::as_bool) != Some(false);
    let check = Check::at(container, path)
        .required_name("name", NameRule::Label)
        .required("image")
        .one_of("terminationMessagePolicy", &["File", "FallbackToLogsOnError"])
        .also(ports(container, path))
        .also(environment::errors(container, path))
        .also(mounts::errors(container, path, volumes))
        .one_of("imagePullPolicy", &["Always", "IfNotPresent", "Never"])
        .also(resource_amounts::of_container(spec, claims, container, path))
        .also(security::of_container(container, path, host_users));
    let restarts = container.text("/restartPolicy") == "Always";
    let double = double && !(name.is_empty() && list == "initContainers");
    let twice = || FieldError::duplicate("name", &name.into());
    match list {
        "ephemeralContainers" => check
            .also(padded_image(container, path))
            .refuse(double, twice)
            .also(ephemeral(spec, container, path))
            .done(),
        "initContainers" if !restarts => check
            .also(restart_rules(container, path, true))
            .refuse(double, twice)
            .also(handlers::forbidden_at_init(container, path))
            .each("resizePolicy", |policy, _| {
                let restart = policy.object().text("/restartPolicy");
                policy.refuse(restart == "RestartContainer", || {
                    let why = "must not be set to 'RestartContainer' for non-sidecar initContainers";
                    FieldError::invalid_text("restartPolicy", restart, why)
                })
            })
            .done(),
        "initContainers" => check
            .also(restart_rules(container, path, true))
            .refuse(double, twice)
            .also(handlers::errors(spec, container, path))
            .done(),
        _ => check
            .refuse(double, twice)
            .also(handlers::errors(spec, container, path))
            .also(restart_rules(container, path, false))
            .done(),
    }
}

/// Reports whitespace around an image name in a pod. In a pod template, such whitespace is valid, as in kube-apiserver.
pub(super) fn padded_image(container: &Json, path: &str) -> Option<FieldError> {
    let image = container.text("/image");
    let why = "must not have leading or trailing whitespace";
    (image.trim() != image).then(|| FieldError::invalid_text(format!("{path}.image"), image, why))
}

fn ports(container: &Json, path: &str) -> FieldErrors {
    let duplicates = duplicates(container.list("/ports").map(|port| port.text("/name")));
    let of_container = Check::at(container, path).each("ports", |port, at| {
        let object = port.object();
        let name = object.text("/name");
        let (inner, outer) = (object.integer("/containerPort").unwrap_or(0), object.integer("/hostPort").unwrap_or(0));
        let in_range = |port: i64| (1..=65535).contains(&port);
        let why = if name.is_empty() { Vec::new() } else { port_name_errors(name) };
        let double = !name.is_empty() && why.is_empty() && duplicates[at];
        let port = why.iter().fold(port, |port, why| port.invalid_text_if(true, "name", name, why));
        port.duplicate_if(double, "name", &name.into())
            .required_if(inner == 0, "containerPort", "")
            .invalid_if(inner != 0 && !in_range(inner), "containerPort", &inner.into(), PORT_RANGE)
            .invalid_if(outer != 0 && !in_range(outer), "hostPort", &outer.into(), PORT_RANGE)
            .required_one_of("protocol", PROTOCOLS)
    });
    of_container.done()
}

/// Validates a container's restart policy and restart rules. The rules of an init container are validated only if it
/// has a restart policy.
fn restart_rules(container: &Json, path: &str, sidecar: bool) -> FieldErrors {
    let count = container.list("/restartPolicyRules").count();
    let open = count > 0 && !container.has("/restartPolicy");
    Check::at(container, path)
        .required_if(open, "restartPolicy", "must specify restartPolicy when restart rules are used")
        .known("restartPolicy", RESTART_POLICIES)
        .refuse(count > 20, || FieldError::too_many("restartPolicyRules", count, 20))
        .also(if open && sidecar { FieldErrors::default() } else { rule_errors(container, path) })
        .done()
}

fn rule_errors(container: &Json, path: &str) -> FieldErrors {
    Check::at(container, path)
        .each("restartPolicyRules", |rule, _| {
            let object = rule.object();
            let (action, operator) = (object.text("/action"), object.text("/exitCodes/operator"));
            let codes = object.list("/exitCodes/values").count();
            let actions = ["Restart", "RestartAllContainers"];
            let operators = ["In", "NotIn"];
            let has_codes = object.has("/exitCodes");
            rule.unsupported_if(!actions.contains(&action), "action", &action.into(), &actions)
                .refuse(has_codes && !operators.contains(&operator), || {
                    FieldError::unsupported("exitCodes.operator", &operator.into(), &operators)
                })
                .refuse(codes > 255, || FieldError::too_many("exitCodes.values", codes, 255))
                .required_if(!has_codes, "exitCodes", "must be specified")
        })
        .done()
}

fn ephemeral(spec: &Json, container: &Json, path: &str) -> FieldErrors {
    const WHY: &str = "cannot be set for an Ephemeral Container";
    let target = container.text("/targetContainerName");
    let mut others = spec.list("/containers").chain(spec.list("/initContainers"));
    let unknown = !target.is_empty() && !others.any(|other| other.text("/name") == target);
    let is_set = |member: &str, value: &Json| match value {
        Json::Null => false,
        Json::Object(members) if member == "resources" => members.iter().any(|(_, value)| !value.is_null()),
        _ => true,
    };
    let there = NOT_EPHEMERAL.iter().filter(|member| container.get(member).is_some_and(|value| is_set(member, value)));
    let set = there.map(|member| FieldError::forbidden(format!("{path}.{member}"), WHY));
    let check = Check::at(container, path).not_found_if(unknown, "targetContainerName", target).also(set).each(
        "volumeMounts",
        |mount, _| {
            ["subPath", "subPathExpr"].iter().fold(mount, |mount, member| {
                let set = !mount.object().text(&format!("/{member}")).is_empty();
                mount.forbidden_if(set, *member, WHY)
            })
        },
    );
    check.done()
}
