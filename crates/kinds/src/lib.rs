//! The registry of the kinds that an API server serves, and the trait for the rules of one kind.
//!
//! This crate is a part of `pintle-apiserver` and has **no stability promise**. Use `pintle-apiserver` instead.
//!
//! - A [`Kind`] is one resource in one version. Its fields are the names and flags of the kind.
//! - A [`Strategy`] contains all other rules of a kind: defaults, validation, table columns, subresources.
//! - [`Kinds`] is the registry of all kinds. Custom resource definitions add kinds to the registry at run time.
//! - [`decode`] turns a request body into an object of a kind. [`size`] and [`nesting`] limit objects, and
//!   [`Writer`](writer::Writer) records who wrote which fields.
//! - [`Check`](check::Check) applies validation rules to an object and collects the field errors.
//!
//! The crate contains no built-in kinds. The crate `pintle-builtin` implements the built-in kinds. This crate reads no store. A strategy
//! reads other objects through [`Cluster`](pintle_apimachinery::cluster::Cluster). Start with `strategy.rs`.
//!
//! ```
//! use std::sync::Arc;
//!
//! use pintle_kinds::{Kind, Kinds, Plain};
//!
//! let widget = Kind { plural: "widgets".into(), ..Kind::body_only("example.com", "v1", "Widget", Arc::new(Plain)) };
//! let mut kinds = Kinds::default();
//! kinds.replace_custom(&widget.resource(), vec![widget.clone()]);
//! assert!(kinds.resource("example.com", "v1", "widgets").is_some());
//! ```

#![allow(missing_docs, reason = "internal crate: the crate page is the contract")]

pub mod check;
pub mod decode;
mod field_selectors;
mod known;
pub mod label_selector;
mod layout;
pub mod nesting;
pub mod object_meta;
pub mod post_handler;
mod request_target;
pub mod reset;
mod scale;
mod scale_body;
pub mod size;
mod strategy;
mod strategy_types;
pub mod table;
mod token_grant;
pub mod webhook_service;
pub mod without_effect;
pub mod writer;

use std::sync::{Arc, OnceLock};

pub use field_selectors::{indexed_field, selects_fields, unknown_field};
pub use known::{Group, Kinds, VersionKinds, compare_versions};
pub use layout::Layout;
use object_meta::MetadataChecks;
use pintle_apimachinery::failure::Failure;
use pintle_apimachinery::request::{Subresource, Verb};
use pintle_apimachinery::validate::{FieldErrors, NameRule};
use pintle_json::Json;
use pintle_meta::{GroupResource, GroupVersion, GroupVersionKind, Scope};
use pintle_schema::Schema;
use pintle_store::{Draft, MemberOrder, ResourceKey, Stored};
pub use request_target::RequestTarget;
pub use scale::Scale;
pub use scale_body::ScaleBody;
pub use strategy::{Plain, Strategy};
pub use strategy_types::{ExtraPermission, Form, Origin, PlainFinalizers, Pods, Routing, Stream, StreamAnswer};
pub use token_grant::{Bound, Named, TokenGrant};

/// The group of the RBAC kinds.
pub const RBAC_GROUP: &str = "rbac.authorization.k8s.io";

/// A resource in one version. The type [`Kind`] contains all data that the generic handlers need to serve the resource.
#[derive(Clone)]
pub struct Kind {
    /// The API group. Empty for the core group.
    pub group: String,
    pub version: String,
    /// The name of the kind, such as `Pod`.
    pub kind: String,
    /// The name of the list kind, such as `PodList`.
    pub list_kind: String,
    /// The plural name, such as `pods`. URL paths also contain the plural name.
    pub plural: String,
    /// The singular name that kubectl accepts, such as `pod`.
    pub singular: String,
    /// Abbreviations that kubectl accepts, such as `po`.
    pub short_names: Vec<String>,
    /// The categories that kubectl accepts, such as `all`.
    pub categories: Vec<String>,
    pub scope: Scope,
    /// The verbs that the kind supports, in the order of the discovery document.
    pub verbs: Vec<Verb>,
    /// The name under which the store keeps the objects of this kind. If two kinds serve the same objects in different forms, they have the
    /// same store name.
    pub store: GroupResource,
    /// The version in which objects are stored. The hash in discovery documents is computed from this version. The version is `None` if the
    /// objects are not stored.
    pub stored_version: Option<GroupVersion>,
    pub subresources: Vec<ServedSubresource>,
    pub conduct: Conduct,
    pub strategy: Arc<dyn Strategy>,
    /// The key of `store`. Computed on first use.
    pub resource_key: OnceLock<ResourceKey>,
    /// The columns of the kind's tables. Computed on first use.
    pub columns: OnceLock<Option<Vec<table::Column>>>,
    /// The schema of the objects. Loaded on first use.
    pub types: OnceLock<Option<Arc<Schema>>>,
}

/// A served subresource, such as `status`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedSubresource {
    pub subresource: Subresource,
    pub verbs: Vec<Verb>,
    /// The kind that request and response bodies have, if it differs from the kind of the object.
    pub kind: Option<GroupVersionKind>,
}

/// Flags that determine how the generic handlers treat a kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Conduct {
    /// The server maintains `metadata.generation`. The generation starts at 1, and each change of the desired state increases it by 1.
    pub generation: bool,
    /// If the object of a PUT request does not exist, the server creates it.
    pub creates_on_update: bool,
    /// A PUT request must contain a resourceVersion.
    pub needs_version: bool,
    /// The response to a DELETE is the deleted object instead of a Status.
    pub returns_deleted: bool,
    /// The options of a DELETE request can contain a grace period.
    pub graceful: bool,
    /// A DELETE request without a propagation policy orphans the dependents.
    pub orphans: bool,
    /// The server computes the response to a POST and stores no object.
    pub transient: bool,
    /// The kind is a custom resource whose definition is being deleted. Creates are rejected.
    pub terminating: bool,
    /// The validation rule for `metadata.name`.
    pub name_rule: NameRule,
    /// The metadata checks that this kind repeats when it validates an update.
    pub metadata_checks: MetadataChecks,
    /// A create request validates the metadata last, and only if there are no other errors.
    pub checks_metadata_last: bool,
    /// A write of the status keeps all stored metadata except the managed fields.
    pub status_keeps_metadata: bool,
    /// A create request can set the status even if the kind has a subresource `/status`.
    pub keeps_sent_status: bool,
    /// The objects of this kind are only reports, such as events. A plan does not list changes of reports.
    pub is_report: bool,
    /// The store keeps decoded objects of this kind in a cache. The cache is useful for kinds whose objects are often read while objects of
    /// other kinds are processed.
    pub is_read_often: bool,
    /// The delete option `orphanDependents=false` starts a foreground deletion.
    pub waits_for_dependents: bool,
    /// How objects of this kind are related to pods.
    pub pods: Pods,
}

impl Kind {
    /// Creates a kind that occurs only in request and response bodies, such as Scale. Objects of this kind are not stored. The strategy
    /// determines the columns of the tables for this kind.
    pub fn body_only(group: &str, version: &str, kind: &str, strategy: Arc<dyn Strategy>) -> Self {
        Self {
            group: group.into(),
            version: version.into(),
            kind: kind.into(),
            list_kind: String::new(),
            plural: String::new(),
            singular: String::new(),
            short_names: Vec::new(),
            categories: Vec::new(),
            scope: Scope::Namespaced,
            verbs: Vec::new(),
            store: GroupResource::default(),
            stored_version: None,
            subresources: Vec::new(),
            conduct: Conduct::default(),
            strategy,
            resource_key: OnceLock::new(),
            columns: OnceLock::new(),
            types: OnceLock::new(),
        }
    }

    /// Returns the same kind in another version that has the same schema. This other version exists only in request and response bodies.
    pub fn with_version(self, version: &str) -> Self {
        Self { types: OnceLock::from(self.schema()), version: version.into(), ..self }
    }

    pub fn origin(&self) -> Origin {
        self.strategy.origin()
    }

    pub fn group_version(&self) -> GroupVersion {
        GroupVersion::new(&self.group, &self.version)
    }

    /// Returns the `apiVersion` of the kind's objects.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { [&*self.group, "/", &self.version].concat() }
    }

    /// Returns the key under which the store keeps the objects of this kind.
    pub fn resource_key(&self) -> &ResourceKey {
        self.resource_key.get_or_init(|| self.store.to_string().into())
    }

    pub fn gvk(&self) -> GroupVersionKind {
        self.group_version().with_kind(&self.kind)
    }

    /// Returns the group and the plural name. Messages contain this name in the form `deployments.apps`.
    pub fn resource(&self) -> GroupResource {
        GroupResource::new(&self.group, &self.plural)
    }

    pub fn namespaced(&self) -> bool {
        self.scope == Scope::Namespaced
    }

    /// Returns a 422 failure for an object of this kind.
    pub fn invalid(&self, name: &str, errors: FieldErrors) -> Failure {
        // As in kube-apiserver, errors about events name the core group for both API groups.
        Failure::invalid_named(&self.store.group, &self.kind, name, errors)
    }

    /// Returns the verbs of the kind for discovery documents. The verbs create, patch and update are omitted while the custom resource
    /// definition is being deleted.
    pub fn shown_verbs(&self) -> Vec<Verb> {
        let goes = |verb: &Verb| matches!(verb, Verb::Create | Verb::Patch | Verb::Update);
        self.verbs.iter().copied().filter(|verb| !self.conduct.terminating || !goes(verb)).collect()
    }

    pub fn allows(&self, verb: Verb) -> bool {
        self.verbs.contains(&verb)
    }

    pub fn subresource(&self, subresource: Subresource) -> Option<&ServedSubresource> {
        self.subresources.iter().find(|served| served.subresource == subresource)
    }

    /// Returns whether `/status` is served. If `/status` is served, writes of the object itself ignore the status.
    pub fn splits_status(&self) -> bool {
        self.subresource(Subresource::Status).is_some()
    }

    /// Returns the columns of this kind's tables. If the result is `None`, tables have only the columns for name and age.
    pub fn columns(&self) -> Option<&[table::Column]> {
        self.columns.get_or_init(|| self.strategy.columns()).as_deref()
    }

    /// Returns the paths of the fields that a write to the subresource cannot change.
    pub fn reset_fields(&self, subresource: Subresource) -> reset::Reset {
        self.strategy.reset_fields(subresource).unwrap_or_else(|| match subresource {
            Subresource::Status if self.conduct.status_keeps_metadata => reset::ALL_BUT_STATUS,
            _ => reset::usual(subresource, self.splits_status()),
        })
    }

    /// Converts an object from its stored form to this version.
    pub fn shown(&self, object: &Arc<Json>) -> Arc<Json> {
        self.strategy.shown(object, object.text("/apiVersion"))
    }

    /// Converts a stored object to this version. Returns `None` if the object is stored in the form of this version.
    pub fn converted(&self, stored: &Stored) -> Option<Json> {
        if self.is_shown_as_stored(stored) {
            return None;
        }
        let object = Arc::new(stored.decode());
        let shown = self.strategy.shown(&object, stored.version());
        if let Form::Checked(form) = self.strategy.form()
            && Arc::ptr_eq(&shown, &object)
        {
            stored.note_fit(form);
            return None;
        }
        drop(object);
        Some(Arc::unwrap_or_clone(shown))
    }

    /// Returns whether an earlier check has already found that the object needs no conversion.
    fn is_shown_as_stored(&self, stored: &Stored) -> bool {
        match self.strategy.form() {
            Form::Stored => true,
            Form::Checked(form) => stored.fits(form),
            Form::Converted => false,
        }
    }

    /// Returns the cost of converting the object. The unit of cost is the time to process one byte of a body. The cost is 0 if no
    /// conversion is needed.
    pub fn showing_weight(&self, stored: &Stored) -> usize {
        if self.is_shown_as_stored(stored) { 0 } else { stored.weight().max(self.strategy.schema_weight()) }
    }

    /// Returns the stored object in this version.
    pub fn shown_stored(&self, stored: &Stored) -> Json {
        self.converted(stored).unwrap_or_else(|| stored.decode())
    }
}

impl std::fmt::Debug for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kind").field("kind", &self.gvk()).field("plural", &self.plural).finish_non_exhaustive()
    }
}

/// Returns an object of the API version `v1` in its stored form. The object does not belong to a store. For tests.
pub fn sample(object: &Json) -> Stored {
    let mut object = object.clone();
    object["apiVersion"] = "v1".into();
    Stored::of(Draft::new(&Default::default(), &object, MemberOrder::Declared, Vec::new()))
}
