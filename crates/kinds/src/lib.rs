//! The registry of served kinds, and the trait that defines the rules of a kind.
//!
//! This crate is part of `pintle-apiserver` and has **no stability guarantee**. Use `pintle-apiserver` instead.
//!
//! - A [`Kind`] is one resource in one version, with its names and flags.
//! - A [`Strategy`] contains the rules of a kind for defaults, validation, table columns and subresources.
//! - [`Kinds`] is the registry of all kinds. Custom resource definitions add kinds to it at run time.
//! - [`decode`] decodes a request body into an object. [`size`] and [`nesting`] limit
//!   objects, and [`Writer`](writer::Writer) records which fields a write changes.
//! - [`Check`](check::Check) applies validation rules to an object and collects the field errors.
//!
//! The built-in kinds are in the crate `pintle-builtin`. A strategy has no access to a store, and reads other objects
//! through [`Cluster`](pintle_apimachinery::cluster::Cluster). To read the code, start with `strategy.rs`.
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
pub mod defaults;
mod feature_gates;
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

use defaults::DefaultValue;
pub use field_selectors::{indexed_field, selects_fields, unknown_field};
use jiff::Timestamp;
pub use known::{Group, Kinds, VersionKinds, compare_versions};
use object_meta::MetadataChecks;
use pintle_apimachinery::cluster::Context;
use pintle_apimachinery::failure::Failure;
use pintle_apimachinery::request::{Subresource, Verb};
use pintle_apimachinery::validate::{FieldErrors, NameRule};
use pintle_json::Json;
use pintle_meta::{GroupResource, GroupVersion, GroupVersionKind, Scope};
use pintle_schema::Schema;
use pintle_store::{Draft, MemberOrder, ResourceKey, Stored};
pub use request_target::RequestTarget;
pub use scale::{Scale, nested_integer, nested_text};
pub use scale_body::ScaleBody;
pub use strategy::{Plain, Strategy};
pub use strategy_types::{
    ExtraPermission, Form, Layout, Origin, PlainFinalizers, PodRelation, Routing, Stream, StreamAnswer,
};
pub use token_grant::{Bound, ISSUER, Named, TokenGrant};

/// The API group of the RBAC kinds.
pub const RBAC_GROUP: &str = "rbac.authorization.k8s.io";

/// A resource in one version, with all data that the generic handlers need to serve it.
#[derive(Clone)]
pub struct Kind {
    /// The API group of the kind, which is empty for the core group.
    pub group: String,
    pub version: String,
    /// The name of the kind, such as `Pod`.
    pub kind: String,
    /// The name of the list kind, such as `PodList`.
    pub list_kind: String,
    /// The plural name in URL paths, such as `pods`.
    pub plural: String,
    /// The singular name that kubectl accepts, such as `pod`.
    pub singular: String,
    /// Abbreviations that kubectl accepts, such as `po`.
    pub short_names: Vec<String>,
    /// Categories for kubectl, such as `all` for `kubectl get all`.
    pub categories: Vec<String>,
    pub scope: Scope,
    /// The supported verbs, in the order of the discovery document.
    pub verbs: Vec<Verb>,
    /// The name of the resource in the store. Kinds that serve the same objects in different forms have the same store
    /// name.
    pub stored_as: GroupResource,
    /// The storage version of the objects, or `None` if they are not stored. The hash in discovery documents is
    /// computed from this version.
    pub stored_version: Option<GroupVersion>,
    pub subresources: Vec<ServedSubresource>,
    pub flags: KindFlags,
    pub strategy: Arc<dyn Strategy>,
    /// The key of `stored_as`, computed on first use.
    pub resource_key: OnceLock<ResourceKey>,
    /// The field labels of a built-in kind.
    pub field_labels: Option<Vec<&'static str>>,
    /// The default values of a built-in kind. The default value of `status` is the status of a new object.
    pub defaults: &'static [DefaultValue],
    /// The table columns of a built-in kind, or an empty table if kube-apiserver defines no columns for the kind.
    pub table: table::Table,
    /// The columns of the kind's tables, computed on first use.
    pub columns: OnceLock<Option<Vec<table::Column>>>,
    /// The schema of the objects, loaded on first use.
    pub schema: OnceLock<Option<Arc<Schema>>>,
}

/// A served subresource, such as `status`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedSubresource {
    pub subresource: Subresource,
    pub verbs: Vec<Verb>,
    /// The kind of request and response bodies, if it differs from the kind of the object.
    pub kind: Option<GroupVersionKind>,
}

/// Flags that control how the generic handlers treat a kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KindFlags {
    /// The server sets `metadata.generation` to 1 for a new object, and increments it with each change to the desired
    /// state.
    pub maintains_generation: bool,
    /// A PUT creates the object if it does not exist.
    pub creates_on_update: bool,
    /// A PUT must contain a resourceVersion, and a patch must not remove it.
    pub requires_resource_version: bool,
    /// A DELETE responds with the deleted object instead of a Status.
    pub returns_deleted_object: bool,
    /// DELETE options can contain a grace period.
    pub supports_grace_period: bool,
    /// A DELETE without a propagation policy orphans the dependents.
    pub orphans_by_default: bool,
    /// A POST responds with a computed object, which is not stored.
    pub is_transient: bool,
    /// The custom resource definition of the kind is being deleted, so the server rejects create requests.
    pub is_terminating: bool,
    /// The validation rule for `metadata.name`.
    pub name_rule: NameRule,
    /// The metadata checks that the update validation of the kind runs a second time.
    pub metadata_checks: MetadataChecks,
    /// A new object without a name gets a random UUID as its name.
    pub gets_random_name: bool,
    /// The validation of the kind accepts any `metadata.generateName`.
    pub accepts_any_name_prefix: bool,
    /// A finalizer without a domain is valid.
    pub accepts_plain_finalizers: bool,
    /// A create request validates the metadata last, and only if all other fields of the object are valid.
    pub checks_metadata_last: bool,
    /// A write to `/status` keeps all stored metadata except the managed fields.
    pub status_keeps_metadata: bool,
    /// Responses to requests for `/status` cannot be tables.
    pub status_has_no_table: bool,
    /// A create request can set the status, even if there is a subresource `/status`.
    pub allows_status_on_create: bool,
    /// The objects only report information, as events do. Plans and garbage collection skip such objects, deletes
    /// ignore the propagation policy, and lists behave as if the server had no watch cache.
    pub is_report: bool,
    /// The store caches decoded objects of this kind, because the server often reads them while it processes other
    /// objects.
    pub caches_decoded: bool,
    /// For a DELETE, `orphanDependents=false` means the propagation policy `Foreground` instead of `Background`.
    pub foreground_unless_orphaning: bool,
    /// How the objects of the kind relate to pods.
    pub pods: PodRelation,
}

impl Kind {
    /// Creates a kind such as Scale, which has no plural name, verbs or stored objects. By default, objects of such a
    /// kind occur only in request and response bodies.
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
            stored_as: GroupResource::default(),
            stored_version: None,
            subresources: Vec::new(),
            flags: KindFlags::default(),
            strategy,
            field_labels: None,
            defaults: &[],
            table: &[],
            resource_key: OnceLock::new(),
            columns: OnceLock::new(),
            schema: OnceLock::new(),
        }
    }

    /// Returns the same kind with another version, for use only in request and response bodies.
    pub fn with_version(self, version: &str) -> Self {
        Self { schema: OnceLock::from(self.schema()), version: version.into(), ..self }
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
        self.resource_key.get_or_init(|| self.stored_as.to_string().into())
    }

    pub fn gvk(&self) -> GroupVersionKind {
        self.group_version().with_kind(&self.kind)
    }

    /// Returns the group and plural name, which messages show as `deployments.apps`.
    pub fn resource(&self) -> GroupResource {
        GroupResource::new(&self.group, &self.plural)
    }

    pub fn is_namespaced(&self) -> bool {
        self.scope == Scope::Namespaced
    }

    /// Returns the rule for finalizers without a domain.
    pub fn plain_finalizers(&self) -> PlainFinalizers {
        if self.flags.accepts_plain_finalizers { PlainFinalizers::Accepted } else { self.strategy.plain_finalizers() }
    }

    /// Returns a 422 failure for an object of this kind.
    pub fn invalid(&self, name: &str, errors: FieldErrors) -> Failure {
        // As in kube-apiserver, errors about events always name the core group.
        Failure::invalid_named(&self.stored_as.group, &self.kind, name, errors)
    }

    /// Returns the verbs for discovery documents. Omits create, patch and update while the definition of a custom
    /// resource is being deleted.
    pub fn discovery_verbs(&self) -> Vec<Verb> {
        let is_rejected =
            |verb: &Verb| self.flags.is_terminating && matches!(verb, Verb::Create | Verb::Patch | Verb::Update);
        self.verbs.iter().copied().filter(|verb| !is_rejected(verb)).collect()
    }

    pub fn supports(&self, verb: Verb) -> bool {
        self.verbs.contains(&verb)
    }

    pub fn subresource(&self, subresource: Subresource) -> Option<&ServedSubresource> {
        self.subresources.iter().find(|served| served.subresource == subresource)
    }

    /// Returns `true` if the server serves `/status`, so that writes to the object itself ignore the status.
    pub fn splits_status(&self) -> bool {
        self.subresource(Subresource::Status).is_some()
    }

    /// Returns the table columns, or `None` if tables have only the columns for name and age.
    pub fn columns(&self) -> Option<&[table::Column]> {
        self.columns.get_or_init(|| self.strategy.columns().or_else(|| table::columns(self.table))).as_deref()
    }

    /// Returns the supported field labels, in addition to `metadata.name` and `metadata.namespace`. Returns `None` if
    /// kube-apiserver has no table of field labels for the kind, which changes the error text for an unsupported label.
    pub fn field_labels(&self) -> Option<Vec<&str>> {
        self.strategy.field_labels().or_else(|| self.field_labels.clone())
    }

    /// Returns the field paths of `/scale` if the kind has this subresource.
    pub fn scale(&self) -> Option<&Scale> {
        let workload = || self.subresource(Subresource::Scale).map(|_| Scale::workload());
        self.strategy.scale().or_else(workload)
    }

    /// Sets the defaults of missing fields.
    pub fn set_defaults(&self, object: &mut Json) {
        defaults::fill(self.defaults, object);
        self.strategy.defaults(object);
    }

    /// Sets the fields of a new object that only the server may set.
    pub fn prepare_for_create(&self, context: &Context<'_>, object: &mut Json) {
        if let Some((_, status)) = self.defaults.iter().find(|(path, _)| *path == "status") {
            object.set("status", status.clone());
        }
        self.strategy.prepare_for_create(context, object);
    }

    /// Returns the row of an object in a table, with one cell per column.
    pub fn cells(&self, object: &Json, now: Timestamp) -> Vec<Json> {
        self.strategy.cells(self.table, object, now)
    }

    /// Returns the paths of fields that a write to the subresource must not change.
    pub fn reset_fields(&self, subresource: Subresource) -> reset::Reset {
        self.strategy.reset_fields(subresource).unwrap_or_else(|| match subresource {
            Subresource::Status if self.flags.status_keeps_metadata => reset::ALL_BUT_STATUS,
            _ => reset::usual(subresource, self.splits_status()),
        })
    }

    /// Converts a stored object to the version of this kind.
    pub fn to_version(&self, object: &Arc<Json>) -> Arc<Json> {
        self.strategy.to_version(object, object.text("/apiVersion"))
    }

    /// Converts a stored object to the version of this kind, or returns `None` if no conversion is needed.
    pub fn convert_if_needed(&self, stored: &Stored) -> Option<Json> {
        if self.needs_no_conversion(stored) {
            return None;
        }
        let object = Arc::new(stored.decode());
        let converted = self.strategy.to_version(&object, stored.version());
        if let Form::Checked(form) = self.strategy.form()
            && Arc::ptr_eq(&converted, &object)
        {
            stored.mark_as_fitting(form);
            return None;
        }
        drop(object);
        Some(Arc::unwrap_or_clone(converted))
    }

    /// Returns `true` if the object is known to need no conversion. `false` means that a conversion may be necessary.
    fn needs_no_conversion(&self, stored: &Stored) -> bool {
        match self.strategy.form() {
            Form::Stored => true,
            Form::Checked(form) => stored.fits(form),
            Form::Converted => false,
        }
    }

    /// Returns the cost of converting the object, or 0 if it needs no conversion. A cost of 1 corresponds to the time
    /// to process one byte of a request body.
    pub fn conversion_cost(&self, stored: &Stored) -> usize {
        if self.needs_no_conversion(stored) { 0 } else { stored.weight().max(self.strategy.schema_weight()) }
    }

    /// Decodes a stored object and converts it to the version of this kind.
    pub fn decode_in_version(&self, stored: &Stored) -> Json {
        self.convert_if_needed(stored).unwrap_or_else(|| stored.decode())
    }
}

pintle_meta::debug_struct!(Kind |self| { kind = self.gvk(), plural, .. });

/// Returns a stored `v1` object that is not in any store, for tests.
pub fn stored_for_tests(object: &Json) -> Stored {
    let mut object = object.clone();
    object["apiVersion"] = "v1".into();
    Stored::of(Draft::new(&Default::default(), &object, MemberOrder::Declared, Vec::new()))
}
