//! POST: creates one object.

use std::sync::Arc;

use pintle_json::Json;
use pintle_meta::{StatusCause, StatusDetails};

use super::Registry;
use super::object_write::Write;
use super::pipeline::Complete;
use super::served::{Served, Written};
use crate::crd;
use crate::failure::{Failure, Outcome, details};
use crate::kinds::{GroupResource, Kind, NAMESPACES, Place};
use crate::object::{metadata, metadata_mut};
use crate::registry::Writer;
use crate::request::options::How;
use crate::store::{Expect, Present, Refused, Stored};

/// How many generated names are tried.
const CREATE_TRIES: usize = 8;

impl Registry {
    /// Creates an object in `place`, whose own name does not count.
    pub(crate) fn create(&self, place: &Place, object: Json, by: &Writer<'_>) -> Outcome<Written> {
        self.create_by(How::Post, place, object, by)
    }

    /// Creates an object; one that a PUT makes keeps what a POST would wipe, but for the uid and the time.
    pub(super) fn create_by(&self, how: How, place: &Place, mut object: Json, by: &Writer<'_>) -> Outcome<Written> {
        let kind = &place.kind;
        place.settle_namespace(&mut object)?;
        let base = object.text("/metadata/generateName").to_owned();
        let named = Some(metadata::name(&object)).filter(|name| !name.is_empty()).unwrap_or(&base);
        self.check_is_open(&Place { name: named.into(), ..place.clone() })?;
        let version = object.text("/metadata/resourceVersion").to_owned();
        wipe(&mut object, how);
        let mut received = Write { place, old: None, new: object, by, how, labelled: false };
        self.receive(&mut received)?;
        let labelled = received.labelled;
        let object = received.new;
        let generate = metadata::name(&object).is_empty() && !base.is_empty();
        let mut names = 0;
        while names < CREATE_TRIES {
            let mut new = object.clone();
            if generate {
                metadata_mut(&mut new).set("name", self.generated_name(&base));
            }
            let name = metadata::name(&new).to_owned();
            let Complete { object: new, charges } =
                self.complete(Write { place, old: None, new, by, how, labelled })?;
            if how == How::Post && !by.options.dry_run && version.parse().is_ok_and(|version: u64| version > 0) {
                let why = "resourceVersion should not be set on objects to be created";
                return Err(Failure::plain(500, why));
            }
            let place = Place { name: name.clone(), ..place.clone() };
            let stored = kind.strategy.to_stored(new);
            if let Some(found) = self.db.get(&place.resource_key(), &place.key()) {
                if generate {
                    names += 1;
                    continue;
                }
                return Err(taken(&kind.resource(), &name, Some(&found)));
            }
            if by.options.dry_run {
                let mut shown = Json::clone(&kind.shown(&Arc::new(stored)));
                if !version.is_empty() && version != "0" {
                    metadata_mut(&mut shown).set("resourceVersion", version);
                }
                return Ok(Written { object: Served::value(kind, shown), created: true });
            }
            self.warn_of_no_effect(&place, &stored, by);
            let is_open = |now: &Present| {
                is_defined(now, kind) && (!kind.namespaced() || namespace_is_open(now, &place.namespace))
            };
            by.asker().check_time()?;
            match self.commit(&place, Expect::Absent, how, stored, charges, is_open)? {
                Ok(change) => return Ok(Written { object: Served::stored(kind, &change.new), created: true }),
                Err(Refused::Mismatch(_)) if generate => names += 1,
                Err(Refused::Mismatch(found)) => {
                    return Err(taken(&kind.resource(), &name, found.as_deref()));
                }
                // Somebody else was quicker, so there is an end to it: what was looked at is looked at anew.
                Err(Refused::Taken | Refused::Moved) => self.check_is_open(&place)?,
            }
        }
        Err(all_taken(&kind.resource(), &base))
    }

    /// The definition of a custom resource must be there and not be going away, and so must the namespace.
    fn check_is_open(&self, place: &Place) -> Outcome<()> {
        let kind = &place.kind;
        if !is_defined(&self.db.now(), kind) {
            let why = "create not allowed while custom resource definition is terminating";
            let definition = self.db.get(crd::DEFINITIONS, &crd::name(kind));
            return Err(match definition.is_some_and(|definition| definition.is_deleting()) {
                true => Failure::forbidden(&kind.resource(), &place.name, why),
                false => Failure::page_not_found(),
            });
        }
        match kind.namespaced() {
            true => self.check_namespace_is_open(kind, &place.namespace, &place.name),
            false => Ok(()),
        }
    }

    /// The namespace must be there and not be going away.
    pub(super) fn check_namespace_is_open(&self, kind: &Kind, namespace: &str, name: &str) -> Outcome<()> {
        let Some(found) = self.db.get(NAMESPACES, namespace) else {
            return Err(Failure::not_found(&GroupResource::new("", NAMESPACES), namespace));
        };
        if !found.is_deleting() {
            return Ok(());
        }
        let why = format!("unable to create new content in namespace {namespace} because it is being terminated");
        let cause = StatusCause {
            reason: "NamespaceTerminating".into(),
            message: format!("namespace {namespace} is being terminated"),
            field: "metadata.namespace".into(),
        };
        let resource = kind.resource();
        let details = StatusDetails { causes: vec![cause], ..details(&resource.group, &resource.resource, name) };
        Err(Failure::forbidden(&resource, name, &why).with(details))
    }
}

/// Whether the definition of a custom resource is still that which made the kind, and is not going.
fn is_defined(now: &Present, kind: &Kind) -> bool {
    kind.strategy.definition().is_none_or(|uid| {
        let definition = now.get(crd::DEFINITIONS, &crd::name(kind));
        definition.is_some_and(|definition| definition.uid() == uid && !definition.is_deleting())
    })
}

fn namespace_is_open(now: &Present, namespace: &str) -> bool {
    now.get(NAMESPACES, namespace).is_some_and(|found| !found.is_deleting())
}

/// Wipes what a client may not set. A deletion that a PUT or an apply claims to be under way stays.
fn wipe(object: &mut Json, how: How) {
    let metadata = metadata_mut(object);
    for field in ["uid", "creationTimestamp", "selfLink", "resourceVersion"] {
        metadata.unset(field);
    }
    if how == How::Post {
        metadata.unset("deletionTimestamp");
        metadata.unset("deletionGracePeriodSeconds");
    }
}

/// No name could be generated.
fn all_taken(resource: &GroupResource, base: &str) -> Failure {
    let mut failure = Failure::already_exists(resource, base);
    failure.status.message = format!("no unique name could be found for {base:?} in {CREATE_TRIES} tries");
    if let Some(details) = &mut failure.status.details {
        details.retry_after_seconds = 1;
    }
    failure
}

fn taken(resource: &GroupResource, name: &str, found: Option<&Stored>) -> Failure {
    let mut failure = Failure::already_exists(resource, name);
    if found.is_some_and(Stored::is_deleting) {
        failure.status.message = format!("object is being deleted: {}", failure.status.message);
    }
    failure
}
