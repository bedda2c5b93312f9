//! Validates a Service's spec.

use std::collections::HashSet;

use pintle_apimachinery::validate::{FieldError, FieldErrors, NameRule, label_key_faults, name_errors};
use pintle_json::{Json, json};
use pintle_kinds::check::Check;
use pintle_kinds::label_selector::label_errors;

use super::{families, port_key, traffic};
use crate::core::pod::port_name_errors;
use crate::network_rules::{ip_errors, special_address};

/// Validates a Service without comparing it with an old object. `Service::validate_update` adds the rules for
/// changes.
pub(super) fn errors(object: &Json) -> FieldErrors {
    let kind = object.text("/spec/type");
    let address = object.text("/spec/clusterIP");
    let headless = address == "None";
    let external = kind == "ExternalName";
    let ports: Vec<_> = object.list("/spec/ports").collect();
    let selector = label_errors(object, "/spec/selector", "spec.selector");
    let named = object.text("/spec/externalName").trim_end_matches('.');
    let named_errors = if external { name_errors(NameRule::Subdomain, named, false) } else { Vec::new() };
    let set =
        |key: &str| object.at(&format!("/spec/{key}")).is_some_and(|value| !value.is_null() && *value != json!([]));
    Check::of(object)
        .required_if(ports.is_empty() && !headless && !external, "spec.ports", "")
        .refuse(headless && matches!(kind, "NodePort" | "LoadBalancer"), || {
            FieldError::invalid_text(
                "spec.clusterIPs[0]",
                "None",
                format!("may not be set to 'None' for {kind} services"),
            )
        })
        .forbidden_if(external && set("clusterIPs"), "spec.clusterIPs", "may not be set for ExternalName services")
        .forbidden_if(external && set("ipFamilies"), "spec.ipFamilies", "may not be set for ExternalName services")
        .refuse(external && set("ipFamilyPolicy"), || {
            FieldError::forbidden("spec.ipFamilyPolicy", "may not be set for ExternalName services")
        })
        .required_if(external && named.is_empty(), "spec.externalName", "")
        .also(
            named_errors
                .iter()
                .filter(|_| !named.is_empty())
                .map(|why| FieldError::invalid_text("spec.externalName", named, why)),
        )
        .also(port_errors(&ports))
        .also(selector)
        .one_of("spec.sessionAffinity", &["ClientIP", "None"])
        .within(
            "spec.sessionAffinityConfig.clientIP.timeoutSeconds",
            1,
            86400,
            "must be greater than 0 and less than 86400",
        )
        .also(if external { FieldErrors::default() } else { families::errors(object) })
        .also(external_ip_errors(object))
        .one_of("spec.type", &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"])
        .also(node_port_errors(&ports, kind))
        .also(traffic::errors(object))
        .done()
}

fn port_errors(ports: &[&Json]) -> FieldErrors {
    const RANGE: &str = "must be between 1 and 65535, inclusive";
    let mut errors = FieldErrors::default();
    let mut names = HashSet::new();
    for (at, port) in ports.iter().enumerate() {
        let path = format!("spec.ports[{at}]");
        let name = port.text("/name");
        if ports.len() > 1 && name.is_empty() {
            errors.push(FieldError::required(format!("{path}.name"), ""));
        } else if !name.is_empty() {
            let why = name_errors(NameRule::Label, name, false);
            errors.extend(why.iter().map(|why| FieldError::invalid_text(format!("{path}.name"), name, why)));
            errors.duplicate_if(!names.insert(name), format!("{path}.name"), &name.into());
        }
        let out_of_range = |number: i64| !(1..=65535).contains(&number);
        let number = port.integer("/port").unwrap_or(0);
        if out_of_range(number) {
            errors.push(FieldError::invalid(format!("{path}.port"), &number.into(), RANGE));
        }
        if !["TCP", "UDP", "SCTP"].contains(&port.text("/protocol")) {
            let value = port["protocol"].clone();
            errors.push(FieldError::unsupported(format!("{path}.protocol"), &value, &["SCTP", "TCP", "UDP"]));
        }
        match port.get("targetPort") {
            Some(Json::String(target)) => {
                let why = port_name_errors(target);
                errors
                    .extend(why.iter().map(|why| FieldError::invalid_text(format!("{path}.targetPort"), target, why)));
            }
            Some(target) if target.as_i64().is_some_and(out_of_range) => {
                errors.push(FieldError::invalid(format!("{path}.targetPort"), target, RANGE));
            }
            _ => {}
        }
        if let Some(protocol) = port.get("appProtocol").and_then(Json::as_str) {
            let why = label_key_faults(protocol);
            let field = format!("{path}.appProtocol");
            errors.extend(why.iter().map(|why| FieldError::invalid_text(field.as_str(), protocol, why)));
        }
    }
    errors
}

fn node_port_errors(ports: &[&Json], kind: &str) -> FieldErrors {
    let mut errors = FieldErrors::default();
    let node = |port: &Json| port.integer("/nodePort").unwrap_or(0);
    for (at, _) in ports.iter().enumerate().filter(|(_, port)| node(port) != 0 && kind == "ClusterIP") {
        let why = "may not be used when `type` is 'ClusterIP'";
        errors.push(FieldError::forbidden(format!("spec.ports[{at}].nodePort"), why));
    }
    let mut taken = HashSet::new();
    for (at, port) in ports.iter().enumerate().filter(|(_, port)| node(port) != 0) {
        if !taken.insert((port.text("/protocol"), node(port))) {
            errors.push(FieldError::duplicate(format!("spec.ports[{at}].nodePort"), &node(port).into()));
        }
    }
    let mut keys = HashSet::new();
    let again = ports.iter().enumerate().filter(|(_, port)| !keys.insert(port_key(port)));
    errors.extend(again.map(|(at, port)| FieldError::duplicate(format!("spec.ports[{at}]"), port)));
    errors
}

fn external_ip_errors(object: &Json) -> FieldErrors {
    let addresses = object.texts("/spec/externalIPs").enumerate();
    let address_error = |(at, address): (usize, &str)| {
        let field = format!("spec.externalIPs[{at}]");
        ip_errors(address, &field).or_else(|| special_address(address, &field))
    };
    addresses.filter_map(address_error).collect()
}
