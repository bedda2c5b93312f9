//! PUT and PATCH: both read an object, make another of it, and commit that if nothing came between.

use std::sync::Arc;

use serde_json::Value;

use super::Registry;
use super::create::Origin;
use super::served::{Served, Written, typed};
use crate::auth;
use crate::failure::{Failure, Outcome};
use crate::fieldmanager::Writer;
use crate::kinds::{self, Kind, Place};
use crate::object::metadata::{self, text};
use crate::object::metadata_mut;
use crate::store::{Charge, Expect, Refused, Stored};
use crate::validate::FieldFault;

/// How often a write without a version of its own is worked out anew because another came between.
const TRIES: usize = 64;

/// How the new object comes from the old.
pub(crate) enum Change<'a> {
    /// It is the request's body.
    Put(&'a Value),
    /// It is made of the stored object, which it is given with `apiVersion` and `kind`; of none, if an apply creates.
    Patch {
        make: &'a dyn Fn(Option<&Value>) -> Outcome<Value>,
        /// An absent object is created.
        apply: bool,
    },
}

impl Registry {
    /// Changes the object at `place`.
    pub(crate) fn update(&self, place: &Place, change: &Change<'_>, manager: &Writer<'_>) -> Outcome<Written> {
        let kind = &place.kind;
        if let Change::Put(body) = change {
            check_identity(place, body)?;
        }
        for _ in 0..TRIES {
            let Some(stored) = self.db.get(&place.resource_key(), &place.key()) else {
                return self.update_absent(place, change, manager);
            };
            let old = typed(&kind.api_version(), &kind.kind, kind.shown_stored(&stored));
            let mut new = match change {
                Change::Put(body) => Value::clone(body),
                Change::Patch { make, .. } => {
                    let new = make(Some(&old))?;
                    check_identity(place, &new)?;
                    new
                }
            };
            super::create::check_namespace(kind, &place.namespace, &mut new)?;
            if auth::grants_rights(place) {
                auth::check_grant(&self.db, manager.user(), place, &new, Some(&old))?;
            }
            let is_put = matches!(change, Change::Put(_));
            let unconditional = self.check_versions(place, &mut new, &old, is_put)?;
            let (mut warnings, charges) = self.complete_update(
                place,
                &mut new,
                &old,
                manager,
                matches!(change, Change::Patch { apply: true, .. }),
            )?;
            let told = self.without_effect(place, &new);
            match self.commit(place, &stored, &old, new, charges, manager)? {
                Ok(object) => {
                    if !manager.options.dry_run {
                        warnings.extend(told);
                    }
                    return Ok(Written { object, created: false, warnings });
                }
                Err(Refused::Mismatch(_)) if !unconditional => break,
                Err(_) => (),
            }
        }
        Err(Failure::modified(&kind.resource(), &place.name))
    }

    /// PUT of an absent object creates it where the kind allows, be it through a subresource; so does apply.
    fn update_absent(&self, place: &Place, change: &Change<'_>, manager: &Writer<'_>) -> Outcome<Written> {
        let kind = &place.kind;
        let absent = || Failure::not_found(&kind.resource(), &place.name);
        match change {
            Change::Put(body) if kind.conduct.creates_on_update => {
                if !text(body, "uid").is_empty() {
                    let why = format!(
                        "StorageError: invalid object, Code: 4, Key: {}, ResourceVersion: 0, AdditionalErrorMsg: \
                         Precondition failed: UID in precondition: {}, UID in object meta: ",
                        place.key(),
                        text(body, "uid")
                    );
                    return Err(Failure::conflict(&kind.resource(), &place.name, &why));
                }
                manager.check_may_create()?;
                self.create_with(place, Value::clone(body), manager, Origin::Put)
            }
            Change::Patch { make, apply: true } if place.subresource.is_none() => {
                let object = make(None)?;
                if !text(&object, "uid").is_empty() {
                    let why = format!(
                        "uid mismatch: the provided object specified uid {}, and no existing object was found",
                        text(&object, "uid")
                    );
                    return Err(Failure::conflict(&kind.resource(), &place.name, &why));
                }
                check_identity(place, &object)?;
                manager.check_may_create()?;
                self.create_with(place, object, manager, Origin::Apply)
            }
            _ => Err(absent()),
        }
    }

    /// Holds the uid and the resource version of the new object against the old one. Answers whether the write may be worked
    /// out anew if another comes between.
    fn check_versions(&self, place: &Place, new: &mut Value, old: &Value, is_put: bool) -> Outcome<bool> {
        let kind = &place.kind;
        let (uid, stored_uid) = (text(new, "uid"), text(old, "uid"));
        if is_put && !uid.is_empty() && uid != stored_uid {
            let why = format!(
                "StorageError: invalid object, Code: 4, Key: {}, ResourceVersion: 0, AdditionalErrorMsg: \
                 Precondition failed: UID in precondition: {uid}, UID in object meta: {stored_uid}",
                place.key()
            );
            return Err(Failure::conflict(&kind.resource(), &place.name, &why));
        }
        let version = text(new, "resourceVersion").to_owned();
        let current = text(old, "resourceVersion").to_owned();
        let number = if version.is_empty() { 0 } else { super::list::parse_number(&version)? };
        if number == 0 {
            // A patch starts from the stored version: without one it has removed it.
            if kind.conduct.needs_version {
                let why = "must be specified for an update";
                let fault = FieldFault::invalid("metadata.resourceVersion", &Value::from(0), why);
                return Err(Failure::invalid_named(&kind.group, &kind.plural, &place.name, vec![fault]));
            }
        } else if current != number.to_string() {
            return Err(Failure::modified(&kind.resource(), &place.name));
        }
        metadata_mut(new).insert("resourceVersion".into(), current.clone().into());
        Ok(number == 0 || !is_put)
    }

    /// Everything between the request and the store, for a changed object. Answers what to warn of, and what quotas are charged.
    pub(super) fn complete_update(
        &self,
        place: &Place,
        new: &mut Value,
        old: &Value,
        manager: &Writer<'_>,
        applied: bool,
    ) -> Outcome<(Vec<String>, Vec<Charge>)> {
        let kind = &place.kind;
        let subresource = place.subresource.as_deref();
        let context = self.context(manager.user());
        kinds::metadata::check_types(kind, new)?;
        kind.strategy.defaults(new);
        if !applied {
            manager.track(kind, Some(old), new, subresource);
        }
        keep_identity(new, old);
        if let (Some(new), Some(old)) = (new.as_object_mut(), old.as_object()) {
            match subresource {
                Some("status") => keep_all_but_status(new, old, kind.custom),
                None if kind.splits_status() => keep_member(new, old, "status"),
                _ => (),
            }
        }
        self.complete_by_limits(place, new, Some(old));
        kind.strategy.prepare_for_update(&context, new, old, subresource);
        kind.strategy.admit(&context, new, Some(old), subresource)?;
        super::namespace::label(kind, new);
        keep_generation(kind, subresource, new, old);
        let mut faults = kinds::metadata::faults_of_change(kind, new, old);
        faults.extend(kind.strategy.validate_update(new, old, subresource));
        if !faults.is_empty() {
            return Err(kind.invalid(&place.name, faults));
        }
        let mut warnings = metadata::drop_repeated_owners(new);
        warnings.extend(kinds::metadata::warnings(kind, new));
        warnings.extend(kind.strategy.warnings(new, Some(old), subresource));
        kind.normalise(new);
        super::nesting::check(kind, new)?;
        self.check_signing(place, new, Some(old), manager.user())?;
        let charges = self.admit(place, new, Some(old))?;
        Ok((warnings, charges))
    }

    /// Stores the new object in place of `stored`, unless something that it follows from has changed.
    fn commit(
        &self,
        place: &Place,
        stored: &Arc<Stored>,
        old: &Value,
        new: Value,
        charges: Vec<Charge>,
        manager: &Writer<'_>,
    ) -> Outcome<Result<Served, Refused>> {
        let kind = &place.kind;
        let settles = stored.is_first() && kind.strategy.settles_late(old);
        if !settles && !metadata::differ(&new, old) {
            return Ok(Ok(Served::stored(kind, stored)));
        }
        let finished = metadata::is_deleting(&new)
            && metadata::finalizers(&new).is_empty()
            && metadata::grace_seconds(&new).unwrap_or(0) == 0
            && super::namespace::may_go(kind, &new);
        if manager.options.dry_run {
            return Ok(Ok(Served::value(kind, new)));
        }
        if finished {
            let removed = self.db.remove(&place.resource_key(), &place.key(), stored.revision());
            return Ok(removed.map(|_| Served::value(kind, new)));
        }
        let expect = Expect::At(stored.revision());
        let mut new = kind.strategy.to_stored(new);
        if kind.splits_status() && kind.strategy.conversion().is_some() {
            keep_other_half(place.subresource.as_deref(), &mut new, &stored.decode());
        }
        super::size::check(kind, &place.key(), &new)?;
        let written = self.db.commit(&place.resource_key(), &place.key(), expect, new, charges, |_| true);
        Ok(written.map(|change| Served::stored(kind, &change.new)))
    }
}

/// The name in the object must be that of the path.
fn check_identity(place: &Place, object: &Value) -> Outcome<()> {
    let url = &place.name;
    match text(object, "name") {
        "" => Err(Failure::bad_request(format!(
            "the name of the object ({url} based on URL) was undeterminable: name must be provided"
        ))),
        name if name == url => Ok(()),
        name => Err(Failure::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({url})"
        ))),
    }
}

/// What no update changes, and what it may leave out.
fn keep_identity(new: &mut Value, old: &Value) {
    let metadata = metadata_mut(new);
    metadata.remove("selfLink");
    let stored = |field: &str| metadata::member(old, field).cloned();
    if metadata.get("uid").and_then(Value::as_str).unwrap_or_default().is_empty()
        && let Some(uid) = stored("uid")
    {
        metadata.insert("uid".into(), uid);
    }
    if let Some(time) = stored("creationTimestamp") {
        metadata.insert("creationTimestamp".into(), time);
    }
    if let Some(time) = stored("deletionTimestamp") {
        metadata.insert("deletionTimestamp".into(), time);
    }
    // Another grace period than the present one is refused by validation.
    if let Some(seconds) = stored("deletionGracePeriodSeconds")
        && metadata.get("deletionGracePeriodSeconds").is_none_or(Value::is_null)
    {
        metadata.insert("deletionGracePeriodSeconds".into(), seconds);
    }
}

fn keep_generation(kind: &Kind, subresource: Option<&str>, new: &mut Value, old: &Value) {
    let stored = metadata::generation(old);
    let bump = kind.conduct.generation && subresource != Some("status") && kind.strategy.changes_generation(new, old);
    let metadata = metadata_mut(new);
    match stored {
        Some(generation) => metadata.insert("generation".into(), (generation + i64::from(bump)).into()),
        None => metadata.remove("generation"),
    };
}

type Members = serde_json::Map<String, Value>;

fn keep_member(new: &mut Members, old: &Members, name: &str) {
    match old.get(name) {
        Some(value) => new.insert(name.into(), value.clone()),
        None => new.remove(name),
    };
}

/// What a write cannot change stays as it is stored, whatever became of it on the way through another version.
fn keep_other_half(subresource: Option<&str>, new: &mut Value, old: &Value) {
    let kept = if subresource == Some("status") { "spec" } else { "status" };
    if let (Some(new), Some(old)) = (new.as_object_mut(), old.as_object()) {
        keep_member(new, old, kept);
    }
}

/// A write of `/status` takes the status alone; of built-in kinds, and the metadata that their strategies let through.
fn keep_all_but_status(new: &mut Members, old: &Members, custom: bool) {
    let names: Vec<String> = new.keys().chain(old.keys()).cloned().collect();
    for name in names.iter().filter(|name| !matches!(name.as_str(), "status" | "metadata" | "apiVersion" | "kind")) {
        keep_member(new, old, name);
    }
    if custom {
        let managed = new.get("metadata").and_then(|metadata| metadata.get("managedFields")).cloned();
        keep_member(new, old, "metadata");
        if let Some(Value::Object(metadata)) = new.get_mut("metadata") {
            match managed {
                Some(managed) => metadata.insert("managedFields".into(), managed),
                None => metadata.remove("managedFields"),
            };
        }
    }
}
