//! [`RequestTarget`], the object or collection that a request addresses.

use std::sync::Arc;

use pintle_apimachinery::failure::{Failure, Outcome};
use pintle_apimachinery::object::{key, metadata, metadata_mut};
use pintle_apimachinery::request::Subresource;
use pintle_apimachinery::request::options::DeleteOptions;
use pintle_json::Json;
use pintle_meta::GroupResource;
use pintle_store::ResourceKey;

use super::Kind;

/// The object or collection that a request addresses: a kind, an object name and a subresource. The object name is
/// empty for a collection.
#[derive(Clone, Debug)]
pub struct RequestTarget {
    pub kind: Arc<Kind>,
    /// The namespace, or an empty string for cluster-scoped objects and for requests across all namespaces.
    pub namespace: String,
    /// The name of the object, or an empty string for a collection.
    pub name: String,
    pub subresource: Subresource,
}

impl RequestTarget {
    pub fn new(kind: Arc<Kind>, namespace: &str, name: &str) -> Self {
        Self { kind, namespace: namespace.into(), name: name.into(), subresource: Subresource::None }
    }

    /// Returns an error if the name in the body differs from the name in the URL.
    pub fn check_name(&self, name: &str) -> Outcome<()> {
        let url = &self.name;
        match name {
            "" => Err(Failure::bad_request(format!(
                "the name of the object ({url} based on URL) was undeterminable: name must be provided"
            ))),
            name if name == url => Ok(()),
            name => Err(Failure::bad_request(format!(
                "the name of the object ({name}) does not match the name on the URL ({url})"
            ))),
        }
    }

    /// Returns an error if the namespace in the body differs from the namespace in the URL.
    pub fn check_namespace(&self, namespace: &str) -> Outcome<()> {
        if namespace.is_empty() || namespace == self.namespace {
            Ok(())
        } else {
            Err(Failure::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            ))
        }
    }

    /// Sets a missing namespace to the namespace in the URL. Returns an error if the object has another namespace.
    /// Removes the namespace from an object of a cluster-scoped kind.
    pub fn settle_namespace(&self, object: &mut Json) -> Outcome<()> {
        if !self.kind.is_namespaced() {
            metadata_mut(object).unset("namespace");
            return Ok(());
        }
        self.check_namespace(metadata::namespace(object))?;
        metadata_mut(object).set("namespace", self.namespace.as_str());
        Ok(())
    }

    /// Returns an error if the object does not satisfy the preconditions in the delete options.
    pub fn check_preconditions(&self, object: &Json, options: &DeleteOptions) -> Outcome<()> {
        let is_namespace = self.kind.group.is_empty() && self.kind.kind == "Namespace";
        let check = |what: &str, wanted: &Option<String>, field: &str, cause: &str| {
            let found = object["metadata"][field].text("");
            let Some(wanted) = wanted.as_ref().filter(|wanted| *wanted != found) else { return Ok(()) };
            let called = self.kind.strategy.name_in_conflicts(&self.kind);
            let why = if is_namespace {
                format!("Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {found}")
            } else {
                format!(
                    "the {what} in the precondition ({wanted}) does not match the {what} in record ({found}). \
                     The object might have been {cause}"
                )
            };
            Err(Failure::conflict(&GroupResource::new(&self.kind.stored_as.group, called), &self.name, &why))
        };
        check("UID", &options.uid, "uid", "deleted and then recreated")?;
        check("ResourceVersion", &options.resource_version, "resourceVersion", "modified")
    }

    /// Returns the conflict for an update whose uid differs from the uid of the stored object. In a dry run,
    /// kube-apiserver compares the uids before it adds the prefix of the etcd keys.
    pub fn uid_conflict(&self, wanted: &str, found: &str, dry_run: bool) -> Failure {
        let prefix = if dry_run { "" } else { "/registry" };
        let why = format!(
            "StorageError: invalid object, Code: 4, Key: {prefix}/{}/{}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in \
             precondition: {wanted}, UID in object meta: {found}",
            self.etcd_resource(),
            self.key()
        );
        Failure::conflict(&self.kind.resource(), &self.name, &why)
    }

    /// Returns the segment of an etcd key that identifies the resource.
    fn etcd_resource(&self) -> String {
        let (group, plural) = (self.kind.group.as_str(), self.kind.plural.as_str());
        match (group, plural) {
            ("", "nodes") => "minions".into(),
            ("", "replicationcontrollers") => "controllers".into(),
            ("", "services") => "services/specs".into(),
            ("", "endpoints") => "services/endpoints".into(),
            ("networking.k8s.io", "ingresses") => "ingress".into(),
            ("apiextensions.k8s.io" | "apiregistration.k8s.io", _) => format!("{group}/{plural}"),
            _ if self.kind.needs_types() => format!("{group}/{plural}"),
            _ => plural.into(),
        }
    }

    pub fn resource_key(&self) -> ResourceKey {
        self.kind.resource_key().clone()
    }

    pub fn key(&self) -> String {
        key(&self.namespace, &self.name)
    }
}
