//! The pod subresources `log`, `exec`, `attach` and `portforward`. In a real cluster, kubelets serve these
//! subresources. This server responds as if no kubelet were reachable.

use pintle_apimachinery::cluster::Cluster;
use pintle_apimachinery::failure::{Failure, Outcome, quoted};
use pintle_apimachinery::request::Subresource;
use pintle_apimachinery::request::query::Query;
use pintle_apimachinery::validate::{FieldError, FieldErrors};
use pintle_json::{Json, json};
use pintle_kinds::{RequestTarget, Stream, StreamAnswer};
use pintle_meta::GroupResource;

use crate::core::kubelet::kubelet;
use crate::core::proxy;

pub(super) fn of(subresource: Subresource) -> Option<Stream> {
    let connect = |options| Stream { methods: &["GET", "POST"], options, connects: true, has_subpaths: false, answer };
    match subresource {
        Subresource::Log => Some(Stream { methods: &["GET"], connects: false, ..connect(log_options) }),
        Subresource::Attach => Some(connect(|query, _| Ok(streams("PodAttachOptions", query)))),
        Subresource::Exec => Some(connect(exec_options)),
        Subresource::PortForward => Some(connect(port_forward_options)),
        Subresource::Proxy => Some(proxy::OF_POD),
        _ => None,
    }
}

fn log_options(query: &Query, _: &[String]) -> Outcome<Json> {
    let mut options = json!({"kind": "PodLogOptions", "apiVersion": "v1", "container": query.text("container")});
    for name in ["sinceSeconds", "tailLines", "limitBytes"] {
        if let Some(number) = query.integer(name)? {
            options.set(name, number);
        }
    }
    for name in ["sinceTime", "stream"] {
        if let Some(text) = query.first(name) {
            options.set(name, text);
        }
    }
    Ok(options)
}

fn exec_options(query: &Query, _: &[String]) -> Outcome<Json> {
    let mut options = streams("PodExecOptions", query);
    // Like kube-apiserver, set the command to null if the query contains no command.
    let command: Json = query.all("command").collect();
    options.set("command", if command.is_empty() { Json::Null } else { command });
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
    let errors = log_errors(options);
    if target.subresource == Subresource::Log && !errors.is_empty() {
        return Err(Failure::invalid_named("", "PodLogOptions", name, errors));
    }
    let pod = cluster.object(&pods, &target.namespace, name).ok_or_else(|| Failure::not_found(&pods, name))?;
    if target.subresource != Subresource::PortForward {
        check_container(&pod, name, options.text("/container"))?;
    }
    let node = pod.text("/spec/nodeName");
    match (target.subresource, node) {
        (Subresource::Log, "") => return Ok(StreamAnswer::Empty),
        (_, "") => return Err(Failure::bad_request(format!("pod {name} does not have a host assigned"))),
        _ => (),
    }
    let nodes = GroupResource::new("", "nodes");
    let node = cluster.object(&nodes, "", node).ok_or_else(|| Failure::not_found(&nodes, node))?;
    let (address, port) = kubelet(&node)?;
    Err(Failure::plain(500, format!("error dialing backend: dial tcp {address}:{port}: connect: connection refused")))
}

fn log_errors(options: &Json) -> FieldErrors {
    let number = |name: &str| options[name].as_i64();
    let mut errors = FieldErrors::default();
    let mut check = |name: &str, least: i64, why: &str| {
        if let Some(number) = number(name).filter(|number| *number < least) {
            errors.push(FieldError::invalid(name, &number.into(), why));
        }
    };
    check("tailLines", 0, "must be greater than or equal to 0");
    check("limitBytes", 1, "must be greater than 0");
    if options.has("/sinceSeconds") && options.has("/sinceTime") {
        let why = "at most one of `sinceTime` or `sinceSeconds` may be specified";
        errors.push(FieldError::forbidden("[]", why));
    } else if let Some(seconds) = number("sinceSeconds").filter(|seconds| *seconds < 1) {
        errors.push(FieldError::invalid("sinceSeconds", &seconds.into(), "must be greater than 0"));
    }
    errors.forbidden_if(options.has("/stream"), "stream", "may not be specified");
    errors
}

/// Returns an error if the pod has no container with this name. If `container` is empty, the pod must have exactly one
/// ordinary container.
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
