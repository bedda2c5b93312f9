//! Validates the match rules of policies and bindings.

use std::collections::HashSet;

use pintle_apimachinery::validate::{FieldError, FieldErrors, NameRule, name_errors};
use pintle_json::Json;
use pintle_kinds::check::Check;
use pintle_kinds::label_selector::selector_errors;

use super::webhook_errors::rule_errors;

pub(super) fn match_resources(resources: &Json, path: &str) -> FieldErrors {
    let selector = |field: &str| selector_errors(&resources[field], &format!("{path}.{field}"));
    Check::at(resources, path)
        .known("matchPolicy", &["Equivalent", "Exact"])
        .also(selector("namespaceSelector"))
        .also(selector("objectSelector"))
        .each("resourceRules", |rule, _| named_rule(rule))
        .each("excludeResourceRules", |rule, _| named_rule(rule))
        .done()
}

fn named_rule(rule: Check<'_>) -> Check<'_> {
    let (mut seen, mut errors, path) = (HashSet::new(), Vec::new(), rule.path(""));
    for (at, name) in rule.object().texts("/resourceNames").enumerate() {
        let field = format!("{path}resourceNames[{at}]");
        let why = name_errors(NameRule::PathSegment, name, false);
        errors.extend(why.iter().map(|why| FieldError::invalid_text(field.as_str(), name, why)));
        if !seen.insert(name) {
            errors.push(FieldError::duplicate(field, &name.into()));
        }
    }
    rule_errors(rule.also(errors))
}

/// Reports operations that a mutating policy's rules must not contain, such as DELETE.
pub(super) fn only_writes(resources: &Json, path: &str) -> FieldErrors {
    let operations = resources.list("/resourceRules").flat_map(|rule| rule.texts("/operations"));
    const KNOWN: [&str; 4] = ["*", "CONNECT", "CREATE", "UPDATE"];
    let others = operations.filter(|operation| !KNOWN.contains(operation));
    others
        .map(|operation| {
            let field = format!("{path}.resourceRules.operations");
            FieldError::unsupported(field, &operation.into(), &KNOWN)
        })
        .collect()
}

pub(super) fn binding(object: &Json, is_mutating: bool) -> FieldErrors {
    let spec = &object["spec"];
    let mut check = Check::at(spec, "spec").required_name("policyName", NameRule::Subdomain);
    check = check.inside("paramRef", param_ref);
    if spec.has("/matchResources") {
        check = check.also(match_resources(&spec["matchResources"], "spec.matchResources"));
    }
    if is_mutating {
        return check.also(only_writes(&spec["matchResources"], "spec.matchResources")).done();
    }
    check.also(actions(spec)).done()
}

fn param_ref(reference: Check<'_>) -> Check<'_> {
    let object = reference.object();
    let (name, selector) = (object.text("/name"), object.has("/selector"));
    let (has_both, path) = (!name.is_empty() && selector, reference.path("selector"));
    let why = "name and selector are mutually exclusive";
    let segment = name_errors(NameRule::PathSegment, name, false).join(",");
    reference
        .invalid_text_if(!name.is_empty() && !segment.is_empty(), "name", name, segment)
        .forbidden_if(has_both, "name", why)
        .also(selector_errors(&object["selector"], &path))
        .forbidden_if(has_both, "selector", why)
        .required_if(name.is_empty() && !selector, "", "one of name or selector must be specified")
        .required_one_of("parameterNotFoundAction", &["Deny", "Allow"])
}

fn actions(spec: &Json) -> FieldErrors {
    const FIELD: &str = "spec.validationActions";
    let (mut errors, mut seen) = (FieldErrors::default(), HashSet::new());
    let actions: Vec<_> = spec.texts("/validationActions").collect();
    for (at, action) in actions.iter().enumerate() {
        let field = format!("{FIELD}[{at}]");
        if !["Audit", "Deny", "Warn"].contains(action) {
            errors.push(FieldError::unsupported(field.as_str(), &(*action).into(), &["Audit", "Deny", "Warn"]));
        }
        errors.duplicate_if(!seen.insert(action), field, &(*action).into());
    }
    if actions.contains(&"Deny") && actions.contains(&"Warn") {
        let why = "must not contain both Deny and Warn (repeating the same validation failure information in the API \
                   response and headers serves no purpose)";
        errors.push(FieldError::invalid(FIELD, &spec["validationActions"], why));
    }
    errors.required_if(actions.is_empty(), FIELD, "at least one validation action is required");
    errors
}
