//! `/scale`: the number of replicas of anything, in one form.

use serde_json::{Value, json};

use super::meta::{metadata_mut, text};
use super::object::{Place, Served, typed};
use super::update::Change;
use crate::api::Api;
use crate::failure::{Failure, Outcome};
use crate::kinds::{GroupResource, Kind, Scale};
use crate::manager::Manager;
use crate::validate::FieldFault;

impl Api {
    /// The scale of an object.
    pub(crate) fn scale(&self, place: &Place) -> Outcome<Served> {
        let object = self.get(place)?;
        Ok(served(read(&place.kind, &object.typed())?))
    }

    /// Changes the scale of an object to what `make` makes of the present one.
    pub(crate) fn update_scale(
        &self,
        place: &Place,
        make: &dyn Fn(&Value) -> Outcome<Value>,
        manager: &Manager<'_>,
    ) -> Outcome<Served> {
        let kind = &place.kind;
        let paths = kind.strategy.scale().ok_or_else(Failure::no_such_resource)?;
        let change = |live: Option<&Value>| {
            let live = live.ok_or_else(|| Failure::not_found(&kind.resource(), &place.name))?;
            let present = match paths.read(kind, live) {
                Some(scale) => scale,
                None => without_replicas(paths, kind, live),
            };
            let scale = make(&present)?;
            check(place, &scale, live)?;
            let mut new = paths.write(&scale, live);
            let version = text(&scale, "resourceVersion");
            if !version.is_empty() {
                metadata_mut(&mut new).insert("resourceVersion".into(), version.into());
            }
            Ok(new)
        };
        let written = self.update(place, &Change::Patch { make: &change, apply: false }, manager)?;
        let object = typed(&written.object.api_version, &written.object.kind, &written.object.value);
        Ok(served(read(kind, &object)?))
    }

    /// What an apply of a scale means for the object itself: its manager wants that many replicas, and nothing else.
    pub(crate) fn apply_scale(&self, place: &Place, applied: &Value, manager: &Manager<'_>) -> Outcome<Served> {
        let kind = &place.kind;
        let paths = kind.strategy.scale().ok_or_else(Failure::no_such_resource)?;
        let change = |live: Option<&Value>| {
            let live = live.ok_or_else(|| Failure::not_found(&kind.resource(), &place.name))?;
            let mut wish = json!({
                "apiVersion": kind.api_version(),
                "kind": kind.kind,
                "metadata": {"name": place.name, "namespace": place.namespace},
            });
            check_replicas(place, applied)?;
            if applied.pointer("/spec/replicas").is_some() {
                wish = paths.write(applied, &wish);
            }
            manager.apply(kind, Some(live), &wish, Some("scale"))
        };
        let written = self.update(place, &Change::Patch { make: &change, apply: true }, manager)?;
        Ok(served(read(kind, &written.object.typed())?))
    }
}

fn served(scale: Value) -> Served {
    Served::untyped("autoscaling/v1".into(), "Scale".into(), scale)
}

fn read(kind: &Kind, object: &Value) -> Outcome<Value> {
    let paths = kind.strategy.scale().ok_or_else(Failure::no_such_resource)?;
    paths
        .read(kind, object)
        .ok_or_else(|| Failure::internal(format!("the spec replicas field {:?} does not exist", paths.spec_replicas)))
}

/// The scale of a custom resource that does not say how many replicas it wants.
fn without_replicas(paths: &Scale, kind: &Kind, live: &Value) -> Value {
    let zero = paths.write(&json!({"spec": {"replicas": 0}}), live);
    paths.read(kind, &zero).unwrap_or_default()
}

fn check(place: &Place, scale: &Value, live: &Value) -> Outcome<()> {
    let url = &place.name;
    match text(scale, "name") {
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
    let namespace = text(scale, "namespace");
    if !namespace.is_empty() && namespace != place.namespace {
        return Err(Failure::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    let uid = text(scale, "uid");
    if !uid.is_empty() && uid != text(live, "uid") {
        let GroupResource { group, resource } = place.kind.resource();
        let why = format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {}", text(live, "uid"));
        return Err(Failure::conflict(&GroupResource::new(group, format!("{resource}/scale")), url, &why));
    }
    check_replicas(place, scale)
}

fn check_replicas(place: &Place, scale: &Value) -> Outcome<()> {
    let Some(replicas) = scale.pointer("/spec/replicas").filter(|replicas| replicas.as_i64().is_some_and(|n| n < 0))
    else {
        return Ok(());
    };
    let why = if place.kind.custom { "should be a non-negative integer" } else { "must be greater than or equal to 0" };
    Err(match place.kind.custom {
        true => Failure::invalid(&place.kind, &place.name, vec![FieldFault::invalid(".spec.replicas", replicas, why)]),
        false => {
            let fault = FieldFault::invalid("spec.replicas", replicas, why);
            Failure::invalid_named("autoscaling", "Scale", &place.name, vec![fault])
        }
    })
}
