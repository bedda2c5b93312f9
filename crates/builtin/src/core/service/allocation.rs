//! Allocates cluster IPs and node ports for Services.

use std::collections::{BTreeSet, HashMap};
use std::net::{IpAddr, Ipv4Addr};
use std::ops::RangeInclusive;

use pintle_apimachinery::cluster::Cluster;
use pintle_apimachinery::failure::{Failure, Outcome};
use pintle_apimachinery::object::metadata;
use pintle_apimachinery::validate::{FieldError, FieldErrors};
use pintle_json::{Json, json};

const NODE_PORTS: RangeInclusive<i64> = 30000..=32767;
const ALLOCATED: &str = "provided port is already allocated";
const OUT_OF_RANGE: &str = "provided port is not in the valid range. The range of valid ports is 30000-32767";

/// Returns a Service's cluster IPs. A headless Service has no cluster IPs.
fn addresses(service: &Json) -> impl Iterator<Item = IpAddr> {
    let first = service.at("/spec/clusterIP").into_iter();
    first.chain(service.list("/spec/clusterIPs")).filter_map(|address| address.as_str()?.parse().ok())
}

fn node_ports(service: &Json) -> impl Iterator<Item = i64> {
    service.list("/spec/ports").filter_map(|port| port.integer("/nodePort")).filter(|number| *number != 0)
}

fn health_check_port(service: &Json) -> Option<i64> {
    service.integer("/spec/healthCheckNodePort").filter(|number| *number != 0)
}

pub(super) fn needs_health_check(spec: &Json) -> bool {
    spec.text("/type") == "LoadBalancer" && spec.text("/externalTrafficPolicy") == "Local"
}

/// Returns the cluster IPs and node ports that the Service reserves. The store rejects a second Service with the same
/// address or port. Node ports that do not apply to the type of the Service are omitted. Ports of the same Service can
/// share a node port if their protocols differ.
pub(super) fn claims(service: &Json) -> Vec<String> {
    if service.text("/spec/type") == "ExternalName" {
        return Vec::new();
    }
    let addresses: BTreeSet<IpAddr> = addresses(service).collect();
    let node_ports = node_ports(service).filter(|_| wants_node_ports(service));
    let health_check = health_check_port(service).filter(|_| needs_health_check(&service["spec"]));
    let ports: BTreeSet<i64> = node_ports.chain(health_check).collect();
    addresses.into_iter().map(address_claim).chain(ports.into_iter().map(node_port_claim)).collect()
}

fn address_claim(address: IpAddr) -> String {
    format!("address {address}")
}

fn node_port_claim(port: i64) -> String {
    format!("node port {port}")
}

/// Allocates missing addresses and ports, and checks requested addresses and ports. Fails at the first address or port
/// that cannot be allocated.
pub(super) fn allocate(cluster: &dyn Cluster, object: &mut Json, old: Option<&Json>) -> Outcome<()> {
    if object.text("/spec/type") == "ExternalName" {
        return Ok(());
    }
    let old = old.filter(|old| old.text("/spec/type") != "ExternalName");
    if old.is_none() {
        allocate_address(cluster, object)?;
    }
    if wants_node_ports(object) {
        allocate_node_ports(cluster, object, old)?;
    }
    if needs_health_check(&object["spec"]) {
        allocate_health_check_port(cluster, object)?;
    }
    Ok(())
}

fn allocate_health_check_port(cluster: &dyn Cluster, object: &mut Json) -> Outcome<()> {
    let own_key = format!("{}/{}", metadata::namespace(object), metadata::name(object));
    let is_free = |port: i64| cluster.holder(&node_port_claim(port)).is_none_or(|holder| *holder == *own_key);
    // The health check port must differ from the Service's node ports, because kube-apiserver allocates the node ports
    // first.
    let own: BTreeSet<i64> = node_ports(object).collect();
    if let Some(port) = health_check_port(object) {
        let why = match NODE_PORTS.contains(&port) {
            false => OUT_OF_RANGE,
            true if own.contains(&port) || !is_free(port) => ALLOCATED,
            true => return Ok(()),
        };
        return Err(Failure::internal(format!("failed to allocate requested HealthCheck NodePort {port}: {why}")));
    }
    let mut free = NODE_PORTS.filter(|port| !own.contains(port) && is_free(*port));
    let port =
        free.next().ok_or_else(|| Failure::internal("failed to allocate a HealthCheck NodePort 0: range is full"))?;
    if let Some(spec) = object.member("spec") {
        spec.set("healthCheckNodePort", port);
    }
    Ok(())
}

fn refused(service: &Json, error: FieldError) -> Failure {
    Failure::invalid_named("", "Service", metadata::name(service), FieldErrors::from([error]))
}

fn allocate_address(cluster: &dyn Cluster, object: &mut Json) -> Outcome<()> {
    let own_key = format!("{}/{}", metadata::namespace(object), metadata::name(object));
    let is_free = |claim: String| cluster.holder(&claim).is_none_or(|holder| *holder == *own_key);
    match object.text("/spec/clusterIP") {
        "None" => Ok(()),
        "" => {
            // 10.0.0.1 is always reserved for the Service `kubernetes`, because the server re-creates this Service
            // after a deletion.
            let mut all = (2..=254).map(|last| Ipv4Addr::new(10, 0, 0, last));
            let free = all.find(|ip| is_free(address_claim((*ip).into())));
            let free =
                free.ok_or_else(|| Failure::internal("failed to allocate a serviceIP: range is full"))?.to_string();
            if let Some(spec) = object.member("spec") {
                spec.set("clusterIPs", json!([free]));
                spec.set("clusterIP", free);
            }
            Ok(())
        }
        address => {
            let Ok(address) = address.parse::<IpAddr>() else { return Ok(()) };
            let why = match address {
                IpAddr::V4(address) if !is_in_range(address) => "the provided network does not match the current range",
                // A client that creates a Service twice also gets this error, because kube-apiserver allocates
                // addresses before it checks the name.
                _ if cluster.holder(&address_claim(address)).is_some() => "provided IP is already allocated",
                _ => return Ok(()),
            };
            let why = format!("failed to allocate IP {address}: {why}");
            Err(refused(object, FieldError::invalid("spec.clusterIPs", &object["spec"]["clusterIPs"], why)))
        }
    }
}

/// Returns `true` if the address is in the Service range. The first and last addresses of 10.0.0.0/24 are reserved.
fn is_in_range(address: Ipv4Addr) -> bool {
    matches!(address.octets(), [10, 0, 0, 1..=254])
}

fn wants_node_ports(object: &Json) -> bool {
    matches!(object.text("/spec/type"), "NodePort" | "LoadBalancer")
}

fn allocate_node_ports(cluster: &dyn Cluster, object: &mut Json, old: Option<&Json>) -> Outcome<()> {
    let own_key = format!("{}/{}", metadata::namespace(object), metadata::name(object));
    let own: BTreeSet<i64> = old.into_iter().flat_map(node_ports).collect();
    let requested: BTreeSet<i64> = node_ports(object).chain(health_check_port(object)).collect();
    let mut taken = HashMap::new();
    for (at, port) in object.list("/spec/ports").enumerate() {
        let Some(number) = port.integer("/nodePort").filter(|number| *number != 0 && !own.contains(number)) else {
            continue;
        };
        let why = match () {
            () if !NODE_PORTS.contains(&number) => OUT_OF_RANGE,
            () if cluster.holder(&node_port_claim(number)).is_some() => ALLOCATED,
            // Two ports of a Service can share a node port only if they have the same number but different protocols.
            () if old.is_none() && *taken.entry(number).or_insert(port.integer("/port")) != port.integer("/port") => {
                ALLOCATED
            }
            () => continue,
        };
        return Err(refused(object, FieldError::invalid(format!("spec.ports[{at}].nodePort"), &number.into(), why)));
    }
    let by_hand = object.at("/spec/allocateLoadBalancerNodePorts") == Some(&Json::Bool(false));
    if object.text("/spec/type") == "LoadBalancer" && by_hand {
        return Ok(());
    }
    let is_free = |claim: String| cluster.holder(&claim).is_none_or(|holder| *holder == *own_key);
    let mut free = NODE_PORTS.filter(|number| !requested.contains(number) && is_free(node_port_claim(*number)));
    let Some(spec) = object.member("spec") else { return Ok(()) };
    let number = |port: &Json| port.integer("/nodePort").filter(|number| *number != 0);
    let mut shared: HashMap<Option<i64>, i64> = HashMap::new();
    if old.is_none() {
        shared.extend(spec.list("/ports").filter_map(|port| Some((port.integer("/port"), number(port)?))));
    }
    for port in spec.items_mut("ports").filter(|port| number(port).is_none()) {
        let full = || Failure::internal("failed to allocate a nodePort: range is full");
        let known = shared.get(&port.integer("/port")).filter(|_| old.is_none()).copied();
        let given = known.map_or_else(|| free.next().ok_or_else(full), Ok)?;
        shared.insert(port.integer("/port"), given);
        port.set("nodePort", given);
    }
    Ok(())
}
