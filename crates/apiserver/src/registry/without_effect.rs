//! What a real server would act upon and this one does not. It is never silent: who counts on it gets a Warning.

use serde_json::Value;

use super::Registry;
use crate::crd;
use crate::kinds::{Cluster, GroupResource, Kind, Kinds, Place};
use crate::object::metadata::text;
use crate::object::{list, text_at};
use crate::request::Part;

/// What is taken and has no effect, and why.
pub(crate) const WITHOUT_EFFECT: &[(&str, &str)] = &[
    (WEBHOOKS.0, WEBHOOKS.1),
    (POLICIES.0, POLICIES.1),
    crd::RULES,
    (CONVERSION.0, CONVERSION.1),
    (BUILT_IN_VERSIONS.0, BUILT_IN_VERSIONS.1),
    (FLOW_CONTROL.0, FLOW_CONTROL.1),
    (SERVICE_RANGES.0, SERVICE_RANGES.1),
    (POD_SECURITY.0, POD_SECURITY.1),
];

const WEBHOOKS: (&str, &str) =
    ("ValidatingWebhookConfiguration, MutatingWebhookConfiguration", "this server calls no admission webhooks");
const POLICIES: (&str, &str) = (
    "ValidatingAdmissionPolicy, MutatingAdmissionPolicy and their bindings",
    "this server evaluates no admission policies",
);
const CONVERSION: (&str, &str) = (
    "spec.conversion.webhook of a CustomResourceDefinition",
    "this server calls no conversion webhooks: only the apiVersion changes",
);
const BUILT_IN_VERSIONS: (&str, &str) =
    ("a CustomResourceDefinition's version that is built in", "the paths of that version are the server's own");
const FLOW_CONTROL: (&str, &str) =
    ("FlowSchema, PriorityLevelConfiguration", "this server has one flow for all requests");
const SERVICE_RANGES: (&str, &str) = ("ServiceCIDR", "the addresses of Services are of 10.0.0.0/24 alone");
const POD_SECURITY: (&str, &str) =
    ("the labels pod-security.kubernetes.io/* of a Namespace", "this server holds no Pod against a security standard");

impl Registry {
    /// What to warn of in an object that is about to be written: what of it has no effect here, and would elsewhere.
    pub(super) fn without_effect(&self, place: &Place, object: &Value) -> Vec<String> {
        if place.part != Part::Object || place.kind.custom {
            return Vec::new();
        }
        let kinds = self.kinds();
        let name = text(object, "name");
        let group = place.kind.group.as_str();
        let told = |what: &str, (_, why): (&str, &str)| format!("{what} has no effect: {why}");
        let whole = |(what, why)| told(&format!("{} {name:?}", place.kind.kind), (what, why));
        match (group, place.kind.kind.as_str()) {
            ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration") => {
                let mut rules = list(object, "/webhooks").flat_map(|webhook| list(webhook, "/rules"));
                rules.any(|rule| is_about(&kinds, rule)).then(|| whole(WEBHOOKS)).into_iter().collect()
            }
            ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy" | "MutatingAdmissionPolicy") => {
                is_policy_about(&kinds, object).then(|| whole(POLICIES)).into_iter().collect()
            }
            ("admissionregistration.k8s.io", kind) => {
                let policies = match kind.starts_with("Validating") {
                    true => "validatingadmissionpolicies",
                    false => "mutatingadmissionpolicies",
                };
                let policy =
                    self.db.object(&GroupResource::new(group, policies), "", text_at(object, "/spec/policyName"));
                let counts = policy.is_some_and(|policy| is_policy_about(&kinds, &policy));
                counts.then(|| whole(POLICIES)).into_iter().collect()
            }
            ("apiextensions.k8s.io", "CustomResourceDefinition") => {
                let mut warnings = Vec::new();
                let of_group = text_at(object, "/spec/group");
                for version in list(object, "/spec/versions").map(|version| text_at(version, "/name")) {
                    if kinds.is_built_in(of_group, version) {
                        warnings
                            .push(told(&format!("the version {of_group}/{version} of {name:?}"), BUILT_IN_VERSIONS));
                    }
                }
                let several = list(object, "/spec/versions").nth(1).is_some();
                if several && text_at(object, "/spec/conversion/strategy") == "Webhook" {
                    warnings.push(told(&format!("spec.conversion.webhook of {name:?}"), CONVERSION));
                }
                warnings
            }
            ("flowcontrol.apiserver.k8s.io", _) => vec![whole(FLOW_CONTROL)],
            ("networking.k8s.io", "ServiceCIDR") => vec![whole(SERVICE_RANGES)],
            ("", "Namespace") => {
                let labels = object.pointer("/metadata/labels").and_then(Value::as_object).into_iter().flatten();
                let labels = labels.filter(|(key, _)| key.starts_with("pod-security.kubernetes.io/"));
                labels.map(|(key, _)| told(&format!("the label {key}"), POD_SECURITY)).collect()
            }
            _ => Vec::new(),
        }
    }
}

fn is_policy_about(kinds: &Kinds, policy: &Value) -> bool {
    list(policy, "/spec/matchConstraints/resourceRules").any(|rule| is_about(kinds, rule))
}

/// Whether a rule of admission names anything that is served.
fn is_about(kinds: &Kinds, rule: &Value) -> bool {
    let names = |field: &str, name: &str| list(rule, field).any(|named| named == "*" || named == name);
    let names_resource = |kind: &Kind| {
        let resources = list(rule, "/resources").filter_map(Value::as_str);
        resources
            .map(|resource| resource.split('/').next().unwrap_or_default())
            .any(|plural| plural == "*" || plural == kind.plural)
    };
    kinds
        .kinds()
        .any(|kind| names("/apiGroups", &kind.group) && names("/apiVersions", &kind.version) && names_resource(kind))
}
