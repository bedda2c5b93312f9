//! The `Job` kind in `batch/v1`.

use pintle_apimachinery::cluster::Context;
use pintle_apimachinery::object::{holds, metadata};
use pintle_apimachinery::request::Subresource;
use pintle_apimachinery::selector::{selects_labels, structured};
use pintle_apimachinery::validate::{FieldError, FieldErrors, NameRule, name_errors};
use pintle_json::{Json, Text, json};
use pintle_kinds::Strategy;
use pintle_kinds::table::{self, Cell, ComputedCells};
use pintle_meta::GroupVersionKind;
use pintle_schema::Schema;

use super::{job_errors, job_spec, job_status, job_warnings};
use jiff::Timestamp;

const GENERATED: [&str; 4] =
    ["controller-uid", "batch.kubernetes.io/controller-uid", "job-name", "batch.kubernetes.io/job-name"];

pub(crate) struct Job;

impl Strategy for Job {
    fn unknown_field_label(&self, _: &GroupVersionKind, label: &str) -> String {
        format!("field label \"{label}\" not supported for Job")
    }

    fn orphaning_warning(&self) -> Option<&str> {
        Some(
            "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set \
             propagationPolicy=Orphan to suppress this warning",
        )
    }

    fn warnings(&self, object: &Json, old: Option<&Json>, _: Subresource) -> Vec<String> {
        job_warnings(object, old, "/spec")
    }

    fn defaults(&self, object: &mut Json) {
        if let Some(spec) = object.member("spec") {
            job_spec(spec);
            spec.set_default("parallelism", 1);
        }
        let labels = object.at("/spec/template/metadata/labels").filter(|labels| !labels.is_empty()).cloned();
        if let (Some(labels), Some(metadata)) = (labels, object.member("metadata"))
            && metadata.get("labels").is_none_or(Json::is_empty)
        {
            metadata.set("labels", labels);
        }
        object.member("status");
    }

    fn prepare_for_create(&self, context: &Context<'_>, object: &mut Json) {
        object.set("status", json!({}));
        if object.is_true("/spec/manualSelector") {
            return;
        }
        let (uid, name) = (metadata::uid(object).to_owned(), metadata::name(object).to_owned());
        let generated = GENERATED.map(|key| (key, if key.ends_with("uid") { &uid } else { &name }));
        // If the labels of the Job were copied from the template, the Job also gets the generated labels.
        let own = object.at("/metadata/labels").filter(|labels| !labels.is_empty());
        let shared =
            !context.has_labels && own.is_some_and(|own| object.at("/spec/template/metadata/labels") == Some(own));
        let Some(spec) = object.member("spec") else { return };
        if let Some(labels) =
            spec.member("template").and_then(|it| it.member("metadata")).and_then(|it| it.member("labels"))
        {
            for (key, value) in generated {
                labels.set_default(key, value.as_str());
            }
        }
        if let Some(labels) = spec.member("selector").and_then(|selector| selector.member("matchLabels")) {
            labels.set_default("batch.kubernetes.io/controller-uid", uid.as_str());
        }
        let labels = object.at("/spec/template/metadata/labels").cloned();
        if let (Some(labels), true) = (labels, shared && object.text("/metadata/generateName").is_empty()) {
            pintle_apimachinery::object::set_metadata(object, "labels", labels);
        }
    }

    fn prepare_for_update(&self, _: &Context<'_>, new: &mut Json, old: &Json, _: Subresource) {
        // kube-apiserver sets missing labels when it reads the written Job from its store.
        let labels = old.at("/spec/template/metadata/labels").filter(|labels| !labels.is_empty()).cloned();
        if let Some(labels) = labels
            && new.at("/metadata/labels").is_none_or(Json::is_empty)
        {
            pintle_apimachinery::object::set_metadata(new, "labels", labels);
        }
    }

    fn validate_create(&self, object: &Json) -> FieldErrors {
        [generated_errors(object), job_spec_errors(object), job_name_errors(object)].into_iter().flatten().collect()
    }

    fn validate_update(&self, new: &Json, old: &Json, subresource: Subresource) -> FieldErrors {
        if subresource == Subresource::Status {
            return job_status::errors(new, old);
        }
        // As in kube-apiserver, each spec error occurs twice, because an update validates the whole Job, and then the
        // spec again.
        let spec = job_spec_errors(new);
        let mut errors: FieldErrors =
            [generated_errors(new), spec.clone(), job_name_errors(new), spec].into_iter().flatten().collect();
        let mut keys = Vec::new();
        if new.text("/spec/completionMode") != "Indexed" {
            keys.push("completions");
        } else if new.at("/spec/completions") != old.at("/spec/completions")
            && let Some(completions) = new.at("/spec/completions").filter(|completions| !completions.is_null())
            && Some(completions) != new.at("/spec/parallelism")
        {
            let why = "can only be modified in tandem with spec.parallelism";
            errors.push(FieldError::invalid("spec.completions", completions, why));
        }
        keys.push("selector");
        let suspended =
            |condition: &Json| condition.text("/type") == "Suspended" && condition.text("/status") == "True";
        let stopped = old.is_true("/spec/suspend") && old.list("/status/conditions").any(suspended);
        if !stopped {
            keys.push("template");
        }
        keys.extend(["completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"]);
        for key in keys {
            let pointer = format!("/spec/{key}");
            if new.at(&pointer) != old.at(&pointer) {
                let value = new.at(&pointer).cloned().unwrap_or_default();
                errors.push(FieldError::invalid(format!("spec.{key}"), &value, "field is immutable"));
            }
        }
        errors
    }

    fn to_stored(&self, mut object: Json) -> Json {
        // Add missing defaults before the validation. The defaults include the labels that kube-apiserver copies from
        // the template when it reads the Job.
        self.defaults(&mut object);
        object
    }

    fn stores_defaults_late(&self, created: &Json) -> bool {
        // `true` if the Job would get its labels from a template that has only generated labels. kube-apiserver copies
        // such labels only when it reads the Job from its store.
        let labels = |pointer: &str| created.at(pointer).and_then(Json::as_object);
        let template = labels("/spec/template/metadata/labels");
        let generated = |key: &Text| GENERATED.contains(&key.as_str());
        template.is_some_and(|labels| !labels.is_empty() && labels.keys().all(generated))
            && labels("/metadata/labels") == template
    }

    fn field_paths<'a>(&self, _: &'a str) -> Vec<&'a str> {
        vec!["status.succeeded"]
    }

    fn field(&self, object: &Json, label: &str) -> Option<String> {
        (label == "status.successful").then(|| object.integer("/status/succeeded").unwrap_or(0).to_string())
    }

    fn computed_cells(&self) -> ComputedCells {
        &[
            ("Status", Cell::Computed(|job| status_text(job).into())),
            ("Completions", Cell::Computed(|job| job_completions(job).into())),
            ("Duration", Cell::Timed(|job, now| job_duration(job, now).into())),
        ]
    }
}

/// Validates a Job's spec. The selector of the Job must match the pods of the Job.
fn job_spec_errors(job: &Json) -> FieldErrors {
    let spec = &job["spec"];
    let mut errors = job_errors(spec, "spec");
    let selector = spec.get("selector").filter(|selector| !selector.is_null());
    match selector {
        None => errors.push(FieldError::required("spec.selector", "")),
        Some(selector) => errors.extend(pintle_kinds::label_selector::selector_errors(selector, "spec.selector")),
    }
    let labels = job["spec"]["template"]["metadata"]["labels"].clone();
    let matches = match selector.map(structured) {
        None => false,
        // Ignore an invalid selector, because `selector_errors` already reports it.
        Some(None) => true,
        Some(Some(selector)) => selects_labels(&selector, labels.as_object()),
    };
    if !matches {
        let why = "`selector` does not match template `labels`";
        errors.push(FieldError::invalid("spec.template.metadata.labels", &labels, why));
    }
    errors
}

/// Validates the host name of an indexed Job's last pod, which consists of the Job's name and the pod's index.
fn job_name_errors(job: &Json) -> FieldErrors {
    let completions = job.integer("/spec/completions").filter(|completions| *completions > 0);
    let Some(completions) = completions.filter(|_| job.text("/spec/completionMode") == "Indexed") else {
        return FieldErrors::default();
    };
    let name = metadata::name(job);
    let host = format!("{name}-{}", completions - 1);
    if name_errors(NameRule::Label, &host, false).is_empty() {
        FieldErrors::default()
    } else {
        let why = format!("will not able to create pod with invalid DNS label: {host}");
        FieldErrors::from([FieldError::invalid_text("metadata.name", name, why)])
    }
}

/// Validates that the generated labels and the generated selector do not change, unless the Job has a manual selector.
fn generated_errors(job: &Json) -> FieldErrors {
    let selector = job.at("/spec/selector").filter(|selector| !selector.is_null());
    let Some(selector) = selector.filter(|_| !job.is_true("/spec/manualSelector")) else {
        return FieldErrors::default();
    };
    let (uid, name) = (metadata::uid(job), metadata::name(job));
    let labels = job["spec"]["template"]["metadata"]["labels"].clone();
    let generated = [
        ("controller-uid", uid),
        ("job-name", name),
        ("batch.kubernetes.io/controller-uid", uid),
        ("batch.kubernetes.io/job-name", name),
    ];
    let mut errors = FieldErrors::default();
    for (key, wanted) in generated {
        let field = format!("spec.template.metadata.labels[{key}]");
        let why = format!("must be '{wanted}'");
        match labels[key].as_str() {
            None => errors.push(FieldError::required(field, &why)),
            Some(label) if label != wanted => errors.push(FieldError::invalid(field, &labels, why)),
            Some(_) => {}
        }
    }
    let expected = generated.map(|(key, value)| (key.to_owned(), Json::from(value))).into_iter().collect();
    if structured(selector).is_some_and(|selector| !selects_labels(&selector, Some(&expected))) {
        let selector = Schema::go_text("meta.LabelSelector", selector);
        errors.push(FieldError::invalid_go("spec.selector", &selector, "`selector` not auto-generated"));
    }
    errors
}

fn status_text(job: &Json) -> &'static str {
    match () {
        () if holds(job, "Complete") => "Complete",
        () if holds(job, "Failed") => "Failed",
        () if job.has("/metadata/deletionTimestamp") => "Terminating",
        () if holds(job, "Suspended") => "Suspended",
        () if holds(job, "FailureTarget") => "FailureTarget",
        () if holds(job, "SuccessCriteriaMet") => "SuccessCriteriaMet",
        () => "Running",
    }
}

fn job_completions(job: &Json) -> String {
    let succeeded = job.integer("/status/succeeded").unwrap_or(0);
    match job.integer("/spec/completions") {
        Some(wanted) => format!("{succeeded}/{wanted}"),
        None => match job.integer("/spec/parallelism").unwrap_or(0) {
            parallel if parallel > 1 => format!("{succeeded}/1 of {parallel}"),
            _ => format!("{succeeded}/1"),
        },
    }
}

fn job_duration(job: &Json, now: Timestamp) -> String {
    let time = |pointer: &str| job.text(pointer).parse::<Timestamp>().ok();
    match (time("/status/startTime"), time("/status/completionTime")) {
        (None, _) => String::new(),
        (Some(start), end) => table::age(start, end.unwrap_or(now)),
    }
}
