//! Validates a Service's traffic policies and load balancer settings.

use pintle_apimachinery::validate::{FieldError, FieldErrors, label_key_faults};
use pintle_json::Json;
use pintle_kinds::check::Check;

use crate::network_rules::cidr_errors;

const OF_BALANCERS: &str = "may only be used when `type` is 'LoadBalancer'";
const TRAFFIC_POLICIES: &[&str] = &["Cluster", "Local"];

pub(super) fn errors(object: &Json) -> FieldErrors {
    let spec = &object["spec"];
    let kind = spec.text("/type");
    let balanced = kind == "LoadBalancer";
    let reachable = matches!(kind, "NodePort" | "LoadBalancer") || (kind == "ClusterIP" && spec.has("/externalIPs/0"));
    let policy = spec.text("/externalTrafficPolicy");
    let checked = balanced && policy == "Local";
    let port = spec.integer("/healthCheckNodePort").unwrap_or(0);
    let some_ranges = spec.has("/loadBalancerSourceRanges/0");
    let ranges = spec.texts("/loadBalancerSourceRanges").map(str::trim).enumerate();
    let ranges = ranges.filter_map(|(at, range)| cidr_errors(range, &format!("spec.LoadBalancerSourceRanges[{at}]")));
    let check = Check::at(spec, "spec")
        .forbidden_if(some_ranges && !balanced, "LoadBalancerSourceRanges", OF_BALANCERS)
        .also(ranges)
        .refuse(spec.has("/allocateLoadBalancerNodePorts") && !balanced, || {
            FieldError::forbidden("allocateLoadBalancerNodePorts", OF_BALANCERS)
        })
        .also(class_errors(object))
        .refuse(!policy.is_empty() && !reachable, || {
            let why = "may only be set for externally-accessible services";
            FieldError::invalid_text("externalTrafficPolicy", policy, why)
        });
    let check = if reachable { check.one_of("externalTrafficPolicy", TRAFFIC_POLICIES) } else { check };
    check
        .refuse(port != 0 && !checked, || {
            let why = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
            FieldError::invalid("healthCheckNodePort", &port.into(), why)
        })
        .known("internalTrafficPolicy", TRAFFIC_POLICIES)
        .known("trafficDistribution", &["PreferClose", "PreferSameZone", "PreferSameNode"])
        .done()
}

pub(super) fn class_errors(object: &Json) -> FieldErrors {
    const FIELD: &str = "spec.loadBalancerClass";
    let Some(class) = object.at("/spec/loadBalancerClass").and_then(Json::as_str) else {
        return FieldErrors::default();
    };
    match object.text("/spec/type") {
        "LoadBalancer" => {
            label_key_faults(class).iter().map(|why| FieldError::invalid_text(FIELD, class, why)).collect()
        }
        _ => FieldErrors::from([FieldError::forbidden(FIELD, OF_BALANCERS)]),
    }
}
