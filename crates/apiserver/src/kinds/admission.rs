//! Configurations of webhooks and policies, which are stored and have no effect.

use serde_json::Value;

use super::check::Check;
use super::{Context, Strategy};
use crate::object::{default, has, items, list, member, present, set, text_at};
use crate::validate::{FieldFault, NameRule, name_faults};

const OPERATIONS: &[&str] = &["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];

/// ValidatingWebhookConfiguration and MutatingWebhookConfiguration.
#[derive(Clone, Copy, Debug)]
pub(super) struct Webhooks {
    pub(super) mutating: bool,
}

impl Strategy for Webhooks {
    fn defaults(&self, object: &mut Value) {
        for webhook in items(object, "webhooks") {
            for (key, value) in [("failurePolicy", "Fail"), ("matchPolicy", "Equivalent")] {
                default(webhook, key, value);
            }
            member(webhook, "namespaceSelector");
            member(webhook, "objectSelector");
            default(webhook, "timeoutSeconds", 10);
            if self.mutating {
                default(webhook, "reinvocationPolicy", "Never");
            }
            if let Some(service) = webhook.get_mut("clientConfig").and_then(|client| present(client, "service")) {
                default(service, "port", 443);
            }
            items(webhook, "rules").for_each(|rule| default(rule, "scope", "*"));
        }
    }

    fn validate_create(&self, object: &Value) -> Vec<FieldFault> {
        Check::of(object).each("webhooks", |webhook, _| webhook_faults(webhook)).done()
    }
}

fn webhook_faults(webhook: Check<'_>) -> Check<'_> {
    let object = webhook.object();
    let name = text_at(object, "/name");
    let mut why = name_faults(NameRule::Subdomain, name, false);
    if why.is_empty() && name.split('.').count() < 3 {
        why.push("should be a domain with at least three segments separated by dots".into());
    }
    let (url, service) = (text_at(object, "/clientConfig/url"), has(object, "/clientConfig/service"));
    let neither = url.is_empty() != service;
    let scheme = url.split("://").next().unwrap_or_default();
    let timeout =
        object.get("timeoutSeconds").filter(|timeout| !timeout.as_i64().is_some_and(|it| (1..=30).contains(&it)));
    let versions = list(object, "/admissionReviewVersions").next().is_some();
    let webhook =
        why.iter().fold(webhook, |check, why| check.refuse(true, || FieldFault::invalid_text("name", name, why)));
    webhook
        .each("rules", |rule, _| {
            rule.each("operations", |operation, _| {
                let value = operation.object();
                let known = value.as_str().is_some_and(|text| OPERATIONS.contains(&text));
                operation.refuse(!known, || FieldFault::unsupported("", value, OPERATIONS))
            })
        })
        .one_of("failurePolicy", &["Fail", "Ignore"])
        .one_of("matchPolicy", &["Equivalent", "Exact"])
        .required_because("sideEffects", "must specify one of None, NoneOnDryRun")
        .one_of("sideEffects", &["None", "NoneOnDryRun"])
        .refuse(timeout.is_some(), || {
            let why = "the timeout value must be between 1 and 30 seconds";
            FieldFault::invalid("timeoutSeconds", timeout.unwrap_or(&Value::Null), why)
        })
        .refuse(neither, || FieldFault::required("clientConfig", "exactly one of url or service is required"))
        .refuse(!url.is_empty() && scheme != "https", || {
            let why = "'https' is the only allowed URL scheme; desired format: https://host[/path]";
            FieldFault::invalid_text("clientConfig.url", scheme, why)
        })
        .refuse(!versions, || FieldFault::required("admissionReviewVersions", "must specify one of v1, v1beta1"))
}

/// ValidatingAdmissionPolicy and MutatingAdmissionPolicy.
#[derive(Clone, Copy, Debug)]
pub(super) struct Policy;

impl Strategy for Policy {
    fn prepare_for_create(&self, _: &Context<'_>, object: &mut Value) {
        if object.pointer("/spec/validations").is_some()
            || object.get("kind") == Some(&"ValidatingAdmissionPolicy".into())
        {
            set(object, "status", Value::Object(serde_json::Map::new()));
        }
    }

    fn defaults(&self, object: &mut Value) {
        if let Some(spec) = member(object, "spec") {
            default(spec, "failurePolicy", "Fail");
            if let Some(constraints) = present(spec, "matchConstraints") {
                fill_match(constraints);
            }
        }
    }
}

/// The bindings of both.
#[derive(Clone, Copy, Debug)]
pub(super) struct PolicyBinding;

impl Strategy for PolicyBinding {
    fn defaults(&self, object: &mut Value) {
        if let Some(resources) = object.get_mut("spec").and_then(|spec| present(spec, "matchResources")) {
            fill_match(resources);
        }
    }
}

fn fill_match(rules: &mut Value) {
    member(rules, "namespaceSelector");
    member(rules, "objectSelector");
    default(rules, "matchPolicy", "Equivalent");
    for key in ["resourceRules", "excludeResourceRules"] {
        items(rules, key).for_each(|rule| default(rule, "scope", "*"));
    }
}

/// `apiregistration.k8s.io/v1` APIService.
#[derive(Clone, Copy, Debug)]
pub(super) struct ApiService;

impl Strategy for ApiService {
    // That of the core group ends with its dot.
    fn name_rule(&self) -> NameRule {
        NameRule::PathSegment
    }

    fn prepare_for_create(&self, _: &Context<'_>, object: &mut Value) {
        set(object, "status", Value::Object(serde_json::Map::new()));
    }

    fn defaults(&self, object: &mut Value) {
        if let Some(service) = object.get_mut("spec").and_then(|spec| present(spec, "service")) {
            default(service, "port", 443);
        }
        member(object, "status");
    }

    fn validate_create(&self, object: &Value) -> Vec<FieldFault> {
        let wanted = format!("{}.{}", text_at(object, "/spec/version"), text_at(object, "/spec/group"));
        let name = text_at(object, "/metadata/name");
        Check::of(object)
            .refuse(name != wanted, || {
                FieldFault::invalid_text(
                    "metadata.name",
                    name,
                    format!("must be `spec.version+\".\"+spec.group`: {wanted:?}"),
                )
            })
            .done()
    }
}

/// `resource.k8s.io/v1` ResourceSlice.
#[derive(Clone, Copy, Debug)]
pub(super) struct ResourceSlice;

impl Strategy for ResourceSlice {
    fn field_labels(&self) -> Option<Vec<&str>> {
        Some(vec!["spec.nodeName", "spec.driver"])
    }
}
