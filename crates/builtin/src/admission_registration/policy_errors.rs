//! Validates policies.

use pintle_admission::policy::Expressions;
use pintle_apimachinery::object::{duplicates, metadata};
use pintle_apimachinery::validate::{FieldError, FieldErrors, NameRule, name_errors, qualified_name_faults};
use pintle_json::Json;
use pintle_kinds::check::Check;

use super::condition_errors::{expression, match_conditions};
use super::match_errors::{match_resources, only_writes};
use crate::meta_conditions::condition_errors;

const REASONS: &[&str] = &["Forbidden", "Invalid", "RequestEntityTooLarge", "Unauthorized"];
const MAX_ANNOTATIONS: usize = 20;
const MAX_ANNOTATION_EXPRESSION: usize = 5 * 1024;

pub(super) fn policy(object: &Json, is_mutating: bool) -> FieldErrors {
    let spec = &object["spec"];
    let constraints = "matchConstraints";
    let mut expressions = Expressions::new(spec);
    let mut check = Check::at(spec, "spec").known("failurePolicy", &["Fail", "Ignore"]).inside("paramKind", param_kind);
    check = if spec.has("/matchConstraints") {
        check
            .also(match_resources(&spec[constraints], "spec.matchConstraints"))
            .refuse(spec.list("/matchConstraints/resourceRules").next().is_none(), || {
                FieldError::required("matchConstraints.resourceRules", "")
            })
    } else {
        check.required(constraints)
    };
    if is_mutating {
        check = check.also(only_writes(&spec[constraints], "spec.matchConstraints"));
    }
    check = check.also(match_conditions(spec, "spec.", &expressions));
    check = check.also(variables(spec, &mut expressions));
    if is_mutating {
        return check
            .also(mutations(spec, &expressions))
            .required_one_of("reinvocationPolicy", &["IfNeeded", "Never"])
            .done();
    }
    let has_items = |list: &str| spec.list(list).next().is_some();
    if !has_items("/validations") && !has_items("/auditAnnotations") {
        let why = "validations or auditAnnotations must contain at least one item";
        return check.required_because("validations", why).required_because("auditAnnotations", why).done();
    }
    check.also(validations(spec, &expressions)).also(audit_annotations(object, &expressions)).done()
}

/// Validates a validating policy's status. Unlike kube-apiserver, this function does not parse the `fieldRef`s as
/// JSONPaths.
pub(super) fn status(object: &Json) -> FieldErrors {
    let check = Check::of(object).each("status.typeChecking.expressionWarnings", |warning, _| {
        let has_field = !warning.object().text("/fieldRef").trim().is_empty();
        warning.required("warning").required_if(!has_field, "fieldRef", "")
    });
    check.also(condition_errors(object, "status.conditions")).done()
}

fn param_kind(kind: Check<'_>) -> Check<'_> {
    let (api_version, name) = (kind.object().text("/apiVersion"), kind.object().text("/kind"));
    let mut kind = kind.required_if(api_version.is_empty(), "apiVersion", "");
    let labels = |value: &str| name_errors(NameRule::Rfc1035Label, value, false).join(",");
    if api_version.split('/').count() > 2 {
        let why = format!("unexpected GroupVersion string: {api_version}");
        kind = kind.invalid_text_if(true, "apiVersion", api_version, why);
    } else if !api_version.is_empty() {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let why =
            if group.is_empty() { String::new() } else { name_errors(NameRule::Subdomain, group, false).join(",") };
        kind = kind.invalid_text_if(!why.is_empty(), "apiVersion", group, why);
        let why = labels(version);
        kind = match version {
            "" => {
                let why = "version must be specified";
                kind.invalid_text_if(true, "apiVersion", api_version, why)
            }
            version => kind.invalid_text_if(!why.is_empty(), "apiVersion", version, why),
        };
    }
    let why = labels(&name.to_lowercase());
    kind.required_if(name.is_empty(), "kind", "").refuse(!name.is_empty() && !why.is_empty(), || {
        FieldError::invalid_text("kind", name, format!("may have mixed case, but should otherwise match: {why}"))
    })
}

fn variables(spec: &Json, expressions: &mut Expressions) -> FieldErrors {
    let mut errors = FieldErrors::default();
    for (at, variable) in spec.list("/variables").enumerate() {
        let (name, text) = (variable.text("/name"), variable.text("/expression"));
        let field = format!("spec.variables[{at}].name");
        if name.trim().is_empty() {
            errors.push(FieldError::required(field, "name is not specified"));
        } else if !pintle_cel::is_identifier(name) {
            errors.push(FieldError::invalid_text(field, name, "must be a valid CEL identifier"));
        }
        let field = format!("spec.variables[{at}].expression");
        expression(text, &field, "expression is not specified", &mut errors, |text| {
            expressions.variable(name, text).err()
        });
    }
    errors
}

fn validations(spec: &Json, expressions: &Expressions) -> FieldErrors {
    let mut errors = FieldErrors::default();
    for (at, validation) in spec.list("/validations").enumerate() {
        let field = |name: &str| format!("spec.validations[{at}].{name}");
        let text = validation.text("/expression");
        expression(text, &field("expression"), "expression is not specified", &mut errors, |text| {
            expressions.validation(text).err()
        });
        let text = validation.text("/messageExpression");
        if !text.is_empty() && text.trim().is_empty() {
            let why = "must be non-empty if specified";
            errors.push(FieldError::invalid_text(field("messageExpression"), text, why));
        } else if let Some(why) = (!text.is_empty()).then(|| expressions.message(text).err()).flatten() {
            errors.push(FieldError::invalid_text(field("messageExpression"), text, why));
        }
        let message = validation.text("/message");
        if !message.is_empty() && message.trim().is_empty() {
            errors.push(FieldError::invalid_text(field("message"), message, "must be non-empty if specified"));
        } else if message.trim().contains(['\n', '\r']) {
            errors.push(FieldError::invalid_text(field("message"), message, "must not contain line breaks"));
        }
        if let Some(reason) = validation.get("reason").and_then(Json::as_str)
            && (reason == "Unauthorized" || !REASONS.contains(&reason))
        {
            let known = &["Forbidden", "Invalid", "RequestEntityTooLarge"];
            errors.push(FieldError::unsupported(field("reason"), &reason.into(), known));
        }
    }
    errors
}

fn audit_annotations(object: &Json, expressions: &Expressions) -> FieldErrors {
    let mut errors = FieldErrors::default();
    let annotations: Vec<_> = object.list("/spec/auditAnnotations").collect();
    if annotations.len() > MAX_ANNOTATIONS {
        let why = format!("must not have more than {MAX_ANNOTATIONS} auditAnnotations");
        errors.push(FieldError::invalid("spec.auditAnnotations", &object["spec"]["auditAnnotations"], why));
    }
    let twice = duplicates(annotations.iter().map(|annotation| annotation.text("/key")));
    let name = metadata::name(object);
    for (at, annotation) in annotations.iter().enumerate() {
        let field = |name: &str| format!("spec.auditAnnotations[{at}].{name}");
        let key = annotation.text("/key");
        if name.is_empty() {
            errors.push(FieldError::invalid_text(field("key"), key, "requires metadata.name be non-empty"));
        } else {
            let qualified = format!("{name}/{key}");
            let faults = qualified_name_faults(&qualified);
            errors.extend(faults.into_iter().map(|why| FieldError::invalid_text(field("key"), &qualified, why)));
        }
        let text = annotation.text("/valueExpression");
        if text.trim().len() > MAX_ANNOTATION_EXPRESSION {
            let why = format!("must not exceed {MAX_ANNOTATION_EXPRESSION} bytes in length");
            errors.push(FieldError::required(field("valueExpression"), &why));
        } else {
            let missing = "valueExpression is not specified";
            expression(text, &field("valueExpression"), missing, &mut errors, |text| {
                expressions.audit_annotation(text.trim()).err()
            });
        }
        errors.duplicate_if(twice[at], field("key"), &key.into());
    }
    errors
}

fn mutations(spec: &Json, expressions: &Expressions) -> FieldErrors {
    let mut errors = FieldErrors::default();
    if spec.list("/mutations").next().is_none() {
        errors.push(FieldError::required("spec.mutations", "mutations must contain at least one item"));
    }
    for (at, mutation) in spec.list("/mutations").enumerate() {
        let field = |name: &str| format!("spec.mutations[{at}].{name}");
        let patch_type = mutation.text("/patchType");
        let (own, other, is_patch) = match patch_type {
            "JSONPatch" => ("jsonPatch", "applyConfiguration", true),
            "ApplyConfiguration" => ("applyConfiguration", "jsonPatch", false),
            "" => {
                errors.push(FieldError::required(field("patchType"), ""));
                continue;
            }
            _ => {
                let known = &["ApplyConfiguration", "JSONPatch"];
                errors.push(FieldError::unsupported(field("patchType"), &patch_type.into(), known));
                continue;
            }
        };
        match mutation.get(own).filter(|own| !own.is_null()) {
            None => {
                let why = format!("must be specified when patchType is {patch_type}");
                errors.push(FieldError::required(field(own), &why));
            }
            Some(part) => {
                let text = part.text("/expression").trim();
                expression(text, &field(&format!("{own}.expression")), "", &mut errors, |text| {
                    expressions.mutation(text, is_patch).err()
                });
            }
        }
        if mutation.get(other).is_some_and(|other| !other.is_null()) {
            let why = format!("must not be specified when patchType is {patch_type}");
            errors.push(FieldError::invalid_text(field(other), &format!("{{{other}}}"), why));
        }
    }
    errors
}
