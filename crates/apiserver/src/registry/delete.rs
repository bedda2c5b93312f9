//! Deletes single objects.

use std::sync::Arc;
use std::time::Duration;

use pintle_apimachinery::failure::{Failure, Outcome};
use pintle_apimachinery::object::{metadata, metadata_mut};
use pintle_apimachinery::request::Requester;
use pintle_apimachinery::request::options::DeleteOptions;
use pintle_json::Json;
use pintle_kinds::{Kind, RequestTarget};
use pintle_meta::{GroupResource, PropagationPolicy, Status, StatusDetails, TypeMeta};
use pintle_storage::Stored;

use super::Registry;
use super::admission_plugin::{AdmissionOptions, AdmissionRequest, Operation};
use super::served::{Served, typed};

/// The finalizers that keep an owner until its dependents are orphaned or deleted.
pub(crate) const ORPHAN_FINALIZER: &str = "orphan";
pub(crate) const FOREGROUND_FINALIZER: &str = "foregroundDeletion";

pub(crate) enum Deleted {
    Held(Served),
    /// The removed object. For some kinds and for dry runs, the response contains this object instead of a Status.
    Object(Served),
    Gone(Box<Status>),
}

impl Registry {
    pub(crate) fn delete(&self, target: &RequestTarget, options: &DeleteOptions, by: &Requester) -> Outcome<Deleted> {
        self.delete_admitted(target, target, options, by)
    }

    /// Like [`delete`](Self::delete), but for a request path that names `requested`, which is the object or its
    /// collection.
    pub(crate) fn delete_admitted(
        &self,
        target: &RequestTarget,
        requested: &RequestTarget,
        options: &DeleteOptions,
        by: &Requester,
    ) -> Outcome<Deleted> {
        let kind = &target.kind;
        self.delete_if(target, options, |stored| {
            let old = typed(&kind.api_version(), &kind.kind, kind.decode_in_version(stored));
            by.check_conversions()?;
            self.run_admission(AdmissionRequest {
                operation: Operation::Delete,
                target: requested,
                old: Some(&old),
                new: None,
                options: AdmissionOptions::Delete(options),
                by,
            })?;
            // Reject the deletion if a conversion is missing, because policies and webhooks have not seen the converted
            // object.
            by.check_conversions()?;
            by.check_time()
        })
    }

    /// Deletes the object if `check` succeeds, without calling admission plugins.
    pub(crate) fn delete_if(
        &self,
        target: &RequestTarget,
        options: &DeleteOptions,
        check: impl Fn(&Stored) -> Outcome<()>,
    ) -> Outcome<Deleted> {
        let kind = &target.kind;
        loop {
            let Some(stored) = self.db.get(&target.resource_key(), &target.key()) else {
                return Err(Failure::not_found(&kind.resource(), &target.name));
            };
            let old = stored.decode();
            target.check_preconditions(&old, options)?;
            if is_pending(kind, &old, options) {
                return Ok(Deleted::Held(Served::of_result(kind, &stored)));
            }
            check(&stored)?;
            if let Some(deleted) = self.try_delete(target, &stored, &old, options) {
                return Ok(deleted);
            }
        }
    }

    /// Tries once to delete an object. Returns `None` if another request has changed the object since it was read.
    fn try_delete(
        &self,
        target: &RequestTarget,
        stored: &Arc<Stored>,
        old: &Json,
        options: &DeleteOptions,
    ) -> Option<Deleted> {
        let kind = &target.kind;
        let mut new = Json::clone(old);
        metadata::set_finalizers(&mut new, &finalizers_for(kind, old, options));
        let grace = kind.strategy.grace(old, options.grace_seconds);
        let is_first = !metadata::is_deleting(old);
        let marks = is_first && kind.strategy.mark_terminating(&mut new, &self.clock.now_text());
        let held = marks || !metadata::finalizers(&new).is_empty() || kind.strategy.is_held(&new);
        // The grace period ensures that clients can observe the terminating object before it is removed.
        let was_marked = !kind.flags.supports_grace_period || !is_first && metadata::grace_seconds(old) == Some(0);
        if !held && grace == 0 && was_marked {
            // A dry run returns the object with the changes from the delete options. A real deletion does not store
            // these changes, because it removes the object.
            return if options.dry_run && new != *old {
                Some(Deleted::Object(to_served(kind, versioned(new, stored))))
            } else {
                self.remove(target, stored, options.dry_run)
            };
        }
        let shrinks = !is_first && metadata::grace_seconds(old).is_some_and(|left| grace < left);
        if is_first || shrinks {
            self.set_deletion_time(&mut new, old, (!marks).then_some(grace));
        }
        let changed = new != *old;
        let gone = !held && grace == 0;
        let answer = |object: Served| if gone { Deleted::Object(object) } else { Deleted::Held(object) };
        if options.dry_run {
            return Some(answer(to_served(kind, versioned(new, stored))));
        }
        let marked = if changed {
            let new = versioned(new, stored);
            self.db.put_leaving(&target.resource_key(), &target.key(), stored.revision(), new).ok()?.new.clone()
        } else {
            stored.clone()
        };
        if gone {
            return self.remove(target, &marked, false);
        }
        Some(answer(Served::of_result(kind, &marked)))
    }

    fn remove(&self, target: &RequestTarget, stored: &Arc<Stored>, dry_run: bool) -> Option<Deleted> {
        let kind = &target.kind;
        let shown = if dry_run {
            Served::of_result(kind, stored)
        } else {
            let change = self.db.remove(&target.resource_key(), &target.key(), stored.revision()).ok()?;
            Served::of_result(kind, &change.new)
        };
        if kind.flags.returns_deleted_object {
            return Some(Deleted::Object(shown));
        }
        let GroupResource { group, resource } = kind.resource();
        Some(Deleted::Gone(Box::new(Status {
            types: TypeMeta { api_version: "v1".into(), kind: "Status".into() },
            status: "Success".into(),
            details: Some(StatusDetails {
                name: target.name.clone(),
                group,
                kind: resource,
                uid: stored.uid().into(),
                ..StatusDetails::default()
            }),
            ..Status::default()
        })))
    }

    fn set_deletion_time(&self, new: &mut Json, old: &Json, grace: Option<i64>) {
        let first = !metadata::is_deleting(old);
        let seconds = Duration::from_secs(u64::try_from(grace.unwrap_or(0)).unwrap_or(0));
        let time = match grace.filter(|_| !first) {
            None => self.clock.text_after(seconds),
            Some(grace) => earlier_end(old, grace).unwrap_or_else(|| self.clock.text_after(seconds)),
        };
        let generation = metadata::generation(old).filter(|generation| first && *generation > 0);
        let metadata = metadata_mut(new);
        metadata.set("deletionTimestamp", time);
        let Some(grace) = grace else { return };
        metadata.set("deletionGracePeriodSeconds", grace);
        if let Some(generation) = generation {
            // The generation can be absent, because clients set the generation of some kinds.
            metadata.set("generation", generation.wrapping_add(1));
        }
    }
}

/// Returns `true` if the object's grace period has not ended, and if `options` do not shorten the grace period. As in
/// kube-apiserver, a request that does not shorten the grace period skips admission and leaves the object unchanged,
/// including its finalizers.
fn is_pending(kind: &Kind, object: &Json, options: &DeleteOptions) -> bool {
    let seconds = |grace: i64| if grace < 0 { 1 } else { grace };
    let left = metadata::grace_seconds(object).map_or(0, seconds);
    let waits = kind.flags.supports_grace_period && metadata::is_deleting(object) && left > 0;
    waits && options.grace_seconds.is_none_or(|grace| seconds(grace) >= left)
}

/// Returns `true` if the object is being deleted and its removal is not delayed by a finalizer or a grace period.
pub(super) fn is_removable(kind: &Kind, object: &Json) -> bool {
    metadata::is_deleting(object)
        && metadata::finalizers(object).is_empty()
        && metadata::grace_seconds(object).unwrap_or(0) == 0
        && !kind.strategy.is_held(object)
}

/// Adds the API version of `stored` to the changed object `new`, which is in the same version.
pub(super) fn versioned(mut new: Json, stored: &Stored) -> Json {
    if !stored.version().is_empty() {
        new.set("apiVersion", stored.version());
    }
    new
}

/// Converts an object from its stored form to the version of `kind`. The store does not need to contain the object.
fn to_served(kind: &Kind, object: Json) -> Served {
    Served::value(kind, Arc::unwrap_or_clone(kind.to_version(&Arc::new(object))))
}

fn earlier_end(old: &Json, grace: i64) -> Option<String> {
    let end: jiff::Timestamp = old.text("/metadata/deletionTimestamp").parse().ok()?;
    let less = metadata::grace_seconds(old)? - grace;
    let end = end.checked_sub(jiff::SignedDuration::from_secs(less)).ok()?;
    Some(pintle_meta::Time(end).to_string())
}

fn finalizers_for(kind: &Kind, object: &Json, options: &DeleteOptions) -> Vec<String> {
    let present: Vec<String> = metadata::finalizers(object).into_iter().map(str::to_owned).collect();
    // The propagation policy is ignored for objects that only report information, such as events, because they have no
    // dependents.
    if kind.flags.is_report {
        return present;
    }
    let requested = match (options.orphan_dependents, options.propagation) {
        (Some(true), _) => Some(PropagationPolicy::Orphan),
        (Some(false), _) if kind.flags.foreground_unless_orphaning => Some(PropagationPolicy::Foreground),
        (Some(false), _) => Some(PropagationPolicy::Background),
        (None, propagation) => propagation,
    };
    let has_finalizer = |name: &str| present.iter().any(|known| known == name);
    let policy = requested.unwrap_or_else(|| match () {
        () if has_finalizer(ORPHAN_FINALIZER) => PropagationPolicy::Orphan,
        () if has_finalizer(FOREGROUND_FINALIZER) => PropagationPolicy::Foreground,
        () if kind.flags.orphans_by_default => PropagationPolicy::Orphan,
        () => PropagationPolicy::Background,
    });
    let wanted = match policy {
        PropagationPolicy::Background => None,
        PropagationPolicy::Foreground => Some(FOREGROUND_FINALIZER),
        PropagationPolicy::Orphan => Some(ORPHAN_FINALIZER),
    };
    let of_policy = |name: &str| matches!(name, ORPHAN_FINALIZER | FOREGROUND_FINALIZER);
    if present.iter().filter(|name| of_policy(name)).all(|name| Some(name.as_str()) == wanted)
        && wanted.is_none_or(has_finalizer)
    {
        return present;
    }
    let mut finalizers: Vec<String> = present.iter().filter(|name| !of_policy(name)).cloned().collect();
    finalizers.extend(wanted.map(Into::into));
    finalizers
}
