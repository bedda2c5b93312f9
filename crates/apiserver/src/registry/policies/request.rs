//! Computes the CEL variables `request` and `namespaceObject`.

use pintle_apimachinery::request::options::{DeleteOptions, WriteOptions};
use pintle_json::{Json, json};
use pintle_kinds::Kind;
use pintle_meta::FieldValidation;

use super::namespace::namespace_of;
use crate::registry::admission_plugin::{AdmissionOptions, AdmissionRequest, Operation};

pub(super) fn operation_name(operation: Operation) -> &'static str {
    match operation {
        Operation::Create => "CREATE",
        Operation::Update => "UPDATE",
        Operation::Delete => "DELETE",
        Operation::Connect => "CONNECT",
    }
}

/// Returns an AdmissionRequest without objects. `kind` must be in the version that the policy matches. `own_type` must
/// be the request's object if its type differs from the resource's type, as for a Scale.
pub(super) fn admission_request(request: &AdmissionRequest<'_>, kind: &Kind, own_type: Option<&Json>) -> Json {
    let (target, user) = (request.target, &request.by.user);
    let gvk = |kind: &Kind| match own_type {
        None => json!({"group": kind.group, "version": kind.version, "kind": kind.kind}),
        Some(object) => {
            let api_version = object.text("/apiVersion");
            let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
            json!({"group": group, "version": version, "kind": object.text("/kind")})
        }
    };
    let gvr = |kind: &Kind| json!({"group": kind.group, "version": kind.version, "resource": kind.plural});
    let mut user_info = json!({"username": user.name, "groups": user.groups.iter().collect::<Vec<_>>()});
    if !user.uid.is_empty() {
        user_info.set("uid", user.uid.as_str());
    }
    if !user.extra.is_empty() {
        user_info.set("extra", json!(user.extra));
    }
    let mut admission_request = json!({
        "kind": gvk(kind),
        "resource": gvr(kind),
        "requestKind": gvk(&target.kind),
        "requestResource": gvr(&target.kind),
        "operation": operation_name(request.operation),
        "userInfo": user_info,
        "dryRun": request.dry_run(),
        "options": options_json(request),
    });
    let subresource = target.subresource.name();
    for (name, value) in [
        ("subResource", subresource),
        ("requestSubResource", subresource),
        ("name", request.name()),
        ("namespace", namespace_of(request)),
    ] {
        if !value.is_empty() {
            admission_request.set(name, value);
        }
    }
    admission_request
}

fn options_json(request: &AdmissionRequest<'_>) -> Json {
    match (request.options, request.operation) {
        (AdmissionOptions::Write(options), Operation::Create) => write_options_json(options, "CreateOptions"),
        (AdmissionOptions::Write(options), _) => write_options_json(options, "UpdateOptions"),
        (AdmissionOptions::Delete(options), _) => delete_options_json(options),
        (AdmissionOptions::None, _) => Json::Null,
    }
}

fn write_options_json(options: &WriteOptions, kind: &str) -> Json {
    let mut json = json!({"kind": kind, "apiVersion": "meta.k8s.io/v1"});
    if options.dry_run {
        json.set("dryRun", vec!["All"]);
    }
    if !options.field_manager.is_empty() {
        json.set("fieldManager", options.field_manager.as_str());
    }
    match options.field_validation {
        // Omit `Warn` from the options, because it is the default of `fieldValidation`.
        FieldValidation::Warn => {}
        FieldValidation::Ignore => json.set("fieldValidation", "Ignore"),
        FieldValidation::Strict => json.set("fieldValidation", "Strict"),
    }
    json
}

fn delete_options_json(options: &DeleteOptions) -> Json {
    let mut json = json!({"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"});
    if options.dry_run {
        json.set("dryRun", vec!["All"]);
    }
    if let Some(seconds) = options.grace_seconds {
        json.set("gracePeriodSeconds", seconds);
    }
    if let Some(policy) = options.propagation {
        json.set("propagationPolicy", format!("{policy:?}"));
    }
    if let Some(orphan) = options.orphan_dependents {
        json.set("orphanDependents", orphan);
    }
    let preconditions = [("uid", &options.uid), ("resourceVersion", &options.resource_version)];
    let preconditions: Vec<_> =
        preconditions.iter().filter_map(|(name, value)| Some((*name, value.as_deref()?))).collect();
    if !preconditions.is_empty() {
        json.set("preconditions", Json::from_iter(preconditions));
    }
    json
}

pub(super) fn namespace_object(namespace: &Json) -> Json {
    /// The metadata members that expressions cannot read, as in kube-apiserver.
    const HIDDEN: [&str; 3] = ["managedFields", "ownerReferences", "selfLink"];
    let mut object = namespace.clone();
    if let Some(metadata) = object.get_mut("metadata") {
        HIDDEN.iter().for_each(|name| metadata.unset(name));
    }
    object
}
