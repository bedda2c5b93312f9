//! The subresource `/proxy`, which forwards requests to a pod, service or node. This server determines the target like
//! a real cluster, but always responds that the target refused the connection.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;

use pintle_apimachinery::cluster::Cluster;
use pintle_apimachinery::failure::{Failure, Outcome, quoted};
use pintle_json::{Json, json};
use pintle_kinds::{RequestTarget, Stream, StreamAnswer};
use pintle_meta::{GroupResource, Reason};

use super::kubelet::kubelet;

const METHODS: &[&str] = &["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"];

pub(super) const OF_POD: Stream = Stream {
    methods: METHODS,
    options: |_, rest| Ok(options("PodProxyOptions", rest)),
    connects: true,
    has_subpaths: true,
    answer: to_pod,
};

/// The `/proxy` subresource of services, which forwards requests to a pod of the service.
pub(super) const OF_SERVICE: Stream =
    Stream { options: |_, rest| Ok(options("ServiceProxyOptions", rest)), answer: to_service, ..OF_POD };

/// The `/proxy` subresource of nodes, which forwards requests to the kubelet or to another port of the node.
pub(super) const OF_NODE: Stream =
    Stream { options: |_, rest| Ok(options("NodeProxyOptions", rest)), answer: to_node, ..OF_POD };

fn options(kind: &str, rest: &[String]) -> Json {
    let mut options = json!({"kind": kind, "apiVersion": "v1"});
    if !rest.is_empty() {
        options.set("path", format!("/{}", rest.join("/")));
    }
    options
}

fn to_pod(cluster: &dyn Cluster, target: &RequestTarget, _: &Json) -> Outcome<StreamAnswer> {
    let destination = Destination::read("pod", &target.name)?;
    let pod = find(cluster, "pods", &target.namespace, destination.name)?;
    let ports = || pod.list("/spec/containers").filter_map(|container| container.list("/ports").next());
    let port = match destination.port {
        "" => ports().next().and_then(|port| port.integer("/containerPort")).map(|port| port.to_string()),
        port => Some(port.to_owned()),
    };
    let ip = match pod.text("/status/podIP") {
        "" => pod.text("/status/podIPs/0/ip"),
        ip => ip,
    };
    let ip = reachable(ip).ok_or_else(|| Failure::bad_request("address not allowed"))?;
    Ok(connection_refused(&ip.to_string(), port.as_deref().unwrap_or(destination.default_port())))
}

fn to_service(cluster: &dyn Cluster, target: &RequestTarget, _: &Json) -> Outcome<StreamAnswer> {
    let (destination, namespace) = (Destination::read("service", &target.name)?, &target.namespace);
    let unavailable = |why: String| Failure::new(503, Reason::ServiceUnavailable, why);
    let mut wanted = destination.port.to_owned();
    if let Ok(number) = destination.port.parse::<i64>() {
        let service = find(cluster, "services", namespace, destination.name)?;
        let mut ports = service.list("/spec/ports");
        let port = ports.find(|port| port.integer("/port") == Some(number));
        let none = || format!("no service port {number} found for service {}", quoted(destination.name));
        wanted = port.ok_or_else(|| unavailable(none()))?.text("/name").to_owned();
    }
    let endpoints = cluster.object(&GroupResource::new("", "endpoints"), namespace, destination.name);
    // As in kube-apiserver, the error for missing endpoints says that the service was not found.
    let endpoints =
        endpoints.ok_or_else(|| Failure::not_found(&GroupResource::new("", "services"), destination.name))?;
    let mut pods = PodAddresses { cluster, namespace, known: HashMap::new() };
    for subset in endpoints.list("/subsets") {
        let Some(port) = subset.list("/ports").find(|port| port.text("/name") == wanted) else { continue };
        if let Some(address) = subset.list("/addresses").find(|address| pods.contains(address)) {
            return Ok(connection_refused(address.text("/ip"), &port.integer("/port").unwrap_or(0).to_string()));
        }
    }
    Err(unavailable(format!("no endpoints available for service {}", quoted(&target.name))))
}

/// The IP addresses of the pods in a namespace. The addresses are cached, because many endpoints can refer to the same
/// pod.
struct PodAddresses<'a> {
    cluster: &'a dyn Cluster,
    namespace: &'a str,
    known: HashMap<String, HashSet<String>>,
}

impl PodAddresses<'_> {
    /// Returns `true` if the address of an endpoint belongs to the pod in its `targetRef`.
    fn contains(&mut self, address: &Json) -> bool {
        let target_text = |name: &str| address["targetRef"].text(name);
        if (target_text("/kind"), target_text("/namespace")) != ("Pod", self.namespace) {
            return false;
        }
        let ips = self.known.entry(target_text("/name").to_owned()).or_insert_with(|| {
            let pod = self.cluster.object(&GroupResource::new("", "pods"), self.namespace, target_text("/name"));
            let pod = pod.as_deref().unwrap_or(&Json::Null);
            let ips = pod.list("/status/podIPs").map(|ip| ip.text("/ip")).chain([pod.text("/status/podIP")]);
            ips.filter(|ip| !ip.is_empty()).map(str::to_owned).collect()
        });
        ips.contains(address.text("/ip"))
    }
}

fn to_node(cluster: &dyn Cluster, target: &RequestTarget, _: &Json) -> Outcome<StreamAnswer> {
    let destination = Destination::read("node", &target.name)?;
    let node = find(cluster, "nodes", "", destination.name)?;
    let (host, port) = kubelet(&node)?;
    if host.parse::<IpAddr>().is_err() {
        return Err(Failure::bad_request(format!("lookup {host}: no such host")));
    }
    let ip = reachable(host).ok_or_else(|| Failure::bad_request("address not allowed"))?;
    Ok(connection_refused(&ip.to_string(), if destination.port.is_empty() { &port } else { destination.port }))
}

/// The path segment that names the target of a proxy request, in the form `name`, `name:port` or `scheme:name:port`.
struct Destination<'a> {
    scheme: &'a str,
    name: &'a str,
    port: &'a str,
}

impl<'a> Destination<'a> {
    fn read(what: &str, text: &'a str) -> Outcome<Self> {
        let (scheme, name, port) = match text.split(':').collect::<Vec<_>>()[..] {
            [name] => ("", name, ""),
            [name, port] => ("", name, port),
            [scheme, name, port] => (scheme, name, port),
            _ => ("", "", ""),
        };
        if !name.is_empty() && matches!(scheme, "" | "http" | "https") {
            Ok(Self { scheme, name, port })
        } else {
            Err(Failure::bad_request(format!("invalid {what} request {}", quoted(text))))
        }
    }

    fn default_port(&self) -> &'static str {
        if self.scheme == "https" { "443" } else { "80" }
    }
}

fn find(cluster: &dyn Cluster, resource: &str, namespace: &str, name: &str) -> Outcome<Arc<Json>> {
    let resource = GroupResource::new("", resource);
    cluster.object(&resource, namespace, name).ok_or_else(|| Failure::not_found(&resource, name))
}

/// Parses the IP address of a proxy target, or returns `None` for an address that is not unicast or is local to the
/// server.
fn reachable(text: &str) -> Option<IpAddr> {
    let ip = text.parse::<IpAddr>().ok()?.to_canonical();
    let is_local = match ip {
        IpAddr::V4(ip) => ip.is_link_local() || ip.is_broadcast(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    };
    (!is_local && !ip.is_unspecified() && !ip.is_loopback() && !ip.is_multicast()).then_some(ip)
}

fn connection_refused(host: &str, port: &str) -> StreamAnswer {
    StreamAnswer::Unreachable(match port.parse::<u16>() {
        Ok(port) if host.contains(':') => format!("dial tcp [{host}]:{port}: connect: connection refused"),
        Ok(port) => format!("dial tcp {host}:{port}: connect: connection refused"),
        Err(_) => format!("dial tcp: address {port}: invalid port"),
    })
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// A test cluster in which all endpoints refer to one pod, but have different addresses. Counts how often the pod
    /// is read.
    struct OnePod(Json, Cell<usize>);

    impl Cluster for OnePod {
        fn object(&self, resource: &GroupResource, _: &str, _: &str) -> Option<Arc<Json>> {
            if resource.resource == "pods" {
                self.1.set(self.1.get() + 1);
                return Some(Arc::new(json!({"status": {"podIP": "10.9.9.9"}})));
            }
            Some(Arc::new(self.0.clone()))
        }

        fn objects(&self, _: &GroupResource, _: Option<&str>) -> Vec<Arc<Json>> {
            Vec::new()
        }

        fn holder(&self, _: &str) -> Option<Arc<str>> {
            None
        }
    }

    #[test]
    fn pod_of_many_endpoint_addresses_is_read_once() {
        let target = json!({"kind": "Pod", "namespace": "default", "name": "p"});
        let addresses: Json = (0..100).map(|at| json!({"ip": format!("10.1.0.{at}"), "targetRef": target})).collect();
        let ports: Json = (0..100).map(|port| json!({"port": port})).collect();
        let subset = json!({"addresses": addresses, "ports": ports});
        let cluster = OnePod(json!({"subsets": [subset, subset]}), Cell::new(0));
        let kinds = crate::kinds();
        let services = kinds.kind("", "v1", "Service").expect("built in");
        let way = to_service(&cluster, &RequestTarget::new(services.clone(), "default", "s"), &Json::Null);
        assert_eq!((way.err().map(|failure| failure.code()), cluster.1.get()), (Some(503), 1));
    }
}
