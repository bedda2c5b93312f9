//! The `apps/v1` kinds, and other workload kinds that run pods from a template.

mod controller_revision;
mod daemon_set;
mod deployment;
mod replica_set;
mod replication_controller;
mod stateful_set;

pub(super) use controller_revision::ControllerRevision;
pub(super) use daemon_set::DaemonSet;
pub use daemon_set::partial_metadata;
pub(super) use deployment::Deployment;
pub(super) use replica_set::ReplicaSet;
pub(super) use replication_controller::ReplicationController;
pub(super) use stateful_set::StatefulSet;

use pintle_apimachinery::selector::{selects_labels, structured};
use pintle_apimachinery::validate::{FieldError, FieldErrors};
use pintle_json::Json;
use pintle_kinds::check::Check;
use pintle_kinds::label_selector::selector_errors;
use pintle_schema::Schema;

use super::core::pod::{pod_template, template_metadata, validate_template};

const TEMPLATE: &str = "/spec/template";

fn workload_spec(object: &mut Json) -> Option<&mut Json> {
    let spec = object.member("spec")?;
    if let Some(template) = spec.get_mut("template") {
        pod_template(template);
    }
    Some(spec)
}

/// Validates a workload whose selector is a `LabelSelector`. `kind` is the name of the kind in error messages. A
/// missing or unreadable selector is not an error for a DaemonSet.
fn workload_errors(object: &Json, kind: &str) -> FieldErrors {
    let template = &object["spec"]["template"];
    let selector = object.at("/spec/selector").filter(|selector| !selector.is_null());
    let read = selector.map(structured);
    let labels = template.at("/metadata/labels").cloned().unwrap_or_default();
    let broken = selector_errors(selector.unwrap_or(&Json::Null), "spec.selector");
    let empty = selector.is_some_and(Json::is_empty);
    let unreadable = !broken.is_empty() || matches!(read, Some(None));
    let matches = match &read {
        Some(Some(selector)) => selects_labels(selector, labels.as_object()),
        _ => false,
    };
    let value = selector.cloned().unwrap_or_default();
    let restart = template.text("/spec/restartPolicy");
    let strict = kind != "daemonset";
    Check::of(object)
        .not_negative(&["spec.replicas"])
        .required_if(selector.is_none() && strict, "spec.selector", "")
        .also(broken)
        .invalid_if(empty, "spec.selector", &value, format_args!("empty selector is invalid for {kind}"))
        .refuse(unreadable && strict, || {
            let value = Schema::go_text("meta.LabelSelector", &value);
            FieldError::invalid_go("spec.selector", &value, "invalid label selector")
        })
        .refuse(!matches && !empty && !unreadable, || {
            let why = "`selector` does not match template `labels`";
            FieldError::invalid("spec.template.metadata.labels", &labels, why)
        })
        .also(validate_template(template, "spec.template"))
        .also(if kind == "statefulset" { template_metadata(template, "spec.template") } else { FieldErrors::default() })
        .refuse(!restart.is_empty() && restart != "Always", || {
            FieldError::unsupported("spec.template.spec.restartPolicy", &restart.into(), &["Always"])
        })
        .refuse(template.has("/spec/activeDeadlineSeconds"), || {
            let kind = match kind {
                "statefulset" => "StatefulSet",
                "daemonset" => "DaemonSet",
                _ => "ReplicaSet",
            };
            let why = format!("activeDeadlineSeconds in {kind} is not Supported");
            FieldError::forbidden("spec.template.spec.activeDeadlineSeconds", why)
        })
        .not_negative(&["spec.minReadySeconds", "spec.revisionHistoryLimit"])
        .done()
}

fn selector_changed(new: &Json, old: &Json) -> Option<FieldError> {
    let selector = |object: &Json| object["spec"]["selector"].clone();
    (selector(new) != selector(old)).then(|| FieldError::invalid("spec.selector", &selector(new), "field is immutable"))
}

/// Reports status numbers that are negative or exceed the number of replicas.
fn status_errors(object: &Json, parts: &[&str]) -> FieldErrors {
    let mut errors = FieldErrors::default();
    let mut counts: Vec<_> = object.members("/status").collect();
    let place = |key: &str| ["replicas"].iter().chain(parts).position(|part| *part == key).unwrap_or(usize::MAX);
    counts.sort_by_key(|(key, _)| place(key));
    for (key, value) in counts {
        if value.as_i64().is_some_and(|number| number < 0) {
            errors.push(FieldError::invalid(format!("status.{key}"), value, "must be greater than or equal to 0"));
        }
    }
    let number = |key: &str| object.integer(&format!("/status/{key}")).unwrap_or(0);
    let replicas = number("replicas");
    for key in parts {
        if number(key) > replicas {
            errors.push(FieldError::invalid(
                format!("status.{key}"),
                &number(key).into(),
                "cannot be greater than status.replicas",
            ));
        }
    }
    if number("availableReplicas") > number("readyReplicas") {
        let value = number("availableReplicas").into();
        // As in kube-apiserver, only the error of a StatefulSet contains the whole path.
        let path = if parts.contains(&"currentReplicas") { "status." } else { "" };
        let why = format!("cannot be greater than {path}readyReplicas");
        errors.push(FieldError::invalid("status.availableReplicas", &value, why));
    }
    errors
}
