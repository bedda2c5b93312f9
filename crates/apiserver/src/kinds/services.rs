//! Services and their addresses.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use serde_json::{Value, json};

use super::edit::{default, has, integer_at, is_empty, items, list, member, remove, set, text_at};
use super::{Context, GroupResource, Strategy};
use crate::validate::{FieldFault, NameRule};

/// `v1` Service. Addresses come from 10.0.0.0/24, node ports from 30000–32767.
#[derive(Clone, Copy, Debug)]
pub(super) struct Service;

impl Strategy for Service {
    fn defaults(&self, object: &mut Value) {
        if let Some(spec) = member(object, "spec") {
            default_if_empty(spec, "sessionAffinity", "None");
            default_if_empty(spec, "type", "ClusterIP");
            if text_at(spec, "/sessionAffinity") == "None" {
                remove(spec, "sessionAffinityConfig");
            } else if let Some(client) =
                member(spec, "sessionAffinityConfig").and_then(|config| member(config, "clientIP"))
            {
                default(client, "timeoutSeconds", 10800);
            }
            for port in items(spec, "ports") {
                default_if_empty(port, "protocol", "TCP");
                let number = port.get("port").cloned().unwrap_or_default();
                if port.get("targetPort").is_none_or(|target| is_empty(target) || target == &json!(0)) {
                    set(port, "targetPort", number);
                }
            }
            let kind = text_at(spec, "/type").to_owned();
            let external = matches!(kind.as_str(), "NodePort" | "LoadBalancer") || has(spec, "/externalIPs/0");
            if matches!(kind.as_str(), "NodePort" | "LoadBalancer") || (external && kind == "ClusterIP") {
                default_if_empty(spec, "externalTrafficPolicy", "Cluster");
            }
            if kind != "ExternalName" {
                default_if_empty(spec, "internalTrafficPolicy", "Cluster");
            }
            if kind == "LoadBalancer" {
                default(spec, "allocateLoadBalancerNodePorts", true);
            }
        }
        if let Some(balancer) = member(object, "status").and_then(|status| member(status, "loadBalancer")) {
            for ingress in items(balancer, "ingress").filter(|ingress| !text_at(ingress, "/ip").is_empty()) {
                default(ingress, "ipMode", "VIP");
            }
        }
    }

    fn prepare_for_create(&self, _: &Context<'_>, object: &mut Value) {
        set(object, "status", json!({"loadBalancer": {}}));
    }

    fn prepare_for_update(&self, _: &Context<'_>, new: &mut Value, old: &Value, subresource: Option<&str>) {
        if subresource.is_some() {
            return;
        }
        let was = text_at(old, "/spec/type").to_owned();
        let Some(spec) = member(new, "spec") else { return };
        let is = text_at(spec, "/type").to_owned();
        if was != "ExternalName" && is != "ExternalName" {
            for key in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
                let value = old.pointer(&format!("/spec/{key}")).cloned();
                if spec.get(key).is_none_or(is_empty) {
                    if let Some(value) = value {
                        set(spec, key, value);
                    }
                }
            }
            if matches!(is.as_str(), "NodePort" | "LoadBalancer") {
                for port in items(spec, "ports").filter(|port| integer_at(port, "/nodePort").unwrap_or(0) == 0) {
                    let same =
                        |known: &&Value| ["port", "protocol"].iter().all(|key| known.get(*key) == port.get(*key));
                    let known = list(old, "/spec/ports").find(same).and_then(|known| known.get("nodePort").cloned());
                    if let Some(known) = known {
                        set(port, "nodePort", known);
                    }
                }
            }
        }
        if is == "ClusterIP" && matches!(was.as_str(), "NodePort" | "LoadBalancer") {
            let before: Vec<Value> =
                list(old, "/spec/ports").filter_map(|port| port.get("nodePort").cloned()).collect();
            for port in items(spec, "ports") {
                if port.get("nodePort").is_some_and(|number| before.contains(number)) {
                    remove(port, "nodePort");
                }
            }
            if !has(spec, "/externalIPs/0") {
                remove(spec, "externalTrafficPolicy");
            }
        }
        if was == "LoadBalancer" && is != "LoadBalancer" {
            remove(spec, "allocateLoadBalancerNodePorts");
            remove(spec, "loadBalancerClass");
        }
        if is == "ExternalName" {
            for key in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"] {
                if spec.get(key) == old.pointer(&format!("/spec/{key}")) {
                    remove(spec, key);
                }
            }
            if text_at(spec, "/externalTrafficPolicy") == text_at(old, "/spec/externalTrafficPolicy") {
                remove(spec, "externalTrafficPolicy");
            }
        }
    }

    fn admit(
        &self,
        context: &Context<'_>,
        object: &mut Value,
        _: Option<&Value>,
        subresource: Option<&str>,
    ) -> Result<(), Box<pintle_meta::Status>> {
        if subresource.is_none() {
            allocate(context, object);
        }
        Ok(())
    }

    fn validate_create(&self, object: &Value) -> Vec<FieldFault> {
        faults(object)
    }

    fn validate_update(&self, new: &Value, old: &Value, subresource: Option<&str>) -> Vec<FieldFault> {
        if subresource == Some("status") {
            return Vec::new();
        }
        let mut found = faults(new);
        let kept = text_at(old, "/spec/type") != "ExternalName" && text_at(new, "/spec/type") != "ExternalName";
        let (was, is) = (text_at(old, "/spec/clusterIP"), text_at(new, "/spec/clusterIP"));
        if kept && !was.is_empty() && was != is {
            let value = new.pointer("/spec/clusterIPs").cloned().unwrap_or_else(|| json!([is]));
            found.push(FieldFault::invalid("spec.clusterIPs[0]", &value, "may not change once set"));
        }
        found
    }

    fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        let unchanged = old.is_some_and(|old| old.get("spec") == object.get("spec"));
        match has(object, "/spec/externalIPs/0") && !unchanged {
            true => vec!["spec.externalIPs is deprecated and may no longer be implemented in some clusters".into()],
            false => Vec::new(),
        }
    }

    fn name_rule(&self) -> NameRule {
        NameRule::Label
    }

    fn field_labels(&self) -> Option<Vec<&str>> {
        Some(vec!["spec.clusterIP", "spec.type"])
    }
}

fn default_if_empty(object: &mut Value, key: &str, value: &str) {
    if object.get(key).is_none_or(is_empty) {
        set(object, key, value.into());
    }
}

/// Gives the Service the addresses and ports that it lacks.
fn allocate(context: &Context<'_>, object: &mut Value) {
    let kind = text_at(object, "/spec/type").to_owned();
    if kind == "ExternalName" {
        return;
    }
    let me = (text_at(object, "/metadata/namespace").to_owned(), text_at(object, "/metadata/name").to_owned());
    let services = context.cluster.objects(&GroupResource::new("", "services"), None);
    let others: Vec<_> = services
        .iter()
        .filter(|other| (text_at(other, "/metadata/namespace"), text_at(other, "/metadata/name")) != (&me.0, &me.1))
        .collect();
    let Some(spec) = member(object, "spec") else { return };
    let first = list(spec, "/clusterIPs").next().and_then(Value::as_str).unwrap_or_default().to_owned();
    let mut address = text_at(spec, "/clusterIP").to_owned();
    if address.is_empty() {
        address = first;
    }
    if address.is_empty() {
        let taken: BTreeSet<&str> = others.iter().map(|other| text_at(other, "/spec/clusterIP")).collect();
        let free =
            (1..=254).map(|last| Ipv4Addr::new(10, 0, 0, last).to_string()).find(|ip| !taken.contains(ip.as_str()));
        address = free.unwrap_or_default();
    }
    if !address.is_empty() {
        set(spec, "clusterIP", address.clone().into());
        default(spec, "clusterIPs", json!([address]));
    }
    let headless = address == "None" && spec.get("selector").is_none_or(is_empty);
    if headless && !has(spec, "/ipFamilyPolicy") && spec.get("ipFamilies").is_none_or(is_empty) {
        set(spec, "ipFamilies", json!(["IPv4", "IPv6"]));
        set(spec, "ipFamilyPolicy", "RequireDualStack".into());
    }
    if spec.get("ipFamilies").is_none_or(is_empty) {
        set(spec, "ipFamilies", json!(["IPv4"]));
    }
    default(spec, "ipFamilyPolicy", "SingleStack");
    let wants_ports = kind == "NodePort"
        || (kind == "LoadBalancer" && spec.get("allocateLoadBalancerNodePorts") != Some(&Value::Bool(false)));
    if wants_ports {
        let ports = |service: &Value| {
            list(service, "/spec/ports").filter_map(|port| integer_at(port, "/nodePort")).collect::<Vec<_>>()
        };
        let mut taken: BTreeSet<i64> = others.iter().flat_map(|other| ports(other)).collect();
        taken.extend(list(spec, "/ports").filter_map(|port| integer_at(port, "/nodePort")));
        for port in items(spec, "ports").filter(|port| integer_at(port, "/nodePort").unwrap_or(0) == 0) {
            if let Some(free) = (30000..=32767).find(|number| !taken.contains(number)) {
                taken.insert(free);
                set(port, "nodePort", free.into());
            }
        }
    }
}

fn faults(object: &Value) -> Vec<FieldFault> {
    let mut faults = Vec::new();
    let kind = text_at(object, "/spec/type");
    let headless = text_at(object, "/spec/clusterIP") == "None";
    let ports: Vec<_> = list(object, "/spec/ports").collect();
    if ports.is_empty() && !headless && kind != "ExternalName" {
        faults.push(FieldFault::required("spec.ports", ""));
    }
    if !["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"].contains(&kind) {
        let known = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
        faults.push(FieldFault::unsupported("spec.type", &kind.into(), &known));
    }
    for (at, port) in ports.iter().enumerate() {
        let path = format!("spec.ports[{at}]");
        if ports.len() > 1 && text_at(port, "/name").is_empty() {
            faults.push(FieldFault::required(format!("{path}.name"), ""));
        }
        let number = integer_at(port, "/port").unwrap_or(0);
        if !(1..=65535).contains(&number) {
            let why = "must be between 1 and 65535, inclusive";
            faults.push(FieldFault::invalid(format!("{path}.port"), &number.into(), why));
        }
    }
    faults
}
