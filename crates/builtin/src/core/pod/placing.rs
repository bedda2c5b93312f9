//! Validates the tolerations and node selectors of pods and RuntimeClasses.

use pintle_apimachinery::validate::{
    FieldError, FieldErrors, NameRule, label_key_faults, label_value_faults, name_errors,
};
use pintle_json::Json;
use pintle_kinds::check::Check;
use pintle_kinds::label_selector::label_errors;

pub(super) const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
pub(super) const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

pub(crate) fn tolerations(part: &Json, path: &str) -> FieldErrors {
    let all = Check::at(part, path).each("tolerations", |check, at| {
        let toleration = check.object();
        let text = |member: &str| toleration.text(member);
        let (key, operator, value, effect) = (text("/key"), text("/operator"), text("/value"), text("/effect"));
        let keys = if key.is_empty() { Vec::new() } else { label_key_faults(key) };
        let keys =
            keys.into_iter().map(|why| FieldError::invalid_text(format!("{path}.tolerations[{at}].key"), key, why));
        let values = if matches!(operator, "" | "Equal") { label_value_faults(value) } else { Vec::new() };
        check
            .also(keys)
            .refuse(key.is_empty() && operator != "Exists", || {
                const WHY: &str =
                    "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
                FieldError::invalid_text("operator", operator, WHY)
            })
            .refuse(toleration.has("/tolerationSeconds") && effect != "NoExecute", || {
                FieldError::invalid_text("effect", effect, "effect must be 'NoExecute' when `tolerationSeconds` is set")
            })
            .invalid_text_if(!values.is_empty(), "operator", value, values.join(";"))
            .refuse(operator == "Exists" && !value.is_empty(), || {
                FieldError::invalid_text("operator", value, "value must be empty when `operator` is 'Exists'")
            })
            .refuse(!matches!(operator, "" | "Equal" | "Exists"), || {
                // The operators `Lt` and `Gt` are known, but their feature gate is off.
                let known: &[&str] = match operator {
                    "Lt" | "Gt" => &["Equal", "Exists", "Lt", "Gt"],
                    _ => &["Equal", "Exists"],
                };
                FieldError::unsupported("operator", &operator.into(), known)
            })
            .one_of("effect", &["NoSchedule", "PreferNoSchedule", "NoExecute"])
    });
    all.done()
}

pub(crate) fn node_selector(part: &Json, path: &str) -> FieldErrors {
    label_errors(part, "/nodeSelector", &format!("{path}.nodeSelector"))
}

/// Validates the terms of a node selector. A node selector must have at least one term.
pub(crate) fn terms(selector: &Json, path: &str) -> FieldErrors {
    let field = format!("{path}.nodeSelectorTerms");
    if selector.list("/nodeSelectorTerms").next().is_none() {
        return FieldErrors::from([FieldError::required(field, "must have at least one node selector term")]);
    }
    let all = Check::at(selector, path).each("nodeSelectorTerms", |check, at| {
        let object = check.object();
        check.also(term(object, &format!("{field}[{at}]"), true))
    });
    all.done()
}

/// Validates a node selector term. kube-apiserver does not check the label values of preferred terms.
pub(super) fn term(term: &Json, path: &str, values_are_checked: bool) -> FieldErrors {
    let all = Check::at(term, path)
        .each("matchExpressions", |check, _| label_requirement(check, values_are_checked))
        .each("matchFields", |check, _| field_requirement(check));
    all.done()
}

fn label_requirement(check: Check<'_>, values_are_checked: bool) -> Check<'_> {
    let requirement = check.object();
    let (key, count) = (requirement.text("/key"), requirement.list("/values").count());
    let check = match requirement.text("/operator") {
        "In" | "NotIn" => check.required_because("values", "must be specified when `operator` is 'In' or 'NotIn'"),
        "Exists" | "DoesNotExist" => check.refuse(count > 0, || {
            FieldError::forbidden("values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
        }),
        "Gt" | "Lt" => check.refuse(count != 1, || {
            FieldError::required("values", "must be specified single value when `operator` is 'Lt' or 'Gt'")
        }),
        other => check.invalid_text_if(true, "operator", other, NO_OPERATOR),
    };
    let check = label_key_faults(key).iter().fold(check, |check, why| check.invalid_text_if(true, "key", key, why));
    let values = requirement.texts("/values").enumerate().filter(|_| values_are_checked);
    values.fold(check, |check, (at, value)| {
        label_value_faults(value).iter().fold(check, |check, why| {
            check.refuse(true, || FieldError::invalid_text(format!("values[{at}]"), value, why))
        })
    })
}

/// Validates a requirement on a node field, which must be `metadata.name`.
fn field_requirement(check: Check<'_>) -> Check<'_> {
    let requirement = check.object();
    let key = requirement.text("/key");
    let check = match requirement.text("/operator") {
        "In" | "NotIn" => check.refuse(requirement.list("/values").count() != 1, || {
            FieldError::required(
                "values",
                "must be only one value when `operator` is 'In' or 'NotIn' for node field selector",
            )
        }),
        other => check.invalid_text_if(true, "operator", other, NO_OPERATOR),
    };
    if key != "metadata.name" {
        return check.invalid_text_if(true, "key", key, "not a valid field selector key");
    }
    requirement.texts("/values").enumerate().fold(check, |check, (at, value)| {
        name_errors(NameRule::Subdomain, value, false).iter().fold(check, |check, why| {
            check.refuse(true, || FieldError::invalid_text(format!("values[{at}]"), value, why))
        })
    })
}

const NO_OPERATOR: &str = "not a valid selector operator";
