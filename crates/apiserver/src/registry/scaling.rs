//! `/scale`: the number of replicas of anything, in one form.

use pintle_json::{Json, json};

use super::Registry;
use super::Writer;
use super::served::{Served, Written};
use super::update::Wish;
use crate::failure::{Failure, Outcome};
use crate::kinds::{GroupResource, Kind, Place, Scale};
use crate::object::{metadata, metadata_mut};
use crate::request::Part;
use crate::validate::{Faults, FieldFault};

impl Registry {
    /// The scale of an object.
    pub(crate) fn scale(&self, place: &Place) -> Outcome<Served> {
        let object = self.get(place)?;
        Ok(served(read(&place.kind, &object.typed())?))
    }

    /// Changes the scale of an object to what `make` makes of the present one.
    pub(crate) fn update_scale(
        &self,
        place: &Place,
        make: &dyn Fn(&Json) -> Outcome<Json>,
        manager: &Writer<'_>,
    ) -> Outcome<Written> {
        let kind = &place.kind;
        let paths = kind.strategy.scale().ok_or_else(Failure::no_such_resource)?;
        let change = |live: Option<&Json>| {
            let live = live.ok_or_else(|| Failure::not_found(&kind.resource(), &place.name))?;
            let present = match paths.read(kind, live) {
                Some(scale) => scale,
                None => without_replicas(paths, kind, live),
            };
            let mut scale = make(&present)?;
            check(place, &scale, live)?;
            let present = with_owners(present, live, paths);
            metadata_mut(&mut scale).unset("managedFields");
            manager.track(&Kind::of_bodies("autoscaling", "v1", "Scale"), Some(&present), &mut scale, Part::Scale);
            Ok(scaled(kind, paths, live, &scale))
        };
        // The owners of the field are recorded here.
        let written = self.update(place, &Wish::Apply(&change), manager)?;
        let object = served(read(kind, &written.object.typed())?);
        Ok(Written { object, ..written })
    }

    /// Applies a scale: what it says of the replicas holds for the object.
    pub(crate) fn apply_scale(&self, place: &Place, applied: &Json, manager: &Writer<'_>) -> Outcome<Written> {
        let kind = &place.kind;
        let paths = kind.strategy.scale().ok_or_else(Failure::no_such_resource)?;
        let scale_kind = Kind::of_bodies("autoscaling", "v1", "Scale");
        let change = |live: Option<&Json>| {
            let live = live.ok_or_else(|| Failure::not_found(&kind.resource(), &place.name))?;
            let present = paths.read(kind, live).unwrap_or_else(|| without_replicas(paths, kind, live));
            let present = with_owners(present, live, paths);
            let mut scale = manager.apply(&scale_kind, Some(&present), applied, Part::Scale)?;
            if kind.is_custom() && scale.get("spec") != present.get("spec") {
                return Err(Failure::plain(
                    500,
                    format!(
                        "failed to convert new object ({}/{}; autoscaling/v1, Kind=Scale) to proper version: request to convert \
                         CR to an invalid group/version: autoscaling/v1",
                        place.namespace, place.name
                    ),
                ));
            }
            if let Some(schema) = scale_kind.schema() {
                scale = schema.normalised(scale);
            }
            check(place, &scale, live)?;
            Ok(scaled(kind, paths, live, &scale))
        };
        let written = self.update(place, &Wish::Apply(&change), manager)?;
        let object = served(read(kind, &written.object.typed())?);
        Ok(Written { object, ..written })
    }
}

/// The scale with those who own the replicas of the object.
fn with_owners(mut scale: Json, live: &Json, paths: &Scale) -> Json {
    let entries = pintle_fieldmanager::scale_entries(live, &paths.spec_replicas);
    if !entries.is_null() {
        metadata_mut(&mut scale).set("managedFields", entries);
    }
    scale
}

/// The object with the replicas of the scale, and with their owners.
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
    Served::untyped("autoscaling/v1".into(), "Scale".into(), scale)
}

fn read(kind: &Kind, object: &Json) -> Outcome<Json> {
    let paths = kind.strategy.scale().ok_or_else(Failure::no_such_resource)?;
    paths
        .read(kind, object)
        .ok_or_else(|| Failure::internal(format!("the spec replicas field {:?} does not exist", paths.spec_replicas)))
}

/// The scale of a custom resource that does not say how many replicas it wants.
fn without_replicas(paths: &Scale, kind: &Kind, live: &Json) -> Json {
    let zero = paths.write(&json!({"spec": {"replicas": 0}}), live);
    paths.read(kind, &zero).unwrap_or_default()
}

fn check(place: &Place, scale: &Json, live: &Json) -> Outcome<()> {
    let url = &place.name;
    match metadata::name(scale) {
        "" => {
            return Err(Failure::bad_request(format!(
                "the name of the object ({url} based on URL) was undeterminable: name must be provided"
            )));
        }
        name if name != url => {
            return Err(Failure::bad_request(format!(
                "the name of the object ({name}) does not match the name on the URL ({url})"
            )));
        }
        _ => (),
    }
    let namespace = metadata::namespace(scale);
    if !namespace.is_empty() && namespace != place.namespace {
        return Err(Failure::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    let uid = metadata::uid(scale);
    if !uid.is_empty() && uid != metadata::uid(live) {
        let GroupResource { group, resource } = place.kind.resource();
        let why =
            format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {}", metadata::uid(live));
        return Err(Failure::conflict(&GroupResource::new(group, format!("{resource}/scale")), url, &why));
    }
    check_replicas(place, scale)
}

fn check_replicas(place: &Place, scale: &Json) -> Outcome<()> {
    let Some(replicas) = scale.at("/spec/replicas").filter(|replicas| replicas.as_i64().is_some_and(|n| n < 0)) else {
        return Ok(());
    };
    let why =
        if place.kind.is_custom() { "should be a non-negative integer" } else { "must be greater than or equal to 0" };
    Err(match place.kind.is_custom() {
        true => place.kind.invalid(&place.name, Faults::from([FieldFault::invalid(".spec.replicas", replicas, why)])),
        false => {
            let fault = FieldFault::invalid("spec.replicas", replicas, why);
            Failure::invalid_named("autoscaling", "Scale", &place.name, Faults::from([fault]))
        }
    })
}
