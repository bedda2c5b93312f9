//! The conditions Approved, Denied and Failed of a certificate signing request. Approvals and denials are final.

use pintle_apimachinery::object::duplicates;
use pintle_apimachinery::validate::{FieldError, FieldErrors};
use pintle_json::Json;

const FIELD: &str = "status.conditions";
const DECISIONS: [&str; 2] = ["Approved", "Denied"];
const TRUE_ONLY: [&str; 3] = ["Approved", "Denied", "Failed"];

fn conditions(object: &Json) -> impl Iterator<Item = &Json> {
    object.list("/status/conditions")
}

fn of_type<'a>(object: &'a Json, wanted: &str) -> Vec<&'a Json> {
    conditions(object).filter(|condition| condition["type"] == wanted).collect()
}

pub(super) fn set_times(new: &mut Json, old: &Json, now: &str) {
    let Some(status) = new.get_mut("status") else { return };
    for condition in status.items_mut("conditions") {
        if condition["lastUpdateTime"].is_empty() {
            condition.set("lastUpdateTime", now);
        }
        if condition["lastTransitionTime"].is_empty() {
            let same = conditions(old).find(|old| {
                let is_unchanged = |field: &str| old[field] == condition[field];
                is_unchanged("type") && is_unchanged("status") && !old["lastTransitionTime"].is_empty()
            });
            let time = same.map_or_else(|| now.into(), |old| old["lastTransitionTime"].clone());
            condition.set("lastTransitionTime", time);
        }
    }
}

/// Restores the approvals and denials of the old object. If the request adds or removes an approval or denial, this
/// function restores nothing, and validation rejects the change.
pub(super) fn keep_decisions(new: &mut Json, old: &Json) {
    for decision in DECISIONS {
        let kept = of_type(old, decision);
        if kept.len() != of_type(new, decision).len() {
            continue;
        }
        let Some(status) = new.get_mut("status") else { return };
        let places = status.items_mut("conditions").filter(|condition| condition["type"] == decision);
        places.zip(kept).for_each(|(place, kept)| *place = kept.clone());
    }
}

/// Validates the conditions. Accepts a missing type, a duplicate or a contradictory decision if the old object already
/// contains the same mistake.
pub(super) fn errors(object: &Json, old: Option<&Json>) -> FieldErrors {
    let mut errors = FieldErrors::default();
    let had = |wrong: &dyn Fn(&Json) -> bool| old.is_some_and(wrong);
    let untyped = had(&|old| conditions(old).any(|condition| condition["type"].is_empty()));
    let twice = had(&|old| duplicates(conditions(old).map(|condition| &condition["type"])).contains(&true));
    let both = had(&|old| DECISIONS.iter().all(|decision| !of_type(old, decision).is_empty()));
    let duplicates = duplicates(conditions(object).map(|condition| &condition["type"]));
    let mut decided: Option<&str> = None;
    for (at, condition) in conditions(object).enumerate() {
        let field = |name: &str| format!("{FIELD}[{at}].{name}");
        let (kind, status) = (condition.text("/type"), &condition["status"]);
        errors.required_if(kind.is_empty() && !untyped, field("type"), "");
        let allowed: &[&str] = if TRUE_ONLY.contains(&kind) { &["True"] } else { &["False", "True", "Unknown"] };
        if status.is_empty() {
            errors.push(FieldError::required(field("status"), ""));
        } else if !status.as_str().is_some_and(|status| allowed.contains(&status)) {
            errors.push(FieldError::unsupported(field("status"), status, allowed));
        }
        if let Some(decision) = DECISIONS.into_iter().find(|decision| *decision == kind) {
            let why = "Approved and Denied conditions are mutually exclusive";
            errors.invalid_text_if(!both && decided.is_some_and(|other| other != decision), FIELD, kind, why);
            decided = Some(decision);
        }
        errors.duplicate_if(duplicates[at] && !twice, field("type"), &condition["type"]);
    }
    errors
}

/// Reports forbidden changes of conditions. `decides` must be true for the approval subresource, which can add
/// approvals and denials.
pub(super) fn change_errors(new: &Json, old: &Json, decides: bool) -> FieldErrors {
    let mut errors = FieldErrors::default();
    let refuse = |what: &str, kind: &str| {
        FieldError::forbidden(FIELD, format!("updates may not {what} a condition of type \"{kind}\""))
    };
    for kind in TRUE_ONLY {
        if of_type(new, kind).len() < of_type(old, kind).len() {
            errors.push(refuse("remove", kind));
        }
    }
    for kind in DECISIONS.into_iter().filter(|_| !decides) {
        let (new, old) = (of_type(new, kind), of_type(old, kind));
        if new.len() > old.len() {
            errors.push(refuse("add", kind));
        } else if new.len() == old.len() && new != old {
            errors.push(refuse("modify", kind));
        }
    }
    errors
}
