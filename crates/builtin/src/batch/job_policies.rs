//! Validates `podFailurePolicy`, `successPolicy`, `managedBy` and the limits for indexed Jobs.

use std::collections::HashSet;

use pintle_apimachinery::failure::quoted;
use pintle_apimachinery::object::duplicates;
use pintle_apimachinery::validate::{
    FieldError, FieldErrorType, FieldErrors, NameRule, name_errors, qualified_name_faults,
};
use pintle_json::Json;
use pintle_kinds::check::Check;

const MAX_RULES: usize = 20;
const MAX_CONDITIONS: usize = 20;
const MAX_EXIT_CODES: usize = 255;
const MAX_INDEXES: usize = 64 * 1024;
const MAX_MANAGED_BY: usize = 63;
/// The maximum number of parallel indices, and the maximum number of failed indices. For Jobs with more completions
/// than `MAX_INDEXED`, [`MAX_WITH_MANY_COMPLETIONS`] applies instead.
const MAX_INDEXED: i64 = 100_000;
/// Like [`MAX_INDEXED`], but for Jobs with many completions and a backoff limit per index.
const MAX_WITH_MANY_COMPLETIONS: i64 = 10_000;

pub(super) fn errors(spec: &Json, path: &str) -> FieldErrors {
    let indexed = spec.text("/completionMode") == "Indexed";
    let success = spec.get("successPolicy").filter(|policy| !policy.is_null()).cloned().unwrap_or_default();
    Check::at(spec, path)
        .inside("podFailurePolicy", |policy| {
            let containers = spec.list("/template/spec/containers").chain(spec.list("/template/spec/initContainers"));
            let containers: HashSet<&str> = containers.map(|container| container.text("/name")).collect();
            at_most(policy, "rules", MAX_RULES).each("rules", |rule, _| failure_rule(rule, spec, &containers))
        })
        .refuse(spec.has("/successPolicy") && !indexed, || {
            FieldError::invalid("successPolicy", &success, "requires indexed completion mode")
        })
        .inside("successPolicy", |policy| {
            if indexed {
                let why = "at least one rules must be specified when the successPolicy is specified";
                let policy = at_most(policy.required_because("rules", why), "rules", MAX_RULES);
                policy.each("rules", |rule, _| success_rule(rule, spec.integer("/completions").unwrap_or(0)))
            } else {
                policy
            }
        })
        .done()
}

pub(super) fn index_errors(spec: &Json, path: &str) -> FieldErrors {
    let number = |field: &str| spec[field].as_i64();
    let (completions, failed, at_once) = (number("completions"), number("maxFailedIndexes"), number("parallelism"));
    let huge = completions.is_some_and(|count| count > MAX_INDEXED) && spec.has("/backoffLimitPerIndex");
    let above = |value: Option<i64>, most: i64| value.is_some_and(|value| value > most);
    let most = |field: &str, most: &str| {
        FieldError::invalid(field, &number(field).into(), format!("must be less than or equal to {most}"))
    };
    let with_many = format!(
        "{MAX_WITH_MANY_COMPLETIONS} when completions are above {MAX_INDEXED} and used with backoff limit per index"
    );
    Check::at(spec, path)
        .refuse(above(at_once, MAX_INDEXED), || {
            most("parallelism", &format!("{MAX_INDEXED} when completion mode is Indexed"))
        })
        .refuse(completions.is_some_and(|completions| above(failed, completions)), || {
            most("maxFailedIndexes", "completions")
        })
        .refuse(above(failed, MAX_INDEXED), || most("maxFailedIndexes", &MAX_INDEXED.to_string()))
        .refuse(huge && failed.is_none(), || {
            let why = format!("must be specified when completions is above {MAX_INDEXED}");
            FieldError::required("maxFailedIndexes", &why)
        })
        .refuse(huge && above(at_once, MAX_WITH_MANY_COMPLETIONS), || most("parallelism", &with_many))
        .refuse(huge && above(failed, MAX_WITH_MANY_COMPLETIONS), || most("maxFailedIndexes", &with_many))
        .done()
}

pub(super) fn manager_errors(spec: &Json, path: &str) -> FieldErrors {
    let Some(manager) = spec["managedBy"].as_str() else { return FieldErrors::default() };
    let field = format!("{path}.managedBy");
    let mut errors = match manager.split_once('/') {
        _ if manager.is_empty() => FieldErrors::from([FieldError::required(field.as_str(), "")]),
        Some((host, rest)) if !host.is_empty() && !rest.is_empty() => {
            let why = name_errors(NameRule::Subdomain, host, false);
            why.iter().map(|why| FieldError::invalid_text(field.as_str(), host, why)).collect()
        }
        _ => {
            let why = "must be a domain-prefixed path (such as \"acme.io/foo\")";
            FieldErrors::from([FieldError::invalid_text(field.as_str(), manager, why)])
        }
    };
    if manager.len() > MAX_MANAGED_BY {
        errors.push(FieldError::too_long(field, MAX_MANAGED_BY));
    }
    errors
}

fn failure_rule<'a>(rule: Check<'a>, spec: &Json, containers: &HashSet<&str>) -> Check<'a> {
    let action = rule.object().text("/action");
    let rule = match action {
        "FailIndex" => rule.refuse(!spec.has("/backoffLimitPerIndex"), || {
            FieldError::invalid_text("action", action, "requires the backoffLimitPerIndex to be set")
        }),
        _ => one_of(rule, "action", &["Count", "FailIndex", "FailJob", "Ignore"]),
    };
    let by_codes = rule.object().has("/onExitCodes");
    let by_conditions = rule.object().list("/onPodConditions").next().is_some();
    let refused = |words: &str| {
        let message = format!("Invalid value: specifying {words}");
        FieldError::new(FieldErrorType::Invalid, "", message)
    };
    at_most(rule.inside("onExitCodes", |codes| exit_codes(codes, containers)), "onPodConditions", MAX_CONDITIONS)
        .each("onPodConditions", |pattern, _| {
            let kind = pattern.object().text("/type");
            let why = qualified_name_faults(kind);
            let pattern = why.iter().fold(pattern, |check, why| check.invalid_text_if(true, "type", kind, why));
            one_of(pattern, "status", &["False", "True", "Unknown"])
        })
        .refuse(by_codes && by_conditions, || refused("both OnExitCodes and OnPodConditions is not supported"))
        .refuse(!by_codes && !by_conditions, || refused("one of OnExitCodes and OnPodConditions is required"))
}

fn exit_codes<'a>(codes: Check<'a>, containers: &HashSet<&str>) -> Check<'a> {
    let container = codes.object()["containerName"].as_str();
    let known = container.is_none_or(|name| containers.contains(name));
    let is_in = codes.object().text("/operator") == "In";
    let values: Vec<i64> = codes.object().list("/values").filter_map(Json::as_i64).collect();
    let duplicates = duplicates(values.iter());
    let shown = codes.object()["values"].clone();
    let codes = one_of(codes, "operator", &["In", "NotIn"])
        .refuse(!known, || {
            let why = "must be one of the container or initContainer names in the pod template";
            FieldError::invalid_text("containerName", container.unwrap_or_default(), why)
        })
        .invalid_if(values.is_empty(), "values", &shown, "at least one value is required");
    let codes = values.iter().enumerate().fold(at_most(codes, "values", MAX_EXIT_CODES), |codes, (at, value)| {
        let field = format!("values[{at}]");
        let codes = codes.invalid_if(is_in && *value == 0, &field, &0.into(), "must not be 0 for the In operator");
        codes.duplicate_if(duplicates[at], field, &(*value).into())
    });
    codes.invalid_if(!values.is_sorted(), "values", &shown, "must be ordered")
}

fn success_rule(rule: Check<'_>, completions: i64) -> Check<'_> {
    let indexes = rule.object()["succeededIndexes"].as_str();
    let count = rule.object().integer("/succeededCount");
    let total = indexes.map(|text| count_indexes(text, completions));
    let broken = total.as_ref().and_then(|total| total.as_ref().err()).cloned();
    let named = total.and_then(Result::ok).unwrap_or(0);
    let shown = Json::from(count.unwrap_or(0));
    let too_many = |most: i64, what: &str| {
        let why = format!("must be less than or equal to {most} (the number of {what})");
        FieldError::invalid("succeededCount", &shown, why)
    };
    rule.refuse(count.is_none() && indexes.is_none(), || {
        FieldError::required("", "at least one of succeededCount or succeededIndexes must be specified")
    })
    .refuse(indexes.is_some_and(|text| text.len() > MAX_INDEXES), || {
        FieldError::too_long("succeededIndexes", MAX_INDEXES)
    })
    .refuse(broken.is_some(), || {
        let why = format!("error parsing succeededIndexes: {}", broken.unwrap_or_default());
        FieldError::invalid_text("succeededIndexes", indexes.unwrap_or_default(), why)
    })
    .not_negative(&["succeededCount"])
    .refuse(count.is_some_and(|count| count > completions), || too_many(completions, "specified completions"))
    .refuse(indexes.is_some() && count.is_some_and(|count| count > named), || {
        too_many(named, "indexes in the specified succeededIndexes field")
    })
}

/// Parses an index such as `1`, or an interval such as `3-5`.
pub(super) fn interval(part: &str, completions: i64) -> Result<(i64, i64), String> {
    let index = |text: &str| match text.parse::<i64>() {
        Err(_) => Err(format!("cannot convert string to integer for index: {}", quoted(text))),
        Ok(index) if index >= completions => Err(format!("too large index: {}", quoted(text))),
        Ok(index) => Ok(index),
    };
    match part.split('-').collect::<Vec<_>>()[..] {
        [only] => index(only).map(|only| (only, only)),
        [first, end] => match (index(first)?, index(end)?) {
            (first, end) if first >= end => Err(not_increasing(first, end)),
            range => Ok(range),
        },
        _ => {
            let part = quoted(part);
            Err(format!(
                "the fragment {part} violates the requirement that an index interval can have at most two parts \
                 separated by '-'"
            ))
        }
    }
}

fn not_increasing(last: i64, next: i64) -> String {
    format!("non-increasing order, previous: {last}, current: {next}")
}

/// Returns the number of indices in a text such as `1,3-5`.
pub(super) fn count_indexes(text: &str, completions: i64) -> Result<i64, String> {
    let (mut total, mut last) = (0, None);
    for part in text.split(',').filter(|_| !text.is_empty()) {
        let (first, end) = interval(part, completions)?;
        if let Some(last) = last.filter(|last| *last >= first) {
            return Err(not_increasing(last, first));
        }
        total += end - first + 1;
        last = Some(end);
    }
    Ok(total)
}

/// Reports a field that is missing or has an unknown value. The error for a missing field lists the known values.
fn one_of<'a>(check: Check<'a>, field: &str, known: &[&str]) -> Check<'a> {
    let listed: Vec<_> = known.iter().map(|item| quoted(item)).collect();
    check.required_because(field, &format!("valid values: [{}]", listed.join(" "))).one_of(field, known)
}

fn at_most<'a>(check: Check<'a>, field: &str, most: usize) -> Check<'a> {
    let count =
        check.object().get(field).filter(|items| !items.is_empty()).and_then(Json::as_array).map_or(0, Vec::len);
    check.refuse(count > most, || FieldError::too_many(field, count, most))
}

#[cfg(test)]
mod tests {
    use pintle_json::json;

    use super::*;

    #[track_caller]
    fn check(spec: Json, expected: &[&str]) {
        let found: Vec<_> = errors(&spec, "spec").iter().map(ToString::to_string).collect();
        assert_eq!(found, expected, "{spec}");
    }

    #[test]
    fn failure_rule_needs_valid_action_and_one_requirement() {
        let rule = |rule: Json| json!({"podFailurePolicy": {"rules": [rule]}, "template": {"spec": {"containers": [{"name": "c"}]}}});
        check(rule(json!({"action": "Ignore", "onPodConditions": [{"type": "a/b", "status": "True"}]})), &[]);
        check(
            rule(
                json!({"action": "FailJob", "onExitCodes": {"operator": "In", "containerName": "c", "values": [1, 3]}}),
            ),
            &[],
        );
        check(
            rule(json!({"action": "FailIndex"})),
            &[
                "spec.podFailurePolicy.rules[0].action: Invalid value: \"FailIndex\": requires the backoffLimitPerIndex to be set",
                "spec.podFailurePolicy.rules[0]: Invalid value: specifying one of OnExitCodes and OnPodConditions is required",
            ],
        );
        check(
            rule(
                json!({"action": "x", "onExitCodes": {"operator": "In", "containerName": "d", "values": [0, 2, 1, 2]}}),
            ),
            &[
                "spec.podFailurePolicy.rules[0].action: Unsupported value: \"x\": supported values: \"Count\", \"FailIndex\", \"FailJob\", \"Ignore\"",
                "spec.podFailurePolicy.rules[0].onExitCodes.containerName: Invalid value: \"d\": must be one of the container or initContainer names in the pod template",
                "spec.podFailurePolicy.rules[0].onExitCodes.values[0]: Invalid value: 0: must not be 0 for the In operator",
                "spec.podFailurePolicy.rules[0].onExitCodes.values[3]: Duplicate value: 2",
                "spec.podFailurePolicy.rules[0].onExitCodes.values: Invalid value: [0,2,1,2]: must be ordered",
            ],
        );
    }

    #[test]
    fn success_rule_indexes_must_exist_and_increase() {
        let rule =
            |rule: Json| json!({"completionMode": "Indexed", "completions": 5, "successPolicy": {"rules": [rule]}});
        check(rule(json!({"succeededIndexes": "0,2-4", "succeededCount": 4})), &[]);
        let field = "spec.successPolicy.rules[0]";
        check(
            rule(json!({})),
            &[&format!(
                "{field}: Required value: at least one of succeededCount or succeededIndexes must be specified"
            )],
        );
        for (text, why) in [
            ("x", "cannot convert string to integer for index: \"x\""),
            ("1,5", "too large index: \"5\""),
            ("3,2", "non-increasing order, previous: 3, current: 2"),
        ] {
            let message =
                format!("{field}.succeededIndexes: Invalid value: \"{text}\": error parsing succeededIndexes: {why}");
            check(rule(json!({"succeededIndexes": text})), &[&message]);
        }
        let message = "must be less than or equal to 5 (the number of specified completions)";
        check(rule(json!({"succeededCount": 6})), &[&format!("{field}.succeededCount: Invalid value: 6: {message}")]);
    }
}
