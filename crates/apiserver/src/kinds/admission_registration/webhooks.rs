//! ValidatingWebhookConfiguration and MutatingWebhookConfiguration.

use crate::kinds::check::Check;
use crate::kinds::table::{self, Column, Row};
use crate::kinds::without_effect::{WEBHOOKS, is_about, whole};
use crate::kinds::{Cluster, Kinds, Strategy};
use crate::validate::{FieldFault, FieldFaults, NameRule, name_faults};
use jiff::Timestamp;
use pintle_json::Json;

const OPERATIONS: &[&str] = &["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];

/// ValidatingWebhookConfiguration and MutatingWebhookConfiguration.
#[derive(Clone, Copy, Debug)]
pub(in crate::kinds) struct Webhooks {
    pub(in crate::kinds) mutating: bool,
}

impl Strategy for Webhooks {
    fn without_effect(&self, object: &Json, kinds: &Kinds, _: &dyn Cluster) -> Vec<String> {
        let mut rules = object.list("/webhooks").flat_map(|webhook| webhook.list("/rules"));
        match rules.any(|rule| is_about(kinds, rule)) {
            true => whole(object, WEBHOOKS),
            false => Vec::new(),
        }
    }

    fn defaults(&self, object: &mut Json) {
        for webhook in object.items_mut("webhooks") {
            for (key, value) in [("failurePolicy", "Fail"), ("matchPolicy", "Equivalent")] {
                webhook.set_default(key, value);
            }
            webhook.member("namespaceSelector");
            webhook.member("objectSelector");
            webhook.set_default("timeoutSeconds", 10);
            if self.mutating {
                webhook.set_default("reinvocationPolicy", "Never");
            }
            if let Some(service) = webhook.get_mut("clientConfig").and_then(|client| client.get_mut("service")) {
                service.set_default("port", 443);
            }
            webhook.items_mut("rules").for_each(|rule| rule.set_default("scope", "*"));
        }
    }

    fn validate_create(&self, object: &Json) -> FieldFaults {
        Check::of(object).each("webhooks", |webhook, _| webhook_faults(webhook)).done()
    }

    fn columns(&self) -> Option<Vec<Column>> {
        table::columns("Name, Webhooks:integer, Age")
    }

    fn cells(&self, object: &Json, now: Timestamp) -> Vec<Json> {
        let row = Row::new(object, now);
        vec![row.name(), row.size("/webhooks"), row.age()]
    }
}

fn webhook_faults(webhook: Check<'_>) -> Check<'_> {
    let object = webhook.object();
    let name = object.text("/name");
    let mut why = if name.is_empty() { Vec::new() } else { name_faults(NameRule::Subdomain, name, false) };
    if why.is_empty() && !name.is_empty() && name.split('.').count() < 3 {
        why.push("should be a domain with at least three segments separated by dots".into());
    }
    let (url, service) = (object.text("/clientConfig/url"), object.has("/clientConfig/service"));
    let neither = url.is_empty() != service;
    let scheme = url.split("://").next().unwrap_or_default();
    let timeout =
        object.get("timeoutSeconds").filter(|timeout| !timeout.as_i64().is_some_and(|it| (1..=30).contains(&it)));
    let versions = object.list("/admissionReviewVersions").next().is_some();
    let webhook = webhook.required("name");
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
            FieldFault::invalid("timeoutSeconds", timeout.unwrap_or(&Json::Null), why)
        })
        .refuse(neither, || FieldFault::required("clientConfig", "exactly one of url or service is required"))
        .refuse(!url.is_empty() && scheme != "https", || {
            let why = "'https' is the only allowed URL scheme; desired format: https://host[/path]";
            FieldFault::invalid_text("clientConfig.url", scheme, why)
        })
        .refuse(!versions, || FieldFault::required("admissionReviewVersions", "must specify one of v1, v1beta1"))
}
