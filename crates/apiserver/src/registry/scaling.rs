//! The subresource `/scale`, which reads and writes the number of replicas.

use pintle_apimachinery::failure::{Failure, Outcome};
use pintle_apimachinery::object::metadata_mut;
use pintle_apimachinery::request::Subresource;
use pintle_apimachinery::request::options::How;
use pintle_json::Json;
use pintle_kinds::writer::Writer;
use pintle_kinds::{Kind, RequestTarget, Scale, ScaleBody};

use super::Registry;
use super::served::{Served, Written};
use super::update::UpdateSource;

impl Registry {
    pub(crate) fn scale(&self, target: &RequestTarget) -> Outcome<Served> {
        let object = self.get(target)?;
        let object = match object.unconverted() {
            Some(stored) => Served::stored(&target.kind, &stored),
            None => object,
        };
        Ok(served(scale_paths(target)?.read(&object.typed())?))
    }

    pub(crate) async fn update_scale(
        &self,
        target: &RequestTarget,
        how: How,
        make: &(dyn Fn(&Json) -> Outcome<Json> + Sync),
        manager: &Writer<'_>,
    ) -> Outcome<Written> {
        let paths = scale_paths(target)?;
        self.write_scale(target, manager, &|live| {
            let present = paths.present(live);
            let mut scale = make(&present)?;
            paths.check(target, &scale, live, how, manager.options.dry_run)?;
            let present = paths.owned(live);
            metadata_mut(&mut scale).unset("managedFields");
            manager.track(&ScaleBody::kind(), Some(&present), &mut scale, Subresource::Scale);
            Ok(scale)
        })
        .await
    }

    pub(crate) async fn apply_scale(
        &self,
        target: &RequestTarget,
        applied: &Json,
        manager: &Writer<'_>,
    ) -> Outcome<Written> {
        let paths = scale_paths(target)?;
        let kind = ScaleBody::kind();
        self.write_scale(target, manager, &|live| {
            let present = paths.owned(live);
            paths.check_owners(&present)?;
            let mut scale = manager.apply(&kind, Some(&present), applied, Subresource::Scale)?;
            paths.check_applied(applied, &scale, &present)?;
            kind.normalise(&mut scale);
            paths.check(target, &scale, live, How::Apply, manager.options.dry_run)?;
            Ok(scale)
        })
        .await
    }

    async fn write_scale(
        &self,
        target: &RequestTarget,
        manager: &Writer<'_>,
        make: &(dyn Fn(&Json) -> Outcome<Json> + Sync),
    ) -> Outcome<Written> {
        let paths = scale_paths(target)?;
        let change = |live: Option<&Json>| {
            let live = live.ok_or_else(|| Failure::not_found(&target.kind.resource(), &target.name))?;
            paths.check_types(live)?;
            Ok(scaled(&target.kind, paths, live, &make(live)?))
        };
        // Use `UpdateSource::Apply` to skip the managed fields in the pipeline, because `make` has already updated
        // them.
        let written = self.guaranteed_update(target, &UpdateSource::Apply(&change), manager).await?;
        let whole = self.settled(&target.kind, written.object, manager.requester()).await?;
        let object = served(paths.read(&whole.typed())?);
        Ok(Written { object, created: written.created })
    }
}

fn scale_paths(target: &RequestTarget) -> Outcome<&Scale> {
    target.kind.scale().ok_or_else(Failure::no_such_resource)
}

fn scaled(kind: &Kind, paths: &Scale, live: &Json, scale: &Json) -> Json {
    let mut new = paths.write(scale, live);
    pintle_fieldmanager::keep_scale_entries(&mut new, scale, &paths.spec_replicas, &kind.api_version());
    let version = scale.text("/metadata/resourceVersion");
    if !version.is_empty() {
        metadata_mut(&mut new).set("resourceVersion", version);
    }
    new
}

fn served(scale: Json) -> Served {
    Served::value(&ScaleBody::kind(), scale)
}
