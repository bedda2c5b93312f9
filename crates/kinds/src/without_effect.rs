//! Features of kube-apiserver that this server accepts but does not implement. The response to a request that uses such
//! a feature contains a warning.

use pintle_apimachinery::object::metadata;
use pintle_json::Json;

/// A Kubernetes feature, and the reason why this server does not implement it.
type NoEffect = (&'static str, &'static str);

/// All features that this server accepts but does not implement.
pub const WITHOUT_EFFECT: &[NoEffect] = &[BUILT_IN_VERSIONS, FLOW_CONTROL, SERVICE_RANGES, ADDRESSES, IMPERSONATION];

pub const BUILT_IN_VERSIONS: NoEffect =
    ("a CustomResourceDefinition's version that is built in", "the built-in resources use the paths of that version");
pub const FLOW_CONTROL: NoEffect =
    ("FlowSchema, PriorityLevelConfiguration", "this server does not limit requests by flow");
pub const SERVICE_RANGES: NoEffect = ("ServiceCIDR", "Services get addresses from 10.0.0.0/24 only");
pub const ADDRESSES: NoEffect =
    ("IPAddress", "Services get their addresses without IPAddress objects, and an IPAddress reserves no address");
pub const IMPERSONATION: NoEffect = (
    "the verbs of a Role or ClusterRole that begin with impersonate: or impersonate-on:",
    "this server checks only the verb impersonate",
);

/// Returns the warning for a field that this server ignores. `what` is the name of the field.
pub fn without_effect(what: &str, (_, why): NoEffect) -> String {
    format!("{what} has no effect: {why}")
}

/// Returns the warning about an object that has no effect in this server.
pub fn object_warning(object: &Json, feature: NoEffect) -> Vec<String> {
    vec![without_effect(&format!("{} {:?}", object.text("/kind"), metadata::name(object)), feature)]
}
