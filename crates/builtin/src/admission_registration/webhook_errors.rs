//! Validates the webhooks of a webhook configuration.

use std::collections::HashSet;

use pintle_admission::policy::Expressions;
use pintle_apimachinery::validate::{FieldError, FieldErrors, NameRule, name_errors};
use pintle_json::Json;
use pintle_kinds::check::Check;
use pintle_kinds::label_selector::selector_errors;
use pintle_kinds::webhook_service::{
    client_errors, is_supported_review_version, review_version_errors, unsupported_review_versions,
};

use super::condition_errors::match_conditions;

const OPERATIONS: &[&str] = &["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];

pub(super) fn of(webhook: Check<'_>, mutating: bool) -> Check<'_> {
    let object = webhook.object();
    let timeout =
        object.get("timeoutSeconds").filter(|timeout| !timeout.as_i64().is_some_and(|it| (1..=30).contains(&it)));
    let path = webhook.path("");
    let selector = |field: &str| selector_errors(&object[field], &format!("{path}{field}"));
    let webhook = webhook
        .also(domain_errors(object.text("/name"), &format!("{path}name")))
        .each("rules", |rule, _| rule_errors(rule))
        .known("failurePolicy", &["Fail", "Ignore"])
        .known("matchPolicy", &["Equivalent", "Exact"])
        .required_if(!object.has("/sideEffects"), "sideEffects", "must specify one of None, NoneOnDryRun")
        .known("sideEffects", &["None", "NoneOnDryRun"])
        .refuse(timeout.is_some(), || {
            let why = "the timeout value must be between 1 and 30 seconds";
            FieldError::invalid("timeoutSeconds", timeout.unwrap_or(&Json::Null), why)
        })
        .also(selector("namespaceSelector"))
        .also(selector("objectSelector"));
    let webhook = if mutating { webhook.known("reinvocationPolicy", &["IfNeeded", "Never"]) } else { webhook };
    webhook
        .also(client_errors(&object["clientConfig"], &format!("{path}clientConfig")))
        .also(version_errors(object, &path))
        .also(condition_errors(object, &path))
}

fn condition_errors(webhook: &Json, path: &str) -> FieldErrors {
    // Create the CEL environment only if there are match conditions, because creating it takes a long time.
    match webhook.list("/matchConditions").next() {
        None => FieldErrors::default(),
        Some(_) => match_conditions(webhook, path, &Expressions::new(&Json::Null)),
    }
}

fn domain_errors(name: &str, field: &str) -> FieldErrors {
    if name.is_empty() {
        return FieldErrors::from([FieldError::required(field, "")]);
    }
    let mut why = name_errors(NameRule::Subdomain, name, false);
    if why.is_empty() && name.split('.').count() < 3 {
        why.push("should be a domain with at least three segments separated by dots".into());
    }
    why.iter().map(|why| FieldError::invalid_text(field, name, why)).collect()
}

pub(super) fn rule_errors(rule: Check<'_>) -> Check<'_> {
    let rule = listed(rule, "operations", "operations").each("operations", |operation, _| {
        let value = operation.object();
        let known = value.as_str().is_some_and(|text| OPERATIONS.contains(&text));
        operation.unsupported_if(!known, "", value, OPERATIONS)
    });
    let rule =
        listed(listed(rule, "apiGroups", "API groups"), "apiVersions", "API versions").each("apiVersions", not_empty);
    resource_errors(rule).known("scope", &["*", "Cluster", "Namespaced"])
}

/// Reports a list that is empty, or that contains `*` together with other items.
fn listed<'a>(rule: Check<'a>, field: &'static str, what: &str) -> Check<'a> {
    let value = &rule.object()[field];
    let items = value.as_array().map(Vec::as_slice).unwrap_or_default();
    let among = items.len() > 1 && items.iter().any(|item| item == "*");
    rule.required_if(items.is_empty(), field, "").refuse(among, || {
        FieldError::invalid(field, value, format!("if '*' is present, must not specify other {what}"))
    })
}

fn not_empty(item: Check<'_>, _: usize) -> Check<'_> {
    let empty = item.object().is_empty();
    item.required_if(empty, "", "")
}

/// Validates resources and subresources. A list with a wildcard must not contain names that the wildcard matches.
fn resource_errors(rule: Check<'_>) -> Check<'_> {
    let value = &rule.object()["resources"];
    let names: Vec<&str> = rule.object().texts("/resources").collect();
    let (mut whole, mut everywhere, mut plain) = (HashSet::new(), HashSet::new(), false);
    let mut rule = rule.required_if(names.is_empty(), "resources", "");
    for (at, name) in names.iter().enumerate() {
        let field = || format!("resources[{at}]");
        let Some((resource, part)) = name.split_once('/') else {
            if name.is_empty() {
                rule = rule.required_if(true, field(), "");
            } else {
                plain = *name != "*";
            }
            continue;
        };
        let covered = |pattern: String| {
            FieldError::invalid_text(field(), name, format!("if '{pattern}' is present, must not specify {name}"))
        };
        rule = rule
            .refuse(whole.contains(resource), || covered(format!("{resource}/*")))
            .refuse(everywhere.contains(part), || covered(format!("*/{part}")));
        if part == "*" {
            whole.insert(resource);
        }
        if resource == "*" {
            everywhere.insert(part);
        }
    }
    let all = names.len() > 1 && names.contains(&"*/*");
    let any = names.contains(&"*") && plain;
    rule.invalid_if(all, "resources", value, "if '*/*' is present, must not specify other resources").invalid_if(
        any,
        "resources",
        value,
        "if '*' is present, must not specify other resources without subresources",
    )
}

/// Validates the review versions, which must be unique labels. The server must support at least one of these versions.
fn version_errors(webhook: &Json, path: &str) -> FieldErrors {
    let field = format!("{path}admissionReviewVersions");
    let versions: Vec<&str> = webhook.texts("/admissionReviewVersions").collect();
    if versions.is_empty() {
        return FieldErrors::from([FieldError::required(field, "must specify one of v1, v1beta1")]);
    }
    let mut errors = review_version_errors(webhook.texts("/admissionReviewVersions"), &field);
    if !versions.iter().any(|version| is_supported_review_version(version)) {
        errors.push(unsupported_review_versions(&webhook["admissionReviewVersions"], field));
    }
    errors
}
