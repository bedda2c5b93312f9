//! Validates a Service.

use std::collections::HashSet;

use pintle_json::Json;

use super::{families, port_key, traffic};
use crate::kinds::check::Check;
use crate::kinds::core::pod::port_name_faults;
use crate::kinds::network_rules::{ip_faults, special_address};
use crate::validate::{FieldFault, FieldFaults, NameRule, label_key_faults, label_value_faults, name_faults};

/// The faults of a Service, whatever it was before.
pub(super) fn faults(object: &Json) -> FieldFaults {
    let kind = object.text("/spec/type");
    let address = object.text("/spec/clusterIP");
    let headless = address == "None";
    let external = kind == "ExternalName";
    let ports: Vec<_> = object.list("/spec/ports").collect();
    let mut selector = Vec::new();
    for (key, value) in object.members("/spec/selector") {
        let value = value.as_str().unwrap_or_default();
        for (text, why) in [(key.as_str(), label_key_faults(key)), (value, label_value_faults(value))] {
            selector.extend(why.iter().map(|why| FieldFault::invalid_text("spec.selector", text, why)));
        }
    }
    let named = object.text("/spec/externalName").trim_end_matches('.');
    let named_faults = if external { name_faults(NameRule::Subdomain, named, false) } else { Vec::new() };
    let set = |key: &str| object.at(&format!("/spec/{key}")).is_some_and(|value| !value.is_empty());
    Check::of(object)
        .refuse(ports.is_empty() && !headless && !external, || FieldFault::required("spec.ports", ""))
        .refuse(headless && matches!(kind, "NodePort" | "LoadBalancer"), || {
            FieldFault::invalid_text(
                "spec.clusterIPs[0]",
                "None",
                format!("may not be set to 'None' for {kind} services"),
            )
        })
        .refuse(external && !address.is_empty(), || {
            FieldFault::forbidden("spec.clusterIPs", "may not be set for ExternalName services")
        })
        .refuse(external && set("ipFamilies"), || {
            FieldFault::forbidden("spec.ipFamilies", "may not be set for ExternalName services")
        })
        .refuse(external && set("ipFamilyPolicy"), || {
            FieldFault::forbidden("spec.ipFamilyPolicy", "may not be set for ExternalName services")
        })
        .refuse(external && named.is_empty(), || FieldFault::required("spec.externalName", ""))
        .also(
            named_faults
                .iter()
                .filter(|_| !named.is_empty())
                .map(|why| FieldFault::invalid_text("spec.externalName", named, why)),
        )
        .also(port_faults(&ports))
        .also(selector)
        .one_of("spec.sessionAffinity", &["ClientIP", "None"])
        .within(
            "spec.sessionAffinityConfig.clientIP.timeoutSeconds",
            1,
            86400,
            "must be greater than 0 and less than 86400",
        )
        .also(if external { FieldFaults::default() } else { families::faults(object) })
        .also(external_ip_faults(object))
        .one_of("spec.type", &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"])
        .also(node_port_faults(&ports, kind))
        .also(traffic::faults(object))
        .done()
}

fn port_faults(ports: &[&Json]) -> FieldFaults {
    const RANGE: &str = "must be between 1 and 65535, inclusive";
    let mut faults = FieldFaults::default();
    let mut names = HashSet::new();
    for (at, port) in ports.iter().enumerate() {
        let path = format!("spec.ports[{at}]");
        let name = port.text("/name");
        if ports.len() > 1 && name.is_empty() {
            faults.push(FieldFault::required(format!("{path}.name"), ""));
        } else if !name.is_empty() {
            let why = name_faults(NameRule::Label, name, false);
            faults.extend(why.iter().map(|why| FieldFault::invalid_text(format!("{path}.name"), name, why)));
            if !names.insert(name) {
                faults.push(FieldFault::duplicate(format!("{path}.name"), &name.into()));
            }
        }
        let out_of_range = |number: i64| !(1..=65535).contains(&number);
        let number = port.integer("/port").unwrap_or(0);
        if out_of_range(number) {
            faults.push(FieldFault::invalid(format!("{path}.port"), &number.into(), RANGE));
        }
        if !["TCP", "UDP", "SCTP"].contains(&port.text("/protocol")) {
            let value = port["protocol"].clone();
            faults.push(FieldFault::unsupported(format!("{path}.protocol"), &value, &["SCTP", "TCP", "UDP"]));
        }
        match port.get("targetPort") {
            Some(Json::String(target)) => {
                let why = port_name_faults(target);
                faults
                    .extend(why.iter().map(|why| FieldFault::invalid_text(format!("{path}.targetPort"), target, why)));
            }
            Some(target) if target.as_i64().is_some_and(out_of_range) => {
                faults.push(FieldFault::invalid(format!("{path}.targetPort"), target, RANGE));
            }
            _ => {}
        }
        if let Some(protocol) = port.get("appProtocol").and_then(Json::as_str) {
            let why = label_key_faults(protocol);
            let field = format!("{path}.appProtocol");
            faults.extend(why.iter().map(|why| FieldFault::invalid_text(field.as_str(), protocol, why)));
        }
    }
    faults
}

fn node_port_faults(ports: &[&Json], kind: &str) -> FieldFaults {
    let mut faults = FieldFaults::default();
    let node = |port: &Json| port.integer("/nodePort").unwrap_or(0);
    for (at, _) in ports.iter().enumerate().filter(|(_, port)| node(port) != 0 && kind == "ClusterIP") {
        let why = "may not be used when `type` is 'ClusterIP'";
        faults.push(FieldFault::forbidden(format!("spec.ports[{at}].nodePort"), why));
    }
    let mut taken = HashSet::new();
    for (at, port) in ports.iter().enumerate().filter(|(_, port)| node(port) != 0) {
        if !taken.insert((port.text("/protocol"), node(port))) {
            faults.push(FieldFault::duplicate(format!("spec.ports[{at}].nodePort"), &node(port).into()));
        }
    }
    let mut keys = HashSet::new();
    let again = ports.iter().enumerate().filter(|(_, port)| !keys.insert(port_key(port)));
    faults.extend(again.map(|(at, port)| FieldFault::duplicate(format!("spec.ports[{at}]"), port)));
    faults
}

fn external_ip_faults(object: &Json) -> FieldFaults {
    let addresses = object.texts("/spec/externalIPs").enumerate();
    let of = |(at, address): (usize, &str)| {
        let field = format!("spec.externalIPs[{at}]");
        ip_faults(address, &field).or_else(|| special_address(address, &field))
    };
    addresses.filter_map(of).collect()
}
