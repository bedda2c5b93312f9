//! Ingress, NetworkPolicy, EndpointSlice.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde_json::{Value, json};

use super::check::{Check, immutable};
use super::{Context, Strategy, warnings};
use crate::object::{default, differ_outside, doubles, has, is_empty, items, list, member, text_at};
use crate::request::Part;
use crate::validate::{FieldFault, NameRule};

const PATH_TYPES: &[&str] = &["Exact", "ImplementationSpecific", "Prefix"];
const PROTOCOLS: &[&str] = &["SCTP", "TCP", "UDP"];

/// `networking.k8s.io/v1` Ingress.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ingress;

impl Strategy for Ingress {
    fn warnings(&self, object: &Value, old: Option<&Value>, part: Part) -> Vec<String> {
        const KEY: &str = "kubernetes.io/ingress.class";
        let annotated = warnings::is_annotated(object, KEY) && !has(object, "/spec/ingressClassName");
        match old {
            None if annotated => {
                vec![format!("annotation {KEY:?} is deprecated, please use 'spec.ingressClassName' instead")]
            }
            Some(_) if part != Part::Object => warnings::load_balancer(object),
            _ => Vec::new(),
        }
    }

    fn defaults(&self, object: &mut Value) {
        member(object, "spec");
        if let Some(status) = member(object, "status") {
            member(status, "loadBalancer");
        }
    }

    fn prepare_for_create(&self, _: &Context<'_>, object: &mut Value) {
        crate::object::set(object, "status", json!({"loadBalancer": {}}));
    }

    fn validate_update(&self, new: &Value, _: &Value, part: Part) -> Vec<FieldFault> {
        if part != Part::Object { Vec::new() } else { self.validate_create(new) }
    }

    fn validate_create(&self, object: &Value) -> Vec<FieldFault> {
        let empty = list(object, "/spec/rules").next().is_none() && !has(object, "/spec/defaultBackend");
        Check::of(object)
            .refuse(empty, || {
                FieldFault::invalid("spec", &Value::Null, "either `defaultBackend` or `rules` must be specified")
            })
            .inside("spec.defaultBackend", backend)
            .each("spec.rules", |rule, _| {
                let empty = has(rule.object(), "/http") && list(rule.object(), "/http/paths").next().is_none();
                let rule = rule.refuse(empty, || FieldFault::required("http.paths", ""));
                let host = text_at(rule.object(), "/host").to_owned();
                let rule = rule.refuse(host.parse::<IpAddr>().is_ok(), || {
                    FieldFault::invalid_text("host", &host, "must be a DNS name, not an IP address")
                });
                rule.name("host", NameRule::Subdomain).each("http.paths", |path, _| {
                    let text = text_at(path.object(), "/path");
                    let exact = text_at(path.object(), "/pathType") != "ImplementationSpecific";
                    let relative = !text.starts_with('/') && (exact || !text.is_empty());
                    let known = PATH_TYPES.contains(&text_at(path.object(), "/pathType"));
                    path.required_because("pathType", "pathType must be specified")
                        .one_of("pathType", PATH_TYPES)
                        .refuse(known && relative, || {
                            FieldFault::invalid_text("path", text, "must be an absolute path")
                        })
                        .inside("backend", backend)
                })
            })
            .done()
    }
}

fn backend(check: Check<'_>) -> Check<'_> {
    let object = check.object();
    let neither = !has(object, "/service") && !has(object, "/resource");
    let portless = has(object, "/service")
        && text_at(object, "/service/port/name").is_empty()
        && object.pointer("/service/port/number").and_then(Value::as_i64).unwrap_or(0) == 0;
    let why = if neither { "service or resource backend is required" } else { "port name or number is required" };
    check.refuse(neither || portless, || FieldFault::required("", why))
}

/// `networking.k8s.io/v1` IngressClass.
#[derive(Clone, Copy, Debug)]
pub(super) struct IngressClass;

impl Strategy for IngressClass {
    fn validate_create(&self, object: &Value) -> Vec<FieldFault> {
        Check::of(object).required("spec.controller").done()
    }

    fn validate_update(&self, new: &Value, old: &Value, _: Part) -> Vec<FieldFault> {
        let mut faults = self.validate_create(new);
        faults.extend(immutable(new, old, &["spec.controller"]));
        faults
    }
}

/// `networking.k8s.io/v1` NetworkPolicy.
#[derive(Clone, Copy, Debug)]
pub(super) struct NetworkPolicy;

impl Strategy for NetworkPolicy {
    fn warnings(&self, object: &Value, _: Option<&Value>, _: Part) -> Vec<String> {
        let mut found = Vec::new();
        for (rules, peers) in [("ingress", "from"), ("egress", "to")] {
            for (at, rule) in list(object, &format!("/spec/{rules}")).enumerate() {
                for (nth, peer) in list(rule, &format!("/{peers}")).enumerate() {
                    let path = format!("spec.{rules}[{at}].{peers}[{nth}].ipBlock");
                    found.extend(warnings::block(text_at(peer, "/ipBlock/cidr"), &format!("{path}.cidr")));
                    found.extend(warnings::blocks(peer, "/ipBlock/except", &format!("{path}.except")));
                }
            }
        }
        found
    }

    fn defaults(&self, object: &mut Value) {
        let Some(spec) = member(object, "spec") else { return };
        member(spec, "podSelector");
        for key in ["ingress", "egress"] {
            for rule in items(spec, key) {
                items(rule, "ports").for_each(|port| default(port, "protocol", "TCP"));
            }
        }
        if spec.get("policyTypes").is_none_or(is_empty) {
            let egress = list(spec, "/egress").next().is_some();
            let types = if egress { json!(["Ingress", "Egress"]) } else { json!(["Ingress"]) };
            crate::object::set(spec, "policyTypes", types);
        }
    }

    fn validate_create(&self, object: &Value) -> Vec<FieldFault> {
        let selector = object.pointer("/spec/podSelector").unwrap_or(&Value::Null);
        Check::of(object)
            .also(super::apps::selector_faults(selector, "spec.podSelector"))
            .each("spec.ingress", |rule, _| {
                rule.each("ports", |port, _| port_faults(port)).each("from", |peer, _| peer_faults(peer))
            })
            .each("spec.egress", |rule, _| {
                rule.each("ports", |port, _| port_faults(port)).each("to", |peer, _| peer_faults(peer))
            })
            .each("spec.policyTypes", |kind, _| {
                let value = kind.object();
                let known = ["Ingress", "Egress"];
                let wrong = !value.as_str().is_some_and(|text| known.contains(&text));
                kind.refuse(wrong, || FieldFault::unsupported("", value, &known))
            })
            .done()
    }
}

fn port_faults(port: Check<'_>) -> Check<'_> {
    let number = port.object().get("port").and_then(Value::as_i64);
    let wrong = number.is_some_and(|number| !(1..=65535).contains(&number));
    let why = "must be between 1 and 65535, inclusive";
    port.one_of("protocol", PROTOCOLS).refuse(wrong, || FieldFault::invalid("port", &number.unwrap_or(0).into(), why))
}

fn peer_faults(peer: Check<'_>) -> Check<'_> {
    let nobody = is_empty(peer.object());
    let range = text_at(peer.object(), "/ipBlock/cidr");
    let block = has(peer.object(), "/ipBlock");
    peer.refuse(nobody, || FieldFault::required("", "must specify a peer"))
        .refuse(block && range.is_empty(), || FieldFault::required("ipBlock.cidr", ""))
        .refuse(!range.is_empty() && !super::cluster::is_cidr(range), || {
            let why = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
            FieldFault::invalid_text("ipBlock.cidr", range, why)
        })
}

const CONTROLLERS: &[&str] = &["endpointslice-controller.k8s.io", "endpointslicemirroring-controller.k8s.io"];

/// `discovery.k8s.io/v1` EndpointSlice.
#[derive(Clone, Copy, Debug)]
pub(super) struct EndpointSlice;

impl Strategy for EndpointSlice {
    fn warnings(&self, object: &Value, old: Option<&Value>, _: Part) -> Vec<String> {
        let mut found = Vec::new();
        if old.is_none() && text_at(object, "/addressType") == "FQDN" {
            found.push("spec.addressType: FQDN endpoints are deprecated".into());
        }
        let labels = object.pointer("/metadata/labels");
        let controller = labels.and_then(|labels| labels.get("endpointslice.kubernetes.io/managed-by"));
        // These two put right what they are given.
        if controller.is_some_and(|by| CONTROLLERS.iter().any(|controller| by == controller)) {
            return found;
        }
        for (at, endpoint) in list(object, "/endpoints").enumerate() {
            found.extend(warnings::ips(endpoint, "/addresses", &format!("endpoints[{at}].addresses")));
        }
        found
    }

    fn defaults(&self, object: &mut Value) {
        for endpoint in items(object, "endpoints") {
            member(endpoint, "conditions");
        }
        for port in items(object, "ports") {
            default(port, "name", "");
            default(port, "protocol", "TCP");
        }
    }

    fn to_stored(&self, mut object: Value) -> Value {
        for key in ["endpoints", "ports"] {
            if object.get(key).is_none_or(is_empty) {
                crate::object::set(&mut object, key, Value::Null);
            }
        }
        object
    }

    fn changes_generation(&self, new: &Value, old: &Value) -> bool {
        let labels = |object: &Value| object.pointer("/metadata/labels").filter(|labels| !is_empty(labels)).cloned();
        let part = |object: &Value, key: &str| object.get(key).filter(|part| !is_empty(part)).cloned();
        ["endpoints", "ports"].iter().any(|key| part(new, key) != part(old, key))
            || differ_outside(new, old, &["apiVersion", "kind", "metadata", "endpoints", "ports"])
            || labels(new) != labels(old)
    }

    fn validate_create(&self, object: &Value) -> Vec<FieldFault> {
        let kind = text_at(object, "/addressType").to_owned();
        let names: Vec<&str> = list(object, "/ports").map(|port| text_at(port, "/name")).collect();
        let doubles = doubles(names.iter());
        let mut addresses = Vec::new();
        for (at, endpoint) in list(object, "/endpoints").enumerate() {
            let all = list(endpoint, "/addresses").filter_map(Value::as_str).enumerate();
            for (nth, address) in all.filter(|(_, address)| !is_of_this_server(object, address)) {
                addresses.extend(address_faults(&kind, address, &format!("endpoints[{at}].addresses"), nth));
            }
        }
        Check::of(object)
            .required("addressType")
            .one_of("addressType", &["FQDN", "IPv4", "IPv6"])
            .each("endpoints", |endpoint, _| endpoint.required_because("addresses", "must contain at least 1 address"))
            .also(addresses)
            .each("ports", |port, at| {
                port.refuse(doubles[at], || FieldFault::duplicate("name", &names[at].into()))
                    .one_of("protocol", PROTOCOLS)
            })
            .done()
    }

    fn validate_update(&self, new: &Value, old: &Value, _: Part) -> Vec<FieldFault> {
        let mut faults = self.validate_create(new);
        faults.extend(immutable(new, old, &["addressType"]));
        faults
    }
}

fn address_faults(kind: &str, address: &str, path: &str, at: usize) -> Vec<FieldFault> {
    let mut faults = Vec::new();
    match kind {
        "IPv4" if address.parse::<Ipv4Addr>().is_err() => {
            faults.push(FieldFault::invalid_text(path, address, "must be an IPv4 address"));
        }
        "IPv6" if address.parse::<Ipv6Addr>().is_err() => {
            faults.push(FieldFault::invalid_text(path, address, "must be an IPv6 address"));
        }
        _ => {}
    }
    if matches!(kind, "IPv4" | "IPv6") {
        faults.extend(special_address(address, &format!("{path}[{at}]")));
    }
    faults
}

/// Whether the object tells with the address where this very server is: it listens on the loopback interface alone.
pub(super) fn is_of_this_server(object: &Value, address: &str) -> bool {
    text_at(object, "/metadata/namespace") == "default"
        && text_at(object, "/metadata/name") == "kubernetes"
        && address.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// Addresses that no endpoint has.
pub(super) fn special_address(address: &str, path: &str) -> Option<FieldFault> {
    let ip: IpAddr = address.parse().ok()?;
    let link_local = match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    };
    let why = match () {
        () if ip.is_unspecified() => "may not be unspecified (0.0.0.0 or ::)",
        () if ip.is_loopback() => "may not be in the loopback range (127.0.0.0/8, ::1/128)",
        () if link_local => "may not be in the link-local range (169.254.0.0/16, fe80::/10)",
        () => return None,
    };
    Some(FieldFault::invalid_text(path, address, why))
}
