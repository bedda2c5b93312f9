//! Accepts the names of definitions, establishes definitions, and keeps their conditions.

use std::collections::BTreeSet;
use std::sync::Arc;

use pintle_json::{Json, json};

use super::{is_established, is_terminating};
use crate::object::set_condition;

/// What a custom resource is called.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct DefinitionNames {
    pub(super) plural: String,
    pub(super) singular: String,
    pub(super) short_names: Vec<String>,
    pub(super) kind: String,
    pub(super) list_kind: String,
    pub(super) categories: Vec<String>,
}

impl DefinitionNames {
    /// Those that a definition asks for.
    fn requested(definition: &Json) -> Self {
        Self::read(&definition["spec"]["names"])
    }

    /// Those that it has.
    pub(super) fn accepted(definition: &Json) -> Self {
        Self::read(&definition["status"]["acceptedNames"])
    }

    fn read(names: &Json) -> Self {
        let text = |pointer: &str| names.text(pointer).to_owned();
        let texts = |pointer: &str| names.texts(pointer).map(Into::into).collect();
        Self {
            plural: text("/plural"),
            singular: text("/singular"),
            short_names: texts("/shortNames"),
            kind: text("/kind"),
            list_kind: text("/listKind"),
            categories: texts("/categories"),
        }
    }

    /// Without what is empty and may be left out.
    fn value(self) -> Json {
        let mut names = json!({"plural": self.plural, "kind": self.kind});
        for (key, value) in [
            ("singular", self.singular.into()),
            ("shortNames", self.short_names.into()),
            ("listKind", self.list_kind.into()),
            ("categories", Json::from(self.categories)),
        ] {
            if !value.is_empty() {
                names.set(key, value);
            }
        }
        names
    }
}

/// Accepts names and establishes definitions, in the order given; answers those that changed, with their new status.
///
/// `now` is the time of a changed condition, as metadata carry it.
pub(crate) fn settle(definitions: &[Arc<Json>], now: &str) -> Vec<Json> {
    let mut all: Vec<Arc<Json>> = definitions.to_vec();
    let mut changed = Vec::new();
    for at in 0..all.len() {
        let Some(mut definition) = all.get(at).map(|definition| Json::clone(definition)) else { continue };
        let taken = if has_its_names(&definition) { Taken::default() } else { Taken::by_others(&all, at) };
        if accept(&mut definition, &taken, now) {
            changed.push(definition.clone());
            all[at] = Arc::new(definition);
        }
    }
    changed
}

/// Says in a condition how it stands with a definition.
fn say(definition: &mut Json, kind: &str, status: &str, reason: &str, message: &str, now: &str) {
    let condition = json!({"type": kind, "status": status, "reason": reason, "message": message});
    set_condition(definition, condition, now);
}

/// Whether a definition has the names that it asks for: then nobody else can have them, and nobody is asked.
fn has_its_names(definition: &Json) -> bool {
    DefinitionNames { categories: Vec::new(), ..DefinitionNames::requested(definition) }
        == DefinitionNames { categories: Vec::new(), ..DefinitionNames::accepted(definition) }
}

/// The names of a group that other definitions have.
#[derive(Default)]
struct Taken {
    resources: BTreeSet<String>,
    kinds: BTreeSet<String>,
}

impl Taken {
    fn by_others(all: &[Arc<Json>], me: usize) -> Self {
        let group = |definition: &Json| definition.text("/spec/group").to_owned();
        let mine = all.get(me).map(|definition| group(definition)).unwrap_or_default();
        let others = all.iter().enumerate().filter(|(at, other)| *at != me && group(other) == mine);
        let mut taken = Self::default();
        for names in others.map(|(_, other)| DefinitionNames::accepted(other)) {
            taken.resources.extend([names.plural, names.singular]);
            taken.resources.extend(names.short_names);
            taken.kinds.extend([names.kind, names.list_kind]);
        }
        taken
    }
}

fn accept(definition: &mut Json, taken: &Taken, now: &str) -> bool {
    let before = definition.clone();
    let (wanted, mut accepted) = (DefinitionNames::requested(&before), DefinitionNames::accepted(&before));
    // The last conflict is told.
    let mut conflict: Option<(&str, String)> = None;
    let in_use = |name: &str| format!("\"{name}\" is already in use");
    let take =
        |name: &str, had: &mut String, taken: &BTreeSet<String>| match had.as_str() != name && taken.contains(name) {
            true => Some(in_use(name)),
            false => {
                name.clone_into(had);
                None
            }
        };
    let plural = take(&wanted.plural, &mut accepted.plural, &taken.resources);
    let singular = take(&wanted.singular, &mut accepted.singular, &taken.resources);
    let is_used = |name: &&String| !accepted.short_names.contains(name) && taken.resources.contains(*name);
    let used: Vec<_> = wanted.short_names.iter().filter(is_used).map(|name| in_use(name)).collect();
    let short_names = match &used[..] {
        [] => {
            accepted.short_names = wanted.short_names;
            None
        }
        [one] => Some(one.clone()),
        many => Some(format!("[{}]", many.join(", "))),
    };
    let kind = take(&wanted.kind, &mut accepted.kind, &taken.kinds);
    let list_kind = take(&wanted.list_kind, &mut accepted.list_kind, &taken.kinds);
    accepted.categories = wanted.categories;
    for (reason, message) in [
        ("PluralConflict", plural),
        ("SingularConflict", singular),
        ("ShortNamesConflict", short_names),
        ("KindConflict", kind),
        ("ListKindConflict", list_kind),
    ] {
        conflict = message.map(|message| (reason, message)).or(conflict);
    }
    if let Some(status) = definition.member("status") {
        status.set("acceptedNames", accepted.value());
    }
    match &conflict {
        None => say(definition, "NamesAccepted", "True", "NoConflicts", "no conflicts found", now),
        Some((reason, message)) => say(definition, "NamesAccepted", "False", reason, message, now),
    }
    if !is_established(definition) && !is_terminating(definition) {
        match conflict {
            None => {
                let message = "the initial names have been accepted";
                say(definition, "Established", "True", "InitialNamesAccepted", message, now);
            }
            Some(_) => say(definition, "Established", "False", "NotAccepted", "not all names are accepted", now),
        }
    }
    approve(definition, now);
    *definition != before
}

/// Groups of the Kubernetes project need an approval.
fn approve(definition: &mut Json, now: &str) {
    if !is_protected(definition.text("/spec/group")) {
        return;
    }
    let approval = definition.text("/metadata/annotations/api-approved.kubernetes.io").to_owned();
    let kind = "KubernetesAPIApprovalPolicyConformant";
    match approval.starts_with("unapproved") {
        true => {
            let message = format!("not approved: \"{approval}\"");
            say(definition, kind, "False", "UnapprovedAnnotation", &message, now);
        }
        false => {
            let message = format!("approved in {approval}");
            say(definition, kind, "True", "ApprovedAnnotation", &message, now);
        }
    }
}

/// Whether a group belongs to the Kubernetes project.
pub(super) fn is_protected(group: &str) -> bool {
    ["k8s.io", "kubernetes.io"].iter().any(|domain| group == *domain || group.ends_with(&format!(".{domain}")))
}
