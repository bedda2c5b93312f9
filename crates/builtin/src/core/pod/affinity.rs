//! Validates a pod's affinity and topology spread constraints.

use std::collections::{HashMap, HashSet};

use pintle_apimachinery::validate::{FieldError, FieldErrors, NameRule, label_key_faults, name_errors};
use pintle_json::Json;
use pintle_kinds::check::Check;
use pintle_kinds::label_selector::selector_errors;

use super::placing;
use super::placing::{PREFERRED, REQUIRED};

const WEIGHT: &str = "must be in the range 1-100";

pub(super) fn errors(spec: &Json, path: &str) -> FieldErrors {
    let path = format!("{path}.affinity");
    let affinity = &spec["affinity"];
    let nodes = format!("{path}.nodeAffinity");
    let mut errors = FieldErrors::default();
    if affinity.has(&format!("/nodeAffinity/{REQUIRED}")) {
        errors.extend(placing::terms(&affinity["nodeAffinity"][REQUIRED], &format!("{nodes}.{REQUIRED}")));
    }
    let preferred = Check::at(&affinity["nodeAffinity"], &nodes).each(PREFERRED, |term, at| {
        let preference = &term.object()["preference"];
        weight(term).also(placing::term(preference, &format!("{nodes}.{PREFERRED}[{at}].preference"), false))
    });
    errors.extend(preferred.done());
    for kind in ["podAffinity", "podAntiAffinity"] {
        let path = format!("{path}.{kind}");
        let pods = Check::at(&affinity[kind], &path)
            .each(REQUIRED, |term, at| {
                let object = term.object();
                term.also(pod_term(object, &format!("{path}.{REQUIRED}[{at}]")))
            })
            .each(PREFERRED, |term, at| {
                let inner = &term.object()["podAffinityTerm"];
                weight(term).also(pod_term(inner, &format!("{path}.{PREFERRED}[{at}].podAffinityTerm")))
            });
        errors.extend(pods.done());
    }
    errors
}

pub(super) fn spread(spec: &Json, path: &str) -> FieldErrors {
    let places = |constraint: &Json| {
        (constraint.text("/topologyKey").to_owned(), constraint.text("/whenUnsatisfiable").to_owned())
    };
    let mut later = HashSet::new();
    let mut repeated: Vec<bool> =
        spec.list("/topologySpreadConstraints").rev().map(|constraint| !later.insert(places(constraint))).collect();
    repeated.reverse();
    let all = Check::at(spec, path).each("topologySpreadConstraints", |check, at| {
        let constraint = check.object();
        let path = format!("{path}.topologySpreadConstraints[{at}]");
        let (key, action) = places(constraint);
        let policies = ["Honor", "Ignore"];
        let skew = constraint.integer("/maxSkew").unwrap_or(0);
        let domains = constraint.integer("/minDomains");
        let selector = &constraint["labelSelector"];
        check
            .invalid_if(skew <= 0, "maxSkew", &skew.into(), "must be greater than zero")
            .required_because("topologyKey", "can not be empty")
            .refuse(!matches!(action.as_str(), "DoNotSchedule" | "ScheduleAnyway"), || {
                let known = ["DoNotSchedule", "ScheduleAnyway"];
                FieldError::unsupported("whenUnsatisfiable", &action.as_str().into(), &known)
            })
            .refuse(repeated[at], || {
                let value = format!("{{{key}, {action}}}");
                FieldError::duplicate("{topologyKey, whenUnsatisfiable}", &value.into())
            })
            .refuse(domains.is_some_and(|domains| domains <= 0), || {
                FieldError::invalid("minDomains", &domains.unwrap_or(0).into(), "must be greater than zero")
            })
            .refuse(domains.is_some() && action != "DoNotSchedule", || {
                let why = format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}");
                FieldError::invalid("minDomains", &domains.unwrap_or(0).into(), why)
            })
            .known("nodeAffinityPolicy", &policies)
            .known("nodeTaintsPolicy", &policies)
            .also(label_keys(constraint, "matchLabelKeys", &path))
            .also(double_keys(constraint, &path))
            .also(selector_errors(selector, &format!("{path}.labelSelector")))
    });
    all.done()
}

fn weight(term: Check<'_>) -> Check<'_> {
    let weight = term.object().integer("/weight").unwrap_or(0);
    term.invalid_if(!(1..=100).contains(&weight), "weight", &weight.into(), WEIGHT)
}

fn pod_term(term: &Json, path: &str) -> FieldErrors {
    let topology = term.text("/topologyKey");
    let namespaces = term.texts("/namespaces").flat_map(|name| {
        let why = name_errors(NameRule::Label, name, false);
        why.into_iter().map(move |why| FieldError::invalid_text(format!("{path}.namespace"), name, why))
    });
    let mismatched: HashSet<&str> = term.texts("/mismatchLabelKeys").collect();
    let in_both =
        term.texts("/matchLabelKeys").enumerate().filter(|(_, key)| mismatched.contains(key)).map(|(at, key)| {
            let why = "exists in both matchLabelKeys and mismatchLabelKeys";
            FieldError::invalid_text(format!("{path}.matchLabelKeys[{at}]"), key, why)
        });
    Check::at(term, path)
        .also(selector_errors(&term["labelSelector"], &format!("{path}.labelSelector")))
        .also(selector_errors(&term["namespaceSelector"], &format!("{path}.namespaceSelector")))
        .also(namespaces)
        .also(label_keys(term, "matchLabelKeys", path))
        .also(label_keys(term, "mismatchLabelKeys", path))
        .also(double_keys(term, path))
        .also(in_both)
        .required_because("topologyKey", "can not be empty")
        .also(
            label_key_faults(topology)
                .iter()
                .map(|why| FieldError::invalid_text(format!("{path}.topologyKey"), topology, why)),
        )
        .done()
}

fn label_keys(object: &Json, list: &str, path: &str) -> FieldErrors {
    let keys = object.texts(&format!("/{list}")).enumerate();
    let path = format!("{path}.{list}");
    if object.has("/labelSelector") {
        keys.flat_map(|(at, key)| {
            let field = format!("{path}[{at}]");
            label_key_faults(key).into_iter().map(move |why| FieldError::invalid_text(field.as_str(), key, why))
        })
        .collect()
    } else {
        let why = "must not be specified when labelSelector is not set";
        keys.take(1).map(|_| FieldError::forbidden(path.as_str(), why)).collect()
    }
}

/// Reports a key of `matchLabelKeys` that occurs more than once in the label selector.
fn double_keys(object: &Json, path: &str) -> FieldErrors {
    let keys: HashMap<&str, usize> = object.texts("/matchLabelKeys").enumerate().map(|(at, key)| (key, at)).collect();
    let mut selected: HashSet<&str> =
        object.members("/labelSelector/matchLabels").map(|(key, _)| key.as_str()).collect();
    let mut errors = FieldErrors::default();
    for expression in object.list("/labelSelector/matchExpressions") {
        let key = expression.text("/key");
        if let Some(at) = keys.get(key).filter(|_| selected.contains(key)) {
            let why = "exists in both matchLabelKeys and labelSelector";
            errors.push(FieldError::invalid_text(format!("{path}[{at}]"), key, why));
        }
        selected.insert(key);
    }
    errors
}
