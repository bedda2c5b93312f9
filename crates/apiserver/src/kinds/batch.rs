//! Jobs and what makes them on schedule.

use serde_json::{Value, json};

use super::edit::{default, has, list, member, present, set, text_at};
use super::pods::{pod_template, validate_template};
use super::{Context, Strategy};
use crate::validate::{FieldFault, NameRule};

/// `batch/v1` Job.
#[derive(Clone, Copy, Debug)]
pub(super) struct Job;

impl Strategy for Job {
    fn defaults(&self, object: &mut Value) {
        if let Some(spec) = member(object, "spec") {
            job_spec(spec);
            default(spec, "parallelism", 1);
        }
        let labels =
            object.pointer("/spec/template/metadata/labels").filter(|labels| !super::edit::is_empty(labels)).cloned();
        if let (Some(labels), Some(metadata)) = (labels, member(object, "metadata")) {
            if metadata.get("labels").is_none_or(super::edit::is_empty) {
                set(metadata, "labels", labels);
            }
        }
        member(object, "status");
    }

    fn prepare_for_create(&self, _: &Context<'_>, object: &mut Value) {
        set(object, "status", json!({}));
        if object.pointer("/spec/manualSelector") == Some(&Value::Bool(true)) {
            return;
        }
        let (uid, name) = (text_at(object, "/metadata/uid").to_owned(), text_at(object, "/metadata/name").to_owned());
        let generated = [
            ("controller-uid", &uid),
            ("batch.kubernetes.io/controller-uid", &uid),
            ("job-name", &name),
            ("batch.kubernetes.io/job-name", &name),
        ];
        let Some(spec) = member(object, "spec") else { return };
        if let Some(labels) =
            member(spec, "template").and_then(|it| member(it, "metadata")).and_then(|it| member(it, "labels"))
        {
            for (key, value) in generated {
                default(labels, key, value.as_str());
            }
        }
        if let Some(labels) = member(spec, "selector").and_then(|selector| member(selector, "matchLabels")) {
            default(labels, "batch.kubernetes.io/controller-uid", uid.as_str());
        }
        if text_at(object, "/metadata/generateName").is_empty() {
            let labels = object
                .pointer("/spec/template/metadata/labels")
                .and_then(Value::as_object)
                .cloned()
                .unwrap_or_default();
            if let Some(metadata) = member(object, "metadata") {
                if metadata.get("labels").is_none_or(super::edit::is_empty) {
                    set(metadata, "labels", Value::Object(labels));
                }
            }
        }
    }

    fn validate_create(&self, object: &Value) -> Vec<FieldFault> {
        job_faults(object.get("spec").unwrap_or(&Value::Null), "spec")
    }

    fn validate_update(&self, new: &Value, old: &Value, subresource: Option<&str>) -> Vec<FieldFault> {
        if subresource == Some("status") {
            return Vec::new();
        }
        let mut faults = self.validate_create(new);
        let mut keys = vec![
            "selector",
            "completionMode",
            "podFailurePolicy",
            "backoffLimitPerIndex",
            "managedBy",
            "successPolicy",
        ];
        if text_at(old, "/spec/completionMode") != "Indexed" {
            keys.push("completions");
        }
        let suspended =
            |condition: &Value| text_at(condition, "/type") == "Suspended" && text_at(condition, "/status") == "True";
        let stopped =
            old.pointer("/spec/suspend") == Some(&Value::Bool(true)) && list(old, "/status/conditions").any(suspended);
        if !stopped {
            keys.push("template");
        }
        for key in keys {
            let pointer = format!("/spec/{key}");
            if new.pointer(&pointer) != old.pointer(&pointer) {
                let value = new.pointer(&pointer).cloned().unwrap_or_default();
                faults.push(FieldFault::invalid(format!("spec.{key}"), &value, "field is immutable"));
            }
        }
        faults
    }

    fn field_labels(&self) -> Option<Vec<&str>> {
        Some(vec!["status.successful"])
    }

    fn field(&self, object: &Value, label: &str) -> Option<String> {
        (label == "status.successful")
            .then(|| super::edit::integer_at(object, "/status/succeeded").unwrap_or(0).to_string())
    }
}

/// `batch/v1` CronJob.
#[derive(Clone, Copy, Debug)]
pub(super) struct CronJob;

impl Strategy for CronJob {
    fn defaults(&self, object: &mut Value) {
        if let Some(spec) = member(object, "spec") {
            default(spec, "concurrencyPolicy", "Allow");
            default(spec, "suspend", false);
            default(spec, "successfulJobsHistoryLimit", 3);
            default(spec, "failedJobsHistoryLimit", 1);
            if let Some(template) = member(spec, "jobTemplate") {
                member(template, "metadata");
                if let Some(pods) = member(template, "spec").and_then(|spec| member(spec, "template")) {
                    pod_template(pods);
                }
            }
        }
        member(object, "status");
    }

    fn prepare_for_create(&self, _: &Context<'_>, object: &mut Value) {
        set(object, "status", json!({}));
    }

    fn name_rule(&self) -> NameRule {
        NameRule::ShortSubdomain(52)
    }
}

fn job_spec(spec: &mut Value) {
    if !has(spec, "/completions") && !has(spec, "/parallelism") {
        set(spec, "completions", 1.into());
        set(spec, "parallelism", 1.into());
    }
    default(spec, "parallelism", 1);
    let limit = if has(spec, "/backoffLimitPerIndex") { i64::from(i32::MAX) } else { 6 };
    default(spec, "backoffLimit", limit);
    default(spec, "completionMode", "NonIndexed");
    default(spec, "suspend", false);
    default(spec, "manualSelector", false);
    let policy = if has(spec, "/podFailurePolicy") { "Failed" } else { "TerminatingOrFailed" };
    default(spec, "podReplacementPolicy", policy);
    if let Some(template) = present(spec, "template") {
        pod_template(template);
    }
}

fn job_faults(spec: &Value, path: &str) -> Vec<FieldFault> {
    let mut faults = Vec::new();
    for key in ["parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished"] {
        if let Some(value) = spec.get(key).filter(|value| value.as_i64().is_some_and(|number| number < 0)) {
            faults.push(FieldFault::invalid(format!("{path}.{key}"), value, "must be greater than or equal to 0"));
        }
    }
    let template = spec.get("template").unwrap_or(&Value::Null);
    faults.extend(validate_template(template, &format!("{path}.template")));
    let restart = text_at(template, "/spec/restartPolicy");
    if !["OnFailure", "Never"].contains(&restart) {
        let field = format!("{path}.template.spec.restartPolicy");
        faults.push(FieldFault::unsupported(field, &restart.into(), &["OnFailure", "Never"]));
    }
    faults
}
