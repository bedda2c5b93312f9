//! Accepts the names of definitions, establishes definitions, and updates their conditions.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use pintle_apimachinery::object::set_condition;
use pintle_json::{Json, json};

use super::{approval, is_established, is_terminating};

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
    fn requested(definition: &Json) -> Self {
        Self::read(&definition["spec"]["names"])
    }

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

    /// Returns the names as a JSON object. Omits optional names that are empty.
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

/// Accepts a definition's names and establishes the definition. Returns the
/// definition with its new status, or `None` if the status did not change.
///
/// `taken` contains the names that are accepted for other definitions in the group. A definition that requests one of
/// these names has a naming conflict. `now`, in the format of metadata timestamps, becomes the transition time of
/// changed conditions.
pub fn settle(definition: &Json, taken: &Taken, now: &str) -> Option<Json> {
    let none = Taken::default();
    let taken = if has_accepted_names(definition) { &none } else { taken };
    let mut settled = definition.clone();
    accept(&mut settled, taken, now).then_some(settled)
}

fn set_status_condition(definition: &mut Json, kind: &str, status: &str, reason: &str, message: &str, now: &str) {
    let condition = json!({"type": kind, "status": status, "reason": reason, "message": message});
    set_condition(definition, condition, now);
}

/// Returns `true` if all requested names are accepted. Accepted names are reserved for their definition, so the caller
/// does not have to check for conflicts.
pub fn has_accepted_names(definition: &Json) -> bool {
    DefinitionNames { categories: Vec::new(), ..DefinitionNames::requested(definition) }
        == DefinitionNames { categories: Vec::new(), ..DefinitionNames::accepted(definition) }
}

/// The accepted names in a group, with the number of definitions that use each name.
#[derive(Debug, Default)]
pub struct Taken {
    resources: HashMap<String, usize>,
    kinds: HashMap<String, usize>,
}

impl Taken {
    /// Adds a definition's accepted names.
    pub fn add(&mut self, definition: &Json) {
        self.each(definition, |names, name| *names.entry(name).or_default() += 1);
    }

    /// Removes the accepted names of a definition that was added earlier.
    pub fn remove(&mut self, definition: &Json) {
        self.each(definition, |names, name| {
            if let Entry::Occupied(mut count) = names.entry(name) {
                *count.get_mut() -= 1;
                if *count.get() == 0 {
                    count.remove();
                }
            }
        });
    }

    fn each(&mut self, definition: &Json, mut change: impl FnMut(&mut HashMap<String, usize>, String)) {
        let DefinitionNames { plural, singular, short_names, kind, list_kind, .. } =
            DefinitionNames::accepted(definition);
        short_names.into_iter().chain([plural, singular]).for_each(|name| change(&mut self.resources, name));
        [kind, list_kind].into_iter().for_each(|name| change(&mut self.kinds, name));
    }
}

fn accept(definition: &mut Json, taken: &Taken, now: &str) -> bool {
    let before = definition.clone();
    let (wanted, mut accepted) = (DefinitionNames::requested(&before), DefinitionNames::accepted(&before));
    // If several names conflict, report only the last conflict.
    let mut conflict: Option<(&str, String)> = None;
    let in_use = |name: &str| format!("\"{name}\" is already in use");
    let take = |name: &str, had: &mut String, taken: &HashMap<String, usize>| {
        let conflicts = had.as_str() != name && taken.contains_key(name);
        if !conflicts {
            name.clone_into(had);
        }
        conflicts.then(|| in_use(name))
    };
    let plural = take(&wanted.plural, &mut accepted.plural, &taken.resources);
    let singular = take(&wanted.singular, &mut accepted.singular, &taken.resources);
    let is_used = |name: &&String| !accepted.short_names.contains(name) && taken.resources.contains_key(*name);
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
        None => set_status_condition(definition, "NamesAccepted", "True", "NoConflicts", "no conflicts found", now),
        Some((reason, message)) => set_status_condition(definition, "NamesAccepted", "False", reason, message, now),
    }
    if !is_established(definition) && !is_terminating(definition) {
        match conflict {
            None => {
                let message = "the initial names have been accepted";
                set_status_condition(definition, "Established", "True", "InitialNamesAccepted", message, now);
            }
            Some(_) => set_status_condition(
                definition,
                "Established",
                "False",
                "NotAccepted",
                "not all names are accepted",
                now,
            ),
        }
    }
    if let Some((status, reason, message)) = approval::condition(definition) {
        set_status_condition(definition, approval::APPROVAL_CONDITION, status, reason, &message, now);
    }
    *definition != before
}
