//! Updates objects for PUT, PATCH and apply requests. An update reads the stored object, computes the new object, and
//! commits it only if none of the inputs have changed.

use std::sync::Arc;

use pintle_apimachinery::failure::{Failure, Outcome};
use pintle_apimachinery::object::{metadata, metadata_mut, restore_member};
use pintle_apimachinery::request::Subresource;
use pintle_apimachinery::request::options::How;
use pintle_apimachinery::validate::{FieldError, FieldErrors};
use pintle_json::Json;
use pintle_kinds::writer::Writer;
use pintle_kinds::{Kind, Origin, RequestTarget};
use pintle_serving::offload;
use pintle_storage::{Expect, Refused, Stored};

use super::Registry;
use super::commit::Attempt;
use super::object_write::Write;
use super::pipeline::Complete;
use super::served::{Served, Written, typed};

/// The maximum number of attempts for the server's own writes. If all attempts fail, the controller tries again after
/// it has observed the write that caused the last conflict.
const TRIES: usize = 64;

/// A function that computes the new object from the stored object. The function receives an object with an `apiVersion`
/// and a `kind`.
pub(crate) type Make<'a> = &'a (dyn Fn(Option<&Json>) -> Outcome<Json> + Sync);

pub(crate) enum UpdateSource<'a> {
    Put(&'a Json),
    Patch(Make<'a>),
    /// A server-side apply, which creates the object if it does not exist.
    Apply(Make<'a>),
}

impl Registry {
    /// Updates the object at `target`. As in kube-apiserver, a conflicting update is computed again
    /// until it succeeds or the request times out. Yields to other tasks between two attempts.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, no further attempt starts. Each attempt either updates the object completely or has no
    /// effect.
    pub(crate) async fn guaranteed_update(
        &self,
        target: &RequestTarget,
        source: &UpdateSource<'_>,
        by: &Writer<'_>,
    ) -> Outcome<Written> {
        let mut claim_conflicts = 0;
        loop {
            match self.with_webhooks(by.requester(), || self.try_update(target, source, by)).await? {
                Ok(written) => return Ok(written),
                // Return the error instead of retrying while another object has a value that must be unique, such as an
                // address.
                Err(Refused::Taken) if claim_conflicts == TRIES => {
                    return Err(Failure::modified(&target.kind.resource(), &target.name));
                }
                Err(refused) => claim_conflicts += usize::from(matches!(refused, Refused::Taken)),
            }
            tokio::task::yield_now().await;
            offload::work_on(offload::ALWAYS).await;
        }
    }

    /// Like [`guaranteed_update`](Self::guaranteed_update), but runs synchronously and makes a limited number of
    /// attempts.
    pub(crate) fn update(
        &self,
        target: &RequestTarget,
        source: &UpdateSource<'_>,
        by: &Writer<'_>,
    ) -> Outcome<Written> {
        for _ in 0..TRIES {
            if let Ok(written) = self.try_update(target, source, by)? {
                return Ok(written);
            }
        }
        Err(Failure::modified(&target.kind.resource(), &target.name))
    }

    fn try_update(&self, target: &RequestTarget, source: &UpdateSource<'_>, by: &Writer<'_>) -> Attempt<Written> {
        let kind = &target.kind;
        let how = match source {
            UpdateSource::Put(_) => How::Put,
            UpdateSource::Patch(_) => How::Patch,
            UpdateSource::Apply(_) => How::Apply,
        };
        if let UpdateSource::Put(body) = source {
            target.check_name(metadata::name(body))?;
        }
        let Some(stored) = self.db.get(&target.resource_key(), &target.key()) else {
            return self.update_absent(target, source, by);
        };
        let old = typed(&kind.api_version(), &kind.kind, kind.decode_in_version(&stored));
        let mut new = match source {
            UpdateSource::Put(body) => Json::clone(body),
            UpdateSource::Patch(make) | UpdateSource::Apply(make) => {
                let new = make(Some(&old))?;
                target.check_name(metadata::name(&new))?;
                new
            }
        };
        target.settle_namespace(&mut new)?;
        let mut write = Write { target, old: Some(&old), new, by, how, has_labels: false };
        self.receive(&mut write)?;
        self.check_versions(target, &mut write.new, &old, how, by.options.dry_run)?;
        let complete = self.complete(write)?;
        if !by.options.dry_run {
            self.warn_of_no_effect(target, &complete.object, by);
        }
        let replaced = self.replace(target, &stored, &old, complete, how, by)?;
        Ok(replaced.map(|object| Written { object, created: false }))
    }

    /// Processes an update of an object that does not exist. An apply request always creates the object. A PUT request
    /// also creates the object if the kind allows it, even if the path names a subresource.
    fn update_absent(&self, target: &RequestTarget, source: &UpdateSource<'_>, by: &Writer<'_>) -> Attempt<Written> {
        let kind = &target.kind;
        match source {
            UpdateSource::Put(body) if kind.flags.creates_on_update => {
                if !metadata::uid(body).is_empty() {
                    return Err(target.uid_conflict(metadata::uid(body), "", by.options.dry_run));
                }
                by.check_may_create()?;
                self.create_absent(How::Put, target, Json::clone(body), by)
            }
            UpdateSource::Apply(make) if target.subresource == Subresource::None => {
                let object = make(None)?;
                if !metadata::uid(&object).is_empty() {
                    let why = format!(
                        "uid mismatch: the provided object specified uid {}, and no existing object was found",
                        metadata::uid(&object)
                    );
                    return Err(Failure::conflict(&kind.resource(), &target.name, &why));
                }
                target.check_name(metadata::name(&object))?;
                by.check_may_create()?;
                self.create_absent(How::Apply, target, object, by)
            }
            _ => Err(Failure::not_found(&kind.resource(), &target.name)),
        }
    }

    fn check_versions(
        &self,
        target: &RequestTarget,
        new: &mut Json,
        old: &Json,
        how: How,
        dry_run: bool,
    ) -> Outcome<()> {
        let (kind, is_put) = (&target.kind, how == How::Put);
        let (uid, stored_uid) = (metadata::uid(new), metadata::uid(old));
        if is_put && !uid.is_empty() && uid != stored_uid {
            return Err(target.uid_conflict(uid, stored_uid, dry_run));
        }
        let version = new.text("/metadata/resourceVersion").to_owned();
        let current = old.text("/metadata/resourceVersion").to_owned();
        let number = if version.is_empty() { 0 } else { super::list::parse_number(&version)? };
        if number == 0 {
            // A stored object always has a resourceVersion, so the patch must have removed it.
            if kind.flags.requires_resource_version {
                let why = "must be specified for an update";
                let error = FieldError::invalid("metadata.resourceVersion", &Json::from(0), why);
                return Err(Failure::invalid_named(
                    &kind.group,
                    &kind.plural,
                    &target.name,
                    FieldErrors::from([error]),
                ));
            }
        } else if current != number.to_string() {
            return Err(Failure::modified(&kind.resource(), &target.name));
        }
        metadata_mut(new).set("resourceVersion", current);
        Ok(())
    }

    /// Replaces `stored` with the new object. Fails if an input of the update has changed.
    fn replace(
        &self,
        target: &RequestTarget,
        stored: &Arc<Stored>,
        old: &Json,
        Complete { object: new, charges }: Complete,
        how: How,
        by: &Writer<'_>,
    ) -> Attempt<Served> {
        let kind = &target.kind;
        by.requester().check_conversions()?;
        let settles = stored.is_first() && kind.strategy.stores_defaults_late(old);
        if !settles && !is_of_old_version(kind, stored) && !metadata::differ(&new, old) {
            return Ok(Ok(Served::of_result(kind, stored)));
        }
        let is_custom = kind.origin() != Origin::BuiltIn;
        if by.options.dry_run {
            if !is_custom || kind.strategy.conversion().is_none() {
                return Ok(Ok(Served::value(kind, new)));
            }
            // As in kube-apiserver, a dry run also converts the object to the storage version and back.
            let shown = kind.to_version(&Arc::new(kind.strategy.to_stored(new)));
            by.requester().check_conversions()?;
            return Ok(Ok(Served::value(kind, Arc::unwrap_or_clone(shown))));
        }
        by.requester().check_time()?;
        if super::delete::is_removable(kind, &new) {
            let removed = self.db.remove(&target.resource_key(), &target.key(), stored.revision());
            return Ok(match removed {
                // Another request has already removed the object, so this request also succeeds.
                Ok(_) | Err(Refused::Mismatch(None)) => Ok(Served::value(kind, new)),
                Err(refused) => Err(refused),
            });
        }
        let expect = Expect::At(stored.revision());
        let mut new = kind.strategy.to_stored(new);
        by.requester().check_conversions()?;
        if !is_custom && kind.splits_status() && kind.strategy.conversion().is_some() {
            keep_other_part(target.subresource, &mut new, &stored.decode());
        }
        let written = self.commit(target, expect, how, new, charges, |_| true)?;
        Ok(written.map(|change| Served::of_result(kind, &change.new)))
    }
}

/// Returns `true` if the stored version of a custom resource is not the current storage version. If the versions
/// differ, an update without changes still writes the object, because storage version migrations depend on this write.
fn is_of_old_version(kind: &Kind, stored: &Stored) -> bool {
    let current = kind.stored_version.as_ref().filter(|_| kind.origin() != Origin::BuiltIn);
    !stored.version().is_empty() && current.is_some_and(|current| current.to_string() != stored.version())
}

/// Restores the fields that a write must not change, because converting an object to another version and back can
/// change these fields.
fn keep_other_part(subresource: Subresource, new: &mut Json, old: &Json) {
    let kept = if subresource == Subresource::Status { "spec" } else { "status" };
    restore_member(new, old, kept);
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use pintle_apimachinery::request::options::WriteOptions;
    use pintle_effort::turns;
    use pintle_json::json;

    use super::*;
    use crate::config::ApiServerConfig;
    use crate::registry::webhook_answers::register_failing_webhook;

    /// Patches an object, while another request changes the object during each of the first `conflicts` attempts.
    /// Counts the attempts in `tries`. Calls `after_change` after each change by the other request.
    async fn contended_patch(
        conflicts: usize,
        tries: &AtomicUsize,
        after_change: &(dyn Fn(&Registry) + Sync),
    ) -> Outcome<Written> {
        let registry = Arc::new(Registry::new(ApiServerConfig::default(), None));
        let kinds = registry.kinds();
        let kind = kinds.group_kind("", "Namespace").expect("a built-in kind");
        let options = WriteOptions::default();
        let by = Writer::new(&options, "m", registry.clock.now_text());
        let target = RequestTarget::new(kind.clone(), "", "a");
        registry.create(&target, json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}}), &by)?;
        let with = |live: Option<&Json>, key: &str, value: usize| {
            let mut new = live.cloned().unwrap_or_default();
            new["metadata"]["labels"] = json!({key: value.to_string()});
            Ok(new)
        };
        let make = |live: Option<&Json>| {
            let tried = tries.fetch_add(1, Ordering::Relaxed) + 1;
            if tried <= conflicts {
                let between = |live: Option<&Json>| with(live, "between", tried);
                registry.update(&target, &UpdateSource::Patch(&between), &by)?;
                after_change(&registry);
            }
            with(live, "wanted", 0)
        };
        registry.guaranteed_update(&target, &UpdateSource::Patch(&make), &by).await
    }

    #[test]
    fn contended_patch_is_retried_and_yields_to_other_tasks() {
        const CONFLICTS: usize = 200;
        let tries = AtomicUsize::new(0);
        let (written, turns) = turns(contended_patch(CONFLICTS, &tries, &|_| ()));
        assert!(written.is_ok_and(|written| !written.created));
        assert_eq!(tries.load(Ordering::Relaxed), CONFLICTS + 1);
        assert!(turns >= CONFLICTS / 2, "{turns}");
    }

    #[tokio::test]
    async fn webhook_registered_during_a_conflict_reviews_the_retry() {
        let tries = AtomicUsize::new(0);
        let written = contended_patch(1, &tries, &register_failing_webhook).await;
        let failure = written.err().expect("the webhook fails");
        assert!(failure.status.message.contains("failed calling webhook"), "{}", failure.status.message);
    }

    #[tokio::test]
    async fn contended_patch_is_retried_until_it_is_dropped() {
        let tries = AtomicUsize::new(0);
        let waiting = async {
            while tries.load(Ordering::Relaxed) < 1_000 {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            written = contended_patch(usize::MAX, &tries, &|_| ()) => panic!("after {tries:?}: {:?}", written.map(|written| written.created)),
            () = waiting => (),
        }
    }
}
