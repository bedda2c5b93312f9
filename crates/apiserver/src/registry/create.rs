//! Creates one object, for a POST request or for an update of an object that does not exist.

use std::sync::Arc;

use pintle_apimachinery::failure::{Failure, Outcome, details};
use pintle_apimachinery::object::{metadata, metadata_mut};
use pintle_apimachinery::request::options::How;
use pintle_builtin::NAMESPACES;
use pintle_json::Json;
use pintle_kinds::writer::Writer;
use pintle_kinds::{Kind, RequestTarget};
use pintle_meta::{GroupResource, StatusCause, StatusDetails};
use pintle_storage::{Expect, Present, Refused, Stored};

use super::Registry;
use super::commit::Attempt;
use super::object_write::Write;
use super::pipeline::Complete;
use super::served::{Served, Written};

const CREATE_TRIES: usize = 8;
/// The maximum number of retries of a create request whose inputs were changed by other writes.
const CHECK_TRIES: usize = 64;

/// The result of the phases of a create that do not depend on the object's name.
#[derive(Clone)]
struct Received {
    object: Json,
    version: String,
    has_labels: bool,
}

impl Registry {
    /// Creates an object in `target`. Uses the name in the object, and ignores the name in `target`. Generates another
    /// name if a generated name is already in use.
    pub(crate) fn create(&self, target: &RequestTarget, object: Json, by: &Writer<'_>) -> Outcome<Written> {
        let received = self.receive_new(How::Post, target, object, by)?;
        let base = received.object.text("/metadata/generateName").to_owned();
        let generate = metadata::name(&received.object).is_empty() && !base.is_empty();
        let (mut names, mut invalidated) = (0, 0);
        loop {
            let mut new = received.object.clone();
            if generate {
                metadata_mut(&mut new).set("name", by.requester().generated_name(names, || self.generated_name(&base)));
            } else if target.kind.flags.gets_random_name && metadata::name(&new).is_empty() {
                metadata_mut(&mut new).set("name", by.requester().generated_name(names, || self.uuid()));
            }
            let named = RequestTarget { name: metadata::name(&new).into(), ..target.clone() };
            match self.try_create(How::Post, target, Received { object: new, ..received.clone() }, by)? {
                Ok(written) => return Ok(written),
                Err(Refused::Mismatch(found)) => {
                    names += 1;
                    if !generate || names == CREATE_TRIES {
                        return Err(name_taken(&target.kind.resource(), &named.name, &base, found.as_deref()));
                    }
                }
                Err(Refused::Taken | Refused::Moved) if invalidated == CHECK_TRIES => {
                    return Err(Failure::modified(&target.kind.resource(), &named.name));
                }
                // Retry, because the namespace, the definition, a quota or a unique value has changed since it was checked.
                Err(Refused::Taken | Refused::Moved) => {
                    invalidated += 1;
                    self.check_is_open(&named)?;
                }
            }
        }
    }

    /// Tries once to create an object, for an update or a server-side apply of an object that does not exist. Returns
    /// [`Refused`] if another request has created the object in the meantime. As in kube-apiserver, the caller must
    /// then update the existing object.
    pub(super) fn create_absent(
        &self,
        how: How,
        target: &RequestTarget,
        object: Json,
        by: &Writer<'_>,
    ) -> Attempt<Written> {
        let received = self.receive_new(how, target, object, by)?;
        self.try_create(how, target, received, by)
    }

    fn receive_new(&self, how: How, target: &RequestTarget, mut object: Json, by: &Writer<'_>) -> Outcome<Received> {
        target.settle_namespace(&mut object)?;
        let base = object.text("/metadata/generateName").to_owned();
        let named = Some(metadata::name(&object)).filter(|name| !name.is_empty()).unwrap_or(&base);
        self.check_is_open(&RequestTarget { name: named.into(), ..target.clone() })?;
        let version = object.text("/metadata/resourceVersion").to_owned();
        wipe(&mut object, how);
        let mut write = Write { target, old: None, new: object, by, how, has_labels: false };
        self.receive(&mut write)?;
        Ok(Received { object: write.new, version, has_labels: write.has_labels })
    }

    fn try_create(&self, how: How, target: &RequestTarget, received: Received, by: &Writer<'_>) -> Attempt<Written> {
        let kind = &target.kind;
        let Received { object: new, version, has_labels } = received;
        let Complete { object: new, charges } = self.complete(Write { target, old: None, new, by, how, has_labels })?;
        let target = &RequestTarget { name: metadata::name(&new).into(), ..target.clone() };
        if how == How::Post && !by.options.dry_run && version.parse().is_ok_and(|version: u64| version > 0) {
            let why = "resourceVersion should not be set on objects to be created";
            return Err(Failure::plain(500, why));
        }
        let stored = kind.strategy.to_stored(new);
        by.requester().check_conversions()?;
        if let Some(found) = self.db.get(&target.resource_key(), &target.key()) {
            return Ok(Err(Refused::Mismatch(Some(found))));
        }
        if by.options.dry_run {
            let mut shown = Json::clone(&kind.to_version(&Arc::new(stored)));
            by.requester().check_conversions()?;
            if !version.is_empty() && version != "0" {
                metadata_mut(&mut shown).set("resourceVersion", version);
            }
            return Ok(Ok(Written { object: Served::value(kind, shown), created: true }));
        }
        self.warn_of_no_effect(target, &stored, by);
        let is_open = |now: &Present| {
            is_defined(now, kind) && (!kind.is_namespaced() || namespace_is_open(now, &target.namespace))
        };
        by.requester().check_time()?;
        let committed = self.commit(target, Expect::Absent, how, stored, charges, is_open)?;
        Ok(committed.map(|change| Written { object: Served::of_result(kind, &change.new), created: true }))
    }

    /// Returns an error if the namespace, or the definition of a custom resource, does not exist or is being deleted.
    fn check_is_open(&self, target: &RequestTarget) -> Outcome<()> {
        let kind = &target.kind;
        if !is_defined(&self.db.now(), kind) {
            let why = "create not allowed while custom resource definition is terminating";
            let definition = self.db.get(pintle_apiextensions::DEFINITIONS, &pintle_apiextensions::name(kind));
            return Err(if definition.is_some_and(|definition| definition.is_deleting()) {
                Failure::forbidden(&kind.resource(), &target.name, why)
            } else {
                Failure::page_not_found()
            });
        }
        if kind.is_namespaced() { self.check_namespace_is_open(kind, &target.namespace, &target.name) } else { Ok(()) }
    }

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

/// Returns `true` if objects of this kind can be created. The definition of a custom resource must still exist with the
/// same uid and must not be terminating.
fn is_defined(now: &Present, kind: &Kind) -> bool {
    kind.strategy.definition().is_none_or(|uid| {
        let definition = now.get(pintle_apiextensions::DEFINITIONS, &pintle_apiextensions::name(kind));
        definition.is_some_and(|definition| definition.uid() == uid && !definition.is_deleting())
    })
}

fn namespace_is_open(now: &Present, namespace: &str) -> bool {
    now.get(NAMESPACES, namespace).is_some_and(|found| !found.is_deleting())
}

/// Removes the fields that clients cannot set. If a PUT or an apply request creates the object, the deletion fields are
/// kept.
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

/// Returns the AlreadyExists error for an object name that is in use. If the name was generated from `base`, the error
/// advises the client to retry. As in kube-apiserver, the error contains this advice for all objects with a
/// `generateName`.
fn name_taken(resource: &GroupResource, name: &str, base: &str, found: Option<&Stored>) -> Failure {
    let mut failure = Failure::already_exists(resource, name);
    if !base.is_empty() {
        failure.status.message += ", the server was not able to generate a unique name for the object";
        if let Some(details) = &mut failure.status.details {
            details.retry_after_seconds = 1;
        }
    }
    if found.is_some_and(Stored::is_deleting) {
        failure.status.message = format!("object is being deleted: {}", failure.status.message);
    }
    failure
}
