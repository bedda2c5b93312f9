//! PUT and PATCH: both read an object, make another of it, and commit that if nothing came between.

use std::sync::Arc;

use pintle_json::Json;

use super::Registry;
use super::object_write::Write;
use super::pipeline::Complete;
use super::served::{Served, Written, typed};
use crate::failure::{Failure, Outcome};
use crate::kinds::RequestTarget;
use crate::object::{metadata, metadata_mut, put_back};
use crate::offload;
use crate::registry::Writer;
use crate::request::Subresource;
use crate::request::options::How;
use crate::store::{Expect, Refused, Stored};
use crate::validate::{FieldError, FieldErrors};

/// How often the server itself works a write out at most, anew whenever another came between. Its controllers hear of that other one, and
/// come again.
const TRIES: usize = 64;

/// Makes an object of the stored one, which it is given with `apiVersion` and `kind`.
pub(crate) type Make<'a> = &'a (dyn Fn(Option<&Json>) -> Outcome<Json> + Sync);

/// What a request would have an object be.
pub(crate) enum UpdateSource<'a> {
    /// Its body.
    Put(&'a Json),
    /// What a patch makes of it.
    Patch(Make<'a>),
    /// What an apply makes of it, or of nothing: an absent object is created.
    Apply(Make<'a>),
}

impl Registry {
    /// Changes the object at `target`. Where another write comes between, it is worked out anew for as long as somebody waits for it, which
    /// is how a real server does it too: until the request's time is up. Others have their turns between two tries, of which each is whole.
    pub(crate) async fn guaranteed_update(
        &self,
        target: &RequestTarget,
        source: &UpdateSource<'_>,
        by: &Writer<'_>,
    ) -> Outcome<Written> {
        let mut taken = 0;
        loop {
            match self.try_update(target, source, by)? {
                Ok(written) => return Ok(written),
                // What another has is given by nobody who waits for it.
                Err(Refused::Taken) if taken == TRIES => {
                    return Err(Failure::modified(&target.kind.resource(), &target.name));
                }
                Err(refused) => taken += usize::from(matches!(refused, Refused::Taken)),
            }
            tokio::task::yield_now().await;
            offload::work_on(offload::ALWAYS).await;
        }
    }

    /// The same at once, in as many tries as the server itself makes.
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

    /// One try. It is refused if another write came between, and this one may be worked out anew.
    fn try_update(
        &self,
        target: &RequestTarget,
        source: &UpdateSource<'_>,
        by: &Writer<'_>,
    ) -> Outcome<Result<Written, Refused>> {
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
        let old = typed(&kind.api_version(), &kind.kind, kind.shown_stored(&stored));
        let mut new = match source {
            UpdateSource::Put(body) => Json::clone(body),
            UpdateSource::Patch(make) | UpdateSource::Apply(make) => {
                let new = make(Some(&old))?;
                target.check_name(metadata::name(&new))?;
                new
            }
        };
        target.settle_namespace(&mut new)?;
        let mut write = Write { target, old: Some(&old), new, by, how, labelled: false };
        self.receive(&mut write)?;
        self.check_versions(target, &mut write.new, &old, how)?;
        let complete = self.complete(write)?;
        if !by.options.dry_run {
            self.warn_of_no_effect(target, &complete.object, by);
        }
        let replaced = self.replace(target, &stored, &old, complete, how, by)?;
        Ok(replaced.map(|object| Written { object, created: false }))
    }

    /// PUT of an absent object creates it where the kind allows, be it through a subresource; so does apply.
    fn update_absent(
        &self,
        target: &RequestTarget,
        source: &UpdateSource<'_>,
        by: &Writer<'_>,
    ) -> Outcome<Result<Written, Refused>> {
        let kind = &target.kind;
        match source {
            UpdateSource::Put(body) if kind.conduct.creates_on_update => {
                if !metadata::uid(body).is_empty() {
                    return Err(target.uid_conflict(metadata::uid(body), ""));
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

    /// Fails unless the uid and the resourceVersion of the new object, where it has them, are those of the old one.
    fn check_versions(&self, target: &RequestTarget, new: &mut Json, old: &Json, how: How) -> Outcome<()> {
        let (kind, is_put) = (&target.kind, how == How::Put);
        let (uid, stored_uid) = (metadata::uid(new), metadata::uid(old));
        if is_put && !uid.is_empty() && uid != stored_uid {
            return Err(target.uid_conflict(uid, stored_uid));
        }
        let version = new.text("/metadata/resourceVersion").to_owned();
        let current = old.text("/metadata/resourceVersion").to_owned();
        let number = if version.is_empty() { 0 } else { super::list::parse_number(&version)? };
        if number == 0 {
            // A patch starts from the stored version: without one it has removed it.
            if kind.conduct.needs_version {
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

    /// Stores the new object in place of `stored`, unless something that it follows from has changed.
    fn replace(
        &self,
        target: &RequestTarget,
        stored: &Arc<Stored>,
        old: &Json,
        Complete { object: new, charges }: Complete,
        how: How,
        by: &Writer<'_>,
    ) -> Outcome<Result<Served, Refused>> {
        let kind = &target.kind;
        let settles = stored.is_first() && kind.strategy.stores_defaults_late(old);
        if !settles && !metadata::differ(&new, old) {
            return Ok(Ok(Served::stored(kind, stored)));
        }
        if by.options.dry_run {
            return Ok(Ok(Served::value(kind, new)));
        }
        by.requester().check_time()?;
        if super::delete::is_due(kind, &new) {
            let removed = self.db.remove(&target.resource_key(), &target.key(), stored.revision());
            return Ok(match removed {
                // Another request has removed it; the client of this one wanted nothing else.
                Ok(_) | Err(Refused::Mismatch(None)) => Ok(Served::value(kind, new)),
                Err(refused) => Err(refused),
            });
        }
        let expect = Expect::At(stored.revision());
        let mut new = kind.strategy.to_stored(new);
        if kind.splits_status() && kind.strategy.conversion().is_some() {
            keep_other_half(target.subresource, &mut new, &stored.decode());
        }
        let written = self.commit(target, expect, how, new, charges, |_| true)?;
        Ok(written.map(|change| Served::stored(kind, &change.new)))
    }
}

/// What a write cannot change stays as it is stored, whatever became of it on the way through another version.
fn keep_other_half(subresource: Subresource, new: &mut Json, old: &Json) {
    let kept = if subresource == Subresource::Status { "spec" } else { "status" };
    put_back(new, old, kept);
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use pintle_json::json;

    use super::*;
    use crate::clock::effort::turns;
    use crate::config::ApiServerConfig;
    use crate::request::options::WriteOptions;

    /// Patches what is changed each time before it is written, so many times. Each try is counted.
    async fn losing(lost: usize, tries: &AtomicUsize) -> Outcome<Written> {
        let registry = Arc::new(Registry::new(ApiServerConfig::default(), None));
        let kinds = registry.kinds();
        let kind = kinds.group_kind("", "Namespace").expect("it is built in");
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
            if tried <= lost {
                let between = |live: Option<&Json>| with(live, "between", tried);
                registry.update(&target, &UpdateSource::Patch(&between), &by)?;
            }
            with(live, "wanted", 0)
        };
        registry.guaranteed_update(&target, &UpdateSource::Patch(&make), &by).await
    }

    #[test]
    fn a_patch_that_keeps_losing_its_race_is_worked_out_anew_and_others_have_their_turns() {
        const LOST: usize = 200;
        let tries = AtomicUsize::new(0);
        let (written, turns) = turns(losing(LOST, &tries));
        assert!(written.is_ok_and(|written| !written.created));
        assert_eq!(tries.load(Ordering::Relaxed), LOST + 1);
        assert!(turns >= LOST / 2, "{turns}");
    }

    #[tokio::test]
    async fn a_patch_that_never_wins_its_race_goes_on_until_nobody_waits_for_it() {
        let tries = AtomicUsize::new(0);
        let waiting = async {
            while tries.load(Ordering::Relaxed) < 1_000 {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            written = losing(usize::MAX, &tries) => panic!("after {tries:?}: {:?}", written.map(|written| written.created)),
            () = waiting => (),
        }
    }
}
