//! The registry of served kinds, and the trait for a kind's rules.
//!
//! This crate is a part of `pintle-apiserver` and has **no stability promise**. Use `pintle-apiserver` instead.
//!
//! - A [`Kind`] is one resource in one version, with its names and flags.
//! - A [`Strategy`] contains a kind's other rules: defaults, validation, table columns and subresources.
//! - [`Kinds`] is the registry of all kinds. Custom resource definitions add kinds at run time.
//! - [`decode`] decodes a request body into an object. [`size`] and [`nesting`] limit
//!   objects, and [`Writer`](writer::Writer) records which fields a write changes.
//! - [`Check`](check::Check) applies validation rules to an object and collects the field errors.
//!
//! The crate contains no built-in kinds, which `pintle-builtin` implements. A strategy has no access to a store,
//! but reads other objects through [`Cluster`](pintle_apimachinery::cluster::Cluster). Start with `strategy.rs`.
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

/// The API group of the RBAC kinds.
pub const RBAC_GROUP: &str = "rbac.authorization.k8s.io";

/// A resource in one version, with all data that the generic handlers need to serve it.
#[derive(Clone)]
pub struct Kind {
    /// The API group. Empty for the core group.
    pub group: String,
    pub version: String,
    /// The name of the kind, such as `Pod`.
    pub kind: String,
    /// The name of the list kind, such as `PodList`.
    pub list_kind: String,
    /// The plural name in URL paths, such as `pods`.
    pub plural: String,
    /// The singular name for kubectl, such as `pod`.
    pub singular: String,
    /// Abbreviations for kubectl, such as `po`.
    pub short_names: Vec<String>,
    /// Categories for kubectl, such as `all`.
    pub categories: Vec<String>,
    pub scope: Scope,
    /// The supported verbs, in the order of the discovery document.
    pub verbs: Vec<Verb>,
    /// The store name of the objects. Two kinds that serve the same objects in different forms have the same store name.
    pub store: GroupResource,
    /// The version in which objects are stored, or `None` if the objects are not stored. Discovery documents contain a hash of this
    /// version.
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
    /// The kind of request and response bodies, if it differs from the object's kind.
    pub kind: Option<GroupVersionKind>,
}

/// Flags that control how the generic handlers treat a kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Conduct {
    /// The server maintains `metadata.generation`, which starts at 1 and increases by 1 with each change of the desired state.
    pub generation: bool,
    /// A PUT creates an object that does not exist.
    pub creates_on_update: bool,
    /// A PUT must contain a resourceVersion.
    pub needs_version: bool,
    /// A DELETE responds with the deleted object instead of a Status.
    pub returns_deleted: bool,
    /// DELETE options can contain a grace period.
    pub graceful: bool,
    /// A DELETE without a propagation policy orphans the dependents.
    pub orphans: bool,
    /// A POST responds with a computed object, which is not stored.
    pub transient: bool,
    /// The custom resource's definition is being deleted. Creates are rejected.
    pub terminating: bool,
    /// The validation rule for `metadata.name`.
    pub name_rule: NameRule,
    /// The metadata checks that the kind's own update validation repeats.
    pub metadata_checks: MetadataChecks,
    /// Creates validate the metadata last, and only if there are no other errors.
    pub checks_metadata_last: bool,
    /// Status writes keep all stored metadata except the managed fields.
    pub status_keeps_metadata: bool,
    /// Creates can set the status even if there is a subresource `/status`.
    pub keeps_sent_status: bool,
    /// The objects are only reports, such as events. A plan (a dry run against a live cluster) does not list changes of such objects.
    pub is_report: bool,
    /// The store caches decoded objects of this kind, which are often read while objects of other kinds are processed.
    pub is_read_often: bool,
    /// The delete option `orphanDependents=false` starts a foreground deletion.
    pub waits_for_dependents: bool,
    /// How the objects are related to pods.
    pub pods: Pods,
}

impl Kind {
    /// Creates a kind for request and response bodies, such as Scale. Its
    /// objects are not stored. The strategy determines its table columns.
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

    /// Returns the kind in another version with the same schema. This version exists only in request and response bodies.
    pub fn with_version(self, version: &str) -> Self {
        Self { types: OnceLock::from(self.schema()), version: version.into(), ..self }
    }

    pub fn origin(&self) -> Origin {
        self.strategy.origin()
    }

    pub fn group_version(&self) -> GroupVersion {
        GroupVersion::new(&self.group, &self.version)
    }

    /// Returns the objects' `apiVersion`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { [&*self.group, "/", &self.version].concat() }
    }

    /// Returns the store key of the objects.
    pub fn resource_key(&self) -> &ResourceKey {
        self.resource_key.get_or_init(|| self.store.to_string().into())
    }

    pub fn gvk(&self) -> GroupVersionKind {
        self.group_version().with_kind(&self.kind)
    }

    /// Returns the group and plural name, which messages show as `deployments.apps`.
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

    /// Returns the verbs for discovery documents. While a custom resource's
    /// definition is being deleted, create, patch and update are omitted.
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

    /// Returns `true` if `/status` is served. A write of an object with the subresource `/status` ignores the status.
    pub fn splits_status(&self) -> bool {
        self.subresource(Subresource::Status).is_some()
    }

    /// Returns the table columns. With `None`, tables have only the columns for name and age.
    pub fn columns(&self) -> Option<&[table::Column]> {
        self.columns.get_or_init(|| self.strategy.columns()).as_deref()
    }

    /// Returns the paths of fields that a write to the subresource cannot change.
    pub fn reset_fields(&self, subresource: Subresource) -> reset::Reset {
        self.strategy.reset_fields(subresource).unwrap_or_else(|| match subresource {
            Subresource::Status if self.conduct.status_keeps_metadata => reset::ALL_BUT_STATUS,
            _ => reset::usual(subresource, self.splits_status()),
        })
    }

    /// Converts a stored object to this version.
    pub fn shown(&self, object: &Arc<Json>) -> Arc<Json> {
        self.strategy.shown(object, object.text("/apiVersion"))
    }

    /// Converts a stored object to this version. Returns `None` if the object needs no conversion.
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

    /// Returns `true` if the object is known to need no conversion.
    fn is_shown_as_stored(&self, stored: &Stored) -> bool {
        match self.strategy.form() {
            Form::Stored => true,
            Form::Checked(form) => stored.fits(form),
            Form::Converted => false,
        }
    }

    /// Returns the cost of converting the object, or 0 if it needs no conversion. One unit is the time to process one byte of a body.
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

/// Returns a stored `v1` object that belongs to no store, for tests.
pub fn sample(object: &Json) -> Stored {
    let mut object = object.clone();
    object["apiVersion"] = "v1".into();
    Stored::of(Draft::new(&Default::default(), &object, MemberOrder::Declared, Vec::new()))
}
