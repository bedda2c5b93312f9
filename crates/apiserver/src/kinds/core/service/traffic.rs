//! Validates what a Service says of the traffic from outside and inside of the cluster.

use pintle_json::Json;

use crate::kinds::check::Check;
use crate::kinds::network_rules::is_cidr;
use crate::validate::{FieldFault, FieldFaults, label_key_faults};

const OF_BALANCERS: &str = "may only be used when `type` is 'LoadBalancer'";
const RANGE: &str = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
const POLICIES: &[&str] = &["Cluster", "Local"];

/// The faults of its ranges, classes and policies.
pub(super) fn faults(object: &Json) -> FieldFaults {
    let spec = &object["spec"];
    let kind = spec.text("/type");
    let balanced = kind == "LoadBalancer";
    let reachable = matches!(kind, "NodePort" | "LoadBalancer") || (kind == "ClusterIP" && spec.has("/externalIPs/0"));
    let policy = spec.text("/externalTrafficPolicy");
    let checked = balanced && policy == "Local";
    let port = spec.integer("/healthCheckNodePort").unwrap_or(0);
    let some_ranges = spec.has("/loadBalancerSourceRanges/0");
    let ranges =
        spec.texts("/loadBalancerSourceRanges").map(str::trim).enumerate().filter(|(_, range)| !is_cidr(range));
    let ranges = ranges
        .map(|(at, range)| FieldFault::invalid_text(format!("spec.LoadBalancerSourceRanges[{at}]"), range, RANGE));
    let class = spec.get("loadBalancerClass").and_then(Json::as_str);
    let class_faults = class.filter(|_| balanced).map(label_key_faults).unwrap_or_default();
    let check = Check::at(spec, "spec")
        .refuse(some_ranges && !balanced, || FieldFault::forbidden("LoadBalancerSourceRanges", OF_BALANCERS))
        .also(ranges)
        .refuse(spec.has("/allocateLoadBalancerNodePorts") && !balanced, || {
            FieldFault::forbidden("allocateLoadBalancerNodePorts", OF_BALANCERS)
        })
        .refuse(class.is_some() && !balanced, || FieldFault::forbidden("loadBalancerClass", OF_BALANCERS))
        .also(
            class_faults
                .iter()
                .map(|why| FieldFault::invalid_text("spec.loadBalancerClass", class.unwrap_or_default(), why)),
        )
        .refuse(!policy.is_empty() && !reachable, || {
            let why = "may only be set for externally-accessible services";
            FieldFault::invalid_text("externalTrafficPolicy", policy, why)
        });
    let check = if reachable { check.one_of("externalTrafficPolicy", POLICIES) } else { check };
    check
        .refuse(port != 0 && !checked, || {
            let why = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
            FieldFault::invalid("healthCheckNodePort", &port.into(), why)
        })
        .known("internalTrafficPolicy", POLICIES)
        .known("trafficDistribution", &["PreferClose", "PreferSameZone", "PreferSameNode"])
        .done()
}
