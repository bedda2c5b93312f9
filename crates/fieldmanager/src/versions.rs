//! Computes the changes of a write in each API version in which managers own fields.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pintle_json::Json;
use pintle_schema::Schema;

use super::WriteContext;
use super::compare::{Comparison, compare};
use super::managers::{Managed, ManagerId, Managers};
use super::path_element::PathElement;
use super::set::Set;

/// The differences between two objects, in each API version in which managers own fields.
pub(super) struct Differences {
    pub(super) own: Comparison,
    others: BTreeMap<String, Comparison>,
}

impl Differences {
    /// Fails if the conversion of an object to a manager's version fails.
    pub(super) fn between(old: &Json, new: &Json, managers: &Managers, ctx: &WriteContext<'_>) -> Result<Self, String> {
        let mut others = BTreeMap::new();
        // A write of a custom resource resets fields only in the version of the request.
        let ignored_in_others = if ctx.schema.is_custom() { Set::default() } else { ctx.ignored() };
        for version in managers.0.values().map(|managed| &managed.api_version) {
            if others.contains_key(version) {
                continue;
            }
            let Some(view) = VersionView::of(ctx, version) else { continue };
            let old = view.converted(old).map_err(|why| format!("failed to convert old object: {why}"))?;
            let new = view.converted(new).map_err(|why| format!("failed to convert new object: {why}"))?;
            if let (Some(old), Some(new)) = (old, new) {
                others.insert(version.clone(), differences(&view.schema, &old, &new, ignored_in_others.clone()));
            }
        }
        Ok(Self { own: differences(ctx.schema, old, new, ctx.ignored()), others })
    }

    /// Returns the differences between the objects after their conversion to `api_version`. If the objects were not
    /// compared in `api_version`, returns the differences in the version of the request.
    pub(super) fn in_version(&self, api_version: &str) -> &Comparison {
        self.others.get(api_version).unwrap_or(&self.own)
    }

    pub(super) fn remove_from_others(&self, managers: &mut Managers, keep: Option<&ManagerId>) {
        if managers.0.keys().all(|id| Some(id) == keep) {
            return;
        }
        let changed_or_removed = |found: &Comparison| found.changed().union(&found.removed);
        let others: BTreeMap<&str, Set> =
            self.others.iter().map(|(name, found)| (name.as_str(), changed_or_removed(found))).collect();
        let own = changed_or_removed(&self.own);
        managers.0.retain(|id, managed| {
            if Some(id) != keep {
                managed.set.subtract(others.get(managed.api_version.as_str()).unwrap_or(&own));
            }
            Some(id) == keep || !managed.set.is_empty()
        });
    }
}

/// Adapts the owned paths to values that became atomic in a later schema. The owner of a part of such a value becomes
/// an owner of the whole value. Each set is adapted to the schema of its own version. As in kube-apiserver, this fails
/// if the conversion of the live object to a manager's version fails.
pub(super) fn cover_atomic_values(managers: &mut Managers, live: &Json, ctx: &WriteContext<'_>) -> Result<(), String> {
    if ctx.conversion.is_some() {
        let versions: BTreeSet<&str> = managers.0.values().map(|managed| managed.api_version.as_str()).collect();
        for view in versions.into_iter().filter_map(|version| VersionView::of(ctx, version)) {
            view.converted(live)?;
        }
    }
    let mut others: BTreeMap<String, Option<Arc<Schema>>> = BTreeMap::new();
    for Managed { api_version, set, .. } in managers.0.values_mut() {
        if api_version == ctx.api_version {
            set.cover_atomic_values(ctx.schema.root());
            continue;
        }
        let schema = others.entry(api_version.clone()).or_insert_with(|| match ctx.schemas {
            Some(schemas) => schemas.schema(api_version),
            None => Schema::builtin(api_version, ctx.schema.kind()).filter(|_| !ctx.schema.is_custom()).map(Arc::new),
        });
        schema.iter().for_each(|schema| set.cover_atomic_values(schema.root()));
    }
    Ok(())
}

/// Compares two objects of the same API version, except for the `ignored` fields.
fn differences(schema: &Schema, old: &Json, new: &Json, mut ignored: Set) -> Comparison {
    let mut found = compare(schema.root(), old, new);
    ignored.insert(&["metadata", "managedFields"].map(|name| PathElement::Field(name.into())));
    found.cut(&ignored);
    found
}

pub(super) struct VersionView<'a> {
    pub(super) schema: Cow<'a, Schema>,
    ctx: &'a WriteContext<'a>,
    pub(super) version: &'a str,
}

impl<'a> VersionView<'a> {
    pub(super) fn own(ctx: &'a WriteContext<'a>) -> Self {
        Self { schema: Cow::Borrowed(ctx.schema), ctx, version: ctx.api_version }
    }

    /// Creates a view in another API version, or returns `None` if the kind has the same schema in both versions.
    pub(super) fn of(ctx: &'a WriteContext<'a>, version: &'a str) -> Option<Self> {
        if version == ctx.api_version {
            return None;
        }
        let schema = match (ctx.conversion, ctx.schemas) {
            (Some(conversion), _) => conversion.schema(version, ctx.schema.kind())?,
            (None, Some(schemas)) => Schema::clone(&*schemas.schema(version)?),
            (None, None) => return None,
        };
        Some(Self { schema: Cow::Owned(schema), ctx, version })
    }

    pub(super) fn converted<'o>(&self, object: &'o Json) -> Converted<'o> {
        self.convert(object, self.ctx.api_version, self.version)
    }

    pub(super) fn convert_back<'o>(&self, object: &'o Json) -> Converted<'o> {
        self.convert(object, self.version, self.ctx.api_version)
    }

    fn convert<'o>(&self, object: &'o Json, from: &str, to: &str) -> Converted<'o> {
        if from == to {
            return Ok(Some(Cow::Borrowed(object)));
        }
        match self.ctx.conversion {
            Some(conversion) => Ok(conversion.convert(object, from, to)?.map(Cow::Owned)),
            // Without a conversion, the fields have the same names in all versions.
            None => Ok(Some(Cow::Borrowed(object))),
        }
    }
}

/// A converted object, `None` if the object cannot be converted or is not converted yet, or the reason why the
/// conversion failed.
type Converted<'o> = Result<Option<Cow<'o, Json>>, String>;
