//! Jobs and what makes them on schedule.

mod cron_job;
mod job;
mod job_policies;

pub(super) use cron_job::CronJob;
pub(super) use job::Job;

use pintle_json::Json;

use super::check::Check;
use super::core::pod::{pod_template, template_warnings, validate_template};
use super::warnings;
use crate::object::{default, has, integer_at, items, present, set, text_at};
use crate::validate::{FieldFault, FieldFaults};

/// Of the Job's spec at a pointer, in the object that is named as its pods are.
fn job_warnings(object: &Json, old: Option<&Json>, spec: &str) -> Vec<String> {
    if old.is_some_and(|old| !warnings::is_new(object, old)) {
        return Vec::new();
    }
    let mut found = match old {
        None => template_warnings::name(object, "Pod names and hostnames"),
        Some(_) => Vec::new(),
    };
    let number = |key: &str| integer_at(object, &format!("{spec}/{key}")).unwrap_or(0);
    let indexed = text_at(object, &format!("{spec}/completionMode")) == "Indexed";
    if indexed && number("completions") > 100_000 && number("parallelism") > 10_000 {
        let why = "In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, \
                   Kubernetes might not be able to track completedIndexes when a big number of indexes fail";
        found.push(format!("{}: {why}", spec.trim_start_matches('/').replace('/', ".")));
    }
    found.extend(template_warnings::of(object, &format!("{spec}/template")));
    found
}

fn job_spec(spec: &mut Json) {
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
    for rule in present(spec, "podFailurePolicy").into_iter().flat_map(|policy| items(policy, "rules")) {
        for pattern in items(rule, "onPodConditions") {
            if text_at(pattern, "/status").is_empty() {
                set(pattern, "status", "True".into());
            }
        }
    }
    if let Some(template) = present(spec, "template") {
        pod_template(template);
    }
}

fn job_faults(spec: &Json, path: &str) -> FieldFaults {
    let template = spec.get("template").unwrap_or(&Json::Null);
    let indexed = text_at(spec, "/completionMode") == "Indexed";
    let mut needs_indexes = vec!["backoffLimitPerIndex", "maxFailedIndexes"];
    needs_indexes.retain(|field| !indexed && spec.get(field).is_some_and(|value| !value.is_null()));
    let restart = text_at(template, "/spec/restartPolicy");
    let replacement: &[&str] = match has(spec, "/podFailurePolicy") {
        true => &["Failed"],
        false => &["Failed", "TerminatingOrFailed"],
    };
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
        .refuse(has(spec, "/maxFailedIndexes") && !has(spec, "/backoffLimitPerIndex"), || {
            FieldFault::required("backoffLimitPerIndex", "when maxFailedIndexes is specified")
        })
        .also(job_policies::manager_faults(spec, path))
        .one_of("completionMode", &["NonIndexed", "Indexed"])
        .refuse(indexed && !has(spec, "/completions"), || {
            FieldFault::required("completions", "when completion mode is Indexed")
        })
        .also(if indexed { job_policies::index_faults(spec, path) } else { FieldFaults::default() })
        .also(needs_indexes.into_iter().map(|field| {
            let value = spec.get(field).cloned().unwrap_or_default();
            FieldFault::invalid(format!("{path}.{field}"), &value, "requires indexed completion mode")
        }))
        .also(job_policies::faults(spec, path))
        .one_of("podReplacementPolicy", replacement)
        .also(template_faults(template, &format!("{path}.template")))
        .refuse(has(spec, "/podFailurePolicy") && restart == "OnFailure", || {
            let why = "only \"Never\" is supported when podFailurePolicy is specified";
            FieldFault::invalid_text("template.spec.restartPolicy", restart, why)
        })
        .done()
}

fn template_faults(template: &Json, path: &str) -> FieldFaults {
    let mut faults = validate_template(template, path);
    let restart = text_at(template, "/spec/restartPolicy");
    let field = format!("{path}.spec.restartPolicy");
    match restart {
        "OnFailure" | "Never" => {}
        "" | "Always" => faults.push(FieldFault::required(field, "valid values: \"OnFailure\", \"Never\"")),
        other => faults.push(FieldFault::unsupported(field, &other.into(), &["OnFailure", "Never"])),
    }
    faults
}
