//! Validates the status of a Job. As in kube-apiserver, most rules apply only if the update changes the relevant
//! fields. Therefore, an object that already violates a rule can still be updated.

use std::collections::HashSet;

use pintle_apimachinery::object::holds;
use pintle_apimachinery::validate::{FieldError, FieldErrorType, FieldErrors};
use pintle_json::Json;
use pintle_kinds::check::Check;

use super::job_policies::{count_indexes, interval};

const CONDITIONS: &str = "status.conditions";

/// A Job before and after an update of its status.
struct Change<'a> {
    new: &'a Json,
    old: &'a Json,
}

pub(super) fn errors(new: &Json, old: &Json) -> FieldErrors {
    let change = Change { new, old };
    counter_errors(new)
        .and(change.conclusion_errors())
        .and(change.finished_errors())
        .and(change.index_errors())
        .and(change.ready_errors())
        .and(change.success_errors())
        .and(change.transition_errors())
}

fn counter_errors(new: &Json) -> FieldErrors {
    let counters = ["status.active", "status.succeeded", "status.failed", "status.ready", "status.terminating"];
    let mut errors = Check::of(new).not_negative(&counters).done();
    let mut seen = HashSet::new();
    for key in ["succeeded", "failed"] {
        for (at, uid) in new.list(&format!("/status/uncountedTerminatedPods/{key}")).enumerate() {
            let field = format!("status.uncountedTerminatedPods.{key}[{at}]");
            let text = uid.as_str().unwrap_or_default();
            if text.is_empty() {
                errors.push(FieldError::invalid_text(field, "", "must not be empty"));
            } else if !seen.insert(text) {
                errors.push(FieldError::duplicate(field, uid));
            }
        }
    }
    errors
}

impl Change<'_> {
    fn has_changed(&self, field: &str) -> bool {
        let value = |job: &Json| job.at(&format!("/status/{field}")).filter(|value| !value.is_null()).cloned();
        value(self.new) != value(self.old)
    }

    /// Returns `true` if the update adds or removes the condition.
    fn toggles(&self, condition: &str) -> bool {
        holds(self.new, condition) != holds(self.old, condition)
    }

    fn toggles_finished(&self) -> bool {
        is_finished(self.new) != is_finished(self.old)
    }

    fn conclusion_errors(&self) -> FieldErrors {
        let (complete, failed) = (holds(self.new, "Complete"), holds(self.new, "Failed"));
        let end = self.new.at("/status/completionTime").filter(|end| !end.is_null());
        let completes = self.toggles("Complete");
        let ends = completes || self.has_changed("completionTime");
        let starts = self.has_changed("startTime") || self.has_changed("completionTime");
        let is_early = end.is_some_and(|end| end.text("") < self.new.text("/status/startTime"));
        let mut errors = FieldErrors::default();
        errors.extend(
            (complete && failed && (completes || self.toggles("Failed")))
                .then(|| conditions("cannot set Complete=True and Failed=true conditions")),
        );
        let targets = completes || self.toggles("FailureTarget");
        errors.extend(
            (complete && holds(self.new, "FailureTarget") && targets)
                .then(|| conditions("cannot set Complete=True and FailureTarget=true conditions")),
        );
        let end_error = |why: &str| FieldError::invalid("status.completionTime", end.unwrap_or(&Json::Null), why);
        errors.extend(
            (end.is_some() && !complete && ends)
                .then(|| end_error("cannot set completionTime when there is no Complete=True condition")),
        );
        let missing = end.is_none() && complete && ends;
        errors.required_if(missing, "status.completionTime", "completionTime is required for Complete jobs");
        errors.extend((is_early && starts).then(|| end_error("must be equal to or after `startTime`")));
        let fails = self.toggles("Failed") || self.has_changed("failedIndexes");
        errors.extend(
            (failed && !holds(self.new, "FailureTarget") && fails)
                .then(|| conditions("cannot set Failed=True condition without the FailureTarget=true condition")),
        );
        let succeeds = completes || self.toggles("SuccessCriteriaMet");
        errors.extend(
            (complete && !holds(self.new, "SuccessCriteriaMet") && succeeds).then(|| {
                conditions("cannot set Complete=True condition without the SuccessCriteriaMet=true condition")
            }),
        );
        errors
    }

    fn finished_errors(&self) -> FieldErrors {
        let finished = is_finished(self.new);
        let changes = |field: &str| finished && (self.toggles_finished() || self.has_changed(field));
        let active = self.new.integer("/status/active").unwrap_or(0);
        let spec = &self.new["spec"];
        let is_empty = spec.is_true("/suspend") && spec.integer("/completions") == Some(0);
        let unstarted = changes("startTime") && !self.new.has("/status/startTime") && !is_empty;
        let pods = &self.new["status"]["uncountedTerminatedPods"];
        let uncounted = ["/succeeded", "/failed"].iter().any(|list| pods.list(list).next().is_some());
        Check::of(self.new)
            .invalid_if(
                changes("active") && active > 0,
                "status.active",
                &active.into(),
                "active>0 is invalid for finished job",
            )
            .required_if(unstarted, "status.startTime", "startTime is required for finished job")
            .invalid_if(
                changes("uncountedTerminatedPods") && uncounted,
                "status.uncountedTerminatedPods",
                pods,
                "must be empty for finished job",
            )
            .done()
    }

    fn index_errors(&self) -> FieldErrors {
        let spec = &self.new["spec"];
        let completions = spec.integer("/completions");
        let completed = self.new.text("/status/completedIndexes");
        let failed = self.new.at("/status/failedIndexes").and_then(Json::as_str);
        let limited = spec.integer("/backoffLimitPerIndex").is_some();
        let (completes, fails) = (self.has_changed("completedIndexes"), self.has_changed("failedIndexes"));
        let parse = |field: &str, text: &str| {
            let why = completions.and_then(|completions| count_indexes(text, completions).err())?;
            Some(FieldError::invalid_text(format!("status.{field}"), text, format!("error parsing {field}: {why}")))
        };
        let mut errors = FieldErrors::default();
        errors.extend(parse("completedIndexes", completed).filter(|_| completes));
        errors.extend(failed.filter(|_| limited && fails).and_then(|failed| parse("failedIndexes", failed)));
        let indexed = spec.text("/completionMode") == "Indexed";
        let why = "cannot set non-empty completedIndexes when non-indexed completion mode";
        errors.invalid_text_if(
            completes && !completed.is_empty() && !indexed,
            "status.completedIndexes",
            completed,
            why,
        );
        let Some(failed) = failed else { return errors };
        const FAILED: &str = "status.failedIndexes";
        let why = "cannot set non-null failedIndexes when backoffLimitPerIndex is null";
        errors.invalid_text_if(fails && !limited, FAILED, failed, why);
        if let Some(completions) = completions.filter(|_| fails || completes) {
            let overlap = first_overlap(completed, failed, completions);
            let why = format!("failedIndexes and completedIndexes overlap at index: {}", overlap.unwrap_or_default());
            errors.invalid_text_if(overlap.is_some(), FAILED, failed, why);
        }
        errors
    }

    fn ready_errors(&self) -> FieldErrors {
        let number = |key: &str| self.new.integer(&format!("/status/{key}")).unwrap_or(0);
        let (active, ready, terminating) = (number("active"), number("ready"), number("terminating"));
        let ends = self.toggles_finished() || self.has_changed("terminating");
        let has_ready = self.new.at("/status/ready").is_some_and(|ready| !ready.is_null());
        let readies = has_ready && (self.has_changed("ready") || self.has_changed("active"));
        Check::of(self.new)
            .invalid_if(
                ends && terminating > 0 && is_finished(self.new),
                "status.terminating",
                &terminating.into(),
                "terminating>0 is invalid for finished job",
            )
            .invalid_if(
                readies && ready > active,
                "status.ready",
                &ready.into(),
                "cannot set more ready pods than active",
            )
            .done()
    }

    fn success_errors(&self) -> FieldErrors {
        let holds = |condition: &str| holds(self.new, condition);
        let met = holds("SuccessCriteriaMet");
        let has_policy = self.new.has("/spec/successPolicy");
        let unmet = "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True";
        let rules = [
            (met && holds("Failed"), "cannot set SuccessCriteriaMet=True and Failed=true conditions"),
            (met && holds("FailureTarget"), "cannot set SuccessCriteriaMet=True and FailureTarget=true conditions"),
            (has_policy && !met && holds("Complete"), unmet),
        ];
        rules.into_iter().filter(|(broken, _)| *broken).map(|(_, why)| conditions(why)).collect()
    }

    /// Validates the transition from the old status to the new status. The transition rules apply to every update.
    fn transition_errors(&self) -> FieldErrors {
        let (new, old) = (self.new, self.old);
        let lost = |condition: &&str| holds(old, condition) && !holds(new, condition);
        let lost = ["Failed", "Complete", "FailureTarget"].into_iter().filter(|condition| lost(condition));
        let lost = lost.map(|condition| conditions(&format!("cannot disable the terminal {condition}=True condition")));
        let mut errors: FieldErrors = lost.collect();
        let spec = &new["spec"];
        let scales = spec.text("/completionMode") == "Indexed" && spec.get("completions") == spec.get("parallelism");
        for (key, is_checked) in [("failed", true), ("succeeded", !scales)] {
            let count = |job: &Json| job.integer(&format!("/status/{key}")).unwrap_or(0);
            if is_checked && count(new) < count(old) {
                let why = format!("cannot decrease the {key} counter");
                errors.push(FieldError::invalid(format!("status.{key}"), &count(new).into(), why));
            }
        }
        let both_end = new.has("/status/completionTime") && old.has("/status/completionTime");
        if both_end && self.has_changed("completionTime") {
            let end = &new["status"]["completionTime"];
            errors.push(FieldError::invalid("status.completionTime", end, "field is immutable"));
        }
        let resumes = holds(old, "Suspended")
            && new
                .list("/status/conditions")
                .any(|it| it.text("/type") == "Suspended" && it.text("/status") == "False");
        let restarts = old.has("/status/startTime") && self.has_changed("startTime");
        if restarts && !resumes && !spec.is_true("/suspend") {
            let start = &new["status"]["startTime"];
            let why = "field is immutable for unsuspended job once set";
            errors.push(FieldError::invalid("status.startTime", start, why));
        }
        let (met, was_met) = (holds(new, "SuccessCriteriaMet"), holds(old, "SuccessCriteriaMet"));
        errors.extend((was_met && !met).then(|| conditions("cannot disable the SuccessCriteriaMet=True condition")));
        errors
            .extend((holds(old, "Complete") && !was_met && met).then(|| {
                conditions("cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions")
            }));
        errors
    }
}

fn is_finished(job: &Json) -> bool {
    holds(job, "Complete") || holds(job, "Failed")
}

/// Returns an error about the conditions of a Job. As in kube-apiserver, the message does not contain the conditions.
fn conditions(why: &str) -> FieldError {
    FieldError::new(FieldErrorType::Invalid, CONDITIONS, format!("Invalid value: {why}"))
}

/// Returns the first index that both texts contain. Ignores intervals that cannot be parsed. As in kube-apiserver, each
/// interval is visited only once, so the function can miss overlaps of unsorted intervals.
fn first_overlap(completed: &str, failed: &str, completions: i64) -> Option<i64> {
    let mut completed = intervals(completed, completions).peekable();
    let mut failed = intervals(failed, completions).peekable();
    while let (Some(&(from, to)), Some(&(first, last))) = (completed.peek(), failed.peek()) {
        if from <= last && first <= to {
            return Some(from.max(first));
        }
        if from <= first {
            completed.next();
        } else {
            failed.next();
        }
    }
    None
}

fn intervals(text: &str, completions: i64) -> impl Iterator<Item = (i64, i64)> {
    text.split(',').filter_map(move |part| interval(part, completions).ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use pintle_json::json;

    #[test]
    fn status_rules_match_kube_apiserver() {
        let condition = |kind: &str| json!({"type": kind, "status": "True"});
        let now = "2024-01-01T00:00:00Z";
        let check = |spec: Json, old: Json, new: Json, expected: &[&str]| {
            let job = |status: Json| json!({"spec": spec, "status": status});
            let found = errors(&job(new.clone()), &job(old)).fields();
            assert_eq!(found, expected, "{new}");
        };
        let indexed = json!({"completionMode": "Indexed", "completions": 5, "backoffLimitPerIndex": 1});
        for (new, expected) in [
            (json!({"ready": 1}), "ready"),
            (json!({"active": -1, "ready": -2}), "active status.ready"),
            (json!({"completedIndexes": "x"}), "completedIndexes"),
            (json!({"completedIndexes": "0-2", "failedIndexes": "2"}), "failedIndexes"),
            (json!({"failedIndexes": "7"}), "failedIndexes"),
            (
                json!({"conditions": [condition("Complete"), condition("SuccessCriteriaMet")], "startTime": now}),
                "completionTime",
            ),
            (json!({"conditions": [condition("Failed")], "startTime": now}), "conditions"),
            (json!({"conditions": [condition("Failed"), condition("FailureTarget")]}), "startTime"),
            (json!({"uncountedTerminatedPods": {"failed": [""]}}), "uncountedTerminatedPods.failed[0]"),
        ] {
            let expected: Vec<_> = format!("status.{expected}").split(' ').map(str::to_owned).collect();
            let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
            check(indexed.clone(), json!({}), new, &expected);
        }
        check(json!({}), json!({}), json!({"completedIndexes": "1"}), &["status.completedIndexes"]);
        check(json!({}), json!({}), json!({"failedIndexes": ""}), &["status.failedIndexes"]);
        check(json!({}), json!({"failed": 2, "succeeded": 1}), json!({}), &["status.failed", "status.succeeded"]);
        let ended = json!({"conditions": [condition("Failed"), condition("FailureTarget")], "startTime": now});
        check(json!({}), ended.clone(), ended.clone(), &[]);
        check(json!({}), ended, json!({"startTime": now}), &["status.conditions"; 2]);
    }
}
