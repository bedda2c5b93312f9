//! Table cells of services, endpoints and ingresses.

use serde_json::Value;

use super::{labels, some};
use crate::object::{integer_at, list, text_at};

const SHOWN: usize = 3;

pub(super) fn service(object: &Value, age: Value) -> Vec<Value> {
    let kind = text_at(object, "/spec/type");
    let address = match text_at(object, "/spec/clusterIP") {
        "" => "<none>",
        address => address,
    };
    let ports: Vec<String> = list(object, "/spec/ports")
        .map(|port| {
            let (number, protocol) = (integer_at(port, "/port").unwrap_or(0), text_at(port, "/protocol"));
            match integer_at(port, "/nodePort").unwrap_or(0) {
                0 => format!("{number}/{protocol}"),
                node => format!("{number}:{node}/{protocol}"),
            }
        })
        .collect();
    let ports = if ports.is_empty() { "<none>".into() } else { ports.join(",") };
    vec![
        text_at(object, "/metadata/name").into(),
        kind.into(),
        address.into(),
        external(object, kind).into(),
        ports.into(),
        age,
        labels(object.pointer("/spec/selector")).into(),
    ]
}

fn external(object: &Value, kind: &str) -> String {
    let given = list(object, "/spec/externalIPs").filter_map(Value::as_str).collect::<Vec<_>>().join(",");
    let none_if_empty = |text: String| if text.is_empty() { "<none>".into() } else { text };
    match kind {
        "ExternalName" => text_at(object, "/spec/externalName").into(),
        "LoadBalancer" => {
            let balanced = ingress_addresses(object);
            match (balanced.is_empty(), given.is_empty()) {
                (true, true) => "<pending>".into(),
                (true, false) => given,
                (false, true) => balanced,
                (false, false) => format!("{balanced},{given}"),
            }
        }
        _ => none_if_empty(given),
    }
}

fn ingress_addresses(object: &Value) -> String {
    let address = |ingress: &Value| match text_at(ingress, "/ip") {
        "" => text_at(ingress, "/hostname").to_owned(),
        ip => ip.to_owned(),
    };
    list(object, "/status/loadBalancer/ingress").map(address).collect::<Vec<_>>().join(",")
}

pub(super) fn endpoints(object: &Value) -> Value {
    let mut texts = Vec::new();
    for subset in list(object, "/subsets") {
        let ports: Vec<_> = list(subset, "/ports").collect();
        for address in list(subset, "/addresses") {
            let ip = text_at(address, "/ip");
            match ports.is_empty() {
                true => texts.push(ip.to_owned()),
                false => {
                    texts.extend(ports.iter().map(|port| format!("{ip}:{}", integer_at(port, "/port").unwrap_or(0))))
                }
            }
        }
    }
    let count = texts.len();
    texts.truncate(SHOWN);
    some(&texts, count).into()
}

pub(super) fn endpoint_slice(object: &Value, age: Value) -> Vec<Value> {
    let unset = |text: String| if text == "<none>" { "<unset>".into() } else { text };
    let mut ports: Vec<String> = list(object, "/ports")
        .map(|port| match (text_at(port, "/name"), integer_at(port, "/port")) {
            (_, Some(number)) => number.to_string(),
            ("", None) => "*".into(),
            (name, None) => name.into(),
        })
        .collect();
    let mut addresses: Vec<String> = list(object, "/endpoints")
        .flat_map(|endpoint| {
            list(endpoint, "/addresses").filter_map(Value::as_str).map(Into::into).collect::<Vec<String>>()
        })
        .collect();
    let (port_count, address_count) = (ports.len(), addresses.len());
    ports.truncate(SHOWN);
    addresses.truncate(SHOWN);
    vec![
        text_at(object, "/metadata/name").into(),
        text_at(object, "/addressType").into(),
        unset(some(&ports, port_count)).into(),
        unset(some(&addresses, address_count)).into(),
        age,
    ]
}

pub(super) fn ingress(object: &Value, age: Value) -> Vec<Value> {
    let class = match text_at(object, "/spec/ingressClassName") {
        "" => match text_at(object, "/metadata/annotations/kubernetes.io~1ingress.class") {
            "" => "<none>",
            class => class,
        },
        class => class,
    };
    let mut hosts: Vec<String> = list(object, "/spec/rules")
        .map(|rule| text_at(rule, "/host"))
        .filter(|host| !host.is_empty())
        .map(Into::into)
        .collect();
    let count = hosts.len();
    hosts.truncate(SHOWN);
    let hosts = if hosts.is_empty() { "*".into() } else { some(&hosts, count) };
    let ports = if list(object, "/spec/tls").next().is_some() { "80, 443" } else { "80" };
    vec![
        text_at(object, "/metadata/name").into(),
        class.into(),
        hosts.into(),
        ingress_addresses(object).into(),
        ports.into(),
        age,
    ]
}

pub(super) fn ingress_class(object: &Value, age: Value) -> Vec<Value> {
    let parameter = |key: &str| text_at(object, &format!("/spec/parameters/{key}"));
    let kind = match parameter("apiGroup") {
        "" => parameter("kind").to_owned(),
        group => format!("{}.{group}", parameter("kind")),
    };
    let parameters =
        if parameter("name").is_empty() { "<none>".into() } else { format!("{kind}/{}", parameter("name")) };
    vec![text_at(object, "/metadata/name").into(), text_at(object, "/spec/controller").into(), parameters.into(), age]
}
