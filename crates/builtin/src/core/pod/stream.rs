//! The pod subresources `log`, `exec`, `attach` and `portforward`. In a real cluster, kubelets serve these
//! subresources. This server responds as if no kubelet were reachable.

use pintle_apimachinery::cluster::Cluster;
use pintle_apimachinery::failure::{Failure, Outcome, quoted};
use pintle_apimachinery::request::Subresource;
use pintle_apimachinery::request::query::Query;
use pintle_json::{Json, json};
use pintle_kinds::{RequestTarget, Stream, StreamAnswer};
use pintle_meta::GroupResource;

use crate::core::kubelet::kubelet;
use crate::core::proxy;

/// Returns the stream of a subresource, or `None` if the subresource is not a stream.
pub(super) fn of(subresource: Subresource) -> Option<Stream> {
    let connect = |options| Stream { methods: &["GET", "POST"], options, connects: true, has_subpaths: false, answer };
    match subresource {
        Subresource::Log => Some(Stream { methods: &["GET"], connects: false, ..connect(log_options) }),
        Subresource::Attach => Some(connect(attach_options)),
        Subresource::Exec => Some(connect(exec_options)),
        Subresource::PortForward => Some(connect(port_forward_options)),
        Subresource::Proxy => Some(proxy::OF_POD),
        _ => None,
    }
}

fn log_options(query: &Query, _: &[String]) -> Outcome<Json> {
    Ok(json!({"kind": "PodLogOptions", "apiVersion": "v1", "container": query.text("container")}))
}

fn attach_options(query: &Query, _: &[String]) -> Outcome<Json> {
    Ok(streams("PodAttachOptions", query))
}

fn exec_options(query: &Query, _: &[String]) -> Outcome<Json> {
    let mut options = streams("PodExecOptions", query);
    let command: Json = query.all("command").collect();
    if !command.is_empty() {
        options.set("command", command);
    }
    Ok(options)
}

fn port_forward_options(query: &Query, _: &[String]) -> Outcome<Json> {
    let number = |text: &str| {
        let why = || Failure::bad_request(format!("cannot convert to []int32: {} is no port", quoted(text)));
        text.parse::<u16>().map(Json::from).map_err(|_| why())
    };
    let ports = query.all("ports").flat_map(|ports| ports.split(',')).map(number).collect::<Outcome<Json>>()?;
    let mut options = json!({"kind": "PodPortForwardOptions", "apiVersion": "v1"});
    if !ports.is_empty() {
        options.set("ports", ports);
    }
    Ok(options)
}

fn streams(kind: &str, query: &Query) -> Json {
    let mut options = json!({"kind": kind, "apiVersion": "v1"});
    for name in ["stdin", "stdout", "stderr", "tty"] {
        if query.flag(name) == Some(true) {
            options.set(name, true);
        }
    }
    if !query.text("container").is_empty() {
        options.set("container", query.text("container"));
    }
    options
}

/// Returns the first of these errors that applies: a missing pod or container, an unscheduled pod, a missing node, or
/// an unreachable kubelet. For the log of an unscheduled pod, returns an empty response.
fn answer(cluster: &dyn Cluster, target: &RequestTarget, options: &Json) -> Outcome<StreamAnswer> {
    let (name, pods) = (&target.name, GroupResource::new("", "pods"));
    let pod = cluster.object(&pods, &target.namespace, name).ok_or_else(|| Failure::not_found(&pods, name))?;
    if target.subresource != Subresource::PortForward {
        check_container(&pod, name, options.text("/container"))?;
    }
    let node = pod.text("/spec/nodeName");
    match (target.subresource, node) {
        (Subresource::Log, "") => return Ok(StreamAnswer::Text("")),
        (_, "") => return Err(Failure::bad_request(format!("pod {name} does not have a host assigned"))),
        _ => (),
    }
    let nodes = GroupResource::new("", "nodes");
    let node = cluster.object(&nodes, "", node).ok_or_else(|| Failure::not_found(&nodes, node))?;
    let (address, port) = kubelet(&node)?;
    Err(Failure::plain(500, format!("error dialing backend: dial tcp {address}:{port}: connect: connection refused")))
}

/// Fails if the pod has no container with this name. If `container` is empty, the pod must have exactly one ordinary
/// container.
fn check_container(pod: &Json, name: &str, container: &str) -> Outcome<()> {
    let containers = ["/spec/initContainers", "/spec/containers", "/spec/ephemeralContainers"];
    let mut names = containers.iter().flat_map(|kind| pod.list(kind)).map(|container| container.text("/name"));
    if !container.is_empty() {
        return if names.any(|known| known == container) {
            Ok(())
        } else {
            Err(Failure::bad_request(format!("container {container} is not valid for pod {name}")))
        };
    }
    if pod.list("/spec/containers").count() == 1 {
        return Ok(());
    }
    let names = names.collect::<Vec<_>>().join(" ");
    let why = format!("a container name must be specified for pod {name}, choose one of: [{names}]");
    Err(Failure::bad_request(why))
}
