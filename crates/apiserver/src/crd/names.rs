//! Accepts the names of definitions, establishes definitions, and keeps their conditions.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::{is_established, is_terminating};
use crate::object::{list, member, set, text_at};

/// Accepts names and establishes definitions, in the order given; answers those that changed, with their new status.
///
/// `now` is the time of a changed condition, as metadata carry it.
pub(crate) fn settle(definitions: &[Arc<Value>], now: &str) -> Vec<Value> {
    let mut all: Vec<Arc<Value>> = definitions.to_vec();
    let mut changed = Vec::new();
    for at in 0..all.len() {
        let Some(mut definition) = all.get(at).map(|definition| Value::clone(definition)) else { continue };
        let taken = if has_its_names(&definition) { Taken::default() } else { Taken::by_others(&all, at) };
        if accept(&mut definition, &taken, now) {
            changed.push(definition.clone());
            all[at] = Arc::new(definition);
        }
    }
    changed
}

/// A condition of a definition.
pub(crate) fn condition<'a>(definition: &'a Value, kind: &str) -> Option<&'a Value> {
    list(definition, "/status/conditions").find(|condition| text_at(condition, "/type") == kind)
}

/// Sets a condition; answers whether that changed anything. The time changes with the status alone.
pub(crate) fn set_condition(
    definition: &mut Value,
    kind: &str,
    status: &str,
    reason: &str,
    message: &str,
    now: &str,
) -> bool {
    let old = condition(definition, kind).cloned();
    let same_status = old.as_ref().is_some_and(|old| text_at(old, "/status") == status);
    let time = old.as_ref().filter(|_| same_status).map_or(now, |old| text_at(old, "/lastTransitionTime"));
    let new = json!({"type": kind, "status": status, "lastTransitionTime": time, "reason": reason, "message": message});
    if old.as_ref() == Some(&new) {
        return false;
    }
    let mut conditions: Vec<Value> = list(definition, "/status/conditions").cloned().collect();
    match conditions.iter_mut().find(|condition| text_at(condition, "/type") == kind) {
        Some(condition) => *condition = new,
        None => conditions.push(new),
    }
    if let Some(status) = member(definition, "status") {
        set(status, "conditions", conditions.into());
    }
    true
}

/// Whether a definition has the names that it asks for: then nobody else can have them, and nobody is asked.
fn has_its_names(definition: &Value) -> bool {
    ["plural", "singular", "shortNames", "kind", "listKind"].iter().all(|key| {
        let (wanted, had) = (format!("/spec/names/{key}"), format!("/status/acceptedNames/{key}"));
        definition.pointer(&wanted) == definition.pointer(&had)
    })
}

/// The names of a group that other definitions have.
#[derive(Default)]
struct Taken {
    resources: BTreeSet<String>,
    kinds: BTreeSet<String>,
}

impl Taken {
    fn by_others(all: &[Arc<Value>], me: usize) -> Self {
        let group = all.get(me).map_or("", |definition| text_at(definition, "/spec/group"));
        let (mut resources, mut kinds) = (BTreeSet::new(), BTreeSet::new());
        for (at, other) in all.iter().enumerate() {
            if at == me || text_at(other, "/spec/group") != group {
                continue;
            }
            let name = |key: &str| text_at(other, &format!("/status/acceptedNames/{key}")).to_owned();
            resources.extend([name("plural"), name("singular")]);
            resources.extend(list(other, "/status/acceptedNames/shortNames").filter_map(Value::as_str).map(Into::into));
            kinds.extend([name("kind"), name("listKind")]);
        }
        Self { resources, kinds }
    }
}

fn accept(definition: &mut Value, taken: &Taken, now: &str) -> bool {
    let before = definition.clone();
    let requested = |key: &str| text_at(&before, &format!("/spec/names/{key}"));
    let mut accepted = before.pointer("/status/acceptedNames").and_then(Value::as_object).cloned().unwrap_or_default();
    for key in ["plural", "kind"] {
        accepted.entry(key).or_insert_with(|| "".into());
    }
    let mut conflict: Option<(&str, String)> = None;
    for (key, names, reason) in [
        ("plural", &taken.resources, "PluralConflict"),
        ("singular", &taken.resources, "SingularConflict"),
        ("shortNames", &taken.resources, "ShortNamesConflict"),
        ("kind", &taken.kinds, "KindConflict"),
        ("listKind", &taken.kinds, "ListKindConflict"),
    ] {
        if key == "shortNames" {
            let wanted: Vec<&str> = list(&before, "/spec/names/shortNames").filter_map(Value::as_str).collect();
            let had: BTreeSet<&str> =
                list(&before, "/status/acceptedNames/shortNames").filter_map(Value::as_str).collect();
            let used: Vec<_> = wanted.iter().filter(|name| !had.contains(*name) && names.contains(**name)).collect();
            match used.is_empty() {
                true => put(&mut accepted, key, json!(wanted)),
                false => {
                    let texts: Vec<_> = used.iter().map(|name| format!("\"{name}\" is already in use")).collect();
                    let text = if texts.len() == 1 { texts.concat() } else { format!("[{}]", texts.join(", ")) };
                    conflict = Some((reason, text));
                }
            }
            continue;
        }
        let (wanted, had) = (requested(key), text_at(&before, &format!("/status/acceptedNames/{key}")));
        match wanted != had && names.contains(wanted) {
            true => conflict = Some((reason, format!("\"{wanted}\" is already in use"))),
            false => put(&mut accepted, key, wanted.into()),
        }
    }
    put(&mut accepted, "categories", before.pointer("/spec/names/categories").cloned().unwrap_or_default());
    if let Some(status) = member(definition, "status") {
        set(status, "acceptedNames", Value::Object(accepted));
    }
    match &conflict {
        None => set_condition(definition, "NamesAccepted", "True", "NoConflicts", "no conflicts found", now),
        Some((reason, message)) => set_condition(definition, "NamesAccepted", "False", reason, message, now),
    };
    if !is_established(definition) && !is_terminating(definition) {
        match conflict {
            None => {
                let message = "the initial names have been accepted";
                set_condition(definition, "Established", "True", "InitialNamesAccepted", message, now)
            }
            Some(_) => {
                set_condition(definition, "Established", "False", "NotAccepted", "not all names are accepted", now)
            }
        };
    }
    approve(definition, now);
    *definition != before
}

/// Groups of the Kubernetes project need an approval.
fn approve(definition: &mut Value, now: &str) {
    if !is_protected(text_at(definition, "/spec/group")) {
        return;
    }
    let approval = text_at(definition, "/metadata/annotations/api-approved.kubernetes.io").to_owned();
    let kind = "KubernetesAPIApprovalPolicyConformant";
    match approval.starts_with("unapproved") {
        true => {
            let message = format!("not approved: \"{approval}\"");
            set_condition(definition, kind, "False", "UnapprovedAnnotation", &message, now);
        }
        false => {
            let message = format!("approved in {approval}");
            set_condition(definition, kind, "True", "ApprovedAnnotation", &message, now);
        }
    }
}

/// Whether a group belongs to the Kubernetes project.
pub(super) fn is_protected(group: &str) -> bool {
    ["k8s.io", "kubernetes.io"].iter().any(|domain| group == *domain || group.ends_with(&format!(".{domain}")))
}

/// Sets a name; what is empty and may be left out is.
fn put(names: &mut Map<String, Value>, key: &str, value: Value) {
    let empty = crate::object::is_empty(&value);
    match empty && !matches!(key, "plural" | "kind") {
        true => names.remove(key),
        false => names.insert(key.into(), value),
    };
}
