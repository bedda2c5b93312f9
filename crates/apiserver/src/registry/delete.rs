//! DELETE of one object.

use std::sync::Arc;
use std::time::Duration;

use pintle_json::Json;
use pintle_meta::{PropagationPolicy, Status, StatusDetails, TypeMeta};

use super::served::Served;
use super::{Registry, namespace_lifecycle};
use crate::failure::{Failure, Outcome};
use crate::kinds::{GroupResource, Kind, Place};
use crate::object::{metadata, metadata_mut};
use crate::request::options::DeleteOptions;
use crate::store::{Expect, Stored};

const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";
/// Keeps a definition until its objects have gone.
pub(crate) const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

/// Why an object that every cluster has may not be deleted, if it is one of those.
fn why_for_ever(kind: &Kind, name: &str) -> Option<&'static str> {
    match (kind.store.group.as_str(), kind.store.resource.as_str(), name) {
        ("", "namespaces", "default" | "kube-system" | "kube-public") => Some("this namespace may not be deleted"),
        ("scheduling.k8s.io", "priorityclasses", "system-cluster-critical" | "system-node-critical") => {
            Some("this is a system priority class and cannot be deleted")
        }
        _ => None,
    }
}

/// What a deletion answers with.
#[derive(Debug)]
pub(crate) enum Deleted {
    /// The object, which something still holds.
    Held(Served),
    /// The object as it went: its kind answers so, or it is only said what would go.
    Object(Served),
    /// A Status that names what is gone.
    Gone(Box<Status>),
}

impl Registry {
    /// Deletes the object at `place`, or begins to.
    pub(crate) fn delete(&self, place: &Place, options: &DeleteOptions) -> Outcome<Deleted> {
        let kind = &place.kind;
        loop {
            let Some(stored) = self.db.get(&place.resource_key(), &place.key()) else {
                return Err(Failure::not_found(&kind.resource(), &place.name));
            };
            let old = stored.decode();
            check_preconditions(kind, &place.name, &old, options)?;
            if let Some(why) = why_for_ever(kind, &place.name) {
                return Err(Failure::forbidden(&kind.resource(), &place.name, why));
            }
            if let Some(deleted) = self.try_delete(place, &stored, &old, options) {
                return Ok(deleted);
            }
        }
    }

    /// One try; none if the object was written meanwhile.
    fn try_delete(&self, place: &Place, stored: &Arc<Stored>, old: &Json, options: &DeleteOptions) -> Option<Deleted> {
        let kind = &place.kind;
        let mut new = Json::clone(old);
        let mut finalizers = finalizers_for(kind, old, options);
        if is_definition(kind) && !metadata::is_deleting(old) && !finalizers.iter().any(|name| name == CLEANUP) {
            finalizers.push(CLEANUP.into());
        }
        metadata::set_finalizers(&mut new, &finalizers);
        let grace = grace(kind, old, options);
        // The first deletion of a namespace only marks it.
        let marks = namespace_lifecycle::is_namespace(kind) && !metadata::is_deleting(old);
        let held = marks || !finalizers.is_empty() || !namespace_lifecycle::may_go(kind, &new);
        // A graceful object is always seen going before it is gone.
        let seen_going =
            !kind.conduct.graceful || metadata::is_deleting(old) && metadata::grace_seconds(old) == Some(0);
        if !held && grace == 0 && seen_going {
            // A dry run shows what the options would take off the object; the deletion itself takes no such step.
            return match options.dry_run && new != *old {
                true => Some(Deleted::Object(shown(kind, new))),
                false => self.remove(place, stored, options.dry_run),
            };
        }
        let shrinks = metadata::is_deleting(old) && metadata::grace_seconds(old).is_some_and(|left| grace < left);
        if !metadata::is_deleting(old) || shrinks {
            self.mark(kind, &mut new, old, grace);
        }
        let changed = new != *old;
        let gone = !held && grace == 0;
        let answer = |object: Served| if gone { Deleted::Object(object) } else { Deleted::Held(object) };
        if options.dry_run {
            return Some(answer(shown(kind, new)));
        }
        let marked = match changed {
            true => {
                self.db.put(&place.resource_key(), &place.key(), Expect::At(stored.revision()), new).ok()?.new.clone()
            }
            false => stored.clone(),
        };
        if gone {
            return self.remove(place, &marked, false);
        }
        Some(answer(Served::stored(kind, &marked)))
    }

    fn remove(&self, place: &Place, stored: &Arc<Stored>, dry_run: bool) -> Option<Deleted> {
        let kind = &place.kind;
        let shown = match dry_run {
            true => Served::stored(kind, stored),
            false => {
                let change = self.db.remove(&place.resource_key(), &place.key(), stored.revision()).ok()?;
                Served::stored(kind, &change.new)
            }
        };
        if kind.conduct.answers_deleted {
            return Some(Deleted::Object(shown));
        }
        let GroupResource { group, resource } = kind.resource();
        Some(Deleted::Gone(Box::new(Status {
            types: TypeMeta { api_version: "v1".into(), kind: "Status".into() },
            status: "Success".into(),
            details: Some(StatusDetails {
                name: place.name.clone(),
                group,
                kind: resource,
                uid: stored.uid().into(),
                ..StatusDetails::default()
            }),
            ..Status::default()
        })))
    }

    /// Notes that the object is going.
    fn mark(&self, kind: &Kind, new: &mut Json, old: &Json, grace: i64) {
        let first = !metadata::is_deleting(old);
        let seconds = Duration::from_secs(u64::try_from(grace).unwrap_or(0));
        let time = match first {
            true => self.clock.text_after(seconds),
            false => earlier_end(old, grace).unwrap_or_else(|| self.clock.text_after(seconds)),
        };
        let generation = metadata::generation(old).filter(|generation| first && *generation > 0);
        let metadata = metadata_mut(new);
        metadata.set("deletionTimestamp", time);
        if namespace_lifecycle::is_namespace(kind) {
            new["status"]["phase"] = "Terminating".into();
            return;
        }
        if is_definition(kind) {
            let message = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon";
            let now = self.clock.now_text();
            crate::crd::set_condition(new, "Terminating", "True", "InstanceDeletionPending", message, &now);
            return;
        }
        metadata.set("deletionGracePeriodSeconds", grace);
        if let Some(generation) = generation {
            metadata.set("generation", (generation + 1));
        }
    }
}

/// An object that was not stored, as its kind shows it.
fn shown(kind: &Kind, object: Json) -> Served {
    Served::value(kind, Arc::unwrap_or_clone(kind.shown(&Arc::new(object))))
}

/// When a deletion under way ends, if its grace shrinks.
fn earlier_end(old: &Json, grace: i64) -> Option<String> {
    let end: jiff::Timestamp = old.text("/metadata/deletionTimestamp").parse().ok()?;
    let less = metadata::grace_seconds(old)? - grace;
    let end = end.checked_sub(jiff::SignedDuration::from_secs(less)).ok()?;
    Some(pintle_meta::Time(end).to_string())
}

fn is_definition(kind: &Kind) -> bool {
    kind.group == "apiextensions.k8s.io"
}

/// The finalizers that the options leave the object with.
fn finalizers_for(kind: &Kind, object: &Json, options: &DeleteOptions) -> Vec<String> {
    let present: Vec<String> = metadata::finalizers(object).into_iter().map(str::to_owned).collect();
    let asked = match (options.orphan_dependents, options.propagation) {
        (Some(true), _) => Some(PropagationPolicy::Orphan),
        // A namespace waits for its dependents then.
        (Some(false), _) if namespace_lifecycle::is_namespace(kind) => Some(PropagationPolicy::Foreground),
        (Some(false), _) => Some(PropagationPolicy::Background),
        (None, propagation) => propagation,
    };
    let has = |name: &str| present.iter().any(|known| known == name);
    let policy = asked.unwrap_or_else(|| match () {
        () if has(ORPHAN) => PropagationPolicy::Orphan,
        () if has(FOREGROUND) => PropagationPolicy::Foreground,
        () if kind.conduct.orphans => PropagationPolicy::Orphan,
        () => PropagationPolicy::Background,
    });
    let wanted = match policy {
        PropagationPolicy::Background => None,
        PropagationPolicy::Foreground => Some(FOREGROUND),
        PropagationPolicy::Orphan => Some(ORPHAN),
    };
    let of_policy = |name: &str| matches!(name, ORPHAN | FOREGROUND);
    if present.iter().filter(|name| of_policy(name)).all(|name| Some(name.as_str()) == wanted) && wanted.is_none_or(has)
    {
        return present;
    }
    let mut finalizers: Vec<String> = present.iter().filter(|name| !of_policy(name)).cloned().collect();
    finalizers.extend(wanted.map(Into::into));
    finalizers
}

/// The seconds that the object is left.
fn grace(kind: &Kind, object: &Json, options: &DeleteOptions) -> i64 {
    if !kind.conduct.graceful {
        return 0;
    }
    let left = metadata::grace_seconds(object).filter(|_| metadata::is_deleting(object));
    let own = object.integer("/spec/terminationGracePeriodSeconds").unwrap_or(30);
    let asked = options.grace_seconds.or(left).unwrap_or(own);
    let asked = if asked < 0 { 1 } else { asked };
    let unscheduled = object.text("/spec/nodeName").is_empty();
    let phase = object.text("/status/phase");
    let over = matches!(phase, "Succeeded" | "Failed") && left.is_none();
    if unscheduled || over { 0 } else { left.map_or(asked, |left| asked.min(left)) }
}

pub(super) fn check_preconditions(kind: &Kind, name: &str, object: &Json, options: &DeleteOptions) -> Outcome<()> {
    let check = |what: &str, wanted: &Option<String>, field: &str| {
        let Some(wanted) = wanted else { return Ok(()) };
        let found = object["metadata"][field].text("");
        if wanted == found {
            return Ok(());
        }
        let resource = GroupResource::new(
            &kind.group,
            if namespace_lifecycle::is_namespace(kind) { "namespaces" } else { &kind.kind },
        );
        let why = format!(
            "the {what} in the precondition ({wanted}) does not match the {what} in record ({found}). \
             The object might have been deleted and then recreated"
        );
        Err(Failure::conflict(&resource, name, &why))
    };
    check("UID", &options.uid, "uid")?;
    check("ResourceVersion", &options.resource_version, "resourceVersion")
}
