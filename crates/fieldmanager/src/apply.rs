//! Server-side apply: computes the resulting object and the conflicts with other managers.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use pintle_json::{Json, Map};
use pintle_meta::StatusCause;
use pintle_schema::Type;
use thiserror::Error;

use super::WriteContext;
use super::compare::{compare, equal};
use super::field_set::{error_text, field_set, schema_errors};
use super::key_defaults;
use super::managers::{Managed, ManagerId, Managers};
use super::merge::{merge, remove};
use super::path_element::PathElement;
use super::set::Set;
use super::tracking::{NEVER_TRACKED, record};
use super::versions::{Differences, VersionView, cover_atomic_values};

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

const MAX_CONFLICTS_SIZE: usize = 4 << 20;

/// The result of an apply.
#[derive(Clone, Debug, PartialEq)]
pub struct Applied {
    /// The resulting object, including `managedFields`. The new fields have no defaults yet, and some values may be
    /// invalid for their Go types.
    pub object: Json,
    /// Whether the apply changed anything except `managedFields`. If `false`, `object` equals the live object.
    pub changed: bool,
}

/// The error of a failed server-side apply. Each variant documents its HTTP status code.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum ApplyError {
    /// Status 400: the applied configuration is invalid for this object.
    #[error("{0}")]
    BadRequest(String),
    /// Status 409: the apply would change fields that other managers own.
    #[error("{0}")]
    Conflicts(Conflicts),
    /// Status 500 without a reason: the configuration does not match the schema, or the conversion of the object to a
    /// manager's version failed.
    #[error("{0}")]
    Typed(String),
}

/// The fields of other managers that an apply would change.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Conflicts(Vec<(ManagerId, Vec<PathElement>)>);

impl Conflicts {
    /// Returns one cause per conflict for the `details.causes` of a `Status`.
    pub fn causes(&self) -> Vec<StatusCause> {
        let causes = self.0.iter().map(|(id, path)| StatusCause {
            reason: "FieldManagerConflict".into(),
            message: format!("conflict with {id}"),
            field: spell(path),
        });
        causes.collect()
    }
}

impl fmt::Display for Conflicts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [(id, path)] = &self.0[..] {
            return write!(f, "Apply failed with 1 conflict: conflict with {id}: {}", spell(path));
        }
        write!(f, "Apply failed with {} conflicts:", self.0.len())?;
        let mut current = None;
        for (id, path) in &self.0 {
            if current != Some(id) {
                let gap = if current.is_some() { "\n" } else { " " };
                write!(f, "{gap}conflicts with {id}:")?;
                current = Some(id);
            }
            write!(f, "\n- {}", spell(path))?;
        }
        Ok(())
    }
}

impl fmt::Display for ManagerId {
    /// Formats a manager for messages. The output contains an API version only for updates, because apply entries have
    /// none.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.manager)?;
        if !self.subresource.is_empty() {
            write!(f, " with subresource {:?}", self.subresource)?;
        }
        if !self.applied {
            write!(f, " using {}", self.api_version)?;
        }
        Ok(())
    }
}

/// Applies the configuration of a manager to the live object, and records the owners of the fields. `live` is `None` if
/// the apply creates the object.
///
/// `applied` must be the complete configuration of the manager. `apply` removes a field that the manager applied
/// earlier and now omits, unless the field has another owner. `applied` is the JSON from the client, in the API version
/// of the request. `live` is the stored object in the same API version, as serialized by Go.
///
/// # Errors
///
/// Returns the errors that [`ApplyError`] describes. [`ApplyError::Conflicts`] is returned only if `force` is `false`,
/// for an apply that would change a field of another manager.
pub fn apply(live: Option<&Json>, applied: &Json, force: bool, ctx: &WriteContext<'_>) -> Result<Applied, ApplyError> {
    let text = |name: &str| applied[name].text("");
    if (text("apiVersion"), text("kind")) != (ctx.api_version, ctx.schema.kind()) {
        let (version, kind) = (slashed(text("apiVersion")), text("kind"));
        return Err(ApplyError::BadRequest(format!("invalid object type: {version}, Kind={kind}")));
    }
    if applied.at("/metadata/managedFields").is_some_and(are_entries) {
        return Err(ApplyError::BadRequest("metadata.managedFields must be nil".into()));
    }
    let empty;
    let live = match live {
        Some(live) => live,
        None => {
            empty = ctx.schema.empty();
            &empty
        }
    };
    let is_within_limit = |object: &Json| key_defaults::is_within_limit(ctx.schema.root(), object);
    if !is_within_limit(applied) || !is_within_limit(live) {
        return Err(ApplyError::BadRequest("list items omit too many keys that have defaults".into()));
    }
    let mut managers =
        Managers::read(live).ok_or_else(|| ApplyError::Typed("failed to decode managed fields".into()))?;
    let live = &without_managed_fields(live);
    cover_atomic_values(&mut managers, live, ctx).map_err(ApplyError::Typed)?;
    if managers.0.is_empty() {
        // If no field has an owner yet, make the manager `before-first-apply` the owner of all existing fields.
        let before = WriteContext { manager: "before-first-apply", ..*ctx };
        record(&mut managers, &ctx.schema.empty(), live, &before).map_err(ApplyError::Typed)?;
    }
    let done = match run(live, applied, force, &Set::default(), managers.clone(), ctx) {
        Err(ApplyError::Conflicts(conflicts)) if ctx.manager == "kubectl" => {
            // Make the manager `kubectl` an owner of the fields from its last client-side apply.
            let Some(own) = last_applied(live, ctx) else { return Err(ApplyError::Conflicts(conflicts)) };
            run(live, applied, force, &own, managers, ctx)?
        }
        done => done?,
    };
    let (mut object, changed, managers) = done;
    if ctx.manager == "kubectl" {
        update_last_applied(&mut object, applied);
    }
    let changed = changed || !equal(&object, live);
    managers.write(&mut object);
    Ok(Applied { object, changed })
}

/// Returns `true` if Go can decode the value as managed fields. The later validation against the schema reports all
/// other values.
fn are_entries(fields: &Json) -> bool {
    const TEXTS: [&str; 5] = ["manager", "operation", "apiVersion", "fieldsType", "subresource"];
    let is_text = |text: &Json| text.is_null() || text.is_string();
    let is_entry = |entry: &Json| entry.is_object() && TEXTS.iter().all(|name| entry.get(name).is_none_or(is_text));
    fields.as_array().is_some_and(|entries| entries.iter().all(is_entry))
}

/// Applies the configuration of a manager. The fields in `own` already belong to this manager, so they cause no
/// conflict.
fn run(
    live: &Json,
    applied: &Json,
    force: bool,
    own: &Set,
    mut managers: Managers,
    ctx: &WriteContext<'_>,
) -> Result<(Json, bool, Managers), ApplyError> {
    let ty = ctx.schema.root();
    let errors = schema_errors(ty, applied);
    if !errors.is_empty() {
        let name = |field: &str| applied.text(&format!("/metadata/{field}"));
        return Err(ApplyError::Typed(format!(
            "failed to create typed patch object ({}/{}; {}, Kind={}): {}",
            name("namespace"),
            name("name"),
            slashed(ctx.api_version),
            ctx.schema.kind(),
            error_text(&errors)
        )));
    }
    let merged = merge(ty, Some(live), Some(applied))
        .map_err(|why| ApplyError::Typed(format!("failed to merge config: {why}")))?
        .unwrap_or_else(|| Json::Object(Map::new()));
    let id = ManagerId {
        manager: ctx.manager.into(),
        applied: true,
        api_version: String::new(),
        subresource: ctx.subresource.into(),
    };
    let mut set = field_set(ty, applied);
    set.cut(&ctx.ignored());
    let last = managers.0.get(&id).cloned();
    managers.0.retain(|known, managed| *known == id || ctx.serves(&managed.api_version));
    let time = last.as_ref().and_then(|managed| managed.time.clone());
    managers.0.insert(id.clone(), Managed { api_version: ctx.api_version.into(), set, time });
    let object = match last {
        Some(last) if !last.set.is_empty() && ctx.serves(&last.api_version) => {
            let failed = |why| ApplyError::Typed(format!("failed to prune fields: {why}"));
            prune(merged, &last, &managers, ctx).map_err(failed)?
        }
        _ => merged,
    };
    let found = Differences::between(live, &object, &managers, ctx).map_err(ApplyError::Typed)?;
    let (mut conflicts, mut bytes_left) = (Vec::new(), MAX_CONFLICTS_SIZE);
    let mut changed: BTreeMap<&str, Set> = BTreeMap::new();
    let mut others: Vec<_> = managers.0.iter().filter(|(other, _)| **other != id).collect();
    // Sort the managers by their identities in JSON, as kube-apiserver does in messages, so that `Apply` precedes
    // `Update`.
    others.sort_by(|(one, _), (other, _)| (&one.manager, !one.applied).cmp(&(&other.manager, !other.applied)));
    for (other, managed) in others {
        let version = managed.api_version.as_str();
        let changed = changed.entry(version).or_insert_with(|| found.in_version(version).changed());
        let mut conflicting = managed.set.intersection(changed);
        conflicting.subtract(own);
        let paths = conflicting.paths(&mut bytes_left);
        conflicts.extend(paths.into_iter().map(|path| (other.clone(), path)));
    }
    if !force && !conflicts.is_empty() {
        return Err(ApplyError::Conflicts(Conflicts(conflicts)));
    }
    found.remove_from_others(&mut managers, Some(&id));
    let changes = !equal(live, &object);
    if let Some(managed) = managers.0.get_mut(&id) {
        managed.set.subtract(&NEVER_TRACKED);
        if changes {
            managed.time = Some(ctx.now.into());
        }
        if managed.set.is_empty() {
            managers.0.remove(&id);
        }
    }
    Ok((object, changes, managers))
}

/// Removes fields that the manager applied earlier and now omits, except fields that another manager owns.
fn prune(merged: Json, last: &Managed, managers: &Managers, ctx: &WriteContext<'_>) -> Result<Json, String> {
    // The paths in `last` are in the API version of the manager's last apply.
    let view = VersionView::of(ctx, &last.api_version).unwrap_or_else(|| VersionView::own(ctx));
    let failed = |why| format!("failed to convert merged object to last applied version: {why}");
    let Some(converted) = view.converted(&merged).map_err(failed)? else { return Ok(merged) };
    let Some(pruned) = prune_in(&view, &converted, last, managers, ctx)? else { return Ok(merged) };
    let pruned = view.convert_back(&pruned)?.map(Cow::into_owned);
    Ok(pruned.unwrap_or(merged))
}

fn prune_in(
    view: &VersionView<'_>,
    merged: &Json,
    last: &Managed,
    managers: &Managers,
    ctx: &WriteContext<'_>,
) -> Result<Option<Json>, String> {
    let ty = view.schema.root();
    let all = |value: &Json| field_set(ty, value).with_named_fields(Some(ty));
    let last = last.set.with_named_fields(Some(ty));
    let mut pruned = remove(ty, merged, &last);
    // Restore other managers' fields that are below removed paths.
    let mut owned: BTreeMap<&str, Set> = BTreeMap::new();
    for managed in managers.0.values() {
        let version =
            if VersionView::of(ctx, &managed.api_version).is_some() { &managed.api_version } else { ctx.api_version };
        owned.entry(version).or_default().extend(managed.set.clone());
    }
    let own = |version: &str| version == view.version;
    let (first, rest): (Vec<_>, Vec<_>) = owned.into_iter().partition(|(version, _)| own(version));
    for (version, owned) in first.into_iter().chain(rest) {
        let other = VersionView::of(ctx, version).unwrap_or_else(|| VersionView::own(ctx));
        if own(version) {
            pruned = keep_owned(ty, merged, &pruned, &owned);
            continue;
        }
        let convert = |name: &str, object: &Json| {
            between(view, &other, object).map_err(|why| {
                format!("failed add back owned items: failed to convert {name} object at version {version}: {why}")
            })
        };
        let (Some(converted), Some(converted_pruned)) = (convert("merged", merged)?, convert("pruned", &pruned)?)
        else {
            return Ok(None);
        };
        let kept = keep_owned(other.schema.root(), &converted, &converted_pruned, &owned);
        let failed = |why| {
            format!("failed add back dangling items: failed to convert pruned object to last applied version: {why}")
        };
        let Some(kept) = between(&other, view, &kept).map_err(failed)? else { return Ok(None) };
        pruned = kept;
    }
    // Keep fields without an owner, except for fields that the manager applied earlier.
    let mut dangling = all(merged);
    dangling.subtract(&all(&pruned));
    Ok(Some(remove(ty, merged, &dangling.intersection(&last))))
}

/// Converts an object between the versions of two views.
fn between(from: &VersionView<'_>, to: &VersionView<'_>, object: &Json) -> Result<Option<Json>, String> {
    let Some(object) = from.convert_back(object)? else { return Ok(None) };
    Ok(to.converted(&object)?.map(Cow::into_owned))
}

/// Adds the values of `merged` at the paths in `owned` to `pruned`.
fn keep_owned(ty: &Type, merged: &Json, pruned: &Json, owned: &Set) -> Json {
    let all = |value: &Json| field_set(ty, value).with_named_fields(Some(ty));
    let mut kept = all(pruned);
    kept.extend(owned.with_named_fields(Some(ty)));
    let mut gone = all(merged);
    gone.subtract(&kept);
    remove(ty, merged, &gone)
}

/// Returns the fields that have the same value in kubectl's last-applied annotation and in the live object.
fn last_applied(live: &Json, ctx: &WriteContext<'_>) -> Option<Set> {
    let text = live.get("metadata")?.get("annotations")?.get(LAST_APPLIED)?.as_str()?;
    let applied: Json = serde_json::from_str(text).ok()?;
    if applied.get("apiVersion")?.as_str()? != ctx.api_version
        || !key_defaults::is_within_limit(ctx.schema.root(), &applied)
        || !schema_errors(ctx.schema.root(), &applied).is_empty()
    {
        return None;
    }
    let found = compare(ctx.schema.root(), &applied, live);
    let mut set = field_set(ctx.schema.root(), &applied);
    for differs in [&found.modified, &found.added, &found.removed] {
        set.subtract(differs);
    }
    Some(set)
}

fn update_last_applied(object: &mut Json, applied: &Json) {
    let Some(annotation) = object.at_mut("/metadata/annotations").and_then(|map| map.get_mut(LAST_APPLIED)) else {
        return;
    };
    if annotation.as_str().unwrap_or_default().is_empty() {
        return;
    }
    let mut applied = applied.clone();
    if let Some(annotations) = applied.at_mut("/metadata/annotations") {
        annotations.unset(LAST_APPLIED);
    }
    *annotation = format!("{applied}\n").into();
}

fn without_managed_fields(object: &Json) -> Json {
    let mut object = object.clone();
    if let Some(metadata) = object.get_mut("metadata") {
        metadata.unset("managedFields");
    }
    object
}

/// Returns an API version in the format of Go's `GroupVersionKind`. In Go's format, a slash precedes a version of the
/// core group.
fn slashed(api_version: &str) -> String {
    if api_version.contains('/') { api_version.into() } else { format!("/{api_version}") }
}

fn spell(path: &[PathElement]) -> String {
    path.iter().map(ToString::to_string).collect()
}
