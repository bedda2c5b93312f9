//! The core `Service` kind.

mod allocation;
mod families;
mod service_errors;
mod traffic;

use std::collections::{HashMap, HashSet};

use pintle_apimachinery::cluster::{Cluster, Context};
use pintle_apimachinery::failure::{Failure, Outcome};
use pintle_apimachinery::object::metadata;
use pintle_apimachinery::request::Subresource;
use pintle_apimachinery::validate::{FieldError, FieldErrors};
use pintle_json::{Json, json};
use pintle_kinds::table::{self, Cell, ComputedCells};
use pintle_kinds::{Strategy, Stream};

use super::proxy;
use crate::network_rules::load_balancer_status_errors;
use crate::warnings;
use service_errors::errors;

pub(crate) struct Service;

impl Strategy for Service {
    fn stream(&self, subresource: Subresource) -> Option<Stream> {
        (subresource == Subresource::Proxy).then_some(proxy::OF_SERVICE)
    }

    fn claims(&self, service: &Json) -> Vec<String> {
        allocation::claims(service)
    }

    fn defaults(&self, object: &mut Json) {
        if let Some(spec) = object.member("spec") {
            default_if_empty(spec, "sessionAffinity", "None");
            default_if_empty(spec, "type", "ClusterIP");
            if spec.text("/sessionAffinity") == "None" {
                spec.unset("sessionAffinityConfig");
            } else if let Some(client) =
                spec.member("sessionAffinityConfig").and_then(|config| config.member("clientIP"))
            {
                client.set_default("timeoutSeconds", 10800);
            }
            for port in spec.items_mut("ports") {
                default_if_empty(port, "protocol", "TCP");
                let number = port["port"].clone();
                if port.get("targetPort").is_none_or(|target| target.is_empty() || target == &json!(0)) {
                    port.set("targetPort", number);
                }
            }
            let kind = spec.text("/type").to_owned();
            let external = matches!(kind.as_str(), "NodePort" | "LoadBalancer") || spec.has("/externalIPs/0");
            if matches!(kind.as_str(), "NodePort" | "LoadBalancer") || (external && kind == "ClusterIP") {
                default_if_empty(spec, "externalTrafficPolicy", "Cluster");
            }
            if kind != "ExternalName" {
                spec.set_default("internalTrafficPolicy", "Cluster");
            }
            if kind == "LoadBalancer" {
                spec.set_default("allocateLoadBalancerNodePorts", true);
            }
        }
        if let Some(balancer) = object.at_mut("/status/loadBalancer") {
            for ingress in balancer.items_mut("ingress").filter(|ingress| !ingress.text("/ip").is_empty()) {
                ingress.set_default("ipMode", "VIP");
            }
        }
    }

    fn prepare_for_create(&self, _: &Context<'_>, object: &mut Json) {
        drop_internal_policy(object);
    }

    fn prepare_for_update(&self, _: &Context<'_>, new: &mut Json, _: &Json, subresource: Subresource) {
        if subresource == Subresource::None {
            drop_internal_policy(new);
        }
    }

    /// Allocates addresses and node ports, and removes fields that do not apply to the type of the Service. As in
    /// kube-apiserver, allocation happens before validation, so the response to a failed allocation contains no
    /// validation errors.
    fn allocate(
        &self,
        cluster: &dyn Cluster,
        object: &mut Json,
        old: Option<&Json>,
        subresource: Subresource,
    ) -> Outcome<()> {
        if subresource != Subresource::None {
            return Ok(());
        }
        match old {
            Some(old) => keep_allocated(object, old),
            None => list_address(object),
        }
        let errors = families::complete(object, old);
        if !errors.is_empty() {
            return Err(Failure::invalid_named("", "Service", metadata::name(object), errors));
        }
        allocation::allocate(cluster, object, old)?;
        if let Some(old) = old {
            drop_unused(object, old);
        }
        Ok(())
    }

    fn validate_create(&self, object: &Json) -> FieldErrors {
        errors(object)
    }

    fn validate_update(&self, new: &Json, old: &Json, subresource: Subresource) -> FieldErrors {
        if subresource == Subresource::Status {
            return status_errors(new, old);
        }
        let mut found = families::changes(new, old);
        let class = |service: &Json| service.at("/spec/loadBalancerClass").cloned().unwrap_or_default();
        let balanced = |service: &Json| service.text("/spec/type") == "LoadBalancer";
        if balanced(old) && balanced(new) && class(new) != class(old) {
            found.push(FieldError::invalid("spec.loadBalancerClass", &class(new), "may not change once set"));
        }
        let port = |service: &Json| service.integer("/spec/healthCheckNodePort");
        if [old, new].iter().all(|service| allocation::needs_health_check(&service["spec"])) && port(old) != port(new) {
            found.push(FieldError::forbidden("spec.healthCheckNodePort", "field is immutable"));
        }
        // As in kube-apiserver, an update validates the class of the load balancer twice.
        found.extend(traffic::class_errors(new));
        found.extend(errors(new));
        found
    }

    fn warnings(&self, object: &Json, _: Option<&Json>, subresource: Subresource) -> Vec<String> {
        match subresource {
            Subresource::None => field_warnings(object),
            _ => warnings::load_balancer(object),
        }
    }

    fn computed_cells(&self) -> ComputedCells {
        &[("External-IP", Cell::Computed(|service| external(service).into())), ("Port(s)", Cell::Computed(ports))]
    }
}

fn ports(service: &Json) -> Json {
    let ports = service.list("/spec/ports").map(|port| {
        let (number, protocol) = (port.integer("/port").unwrap_or(0), port.text("/protocol"));
        match port.integer("/nodePort").unwrap_or(0) {
            0 => format!("{number}/{protocol}"),
            node => format!("{number}:{node}/{protocol}"),
        }
    });
    let ports: Vec<String> = ports.collect();
    if ports.is_empty() { "<none>".into() } else { ports.join(",").into() }
}

fn field_warnings(object: &Json) -> Vec<String> {
    const HINTS: &str = "service.kubernetes.io/topology-aware-hints";
    const EXTERNAL: &str = "ExternalName";
    let kind = object.text("/spec/type");
    let (address, balancer) = (object.text("/spec/clusterIP"), object.text("/spec/loadBalancerIP"));
    let headless = kind == "ClusterIP" && address == "None";
    let addressed = object.has("/spec/externalIPs/0");
    let mut found = Vec::new();
    let mut warn = |holds: bool, text: String| found.extend(holds.then_some(text));
    warn(
        warnings::is_annotated(object, HINTS),
        format!("annotation {HINTS} is deprecated, please use service.kubernetes.io/topology-mode instead"),
    );
    if address != "None" {
        warnings::ips(object, "/spec/clusterIPs", "spec.clusterIPs").into_iter().for_each(|text| warn(true, text));
    }
    let affine = object.text("/spec/sessionAffinity") != "None";
    for (holds, field) in
        [(!balancer.is_empty(), "loadBalancerIP"), (addressed, "externalIPs"), (affine, "SessionAffinity")]
    {
        warn(headless && holds, format!("spec.{field} is ignored for headless services"));
    }
    warnings::ips(object, "/spec/externalIPs", "spec.externalIPs").into_iter().for_each(|text| warn(true, text));
    warn(
        addressed && !headless && kind != EXTERNAL,
        "spec.externalIPs is deprecated and may no longer be implemented in some clusters".into(),
    );
    warnings::ip(balancer, "spec.loadBalancerIP").into_iter().for_each(|text| warn(true, text));
    let ranges = warnings::blocks(object, "/spec/loadBalancerSourceRanges", "spec.loadBalancerSourceRanges");
    ranges.into_iter().for_each(|text| warn(true, text));
    let named = !object.text("/spec/externalName").is_empty();
    warn(addressed && kind == EXTERNAL, format!("spec.externalIPs is ignored when spec.type is {EXTERNAL:?}"));
    warn(named && kind != EXTERNAL, format!("spec.externalName is ignored when spec.type is not {EXTERNAL:?}"));
    warn(
        object.text("/spec/trafficDistribution") == "PreferClose",
        "spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"".into(),
    );
    found
}

/// Validates the status. Only the status of a load balancer may contain ingress addresses.
fn status_errors(new: &Json, old: &Json) -> FieldErrors {
    let is_balanced = new.text("/spec/type") == "LoadBalancer";
    if !is_balanced && new.has("/status/loadBalancer/ingress/0") {
        let why = "may only be used when `spec.type` is 'LoadBalancer'";
        return FieldErrors::from([FieldError::forbidden("status.loadBalancer.ingress", why)]);
    }
    load_balancer_status_errors(new, old)
}

fn default_if_empty(object: &mut Json, key: &str, value: &str) {
    if object.get(key).is_none_or(Json::is_empty) {
        object.set(key, value);
    }
}

/// If `clusterIPs` is empty, sets it to a list that contains `clusterIP`.
fn list_address(service: &mut Json) {
    if let Some(spec) = service.member("spec")
        && !spec.text("/clusterIP").is_empty()
        && spec["clusterIPs"].is_empty()
    {
        let address = spec["clusterIP"].clone();
        spec.set("clusterIPs", json!([address]));
    }
}

/// Restores allocated addresses and ports that are empty in the new object, and synchronizes `clusterIP` and
/// `clusterIPs`.
fn keep_allocated(new: &mut Json, old: &Json) {
    let is_external = |spec: &Json| spec.text("/type") == "ExternalName";
    let (Some(spec), was) = (new.member("spec"), &old["spec"]) else { return };
    if !is_external(spec) && !is_external(was) {
        for key in ["clusterIP", "clusterIPs"] {
            if spec[key].is_empty() && !was[key].is_empty() {
                spec.set(key, was[key].clone());
            }
        }
    }
    if spec.text("/clusterIP") == was.text("/clusterIP") {
        if spec["clusterIPs"].is_empty() && !was["clusterIPs"].is_empty() {
            spec.set("clusterIPs", was["clusterIPs"].clone());
        }
    } else if spec["clusterIPs"] == was["clusterIPs"] {
        match spec["clusterIP"].clone() {
            address if address.is_empty() => spec.unset("clusterIPs"),
            address => spec.set("clusterIPs", json!([address])),
        }
    }
    if gets_node_ports(was) && gets_node_ports(spec) {
        keep_node_ports(spec, old);
    }
    let is_checked = [was, &*spec].map(allocation::needs_health_check);
    if is_checked == [true, true] && spec.integer("/healthCheckNodePort").unwrap_or(0) == 0 {
        spec.set("healthCheckNodePort", was["healthCheckNodePort"].clone());
    }
}

/// Removes fields that do not apply to the new type of the Service. Keeps an unused field if the client has changed it,
/// so that validation rejects the change.
fn drop_unused(new: &mut Json, old: &Json) {
    let was = old.text("/spec/type").to_owned();
    let Some(spec) = new.member("spec") else { return };
    let is = spec.text("/type").to_owned();
    if gets_node_ports(&old["spec"]) && !gets_node_ports(spec) {
        let before: HashSet<&Json> = old.list("/spec/ports").filter_map(|port| port.get("nodePort")).collect();
        if spec.list("/ports").filter_map(|port| port.get("nodePort")).all(|number| before.contains(number)) {
            spec.items_mut("ports").for_each(|port| port.unset("nodePort"));
        }
    }
    let is_checked = [&old["spec"], &*spec].map(allocation::needs_health_check);
    let health_check = "healthCheckNodePort";
    if is_checked == [true, false] && spec.get(health_check) == old["spec"].get(health_check) {
        spec.unset(health_check);
    }
    let policy = "externalTrafficPolicy";
    if is_reachable(&old["spec"]) && !is_reachable(spec) && spec.get(policy) == old["spec"].get(policy) {
        spec.unset(policy);
    }
    if was == "LoadBalancer" && is != "LoadBalancer" {
        for key in ["allocateLoadBalancerNodePorts", "loadBalancerClass"] {
            if spec.get(key) == old["spec"].get(key) {
                spec.unset(key);
            }
        }
    }
    if is == "ExternalName" {
        for key in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
            if spec.get(key) == old.at(&format!("/spec/{key}")) {
                spec.unset(key);
            }
        }
    }
}

/// Returns the protocol and number of a Service port, which identify the port.
fn port_key(port: &Json) -> (Option<Json>, Option<i64>) {
    (port.get("protocol").cloned(), port.integer("/port"))
}

fn gets_node_ports(spec: &Json) -> bool {
    match spec.text("/type") {
        "NodePort" => true,
        "LoadBalancer" => spec["allocateLoadBalancerNodePorts"] != false,
        _ => false,
    }
}

fn is_reachable(spec: &Json) -> bool {
    match spec.text("/type") {
        "NodePort" | "LoadBalancer" => true,
        "ClusterIP" => spec.has("/externalIPs/0"),
        _ => false,
    }
}

/// Restores the node port of each port without a node port from the old port with the same name, unless another port
/// already uses this number.
fn keep_node_ports(spec: &mut Json, old: &Json) {
    let number = |port: &Json| port.integer("/nodePort").filter(|number| *number != 0);
    let by_name: HashMap<&str, i64> =
        old.list("/spec/ports").filter_map(|port| Some((port.text("/name"), number(port)?))).collect();
    let named: HashSet<i64> = spec.list("/ports").filter_map(number).collect();
    for port in spec.items_mut("ports").filter(|port| number(port).is_none()) {
        let kept = by_name.get(port.text("/name")).filter(|number| !named.contains(*number)).copied();
        if let Some(number) = kept {
            port.set("nodePort", number);
        }
    }
}

fn drop_internal_policy(service: &mut Json) {
    if let Some(spec) = service.member("spec").filter(|spec| spec.text("/type") == "ExternalName") {
        spec.unset("internalTrafficPolicy");
    }
}

fn external(object: &Json) -> String {
    let given = object.texts("/spec/externalIPs").collect::<Vec<_>>().join(",");
    match object.text("/spec/type") {
        "ExternalName" => object.text("/spec/externalName").into(),
        "LoadBalancer" => {
            let balanced = table::ingress_addresses(object);
            match (balanced.is_empty(), given.is_empty()) {
                (true, true) => "<pending>".into(),
                (true, false) => given,
                (false, true) => balanced,
                (false, false) => format!("{balanced},{given}"),
            }
        }
        _ if given.is_empty() => "<none>".into(),
        _ => given,
    }
}
