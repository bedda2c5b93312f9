//! What a real server would act upon and this one does not. It is never silent: who counts on it gets a Warning.

use pintle_json::Json;

use super::{Kind, Kinds};
use crate::object::metadata;

/// What is taken and has no effect, and why.
type Missing = (&'static str, &'static str);

/// All of them.
pub(crate) const WITHOUT_EFFECT: &[Missing] =
    &[WEBHOOKS, POLICIES, RULES, CONVERSION, BUILT_IN_VERSIONS, FLOW_CONTROL, SERVICE_RANGES, ADDRESSES];

pub(crate) const WEBHOOKS: Missing =
    ("ValidatingWebhookConfiguration, MutatingWebhookConfiguration", "this server calls no admission webhooks");
pub(crate) const POLICIES: Missing = (
    "ValidatingAdmissionPolicy, MutatingAdmissionPolicy and their bindings",
    "this server evaluates no admission policies",
);
pub(crate) const CONVERSION: Missing = (
    "spec.conversion.webhook of a CustomResourceDefinition",
    "this server calls no conversion webhooks: only the apiVersion changes",
);
pub(crate) const BUILT_IN_VERSIONS: Missing =
    ("a CustomResourceDefinition's version that is built in", "the paths of that version are the server's own");
pub(crate) const FLOW_CONTROL: Missing =
    ("FlowSchema, PriorityLevelConfiguration", "this server has one flow for all requests");
pub(crate) const SERVICE_RANGES: Missing = ("ServiceCIDR", "the addresses of Services are of 10.0.0.0/24 alone");
pub(crate) const ADDRESSES: Missing =
    ("IPAddress", "Services get their addresses without them: none is made, and none reserves its address");
pub(crate) const RULES: Missing =
    ("x-kubernetes-validations in the schemas of custom resources", "this server evaluates no CEL rules");

/// The warning about a part of an object.
pub(crate) fn part(what: &str, (_, why): Missing) -> String {
    format!("{what} has no effect: {why}")
}

/// The warning about a whole object.
pub(super) fn whole(object: &Json, missing: Missing) -> Vec<String> {
    vec![part(&format!("{} {:?}", object.text("/kind"), metadata::name(object)), missing)]
}

/// Whether a rule of admission names anything that is served.
pub(super) fn is_about(kinds: &Kinds, rule: &Json) -> bool {
    let names = |field: &str, name: &str| rule.list(field).any(|named| named == "*" || named == name);
    let names_resource = |kind: &Kind| {
        let resources = rule.texts("/resources");
        resources
            .map(|resource| resource.split('/').next().unwrap_or_default())
            .any(|plural| plural == "*" || plural == kind.plural)
    };
    kinds
        .kinds()
        .any(|kind| names("/apiGroups", &kind.group) && names("/apiVersions", &kind.version) && names_resource(kind))
}
