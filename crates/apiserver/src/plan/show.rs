//! The changes of a plan, and how they are formatted as text.

use std::fmt;

use pintle_json::Json;
use pintle_kinds::Kinds;
use pintle_meta::GroupResource;
use pintle_storage::{LocalWrite, Stored};

use super::PlannedField;

/// A planned action on an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanAction {
    /// Creates the object.
    Create,
    /// Changes the object.
    Update,
    /// Deletes the object.
    Delete,
    /// Deletes the object and creates another object with the same name.
    Replace,
}

/// A planned change to one object.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedChange {
    /// The action on the object.
    pub action: PlanAction,
    /// The API version of the last write to the object.
    pub api_version: String,
    /// The kind of the object.
    pub kind: String,
    /// The object's namespace, which is empty for cluster-scoped objects.
    pub namespace: String,
    /// The name of the object.
    pub name: String,
    /// The fields that would change. For a new object, the list contains all fields. For a deleted object, the list is
    /// usually empty. If finalizers delay the deletion, the list contains the changed fields of the object.
    pub fields: Vec<PlannedField>,
    /// The finalizers that would delay a deletion.
    pub waits_for: Vec<String>,
    /// Whether the object has changed in the cluster since it was first written in the plan. A controller that runs
    /// against the cluster would then read a different object.
    pub moved: bool,
}

/// A plan's changes to a cluster, returned by [`Plan::changes`](crate::Plan::changes).
/// The `Display` implementation formats the changes for human readers:
///
/// ```text
/// + apps/v1 Deployment team-a/web
///     + spec.replicas: 3
/// ~ v1 ConfigMap team-a/settings
///     ~ data.colour: "blue" -> "green"
/// - v1 Secret team-a/old
/// 1 to create, 1 to change, 1 to delete
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PlannedChanges {
    changes: Vec<PlannedChange>,
}

impl PlannedChanges {
    /// Returns an iterator over the changes, sorted by the time of the first write to their object.
    pub fn iter(&self) -> std::slice::Iter<'_, PlannedChange> {
        self.changes.iter()
    }

    /// Returns the number of changes.
    pub fn len(&self) -> usize {
        self.changes.len()
    }

    /// Returns `true` if there are no changes.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }
}

impl<'a> IntoIterator for &'a PlannedChanges {
    type Item = &'a PlannedChange;
    type IntoIter = std::slice::Iter<'a, PlannedChange>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl FromIterator<PlannedChange> for PlannedChanges {
    fn from_iter<I: IntoIterator<Item = PlannedChange>>(changes: I) -> Self {
        Self { changes: changes.into_iter().collect() }
    }
}

impl PlannedChange {
    /// Returns the combined effect of all writes to one object. Returns `None` if the writes cancel each other out, or
    /// if the object only reports information, such as an Event.
    pub(super) fn of(kinds: &Kinds, written: &LocalWrite) -> Option<Self> {
        let (plural, group) = written.resource.split_once('.').unwrap_or((&written.resource, ""));
        let (base, object) = (written.base.as_deref(), written.object.as_deref());
        let any = object.or(base)?;
        // Use the plural name of the resource if the kind is unknown because its definition was deleted.
        let known = kinds.store(&GroupResource::new(group, plural));
        let kind = known.map_or(plural, |kind| &kind.kind);
        // A write that only marks an object for deletion records no `apiVersion`, so use the `apiVersion` of the object
        // before the plan, or of the kind.
        let versions = [Some(any), base].into_iter().flatten().map(|stored| stored.version().to_string());
        let version = versions.chain(known.map(|kind| kind.api_version())).find(|version| !version.is_empty());
        if known.is_some_and(|kind| kind.flags.is_report) {
            return None;
        }
        let tree = |stored: Option<&Stored>| stored.map_or(Json::Null, Stored::decode);
        let (old, new) = (tree(base), tree(object));
        let is_deletion = object.is_some_and(Stored::is_deleting) && !base.is_some_and(Stored::is_deleting);
        let action = match (base, object) {
            (None, _) => PlanAction::Create,
            (Some(_), None) => PlanAction::Delete,
            (Some(_), Some(_)) if is_deletion => PlanAction::Delete,
            (Some(base), Some(object)) if base.uid() != object.uid() => PlanAction::Replace,
            _ => PlanAction::Update,
        };
        let mut fields = match (action, object) {
            (PlanAction::Delete, None) => Vec::new(),
            _ => pintle_apimachinery::object_diff::fields(&old, &new),
        };
        if fields.is_empty() && action == PlanAction::Update {
            return None;
        }
        let secrets = known.map_or(&[][..], |kind| kind.strategy.secrets());
        fields
            .iter_mut()
            .filter(|field| secrets.iter().any(|name| field.path.starts_with(name)))
            .for_each(PlannedField::hide);
        Some(Self {
            action,
            api_version: version.unwrap_or_default(),
            kind: kind.to_owned(),
            namespace: any.namespace().into_owned(),
            name: any.name().into_owned(),
            fields,
            waits_for: object.filter(|_| is_deletion).map(Stored::finalizers).unwrap_or_default(),
            moved: written.moved,
        })
    }
}

impl fmt::Display for PlanAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Create => "+",
            Self::Update => "~",
            Self::Delete => "-",
            Self::Replace => "-/+",
        })
    }
}

impl fmt::Display for PlannedChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let slash = if self.namespace.is_empty() { "" } else { "/" };
        write!(f, "{} {} {} {}{slash}{}", self.action, self.api_version, self.kind, self.namespace, self.name)?;
        if !self.waits_for.is_empty() {
            write!(f, " (waits for {})", self.waits_for.join(", "))?;
        }
        if self.moved {
            f.write_str(" (changed in the cluster meanwhile)")?;
        }
        self.fields.iter().try_for_each(|field| write!(f, "\n    {field}"))
    }
}

impl fmt::Display for PlannedChanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for change in self {
            writeln!(f, "{change}")?;
        }
        let count = |action| self.iter().filter(|change| change.action == action).count();
        let [create, update, delete, replace] =
            [PlanAction::Create, PlanAction::Update, PlanAction::Delete, PlanAction::Replace].map(count);
        write!(f, "{create} to create, {update} to change, {delete} to delete")?;
        if replace > 0 {
            write!(f, ", {replace} to replace")?;
        }
        f.write_str("\n")
    }
}
