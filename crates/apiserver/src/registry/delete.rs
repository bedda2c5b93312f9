//! DELETE of one object.

use std::sync::Arc;
use std::time::Duration;

use pintle_json::Json;
use pintle_meta::{PropagationPolicy, Status, StatusDetails, TypeMeta};

use super::Registry;
use super::admission_plugin::{AdmissionOptions, AdmissionRequest, Operation};
use super::served::{Served, typed};
use crate::failure::{Failure, Outcome};
use crate::kinds::{GroupResource, Kind, RequestTarget};
use crate::object::{metadata, metadata_mut};
use crate::request::Requester;
use crate::request::options::DeleteOptions;
use crate::store::Stored;

/// What holds an object until its dependents have been let go, or have gone.
pub(crate) const ORPHAN_FINALIZER: &str = "orphan";
pub(crate) const FOREGROUND_FINALIZER: &str = "foregroundDeletion";

/// What a deletion answers with.
pub(crate) enum Deleted {
    /// The object, which something still holds.
    Held(Served),
    /// The object as it went: its kind answers so, or it is only said what would go.
    Object(Served),
    /// A Status that names what is gone.
    Gone(Box<Status>),
}

impl Registry {
    /// Deletes the object at `target`, or begins to.
    pub(crate) fn delete(&self, target: &RequestTarget, options: &DeleteOptions, by: &Requester) -> Outcome<Deleted> {
        self.delete_asked(target, target, options, by)
    }

    /// The same, where `asked` is what the request's path names: the object, or the collection that it is deleted with.
    pub(super) fn delete_asked(
        &self,
        target: &RequestTarget,
        asked: &RequestTarget,
        options: &DeleteOptions,
        by: &Requester,
    ) -> Outcome<Deleted> {
        let kind = &target.kind;
        self.delete_if(target, options, |stored| {
            by.check_time()?;
            let old = typed(&kind.api_version(), &kind.kind, kind.shown_stored(stored));
            self.ask(AdmissionRequest {
                operation: Operation::Delete,
                target: asked,
                old: Some(&old),
                new: None,
                options: AdmissionOptions::Delete(options),
                by,
            })
        })
    }

    /// Deletes the object that `passes` lets pass, without a question to admission.
    pub(crate) fn delete_if(
        &self,
        target: &RequestTarget,
        options: &DeleteOptions,
        passes: impl Fn(&Stored) -> Outcome<()>,
    ) -> Outcome<Deleted> {
        let kind = &target.kind;
        loop {
            let Some(stored) = self.db.get(&target.resource_key(), &target.key()) else {
                return Err(Failure::not_found(&kind.resource(), &target.name));
            };
            let old = stored.decode();
            target.check_preconditions(&old, options)?;
            passes(&stored)?;
            if let Some(deleted) = self.try_delete(target, &stored, &old, options) {
                return Ok(deleted);
            }
        }
    }

    /// One try; none if the object was written meanwhile.
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
        // A graceful object is always seen going before it is gone.
        let seen_going = !kind.conduct.graceful || !is_first && metadata::grace_seconds(old) == Some(0);
        if !held && grace == 0 && seen_going {
            // A dry run shows what the options would take off the object; the deletion itself takes no such step.
            return match options.dry_run && new != *old {
                true => Some(Deleted::Object(shown(kind, new))),
                false => self.remove(target, stored, options.dry_run),
            };
        }
        let shrinks = !is_first && metadata::grace_seconds(old).is_some_and(|left| grace < left);
        if is_first || shrinks {
            self.date(&mut new, old, (!marks).then_some(grace));
        }
        let changed = new != *old;
        let gone = !held && grace == 0;
        let answer = |object: Served| if gone { Deleted::Object(object) } else { Deleted::Held(object) };
        if options.dry_run {
            return Some(answer(shown(kind, new)));
        }
        let marked = match changed {
            true => {
                self.db.put_leaving(&target.resource_key(), &target.key(), stored.revision(), new).ok()?.new.clone()
            }
            false => stored.clone(),
        };
        if gone {
            return self.remove(target, &marked, false);
        }
        Some(answer(Served::stored(kind, &marked)))
    }

    fn remove(&self, target: &RequestTarget, stored: &Arc<Stored>, dry_run: bool) -> Option<Deleted> {
        let kind = &target.kind;
        let shown = match dry_run {
            true => Served::stored(kind, stored),
            false => {
                let change = self.db.remove(&target.resource_key(), &target.key(), stored.revision()).ok()?;
                Served::stored(kind, &change.new)
            }
        };
        if kind.conduct.returns_deleted {
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

    /// Notes when the object goes; and what grace it has, where it is that which it waits for.
    fn date(&self, new: &mut Json, old: &Json, grace: Option<i64>) {
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
            // Of some kinds it is what a client has sent.
            metadata.set("generation", generation.wrapping_add(1));
        }
    }
}

/// Whether nothing holds an object any more that is going.
pub(super) fn is_due(kind: &Kind, object: &Json) -> bool {
    metadata::is_deleting(object)
        && metadata::finalizers(object).is_empty()
        && metadata::grace_seconds(object).unwrap_or(0) == 0
        && !kind.strategy.is_held(object)
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

/// The finalizers that the options leave the object with.
fn finalizers_for(kind: &Kind, object: &Json, options: &DeleteOptions) -> Vec<String> {
    let present: Vec<String> = metadata::finalizers(object).into_iter().map(str::to_owned).collect();
    // Nothing depends on a report.
    if kind.strategy.is_report() {
        return present;
    }
    let asked = match (options.orphan_dependents, options.propagation) {
        (Some(true), _) => Some(PropagationPolicy::Orphan),
        (Some(false), _) if kind.strategy.waits_for_dependents() => Some(PropagationPolicy::Foreground),
        (Some(false), _) => Some(PropagationPolicy::Background),
        (None, propagation) => propagation,
    };
    let has = |name: &str| present.iter().any(|known| known == name);
    let policy = asked.unwrap_or_else(|| match () {
        () if has(ORPHAN_FINALIZER) => PropagationPolicy::Orphan,
        () if has(FOREGROUND_FINALIZER) => PropagationPolicy::Foreground,
        () if kind.conduct.orphans => PropagationPolicy::Orphan,
        () => PropagationPolicy::Background,
    });
    let wanted = match policy {
        PropagationPolicy::Background => None,
        PropagationPolicy::Foreground => Some(FOREGROUND_FINALIZER),
        PropagationPolicy::Orphan => Some(ORPHAN_FINALIZER),
    };
    let of_policy = |name: &str| matches!(name, ORPHAN_FINALIZER | FOREGROUND_FINALIZER);
    if present.iter().filter(|name| of_policy(name)).all(|name| Some(name.as_str()) == wanted) && wanted.is_none_or(has)
    {
        return present;
    }
    let mut finalizers: Vec<String> = present.iter().filter(|name| !of_policy(name)).cloned().collect();
    finalizers.extend(wanted.map(Into::into));
    finalizers
}
