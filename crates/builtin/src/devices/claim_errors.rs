//! Validates device requests, constraints and configurations.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use pintle_apimachinery::validate::{
    FieldError, FieldErrors, NameRule, label_key_faults, label_value_faults, name_errors,
};
use pintle_cel::CompileBudget;
use pintle_json::Json;
use pintle_kinds::check::Check;

use super::selector::{expression_error, object_budget};
use crate::resource_quantities::is_extended;

const MAX_ITEMS: usize = 32;
const MAX_ALTERNATIVES: usize = 8;
const MAX_DRIVER: usize = 63;
const MAX_IDENTIFIER: usize = 32;
const MAX_PARAMETERS: usize = 10 * 1024;
const WHICH_REQUEST: &str =
    "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'";

/// The names of the requests with the names of their alternatives.
pub(super) type Names<'a> = BTreeMap<&'a str, BTreeSet<&'a str>>;

pub(super) fn claim_errors(spec: &Json, path: &str) -> FieldErrors {
    let devices = &spec["devices"];
    let names = request_names(devices);
    let (check, budget) = (Check::at(devices, &format!("{path}.devices")), object_budget());
    let check = items(check, "requests", MAX_ITEMS, |request| request_errors(request, &budget));
    let check = items(check, "constraints", MAX_ITEMS, |constraint| constraint_errors(constraint, &names));
    items(check, "config", MAX_ITEMS, |config| configuration_errors(reference_errors(config, &names))).done()
}

/// Returns the names of the requests in a claim.
pub(super) fn request_names(devices: &Json) -> Names<'_> {
    let alternatives = |request| Json::list(request, "/firstAvailable").map(|it| it.text("/name")).collect();
    devices.list("/requests").map(|request| (request.text("/name"), alternatives(request))).collect()
}

/// Validates the spec of a DeviceClass.
pub(super) fn class_errors(spec: &Json) -> FieldErrors {
    let resource = spec.text("/extendedResourceName");
    let is_wrong = spec.has("/extendedResourceName") && !is_extended(resource);
    let budget = object_budget();
    let check = items(Check::at(spec, "spec"), "selectors", MAX_ITEMS, |selector| selector_errors(selector, &budget));
    items(check, "config", MAX_ITEMS, configuration_errors)
        .invalid_text_if(is_wrong, "extendedResourceName", resource, "must be a valid extended resource name")
        .done()
}

/// Validates the items of a list. Items with the same name, and equal strings, are duplicates.
pub(super) fn items<'a>(
    check: Check<'a>,
    field: &str,
    most: usize,
    rules: impl Fn(Check<'a>) -> Check<'a>,
) -> Check<'a> {
    keyed_items(check, (field, "name"), most, rules)
}

/// Validates the items of a list. Items with the same value of the member `key`, and equal strings, are duplicates.
pub(super) fn keyed_items<'a>(
    check: Check<'a>,
    (field, key): (&str, &str),
    most: usize,
    rules: impl Fn(Check<'a>) -> Check<'a>,
) -> Check<'a> {
    let all = check.object()[field].as_array().map_or(&[][..], Vec::as_slice);
    if all.len() > most {
        return check.refuse(true, || FieldError::too_many(field, all.len(), most));
    }
    let mut seen = HashSet::new();
    let names = all.iter().map(|item| if item.is_object() { item.get(key).unwrap_or(&Json::Null) } else { item });
    let duplicates: Vec<_> = names
        .enumerate()
        .filter(|(_, name)| !name.is_null() && !seen.insert(*name))
        .map(|(at, name)| FieldError::duplicate(check.path(&format!("{field}[{at}]")), name))
        .collect();
    check.each(field, |item, _| rules(item)).also(duplicates)
}

fn request_errors<'a>(request: Check<'a>, budget: &CompileBudget) -> Check<'a> {
    let object = request.object();
    let (exact, several) = (object.has("/exactly"), object.list("/firstAvailable").next().is_some());
    let request = required_label(request, "name").required_if(
        !exact && !several,
        "",
        "exactly one of `exactly` or `firstAvailable` is required",
    );
    match (exact, several) {
        (true, true) => {
            let why = "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set";
            request.invalid_if(true, "", &Json::Null, why)
        }
        (true, false) => request.inside("exactly", |device| device_errors(device, budget)),
        _ => items(request, "firstAvailable", MAX_ALTERNATIVES, |alternative| {
            device_errors(required_label(alternative, "name"), budget)
        }),
    }
}

pub(super) fn required_label<'a>(check: Check<'a>, field: &str) -> Check<'a> {
    let name = check.object().text(&format!("/{field}"));
    let why = name_errors(NameRule::Label, name, false);
    why.iter().fold(check, |check, why| check.invalid_text_if(true, field, name, why))
}

fn device_errors<'a>(device: Check<'a>, budget: &CompileBudget) -> Check<'a> {
    let mode = device.object().text("/allocationMode");
    let count = device.object().integer("/count").unwrap_or(0);
    let unspecified = "must not be specified when allocationMode is 'All'";
    let device = device.required("deviceClassName").name("deviceClassName", NameRule::Subdomain);
    let device = items(device, "selectors", MAX_ITEMS, |selector| selector_errors(selector, budget))
        .invalid_if(mode == "All" && count != 0, "count", &count.into(), unspecified)
        .invalid_if(mode == "ExactCount" && count <= 0, "count", &count.into(), "must be greater than zero")
        .unsupported_if(!matches!(mode, "All" | "ExactCount"), "allocationMode", &mode.into(), &["All", "ExactCount"]);
    device.each("tolerations", |toleration, _| toleration_errors(toleration))
}

fn selector_errors<'a>(selector: Check<'a>, budget: &CompileBudget) -> Check<'a> {
    let missing = !selector.object().has("/cel");
    selector.required_if(missing, "cel", "").inside("cel", |cel| {
        let error = expression_error(&cel.path("expression"), cel.object().text("/expression"), budget);
        cel.also(error)
    })
}

fn toleration_errors(toleration: Check<'_>) -> Check<'_> {
    let text = |field: &str| toleration.object().text(field);
    let (key, operator, value, effect) = (text("/key"), text("/operator"), text("/value"), text("/effect"));
    let key_faults = if key.is_empty() { Vec::new() } else { label_key_faults(key) };
    let value_faults = if operator == "Equal" { label_value_faults(value) } else { Vec::new() };
    let toleration = key_faults.iter().fold(toleration, |check, why| check.invalid_text_if(true, "key", key, why));
    let filled = operator == "Exists" && !value.is_empty();
    let toleration = toleration.invalid_text_if(filled, "value", value, "must be empty for operator `Exists`");
    let toleration =
        value_faults.iter().fold(toleration, |check, why| check.invalid_text_if(true, "value", value, why));
    let effects = ["NoExecute", "NoSchedule", "None"];
    let unknown = !effect.is_empty() && !effects.contains(&effect);
    toleration.required_one_of("operator", &["Equal", "Exists"]).unsupported_if(
        unknown,
        "effect",
        &effect.into(),
        &effects,
    )
}

/// Validates the names of requests in a constraint or a configuration.
pub(super) fn reference_errors<'a>(check: Check<'a>, names: &Names<'_>) -> Check<'a> {
    items(check, "requests", MAX_ITEMS, |reference| {
        let name = reference.object().as_str().unwrap_or_default();
        request_name_errors(reference, "", name, names)
    })
}

/// Validates the name of a request, or of a request and one of its alternatives.
pub(super) fn request_name_errors<'a>(check: Check<'a>, field: &str, name: &str, names: &Names<'_>) -> Check<'a> {
    let is_known = |name: &str| match name.split_once('/') {
        None => names.contains_key(name),
        Some((request, alternative)) => names.get(request).is_some_and(|known| known.contains(alternative)),
    };
    let parts: Vec<&str> = name.split('/').collect();
    let faults = parts.iter().filter(|_| parts.len() <= 2).flat_map(|part| {
        let why = name_errors(NameRule::Label, part, false);
        why.into_iter().map(move |why| (*part, why))
    });
    let faults: Vec<_> = faults.collect();
    let check = faults.iter().fold(check, |check, (part, why)| check.invalid_text_if(true, field, part, why));
    check.invalid_text_if(!is_known(name), field, name, WHICH_REQUEST)
}

fn constraint_errors<'a>(constraint: Check<'a>, names: &Names<'_>) -> Check<'a> {
    const MISSING: &str =
        "exactly one of \"matchAttribute\" or \"distinctAttribute\" is required, but multiple fields are set";
    let field =
        ["matchAttribute", "distinctAttribute"].into_iter().find(|field| constraint.object().has(&format!("/{field}")));
    let constraint = reference_errors(constraint, names);
    match field {
        Some(field) => constraint.inside(field, attribute_errors),
        None => constraint.required_if(true, "", MISSING),
    }
}

fn attribute_errors(attribute: Check<'_>) -> Check<'_> {
    let name = attribute.object().as_str().unwrap_or_default();
    let why = "a fully qualified name must be a domain and a name separated by a slash";
    qualified_name_errors(attribute, "", name).invalid_text_if(!name.contains('/'), "", name, why)
}

/// Validates the name of an attribute or capacity, which can start with a domain.
pub(super) fn qualified_name_errors<'a>(check: Check<'a>, field: &str, name: &str) -> Check<'a> {
    match name.split('/').collect::<Vec<_>>()[..] {
        [only] => identifier_errors(check, field, only),
        [domain, name] => {
            let check = check.invalid_text_if(domain.is_empty(), field, "", "the domain must not be empty");
            let check = if domain.is_empty() { check } else { driver_errors(check, field, domain) };
            let check = check.invalid_text_if(name.is_empty(), field, "", "the name must not be empty");
            if name.is_empty() { check } else { identifier_errors(check, field, name) }
        }
        _ => check,
    }
}

fn identifier_errors<'a>(check: Check<'a>, field: &str, name: &str) -> Check<'a> {
    const WHY: &str = "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric \
                       characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is \
                       '[A-Za-z_][A-Za-z0-9_]*')";
    let is_word = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let good = is_word && name.bytes().next().is_some_and(|first| !first.is_ascii_digit());
    check
        .refuse(name.len() > MAX_IDENTIFIER, || FieldError::too_long(field, MAX_IDENTIFIER))
        .invalid_text_if(!good, field, name, WHY)
}

pub(super) fn driver_errors<'a>(check: Check<'a>, field: &str, name: &str) -> Check<'a> {
    if name.is_empty() {
        return check.required_if(true, field, "");
    }
    let check = check.refuse(name.len() > MAX_DRIVER, || FieldError::too_long(field, MAX_DRIVER));
    let why = name_errors(NameRule::Subdomain, &name.to_lowercase(), false);
    why.iter().fold(check, |check, why| check.invalid_text_if(true, field, name, why))
}

pub(super) fn configuration_errors(config: Check<'_>) -> Check<'_> {
    let missing = !config.object().has("/opaque");
    config.required_if(missing, "opaque", "").inside("opaque", |opaque| {
        let driver = opaque.object().text("/driver");
        let is_missing = !opaque.object().has("/parameters");
        raw_object_errors(
            driver_errors(opaque, "driver", driver).required_if(is_missing, "parameters", ""),
            "parameters",
        )
    })
}

/// Validates the size and type of a field that contains any JSON object.
pub(super) fn raw_object_errors<'a>(check: Check<'a>, field: &str) -> Check<'a> {
    let value = check.object().get(field).unwrap_or(&Json::Null);
    let long = value.to_string().len() > MAX_PARAMETERS;
    let is_value = !value.is_null() && !value.is_object();
    check.refuse(long, || FieldError::too_long(field, MAX_PARAMETERS)).invalid_text_if(
        is_value && !long,
        field,
        "<value omitted>",
        "must be a valid JSON object",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use pintle_json::json;

    #[test]
    fn claims_are_validated_as_by_kube_apiserver() {
        let exact = json!({"deviceClassName": "c", "allocationMode": "ExactCount", "count": 1});
        let full = json!({
            "requests": [{"name": "r", "exactly": exact}, {"name": "q", "firstAvailable": [
                {"name": "s", "deviceClassName": "c", "allocationMode": "All"}]}],
            "constraints": [{"requests": ["r"], "matchAttribute": "a.b/c"}],
            "config": [{"requests": ["q/s"], "opaque": {"driver": "d", "parameters": {}}}],
        });
        for (pointer, value, expected) in [
            ("/requests/0/name", json!("r"), &[][..]),
            ("/requests/0/exactly/count", json!(0), &["requests[0].exactly.count"]),
            ("/requests/0/exactly/allocationMode", json!("Any"), &["requests[0].exactly.allocationMode"]),
            ("/requests/0/exactly/deviceClassName", json!(""), &["requests[0].exactly.deviceClassName"]),
            ("/requests/0/exactly/selectors", json!([{}]), &["requests[0].exactly.selectors[0].cel"]),
            ("/requests/0/exactly", json!(null), &["requests[0]"]),
            (
                "/requests/0/exactly/tolerations",
                json!([{"operator": "Exists", "value": "v", "effect": "x"}]),
                &["requests[0].exactly.tolerations[0].value", "requests[0].exactly.tolerations[0].effect"],
            ),
            ("/constraints/0/requests/0", json!("x"), &["constraints[0].requests[0]"]),
            ("/constraints/0/requests/0", json!("q/t"), &["constraints[0].requests[0]"]),
            ("/constraints/0/matchAttribute", json!("c"), &["constraints[0].matchAttribute"]),
            ("/constraints/0/matchAttribute", json!(null), &["constraints[0]"]),
            ("/config/0/opaque", json!(null), &["config[0].opaque"]),
            ("/config/0/opaque/parameters", json!([]), &["config[0].opaque.parameters"]),
            ("/config/0/opaque/driver", json!(""), &["config[0].opaque.driver"]),
        ] {
            let mut devices = full.clone();
            let (holder, key) = pointer.rsplit_once('/').expect("a pointer");
            let holder = devices.at_mut(holder).expect("a parent");
            match key.parse::<usize>() {
                Ok(at) => holder[at] = value,
                Err(_) => holder.set(key, value),
            }
            let expected: Vec<_> = expected.iter().map(|field| format!("spec.devices.{field}")).collect();
            assert_eq!(claim_errors(&json!({"devices": devices}), "spec").fields(), expected, "{pointer} {devices}");
        }
    }

    #[test]
    fn selectors_of_an_object_share_one_limit() {
        let nested = |levels: usize| {
            let inner = (1..levels).rev().fold("true".to_owned(), |inner, level| {
                let outer = level - 1;
                format!("[{{v{outer}:v{outer}}}].all(v{level},{inner})")
            });
            json!({"cel": {"expression": format!("[0].all(v0,{inner})")}})
        };
        let complex = |spec: Json| {
            let errors = class_errors(&spec);
            assert!(errors.iter().all(|error| error.to_string().contains("expression is too complex to check")));
            errors.fields().len()
        };
        assert_eq!(complex(json!({"selectors": [nested(16)]})), 0);
        let refused = complex(json!({"selectors": vec![nested(16); 32]}));
        assert!((1..32).contains(&refused), "{refused}");
        assert_eq!(complex(json!({"selectors": vec![nested(8); 32]})), 0);
        let alternative = json!({"name": "a", "deviceClassName": "c", "selectors": vec![nested(16); 2]});
        let request = json!({"name": "r", "firstAvailable": vec![alternative; 8]});
        let claim = json!({"devices": {"requests": vec![request; 2]}});
        let errors = claim_errors(&claim, "spec");
        assert!(errors.iter().any(|error| error.to_string().contains("too complex to check")), "{errors:?}");
    }
}
