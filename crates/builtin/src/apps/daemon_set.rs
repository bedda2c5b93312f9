//! The `DaemonSet` kind in `apps/v1`.

use pintle_apimachinery::cluster::Context;
use pintle_apimachinery::failure::Outcome;
use pintle_apimachinery::request::Subresource;
use pintle_apimachinery::request::query::parse_int;
use pintle_apimachinery::validate::{FieldError, FieldErrors};
use pintle_json::Json;
use pintle_kinds::Strategy;
use pintle_kinds::check::Check;

use super::{TEMPLATE, selector_changed, status_errors, workload_errors, workload_spec};
use crate::core::pod::template_warnings;
use crate::int_or_percent::{above_100_percent, is_zero, share_errors};

const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

/// Returns the metadata for a PartialObjectMetadata. For a DaemonSet, the annotation with the template generation is
/// removed, because the template generation is a spec field in Go.
pub fn partial_metadata(api_version: &str, kind: &str, mut metadata: Json) -> Json {
    if (api_version, kind) == ("apps/v1", "DaemonSet")
        && let Some(annotations) = metadata.get_mut("annotations")
    {
        annotations.unset(TEMPLATE_GENERATION);
        if annotations.is_empty() {
            metadata.unset("annotations");
        }
    }
    metadata
}

pub(crate) struct DaemonSet;

impl Strategy for DaemonSet {
    fn complete_empty(&self, object: &mut Json) {
        object["metadata"]["annotations"]["deprecated.daemonset.template.generation"] = "0".into();
    }

    fn warnings(&self, object: &Json, old: Option<&Json>, _: Subresource) -> Vec<String> {
        if old.is_some_and(|old| old.at(TEMPLATE) == object.at(TEMPLATE)) {
            Vec::new()
        } else {
            template_warnings::of(object, TEMPLATE)
        }
    }

    fn defaults(&self, object: &mut Json) {
        if let Some(strategy) = workload_spec(object).and_then(|spec| spec.member("updateStrategy")) {
            if strategy.text("/type").is_empty() {
                strategy.set("type", "RollingUpdate");
            }
            let fewer = i32::from(strategy.text("/type") == "RollingUpdate");
            // `rollingUpdate` gets defaults for every update strategy type, because its fields are not pointers in Go.
            if (fewer == 1 || strategy.has("/rollingUpdate"))
                && let Some(rolling) = strategy.member("rollingUpdate")
            {
                rolling.set_default("maxUnavailable", fewer);
                rolling.set_default("maxSurge", 0);
            }
        }
        let annotations = object.member("metadata").and_then(|metadata| metadata.member("annotations"));
        if let Some(annotations) = annotations {
            annotations.set_default(TEMPLATE_GENERATION, "0");
        }
    }

    fn prepare_for_create(&self, _: &Context<'_>, object: &mut Json) {
        if let Ok(sent) = template_generation(object) {
            set_template_generation(object, sent.max(1));
        }
    }

    /// Copies the template generation from the old object, and increments it if the template changed. As in
    /// kube-apiserver, the annotation in a request is ignored, because clients must not set the template generation.
    fn prepare_for_update(&self, _: &Context<'_>, new: &mut Json, old: &Json, subresource: Subresource) {
        let changed = subresource == Subresource::None && new.at(TEMPLATE) != old.at(TEMPLATE);
        if template_generation(new).is_ok() {
            let generation = template_generation(old).unwrap_or_default();
            set_template_generation(new, generation.wrapping_add(changed.into()));
        }
    }

    fn unconvertible(&self, object: &Json) -> Option<String> {
        object.at(&format!("/metadata/annotations/{TEMPLATE_GENERATION}"))?;
        template_generation(object).err().map(|failure| failure.status.message)
    }

    fn validate_create(&self, object: &Json) -> FieldErrors {
        let strategy = object.text("/spec/updateStrategy/type");
        Check::of(object)
            .also(workload_errors(object, "daemonset"))
            .refuse(!matches!(strategy, "RollingUpdate" | "OnDelete"), || {
                let value = object["spec"]["updateStrategy"].clone();
                FieldError::unsupported("spec.updateStrategy", &value, &["RollingUpdate", "OnDelete"])
            })
            .also(if strategy == "RollingUpdate" { rolling_errors(object) } else { FieldErrors::default() })
            .done()
    }

    fn validate_update(&self, new: &Json, old: &Json, subresource: Subresource) -> FieldErrors {
        if subresource == Subresource::Status {
            return status_errors(new, &[]);
        }
        template_generation_errors(new).and(selector_changed(new, old)).and(self.validate_create(new))
    }
}

/// Validates the rolling update: exactly one of `maxUnavailable` and `maxSurge` must be greater than zero.
fn rolling_errors(object: &Json) -> FieldErrors {
    const FEWER: &str = "spec.updateStrategy.rollingUpdate.maxUnavailable";
    const MORE: &str = "spec.updateStrategy.rollingUpdate.maxSurge";
    let (still, eager) = (is_zero(object, FEWER), !is_zero(object, MORE));
    Check::of(object)
        .also([FEWER, MORE].into_iter().filter_map(|share| share_errors(object, share)))
        .also([FEWER, MORE].into_iter().filter_map(|share| above_100_percent(object, share)))
        .required_if(still && !eager, FEWER, "cannot be 0 when maxSurge is 0")
        .refuse(!still && eager, || {
            let value = &object["spec"]["updateStrategy"]["rollingUpdate"]["maxSurge"];
            FieldError::invalid(MORE, value, "may not be set when maxUnavailable is non-zero")
        })
        .done()
}

fn template_generation(object: &Json) -> Outcome<i64> {
    parse_int(object.text(&format!("/metadata/annotations/{TEMPLATE_GENERATION}")))
}

/// Reports a negative template generation, which can result from an overflow.
fn template_generation_errors(object: &Json) -> FieldErrors {
    let generation = template_generation(object).unwrap_or_default();
    let error = |why| FieldError::invalid("spec.templateGeneration", &generation.into(), why);
    let wrong = ["must not be decremented", "must be greater than or equal to 0"];
    wrong.into_iter().filter(|_| generation < 0).map(error).collect()
}

fn set_template_generation(object: &mut Json, generation: i64) {
    if let Some(annotations) = object.member("metadata").and_then(|metadata| metadata.member("annotations")) {
        annotations.set(TEMPLATE_GENERATION, generation.to_string());
    }
}
