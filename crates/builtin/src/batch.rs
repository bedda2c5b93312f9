//! The `batch/v1` kinds: Job and CronJob.

mod cron_job;
mod job;
mod job_policies;
mod job_status;

pub(super) use cron_job::CronJob;
pub(super) use job::Job;
use pintle_json::Json;

use pintle_apimachinery::validate::{FieldError, FieldErrors};
use pintle_kinds::check::Check;

use super::core::pod::{pod_template, template_warnings, validate_template};
use super::warnings;

fn job_warnings(object: &Json, old: Option<&Json>, spec: &str) -> Vec<String> {
    if old.is_some_and(|old| !warnings::is_new(object, old)) {
        return Vec::new();
    }
    let mut found = match old {
        None => template_warnings::name(object, "Pod names and hostnames"),
        Some(_) => Vec::new(),
    };
    let number = |key: &str| object.integer(&format!("{spec}/{key}")).unwrap_or(0);
    let indexed = object.text(&format!("{spec}/completionMode")) == "Indexed";
    if indexed && number("completions") > 100_000 && number("parallelism") > 10_000 {
        let why = "In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, \
                   Kubernetes might not be able to track completedIndexes when a big number of indexes fail";
        found.push(format!("{}: {why}", spec.trim_start_matches('/').replace('/', ".")));
    }
    found.extend(template_warnings::of(object, &format!("{spec}/template")));
    found
}

fn job_spec(spec: &mut Json) {
    if !spec.has("/completions") && !spec.has("/parallelism") {
        spec.set("completions", 1);
        spec.set("parallelism", 1);
    }
    spec.set_default("parallelism", 1);
    let limit = if spec.has("/backoffLimitPerIndex") { i64::from(i32::MAX) } else { 6 };
    spec.set_default("backoffLimit", limit);
    spec.set_default("completionMode", "NonIndexed");
    spec.set_default("suspend", false);
    spec.set_default("manualSelector", false);
    let policy = if spec.has("/podFailurePolicy") { "Failed" } else { "TerminatingOrFailed" };
    spec.set_default("podReplacementPolicy", policy);
    failure_policy(spec);
    if let Some(template) = spec.get_mut("template") {
        pod_template(template);
    }
}

fn failure_policy(job_spec: &mut Json) {
    let Some(policy) = job_spec.get_mut("podFailurePolicy").filter(|policy| policy.is_object()) else { return };
    if policy["rules"].is_empty() {
        policy.set("rules", Json::Null);
    }
    for rule in policy.items_mut("rules") {
        for pattern in rule.items_mut("onPodConditions") {
            if pattern.text("/status").is_empty() {
                pattern.set("status", "True");
            }
        }
    }
}

fn job_errors(spec: &Json, path: &str) -> FieldErrors {
    let template = &spec["template"];
    let indexed = spec.text("/completionMode") == "Indexed";
    let mut needs_indexes = vec!["backoffLimitPerIndex", "maxFailedIndexes"];
    let plain = matches!(spec.text("/completionMode"), "" | "NonIndexed");
    needs_indexes.retain(|field| plain && spec.get(field).is_some_and(|value| !value.is_null()));
    let restart = template.text("/spec/restartPolicy");
    let replacement: &[&str] =
        if spec.has("/podFailurePolicy") { &["Failed"] } else { &["Failed", "TerminatingOrFailed"] };
    Check::at(spec, path)
        .not_negative(&[
            "parallelism",
            "completions",
            "activeDeadlineSeconds",
            "backoffLimit",
            "ttlSecondsAfterFinished",
            "backoffLimitPerIndex",
            "maxFailedIndexes",
        ])
        .refuse(spec.has("/maxFailedIndexes") && !spec.has("/backoffLimitPerIndex"), || {
            FieldError::required("backoffLimitPerIndex", "when maxFailedIndexes is specified")
        })
        .also(job_policies::manager_errors(spec, path))
        .known("completionMode", &["NonIndexed", "Indexed"])
        .required_if(indexed && !spec.has("/completions"), "completions", "when completion mode is Indexed")
        .also(if indexed { job_policies::index_errors(spec, path) } else { FieldErrors::default() })
        .also(needs_indexes.into_iter().map(|field| {
            let value = spec.get(field).cloned().unwrap_or_default();
            FieldError::invalid(format!("{path}.{field}"), &value, "requires indexed completion mode")
        }))
        .also(job_policies::errors(spec, path))
        .known("podReplacementPolicy", replacement)
        .also(template_errors(template, &format!("{path}.template")))
        .refuse(spec.has("/podFailurePolicy") && restart == "OnFailure", || {
            let why = "only \"Never\" is supported when podFailurePolicy is specified";
            FieldError::invalid_text("template.spec.restartPolicy", restart, why)
        })
        .done()
}

fn template_errors(template: &Json, path: &str) -> FieldErrors {
    let mut errors = validate_template(template, path);
    let restart = template.text("/spec/restartPolicy");
    let field = format!("{path}.spec.restartPolicy");
    match restart {
        "OnFailure" | "Never" => {}
        "" | "Always" => errors.push(FieldError::required(field, "valid values: \"OnFailure\", \"Never\"")),
        other => errors.push(FieldError::unsupported(field, &other.into(), &["OnFailure", "Never"])),
    }
    errors
}
