//! The addresses and the node ports of Services: who has which, and who gets one.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::ops::RangeInclusive;

use pintle_json::{Json, json};

use crate::kinds::Cluster;
use crate::object::metadata;
use crate::validate::{FieldFault, FieldFaults};

const NODE_PORTS: RangeInclusive<i64> = 30000..=32767;
const ALLOCATED: &str = "provided port is already allocated";
const OUT_OF_RANGE: &str = "provided port is not in the valid range. The range of valid ports is 30000-32767";

/// The addresses of a Service; a headless one has none.
fn addresses(service: &Json) -> impl Iterator<Item = IpAddr> {
    let first = service.at("/spec/clusterIP").into_iter();
    first.chain(service.list("/spec/clusterIPs")).filter_map(|address| address.as_str()?.parse().ok())
}

fn node_ports(service: &Json) -> impl Iterator<Item = i64> {
    service.list("/spec/ports").filter_map(|port| port.integer("/nodePort")).filter(|number| *number != 0)
}

/// The port at which the nodes tell a load balancer whether they have endpoints.
fn health_check_port(service: &Json) -> Option<i64> {
    service.integer("/spec/healthCheckNodePort").filter(|number| *number != 0)
}

/// Whether the nodes tell a load balancer whether they have endpoints.
pub(super) fn needs_health_check(spec: &Json) -> bool {
    spec.text("/type") == "LoadBalancer" && spec.text("/externalTrafficPolicy") == "Local"
}

/// The addresses and the ports of the nodes: no two Services share one. A port may serve several protocols of one Service.
pub(super) fn claims(service: &Json) -> Vec<String> {
    let addresses: BTreeSet<IpAddr> = addresses(service).collect();
    let ports: BTreeSet<i64> = node_ports(service).chain(health_check_port(service)).collect();
    addresses.into_iter().map(address_claim).chain(ports.into_iter().map(node_port_claim)).collect()
}

fn address_claim(address: IpAddr) -> String {
    format!("address {address}")
}

fn node_port_claim(port: i64) -> String {
    format!("node port {port}")
}

/// The first address or port that the Service asks for, does not have yet, and cannot get. As on a real server, one that is made
/// anew under a name that is there already is told of its address before its name.
pub(super) fn taken(cluster: &dyn Cluster, object: &Json, old: Option<&Json>) -> Option<FieldFault> {
    let own: BTreeSet<IpAddr> = old.into_iter().flat_map(addresses).collect();
    let is_claimed = |claim: String| cluster.holder(&claim).is_some();
    if let Some(address) =
        addresses(object).find(|address| !own.contains(address) && is_claimed(address_claim(*address)))
    {
        let why = format!("failed to allocate IP {address}: provided IP is already allocated");
        return Some(FieldFault::invalid("spec.clusterIPs", &json!([address.to_string()]), why));
    }
    let own: BTreeSet<i64> = old.into_iter().flat_map(node_ports).collect();
    object.list("/spec/ports").enumerate().find_map(|(at, port)| {
        let number = port.integer("/nodePort").filter(|number| *number != 0)?;
        (!own.contains(&number) && is_claimed(node_port_claim(number)))
            .then(|| FieldFault::invalid(format!("spec.ports[{at}].nodePort"), &number.into(), ALLOCATED))
    })
}

/// Gives the Service the addresses and ports that it lacks; fails if there are no more.
pub(super) fn allocate(cluster: &dyn Cluster, object: &mut Json) -> Result<(), String> {
    let kind = object.text("/spec/type").to_owned();
    if kind == "ExternalName" {
        return Ok(());
    }
    let me = format!("{}/{}", metadata::namespace(object), metadata::name(object));
    let is_free = |claim: String| cluster.holder(&claim).is_none_or(|holder| *holder == *me);
    let Some(spec) = object.member("spec") else { return Ok(()) };
    let mut address = spec.text("/clusterIP").to_owned();
    // A list without its first is refused later.
    if address.is_empty() && !spec.has("/clusterIPs/0") {
        // The first is that of the Service `kubernetes`, which comes back when it is deleted.
        let free = (2..=254).map(|last| Ipv4Addr::new(10, 0, 0, last)).find(|ip| is_free(address_claim((*ip).into())));
        address = free.ok_or("failed to allocate a serviceIP: range is full")?.to_string();
    }
    if !address.is_empty() {
        spec.set("clusterIP", address.clone());
        spec.set_default("clusterIPs", json!([address]));
    }
    let headless = address == "None" && spec.get("selector").is_none_or(Json::is_empty);
    if headless && !spec.has("/ipFamilyPolicy") && spec.get("ipFamilies").is_none_or(Json::is_empty) {
        spec.set("ipFamilies", json!(["IPv4", "IPv6"]));
        spec.set("ipFamilyPolicy", "RequireDualStack");
    }
    if spec.get("ipFamilies").is_none_or(Json::is_empty) {
        spec.set("ipFamilies", json!(["IPv4"]));
    }
    spec.set_default("ipFamilyPolicy", "SingleStack");
    let health_check = needs_health_check(spec);
    let asked: BTreeSet<i64> = node_ports(&json!({ "spec": { "ports": spec["ports"] } }))
        .chain(health_check_port(&json!({ "spec": { "healthCheckNodePort": spec["healthCheckNodePort"] } })))
        .collect();
    let mut free = NODE_PORTS.filter(|number| !asked.contains(number) && is_free(node_port_claim(*number)));
    let wants_ports = kind == "NodePort"
        || (kind == "LoadBalancer" && spec.get("allocateLoadBalancerNodePorts") != Some(&Json::Bool(false)));
    if wants_ports {
        for port in spec.items_mut("ports").filter(|port| port.integer("/nodePort").unwrap_or(0) == 0) {
            let number = free.next().ok_or("failed to allocate a nodePort: range is full")?;
            port.set("nodePort", number);
        }
    }
    if health_check {
        match spec.integer("/healthCheckNodePort").unwrap_or(0) {
            0 => {
                let number = free.next().ok_or("failed to allocate a HealthCheck NodePort 0: range is full")?;
                spec.set("healthCheckNodePort", number);
            }
            asked => check_health_check_port(asked, is_free(node_port_claim(asked)))?,
        }
    }
    Ok(())
}

fn check_health_check_port(port: i64, is_free: bool) -> Result<(), String> {
    let why = match NODE_PORTS.contains(&port) {
        false => OUT_OF_RANGE,
        true if !is_free => ALLOCATED,
        true => return Ok(()),
    };
    Err(format!("failed to allocate requested HealthCheck NodePort {port}: {why}"))
}

/// What cannot be allocated: told only of Services that are valid otherwise.
pub(super) fn faults(object: &Json) -> FieldFaults {
    let mut faults = FieldFaults::default();
    let kind = object.text("/spec/type");
    if kind == "ExternalName" {
        return faults;
    }
    for (at, family) in object.list("/spec/ipFamilies").enumerate() {
        let headless = object.text("/spec/clusterIP") == "None" && !object.has("/spec/selector");
        if family != "IPv4" && !headless {
            faults.push(FieldFault::invalid(
                format!("spec.ipFamilies[{at}]"),
                family,
                "not configured on this cluster",
            ));
        }
    }
    let policy = object.text("/spec/ipFamilyPolicy");
    let selectorless =
        object.text("/spec/clusterIP") == "None" && object.at("/spec/selector").is_none_or(Json::is_empty);
    if policy == "RequireDualStack" && !selectorless {
        let why = "this cluster is not configured for dual-stack services";
        faults.push(FieldFault::invalid_text("spec.ipFamilyPolicy", policy, why));
    }
    if let Ok(address) = object.text("/spec/clusterIP").parse::<Ipv4Addr>()
        && address.octets()[..3] != [10, 0, 0]
    {
        let why = format!("failed to allocate IP {address}: the provided network does not match the current range");
        faults.push(FieldFault::invalid("spec.clusterIPs", &json!([address.to_string()]), why));
    }
    for (at, port) in object.list("/spec/ports").enumerate() {
        if let Some(number) = port.integer("/nodePort").filter(|number| *number != 0 && !NODE_PORTS.contains(number)) {
            faults.push(FieldFault::invalid(format!("spec.ports[{at}].nodePort"), &number.into(), OUT_OF_RANGE));
        }
    }
    faults
}
