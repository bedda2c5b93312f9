//! Jobs and what makes them on schedule.

use serde_json::{Value, json};

use super::check::Check;
use super::pods::{pod_template, validate_template};
use super::{Context, Strategy, warnings};
use crate::object::{default, has, integer_at, items, list, member, present, set, text_at};
use crate::request::Part;
use crate::selector::{selects_labels, structured};
use crate::validate::{FieldFault, NameRule, name_faults};

const GENERATED: [&str; 4] =
    ["controller-uid", "batch.kubernetes.io/controller-uid", "job-name", "batch.kubernetes.io/job-name"];

/// `batch/v1` Job.
#[derive(Clone, Copy, Debug)]
pub(super) struct Job;

impl Strategy for Job {
    fn warnings(&self, object: &Value, old: Option<&Value>, _: Part) -> Vec<String> {
        job_warnings(object, old, "/spec")
    }

    fn defaults(&self, object: &mut Value) {
        if let Some(spec) = member(object, "spec") {
            job_spec(spec);
            default(spec, "parallelism", 1);
        }
        let labels =
            object.pointer("/spec/template/metadata/labels").filter(|labels| !crate::object::is_empty(labels)).cloned();
        if let (Some(labels), Some(metadata)) = (labels, member(object, "metadata"))
            && metadata.get("labels").is_none_or(crate::object::is_empty)
        {
            set(metadata, "labels", labels);
        }
        member(object, "status");
    }

    fn prepare_for_create(&self, _: &Context<'_>, object: &mut Value) {
        set(object, "status", json!({}));
        if object.pointer("/spec/manualSelector") == Some(&Value::Bool(true)) {
            return;
        }
        let (uid, name) = (text_at(object, "/metadata/uid").to_owned(), text_at(object, "/metadata/name").to_owned());
        let generated = GENERATED.map(|key| (key, if key.ends_with("uid") { &uid } else { &name }));
        // Labels that defaulting took from the template are the template's own, and get what it gets.
        let own = object.pointer("/metadata/labels").filter(|labels| !crate::object::is_empty(labels));
        let shared = own.is_some_and(|own| object.pointer("/spec/template/metadata/labels") == Some(own));
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
        let labels = object.pointer("/spec/template/metadata/labels").cloned();
        if let (Some(labels), true) = (labels, shared && text_at(object, "/metadata/generateName").is_empty()) {
            crate::object::set_metadata(object, "labels", labels);
        }
    }

    fn validate_create(&self, object: &Value) -> Vec<FieldFault> {
        [generated_faults(object), job_spec_faults(object), job_name_faults(object)].concat()
    }

    fn validate_update(&self, new: &Value, old: &Value, part: Part) -> Vec<FieldFault> {
        if part == Part::Status {
            return status_faults(new);
        }
        // The rules for the spec are among those for any Job, and again among those for a change.
        let spec = job_spec_faults(new);
        let mut faults = [generated_faults(new), spec.clone(), job_name_faults(new), spec].concat();
        let mut keys = Vec::new();
        if text_at(new, "/spec/completionMode") != "Indexed" {
            keys.push("completions");
        } else if new.pointer("/spec/completions") != old.pointer("/spec/completions")
            && let Some(completions) = new.pointer("/spec/completions").filter(|completions| !completions.is_null())
            && Some(completions) != new.pointer("/spec/parallelism")
        {
            let why = "can only be modified in tandem with spec.parallelism";
            faults.push(FieldFault::invalid("spec.completions", completions, why));
        }
        keys.push("selector");
        let suspended =
            |condition: &Value| text_at(condition, "/type") == "Suspended" && text_at(condition, "/status") == "True";
        let stopped =
            old.pointer("/spec/suspend") == Some(&Value::Bool(true)) && list(old, "/status/conditions").any(suspended);
        if !stopped {
            keys.push("template");
        }
        keys.extend(["completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"]);
        for key in keys {
            let pointer = format!("/spec/{key}");
            if new.pointer(&pointer) != old.pointer(&pointer) {
                let value = new.pointer(&pointer).cloned().unwrap_or_default();
                faults.push(FieldFault::invalid(format!("spec.{key}"), &value, "field is immutable"));
            }
        }
        faults
    }

    fn to_stored(&self, mut object: Value) -> Value {
        // A real server finds the labels missing when it reads the object back, and takes those of the template.
        self.defaults(&mut object);
        object
    }

    fn settles_late(&self, created: &Value) -> bool {
        // Labels that came from the template only when the object was read back: the template had none but those generated.
        let labels = |pointer: &str| created.pointer(pointer).and_then(Value::as_object);
        let template = labels("/spec/template/metadata/labels");
        let generated = |key: &String| GENERATED.contains(&key.as_str());
        template.is_some_and(|labels| !labels.is_empty() && labels.keys().all(generated))
            && labels("/metadata/labels") == template
    }

    fn field_labels(&self) -> Option<Vec<&str>> {
        Some(vec!["status.successful"])
    }

    fn field_paths<'a>(&self, _: &'a str) -> Vec<&'a str> {
        vec!["status.succeeded"]
    }

    fn field(&self, object: &Value, label: &str) -> Option<String> {
        (label == "status.successful")
            .then(|| crate::object::integer_at(object, "/status/succeeded").unwrap_or(0).to_string())
    }
}

/// `batch/v1` CronJob.
#[derive(Clone, Copy, Debug)]
pub(super) struct CronJob;

impl Strategy for CronJob {
    fn warnings(&self, object: &Value, old: Option<&Value>, part: Part) -> Vec<String> {
        let mut found = job_warnings(object, old, "/spec/jobTemplate/spec");
        if old.is_some() && part == Part::Object && text_at(object, "/spec/schedule").contains("TZ") {
            let see = "https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/";
            found.push(format!(
                "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see {see} for more details"
            ));
        }
        found
    }

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

    fn validate_create(&self, object: &Value) -> Vec<FieldFault> {
        let schedule = text_at(object, "/spec/schedule");
        let why = if schedule.is_empty() { None } else { schedule_fault(schedule) };
        let zone = object.pointer("/spec/timeZone").and_then(Value::as_str);
        let template = object.pointer("/spec/jobTemplate/spec").unwrap_or(&Value::Null);
        Check::of(object)
            .required("spec.schedule")
            .refuse(why.is_some(), || FieldFault::invalid_text("spec.schedule", schedule, why.unwrap_or_default()))
            .not_negative(&["spec.startingDeadlineSeconds"])
            .refuse(zone.is_some_and(|zone| !is_zone(zone)), || {
                let zone = zone.unwrap_or_default();
                FieldFault::invalid_text("spec.timeZone", zone, format!("unknown time zone {zone}"))
            })
            .one_of("spec.concurrencyPolicy", &["Allow", "Forbid", "Replace"])
            .also(job_faults(template, "spec.jobTemplate.spec"))
            .not_negative(&["spec.successfulJobsHistoryLimit", "spec.failedJobsHistoryLimit"])
            .done()
    }

    fn validate_update(&self, new: &Value, _: &Value, part: Part) -> Vec<FieldFault> {
        if part != Part::Object { Vec::new() } else { self.validate_create(new) }
    }

    fn name_rule(&self) -> NameRule {
        NameRule::ShortSubdomain(52)
    }
}

/// Of the Job's spec at a pointer, in the object that is named as its pods are.
fn job_warnings(object: &Value, old: Option<&Value>, spec: &str) -> Vec<String> {
    if old.is_some_and(|old| !warnings::is_new(object, old)) {
        return Vec::new();
    }
    let mut found = match old {
        None => warnings::name(object, "Pod names and hostnames"),
        Some(_) => Vec::new(),
    };
    let number = |key: &str| integer_at(object, &format!("{spec}/{key}")).unwrap_or(0);
    let indexed = text_at(object, &format!("{spec}/completionMode")) == "Indexed";
    if indexed && number("completions") > 100_000 && number("parallelism") > 10_000 {
        let why = "In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, \
                   Kubernetes might not be able to track completedIndexes when a big number of indexes fail";
        found.push(format!("{}: {why}", spec.trim_start_matches('/').replace('/', ".")));
    }
    found.extend(warnings::template(object, &format!("{spec}/template")));
    found
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

fn job_faults(spec: &Value, path: &str) -> Vec<FieldFault> {
    let template = spec.get("template").unwrap_or(&Value::Null);
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
        .also(super::job_policies::manager_faults(spec, path))
        .one_of("completionMode", &["NonIndexed", "Indexed"])
        .refuse(indexed && !has(spec, "/completions"), || {
            FieldFault::required("completions", "when completion mode is Indexed")
        })
        .also(if indexed { super::job_policies::index_faults(spec, path) } else { Vec::new() })
        .also(needs_indexes.into_iter().map(|field| {
            let value = spec.get(field).cloned().unwrap_or_default();
            FieldFault::invalid(format!("{path}.{field}"), &value, "requires indexed completion mode")
        }))
        .also(super::job_policies::faults(spec, path))
        .one_of("podReplacementPolicy", replacement)
        .also(template_faults(template, &format!("{path}.template")))
        .refuse(has(spec, "/podFailurePolicy") && restart == "OnFailure", || {
            let why = "only \"Never\" is supported when podFailurePolicy is specified";
            FieldFault::invalid_text("template.spec.restartPolicy", restart, why)
        })
        .done()
}

fn template_faults(template: &Value, path: &str) -> Vec<FieldFault> {
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

/// The spec of a Job, whose selector matches its pods, whoever made it.
fn job_spec_faults(job: &Value) -> Vec<FieldFault> {
    let spec = job.get("spec").unwrap_or(&Value::Null);
    let mut faults = job_faults(spec, "spec");
    let selector = spec.get("selector").filter(|selector| !selector.is_null());
    match selector {
        None => faults.push(FieldFault::required("spec.selector", "")),
        Some(selector) => faults.extend(super::apps::selector_faults(selector, "spec.selector")),
    }
    let labels = job.pointer("/spec/template/metadata/labels").cloned().unwrap_or_default();
    let matches = match selector.map(structured) {
        None => false,
        // What is wrong with the selector has been said.
        Some(None) => true,
        Some(Some(selector)) => selects_labels(&selector, labels.as_object()),
    };
    if !matches {
        let why = "`selector` does not match template `labels`";
        faults.push(FieldFault::invalid("spec.template.metadata.labels", &labels, why));
    }
    faults
}

/// The last pod of an indexed Job has a host name too.
fn job_name_faults(job: &Value) -> Vec<FieldFault> {
    let completions = integer_at(job, "/spec/completions").filter(|completions| *completions > 0);
    let Some(completions) = completions.filter(|_| text_at(job, "/spec/completionMode") == "Indexed") else {
        return Vec::new();
    };
    let name = text_at(job, "/metadata/name");
    let host = format!("{name}-{}", completions - 1);
    match name_faults(NameRule::Label, &host, false).is_empty() {
        true => Vec::new(),
        false => {
            let why = format!("will not able to create pod with invalid DNS label: {host}");
            vec![FieldFault::invalid_text("metadata.name", name, why)]
        }
    }
}

/// What the server made for a Job is there unchanged, unless the Job says that it makes its own.
fn generated_faults(job: &Value) -> Vec<FieldFault> {
    let selector = job.pointer("/spec/selector").filter(|selector| !selector.is_null());
    let Some(selector) = selector.filter(|_| job.pointer("/spec/manualSelector") != Some(&Value::Bool(true))) else {
        return Vec::new();
    };
    let (uid, name) = (text_at(job, "/metadata/uid"), text_at(job, "/metadata/name"));
    let labels = job.pointer("/spec/template/metadata/labels").cloned().unwrap_or_default();
    let generated = [
        ("controller-uid", uid),
        ("job-name", name),
        ("batch.kubernetes.io/controller-uid", uid),
        ("batch.kubernetes.io/job-name", name),
    ];
    let mut faults = Vec::new();
    for (key, wanted) in generated {
        let field = format!("spec.template.metadata.labels[{key}]");
        let why = format!("must be '{wanted}'");
        match labels.get(key).and_then(Value::as_str) {
            None => faults.push(FieldFault::required(field, &why)),
            Some(label) if label != wanted => faults.push(FieldFault::invalid(field, &labels, why)),
            Some(_) => {}
        }
    }
    let expected = generated.map(|(key, value)| (key.to_owned(), Value::from(value))).into_iter().collect();
    if structured(selector).is_some_and(|selector| !selects_labels(&selector, Some(&expected))) {
        faults.push(FieldFault::invalid("spec.selector", selector, "`selector` not auto-generated"));
    }
    faults
}

fn status_faults(object: &Value) -> Vec<FieldFault> {
    let holds = |kind: &str| {
        let is = |condition: &Value| text_at(condition, "/type") == kind && text_at(condition, "/status") == "True";
        list(object, "/status/conditions").any(is)
    };
    let (complete, failed) = (holds("Complete"), holds("Failed"));
    let has_end = has(object, "/status/completionTime");
    let conditions = object.pointer("/status/conditions").cloned().unwrap_or_default();
    Check::of(object)
        .not_negative(&["status.active", "status.succeeded", "status.failed", "status.ready", "status.terminating"])
        .refuse(complete && failed, || {
            FieldFault::invalid("status.conditions", &conditions, "cannot set Complete=True and Failed=true conditions")
        })
        .refuse(has_end && !complete, || {
            let value = object.pointer("/status/completionTime").cloned().unwrap_or_default();
            let why = "cannot set completionTime when there is no Complete=True condition";
            FieldFault::invalid("status.completionTime", &value, why)
        })
        .refuse(complete && !has_end, || {
            FieldFault::required("status.completionTime", "completionTime is required for Complete jobs")
        })
        .refuse(complete && !holds("SuccessCriteriaMet"), || {
            let why = "Invalid value: cannot set Complete=True condition without the SuccessCriteriaMet=true condition";
            FieldFault::new(crate::validate::FaultReason::Invalid, "status.conditions", why)
        })
        .refuse(failed && !holds("FailureTarget"), || {
            let why = "Invalid value: cannot set Failed=True condition without the FailureTarget=true condition";
            FieldFault::new(crate::validate::FaultReason::Invalid, "status.conditions", why)
        })
        .refuse((complete || failed) && !has(object, "/status/startTime"), || {
            FieldFault::required("status.startTime", "startTime is required for finished job")
        })
        .done()
}

/// Why a text is no schedule; none if it is one.
fn schedule_fault(schedule: &str) -> Option<String> {
    const RANGES: [(i64, i64); 5] = [(0, 59), (0, 23), (1, 31), (1, 12), (0, 6)];
    const NAMES: [&[&str]; 5] = [
        &[],
        &[],
        &[],
        &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"],
        &["sun", "mon", "tue", "wed", "thu", "fri", "sat"],
    ];
    if schedule.starts_with("TZ=") || schedule.starts_with("CRON_TZ=") {
        return Some("cannot use TZ or CRON_TZ in schedule, use timeZone field instead".into());
    }
    if schedule.starts_with('@') {
        let known = ["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"];
        let every = schedule.strip_prefix("@every ").is_some_and(|text| !text.trim().is_empty());
        return (!known.contains(&schedule) && !every).then(|| format!("unrecognized descriptor: {schedule}"));
    }
    let fields: Vec<&str> = schedule.split_whitespace().collect();
    if fields.len() != RANGES.len() {
        return Some(format!("expected exactly 5 fields, found {}: [{}]", fields.len(), fields.join(" ")));
    }
    let number = |field: usize, text: &str| -> Result<i64, String> {
        let (first, _) = RANGES[field];
        let named = NAMES[field].iter().position(|name| name.eq_ignore_ascii_case(text));
        if let Some(at) = named.and_then(|at| i64::try_from(at).ok()) {
            return Ok(first + at);
        }
        text.parse().map_err(|_| format!("failed to parse int from {text}"))
    };
    for (at, field) in fields.iter().enumerate() {
        let (first, last) = RANGES[at];
        for part in field.split(',') {
            let (range, step) = part.split_once('/').map_or((part, None), |(range, step)| (range, Some(step)));
            let bounds = match range {
                "*" | "?" => Ok((first, last)),
                range => match range.split_once('-') {
                    Some((from, to)) => number(at, from).and_then(|from| Ok((from, number(at, to)?))),
                    None => number(at, range).map(|only| (only, if step.is_some() { last } else { only })),
                },
            };
            let (from, to) = match bounds {
                Ok(bounds) => bounds,
                Err(why) => return Some(why),
            };
            let why = match () {
                () if from < first => format!("beginning of range ({from}) below minimum ({first}): {part}"),
                () if to > last => format!("end of range ({to}) above maximum ({last}): {part}"),
                () if from > to => format!("beginning of range ({from}) beyond end of range ({to}): {part}"),
                () if step.is_some_and(|step| !step.parse::<u32>().is_ok_and(|step| step > 0)) => {
                    format!("step of range should be a positive number: {part}")
                }
                () => continue,
            };
            return Some(why);
        }
    }
    None
}

/// Whether a text looks like a name of the time zone database.
fn is_zone(zone: &str) -> bool {
    const AREAS: &[&str] = &[
        "Africa",
        "America",
        "Antarctica",
        "Arctic",
        "Asia",
        "Atlantic",
        "Australia",
        "Europe",
        "Indian",
        "Pacific",
        "Etc",
        "US",
    ];
    zone == "UTC"
        || zone == "GMT"
        || zone.split_once('/').is_some_and(|(area, place)| AREAS.contains(&area) && !place.is_empty())
}
