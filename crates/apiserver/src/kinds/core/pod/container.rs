//! Validates one container of a pod.

use std::collections::HashSet;

use pintle_json::Json;
use pintle_schema::quantity;

use crate::kinds::check::Check;
use crate::kinds::network_rules::PROTOCOLS;
use crate::object::doubles;
use crate::validate::{FieldFault, FieldFaults, NameRule, qualified_name_faults};

const PORT_RANGE: &str = "must be between 1 and 65535, inclusive";
const HANDLERS: &[&str] = &["exec", "httpGet", "tcpSocket", "grpc"];
const COMPUTE_RESOURCES: &[&str] = &["cpu", "memory", "ephemeral-storage"];
/// What the downward API tells of.
const FIELDS: &[&str] = &[
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

/// The faults of one container.
pub(super) fn faults(container: &Json, path: &str, volumes: &HashSet<&str>, host_network: bool) -> FieldFaults {
    let image = container.text("/image");
    Check::at(container, path)
        .required("name")
        .name("name", NameRule::Label)
        .required("image")
        .refuse(image.trim() != image, || {
            FieldFault::invalid_text("image", image, "must not have leading or trailing whitespace")
        })
        .also(ports(container, path, host_network))
        .also(variables(container, path))
        .also(mounts(container, path, volumes))
        .also(probes(container, path))
        .one_of("imagePullPolicy", &["Always", "IfNotPresent", "Never"])
        .one_of("terminationMessagePolicy", &["File", "FallbackToLogsOnError"])
        .also(resources(container, path))
        .done()
}

/// Why a text does not name a port; as one of a Service's target ports, too.
pub(in crate::kinds) fn port_name_faults(name: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if name.len() > 15 {
        faults.push("must be no more than 15 characters".into());
    }
    if !name.chars().all(plain) {
        faults.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".into());
    } else if !name.contains(|c: char| c.is_ascii_lowercase()) {
        faults.push("must contain at least one letter (a-z)".into());
    }
    if name.contains("--") {
        faults.push("must not contain consecutive hyphens".into());
    }
    if name.starts_with('-') || name.ends_with('-') {
        faults.push("must not begin or end with a hyphen".into());
    }
    faults
}

fn ports(container: &Json, path: &str, host_network: bool) -> FieldFaults {
    let doubles = doubles(container.list("/ports").map(|port| port.text("/name")));
    let of_container = Check::at(container, path).each("ports", |port, at| {
        let object = port.object();
        let name = object.text("/name");
        let (inner, outer) = (object.integer("/containerPort").unwrap_or(0), object.integer("/hostPort").unwrap_or(0));
        let in_range = |port: i64| (1..=65535).contains(&port);
        let why = if name.is_empty() { Vec::new() } else { port_name_faults(name) };
        let double = !name.is_empty() && why.is_empty() && doubles[at];
        let port = why.iter().fold(port, |port, why| port.refuse(true, || FieldFault::invalid_text("name", name, why)));
        port.refuse(double, || FieldFault::duplicate("name", &name.into()))
            .refuse(inner == 0, || FieldFault::required("containerPort", ""))
            .refuse(inner != 0 && !in_range(inner), || FieldFault::invalid("containerPort", &inner.into(), PORT_RANGE))
            .refuse(outer != 0 && !in_range(outer), || FieldFault::invalid("hostPort", &outer.into(), PORT_RANGE))
            .required("protocol")
            .one_of("protocol", PROTOCOLS)
            .refuse(host_network && outer != inner, || {
                let why = "must match `containerPort` when `hostNetwork` is true";
                FieldFault::invalid("hostPort", &outer.into(), why)
            })
    });
    of_container.done()
}

fn variables(container: &Json, path: &str) -> FieldFaults {
    let of_container = Check::at(container, path).each("env", |variable, _| {
        let object = variable.object();
        let name = object.text("/name").to_owned();
        let odd = !name.is_empty() && (name.contains('=') || !name.bytes().all(|byte| (0x20..0x7f).contains(&byte)));
        let source = object.get("valueFrom").filter(|source| !source.is_null());
        let nothing = source.is_some_and(Json::is_empty);
        let both = source.is_some() && !nothing && !object.text("/value").is_empty();
        let field = object.text("/valueFrom/fieldRef/fieldPath").to_owned();
        let member = field.starts_with("metadata.labels[") || field.starts_with("metadata.annotations[");
        let unknown = !field.is_empty() && !member && !FIELDS.contains(&field.as_str());
        variable
            .required("name")
            .refuse(odd, || {
                let why = "a valid environment variable name must consist only of printable ASCII characters other than '='";
                FieldFault::invalid_text("name", &name, why)
            })
            .refuse(nothing, || {
                let why = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`";
                FieldFault::invalid_text("valueFrom", "", why)
            })
            .refuse(both, || FieldFault::invalid_text("valueFrom", "", "may not be specified when `value` is not empty"))
            .refuse(unknown, || {
                let why = format!("error converting fieldPath: field label not supported: {field}");
                FieldFault::invalid_text("valueFrom.fieldRef.fieldPath", &field, why)
            })
    });
    of_container.done()
}

fn mounts(container: &Json, path: &str, volumes: &HashSet<&str>) -> FieldFaults {
    let doubles = doubles(container.list("/volumeMounts").map(|mount| mount.text("/mountPath")));
    let of_container = Check::at(container, path).each("volumeMounts", |mount, at| {
        let name = mount.object().text("/name").to_owned();
        let unknown = !name.is_empty() && !volumes.contains(name.as_str());
        let mount_path = mount.object().text("/mountPath");
        let double = !mount_path.is_empty() && doubles[at];
        mount
            .required("name")
            .refuse(unknown, || {
                let message = format!("Not found: {}", Json::from(name.as_str()));
                FieldFault::new(crate::validate::FaultReason::NotFound, "name", message)
            })
            .required("mountPath")
            .refuse(double, || FieldFault::invalid_text("mountPath", mount_path, "must be unique"))
    });
    of_container.done()
}

fn probes(container: &Json, path: &str) -> FieldFaults {
    let mut check = Check::at(container, path);
    for (name, once) in [("livenessProbe", true), ("readinessProbe", false), ("startupProbe", true)] {
        check = check.inside(name, |probe| {
            let object = probe.object();
            let handlers: Vec<&&str> = HANDLERS.iter().filter(|handler| object.has(&format!("/{handler}"))).collect();
            let successes = object.integer("/successThreshold").unwrap_or(1);
            let mut probe = handlers.iter().skip(1).fold(probe, |probe, handler| {
                probe.refuse(true, || FieldFault::forbidden(**handler, "may not specify more than 1 handler type"))
            });
            for handler in handlers.iter().take(1) {
                let port = object.integer(&format!("/{handler}/port"));
                probe = probe.refuse(port.is_some_and(|port| !(1..=65535).contains(&port)), || {
                    FieldFault::invalid(format!("{handler}.port"), &port.unwrap_or(0).into(), PORT_RANGE)
                });
            }
            probe
                .refuse(handlers.is_empty(), || FieldFault::required("", "must specify a handler type"))
                .not_negative(&[
                    "initialDelaySeconds",
                    "timeoutSeconds",
                    "periodSeconds",
                    "successThreshold",
                    "failureThreshold",
                ])
                .refuse(once && successes != 1, || {
                    FieldFault::invalid("successThreshold", &successes.into(), "must be 1")
                })
        });
    }
    check.done()
}

fn resources(container: &Json, path: &str) -> FieldFaults {
    let mut faults = FieldFaults::default();
    let amounts =
        |side: &str| container.at(&format!("/resources/{side}")).and_then(Json::as_object).cloned().unwrap_or_default();
    let limits = amounts("limits");
    for (side, amounts) in [("limits", limits.clone()), ("requests", amounts("requests"))] {
        for (name, amount) in &amounts {
            let field = format!("{path}.resources.{side}[{name}]");
            faults.extend(amount_faults(&field, name, amount));
            let amount = amount.as_str().unwrap_or_default();
            let nanos = quantity::nanos(amount).unwrap_or(0);
            let limit = limits[name].as_str().filter(|_| side == "requests");
            if let Some(limit) = limit.filter(|limit| quantity::nanos(limit).is_some_and(|limit| nanos > limit)) {
                let why = format!("must be less than or equal to {name} limit of {limit}");
                faults.push(FieldFault::invalid_text(format!("{path}.resources.requests"), amount, why));
            }
        }
    }
    faults
}

/// The faults of amounts that bound what containers use, beyond what one asks for; told at a path.
pub(crate) fn limit_faults(limits: Option<&Json>, path: &str) -> FieldFaults {
    let limits = limits.and_then(Json::as_object).into_iter().flatten();
    limits.flat_map(|(name, amount)| amount_faults(&format!("{path}.limits[{name}]"), name, amount)).collect()
}

fn amount_faults(field: &str, name: &str, amount: &Json) -> FieldFaults {
    let amount = amount.as_str().unwrap_or_default();
    let mut faults = resource_faults(field, name);
    if quantity::nanos(amount).is_some_and(|nanos| nanos < 0) {
        faults.push(FieldFault::invalid_text(field, amount, "must be greater than or equal to 0"));
    }
    faults
}

/// The faults of the name of a resource that containers ask for.
pub(crate) fn resource_faults(field: &str, name: &str) -> FieldFaults {
    if COMPUTE_RESOURCES.contains(&name) || name.starts_with("hugepages-") {
        return FieldFaults::default();
    }
    let mut why = qualified_name_faults(name);
    if !name.contains('/') {
        why.push("must be a standard resource type or fully qualified".into());
        why.push("must be a standard resource for containers".into());
    }
    why.iter().map(|why| FieldFault::invalid_text(field, name, why)).collect()
}
