//! Validates an autoscaler. Errors contain the field names of version v2.

use pintle_apimachinery::validate::{FieldError, FieldErrors, NameRule};
use pintle_json::Json;
use pintle_kinds::check::Check;
use pintle_schema::quantity;

use crate::core::pod::container_resource_errors;

const METRIC_TYPES: &[(&str, &str)] = &[
    ("ContainerResource", "containerResource"),
    ("External", "external"),
    ("Object", "object"),
    ("Pods", "pods"),
    ("Resource", "resource"),
];
const SOURCE_ORDER: &[&str] = &["object", "external", "pods", "resource", "containerResource"];
const LONGEST_WINDOW: i64 = 3600;
const LONGEST_PERIOD: i64 = 1800;

/// Validates the spec of an autoscaler. For an update, `old` is the stored object.
pub(super) fn spec(object: &Json, old: Option<&Json>) -> FieldErrors {
    let (least, most) = (object.integer("/spec/minReplicas"), object.integer("/spec/maxReplicas").unwrap_or(0));
    let was_zero = old.is_some_and(|old| old.integer("/spec/minReplicas") == Some(0));
    let bound = if was_zero { 0 } else { 1 };
    let outside = object.list("/spec/metrics").any(|metric| matches!(metric.text("/type"), "Object" | "External"));
    let is_unchanged = |pointer: &str| old.is_some_and(|old| old.text(pointer) == object.text(pointer));
    // Do not validate an unchanged scale target, so that an update may keep an invalid one.
    let known_target = is_unchanged("/spec/scaleTargetRef/kind") && is_unchanged("/spec/scaleTargetRef/apiVersion");
    let groupless = object.text("/spec/scaleTargetRef/kind") == "ReplicationController";
    // If the old object has an invalid `describedObject.apiVersion`, the update may contain further invalid versions.
    let was_odd = old.is_some_and(has_invalid_object);
    Check::of(object)
        .at_least("spec.minReplicas", bound)
        .required_if(most == 0, "spec.maxReplicas", "must be set and greater than 0")
        .invalid_if(most < 0, "spec.maxReplicas", &most.into(), "must be greater than or equal to 1")
        .refuse(least.is_some_and(|least| least > most), || {
            FieldError::invalid("spec.maxReplicas", &most.into(), "must be greater than or equal to `minReplicas`")
        })
        .inside("spec.scaleTargetRef", |target| reference(target, known_target, groupless))
        .each("spec.metrics", |one, _| metric(one, was_odd))
        .refuse(least == Some(0) && !outside, || {
            let why = "must specify at least one Object or External metric to support scaling to zero replicas";
            FieldError::forbidden("spec.metrics", why)
        })
        .inside("spec.behavior.scaleUp", rules)
        .inside("spec.behavior.scaleDown", rules)
        .done()
}

/// Validates an object reference. If `known` is true, the reference's version is not validated. If `groupless` is true,
/// the reference may name an object in the core group.
fn reference(check: Check<'_>, known: bool, groupless: bool) -> Check<'_> {
    let version = check.object().text("/apiVersion");
    let why = match version.matches('/').count() {
        _ if known => None,
        0 if !groupless => Some("apiVersion must specify API group".to_owned()),
        0 | 1 => None,
        _ => Some(format!("unexpected GroupVersion string: {version}")),
    };
    let check =
        ["kind", "name"].iter().fold(check, |check, field| check.required(field).name(field, NameRule::PathSegment));
    check.invalid_text_if(why.is_some(), "apiVersion", version, why.unwrap_or_default())
}

fn metric(check: Check<'_>, was_odd: bool) -> Check<'_> {
    let object = check.object();
    let kind = object.text("/type");
    let known: Vec<&str> = METRIC_TYPES.iter().map(|(kind, _)| *kind).collect();
    let expected = METRIC_TYPES.iter().find(|(name, _)| *name == kind).map(|(_, source)| *source);
    let unknown = || FieldError::unsupported("type", &kind.into(), &known);
    let there: Vec<&str> = SOURCE_ORDER.iter().copied().filter(|source| object.has(&format!("/{source}"))).collect();
    let mut check =
        check.required_because("type", "must specify a metric source type").refuse(expected.is_none(), unknown);
    if let Some(first) = there.first() {
        check = check.inside(first, |check| source(check, first, was_odd));
    }
    // As in kube-apiserver, the metric type and the metric source are checked separately.
    check = match expected {
        None => check.refuse(true, unknown),
        Some(source) => check.refuse(!there.contains(&source), || {
            FieldError::required(source, "must populate information for the given metric source")
        }),
    };
    let further = there.iter().filter(|source| there.len() > 1 && Some(**source) != expected);
    further.fold(check, |check, source| check.forbidden_if(true, *source, "must populate the given metric source only"))
}

fn source<'a>(check: Check<'a>, kind: &str, was_odd: bool) -> Check<'a> {
    let has_target_field = |key: &str| check.object().has(&format!("/target/{key}"));
    let (value, average, share) =
        (has_target_field("value"), has_target_field("averageValue"), has_target_field("averageUtilization"));
    let need = |check: Check<'a>, there: bool, field: &str, why: &str| {
        check.refuse(!there, || FieldError::required(format!("target.{field}"), why))
    };
    match kind {
        "object" => {
            let check = check.inside("describedObject", |object| reference(object, was_odd, true));
            let check = measured(check).inside("target", target);
            need(check, value || average, "averageValue", "must set either a target value or averageValue")
        }
        "external" => {
            let check = measured(check).inside("target", target);
            let why = "must set either a target value for metric or a per-pod target";
            need(check, value || average, "averageValue", why).refuse(value && average, || {
                let why = "may not set both a target value for metric and a per-pod target";
                FieldError::forbidden("target.value", why)
            })
        }
        "pods" => {
            let check = measured(check).inside("target", target);
            need(check, average, "averageValue", "must specify a positive target averageValue")
        }
        kind => {
            let name = check.object().text("/name");
            let mut check = check.required_because("name", "must specify a resource name");
            if kind == "containerResource" {
                check = container_resource_errors("name", name)
                    .into_iter()
                    .filter(|_| !name.is_empty())
                    .fold(check, |check, error| check.refuse(true, || error))
                    .required_because("container", "must specify a container")
                    .name("container", NameRule::Label);
            }
            let why = "must set either a target raw value or a target utilization";
            need(check.inside("target", target), share || average, "averageUtilization", why).refuse(
                share && average,
                || {
                    let why = "may not set both a target raw value and a target utilization";
                    FieldError::forbidden("target.averageValue", why)
                },
            )
        }
    }
}

fn measured(check: Check<'_>) -> Check<'_> {
    check.inside("metric", |metric| {
        metric.required_because("name", "must specify a metric name").name("name", NameRule::PathSegment)
    })
}

fn target(check: Check<'_>) -> Check<'_> {
    let object = check.object();
    let kind = object.text("/type");
    let check = check
        .required_because("type", "must specify a metric target type")
        .refuse(!matches!(kind, "Utilization" | "Value" | "AverageValue"), || {
            FieldError::invalid_text("type", kind, "must be either Utilization, Value, or AverageValue")
        });
    let check = ["value", "averageValue"].iter().fold(check, |check, field| {
        let amount = object.text(&format!("/{field}"));
        let bad = quantity::nanos(amount).is_some_and(|nanos| nanos <= 0);
        check.invalid_text_if(bad, *field, amount, "must be positive")
    });
    let share = object.integer("/averageUtilization").unwrap_or(1);
    check.invalid_if(share < 1, "averageUtilization", &share.into(), "must be greater than 0")
}

fn rules(check: Check<'_>) -> Check<'_> {
    let object = check.object();
    let window = object.integer("/stabilizationWindowSeconds").unwrap_or(0);
    let tolerance = object.text("/tolerance");
    let negative = quantity::nanos(tolerance).is_some_and(|nanos| nanos < 0);
    check
        .invalid_if(window < 0, "stabilizationWindowSeconds", &window.into(), "must be greater than or equal to zero")
        .refuse(window > LONGEST_WINDOW, || {
            let why = format!("must be less than or equal to {LONGEST_WINDOW}");
            FieldError::invalid("stabilizationWindowSeconds", &window.into(), why)
        })
        .known("selectPolicy", &["Disabled", "Max", "Min"])
        .required_because("policies", "must specify at least one Policy")
        .each("policies", |one, _| policy(one))
        .invalid_text_if(negative, "tolerance", tolerance, "must be greater than or equal to 0")
}

fn policy(check: Check<'_>) -> Check<'_> {
    let object = check.object();
    let kind = object.get("type").cloned().unwrap_or_else(|| "".into());
    let number = |key: &str| object.integer(key).unwrap_or(0);
    let (value, period) = (number("/value"), number("/periodSeconds"));
    let unknown = kind != "Pods" && kind != "Percent";
    check
        .unsupported_if(unknown, "type", &kind, &["Percent", "Pods"])
        .invalid_if(value <= 0, "value", &value.into(), "must be greater than zero")
        .invalid_if(period <= 0, "periodSeconds", &period.into(), "must be greater than zero")
        .refuse(period > LONGEST_PERIOD, || {
            let why = format!("must be less than or equal to {LONGEST_PERIOD}");
            FieldError::invalid("periodSeconds", &period.into(), why)
        })
}

fn has_invalid_object(old: &Json) -> bool {
    old.list("/spec/metrics").any(|metric| metric.text("/object/describedObject/apiVersion").matches('/').count() > 1)
}
