//! The kinds that the server serves. Each kind has names, rules, and a name under which the store keeps its objects.
//!
//! A [`Kind`] is one resource in one version. [`Kinds`] is the registry of all kinds. Custom resource definitions add kinds to this
//! registry at run time. The names and flags of a kind are fields of its [`Kind`]. All other rules of a kind are in its [`Strategy`].

use std::sync::{Arc, OnceLock};

use pintle_json::Json;
pub(crate) use pintle_meta::GroupResource;
use pintle_meta::{GroupVersion, GroupVersionKind, Scope};
use pintle_schema::Schema;

use crate::failure::Failure;
use crate::request::{Subresource, Verb};
use crate::store::{ResourceKey, Stored};
use crate::validate::FieldErrors;

mod admission_registration;
pub(crate) mod api_service;
mod apps;
mod authentication;
mod authorization;
mod batch;
mod builtin;
mod certificate_signing_request;
mod check;
mod cluster;
mod core;
mod default_class;
mod devices;
#[cfg(test)]
mod error_order;
mod field_selectors;
mod flow_control;
mod horizontal_pod_autoscaler;
mod int_or_percent;
mod known;
mod label_selector;
mod layout;
mod lease;
mod lease_candidate;
mod meta_conditions;
mod network_rules;
mod networking;
pub(crate) mod object_meta;
mod pem;
mod pod_disruption_budget;
pub(crate) mod post_handler;
mod priority_class;
mod rbac;
mod request_target;
pub(crate) mod reset;
mod resource_quantities;
mod runtime_class;
mod scale;
mod scale_body;
mod storage;
mod store_cluster;
mod strategy;
mod strategy_types;
pub(crate) mod table;
#[cfg(test)]
mod tests;
mod token_grant;
#[cfg(test)]
mod validation_rows;
mod warnings;
pub(crate) mod webhook_service;
pub(crate) mod without_effect;

pub(crate) use self::core::{NAMESPACES, unknown_namespace};
pub(crate) use authentication::token_status;
pub(crate) use authorization::{access_status, rules_status};
#[cfg(any(test, fuzzing))]
pub(crate) use certificate_signing_request::fuzz as fuzz_certification_request;
pub(crate) use cluster::{Cluster, Context};
use default_class::default_class;
pub(crate) use field_selectors::{claims, indexed_field, selectable, selects_fields, unknown_field};
pub(crate) use known::{Group, Kinds, VersionKinds, compare_versions};
pub(crate) use layout::Layout;
pub(crate) use object_meta::MetadataChecks;
pub(crate) use rbac::RBAC_GROUP;
pub(crate) use request_target::RequestTarget;
pub(crate) use scale::Scale;
pub(crate) use strategy::{Plain, Strategy};
pub(crate) use strategy_types::{ExtraPermission, Form, Origin, PlainFinalizers, Pods, Routing, Stream, StreamAnswer};
pub(crate) use token_grant::{Bound, Named, TokenGrant};
pub(crate) use without_effect::WITHOUT_EFFECT;

/// A resource in one version. The type [`Kind`] contains all data that the generic handlers need to serve the resource.
#[derive(Clone)]
pub(crate) struct Kind {
    /// The API group. Empty for the core group.
    pub(crate) group: String,
    pub(crate) version: String,
    /// The name of the kind, such as `Pod`.
    pub(crate) kind: String,
    /// The name of the list kind, such as `PodList`.
    pub(crate) list_kind: String,
    /// The plural name, such as `pods`. URL paths also contain the plural name.
    pub(crate) plural: String,
    /// The singular name that kubectl accepts, such as `pod`.
    pub(crate) singular: String,
    /// Abbreviations that kubectl accepts, such as `po`.
    pub(crate) short_names: Vec<String>,
    /// The categories that kubectl accepts, such as `all`.
    pub(crate) categories: Vec<String>,
    pub(crate) scope: Scope,
    /// The verbs that the kind supports, in the order of the discovery document.
    pub(crate) verbs: Vec<Verb>,
    /// The name under which the store keeps the objects of this kind. If two kinds serve the same objects in different forms, they have the
    /// same store name.
    pub(crate) store: GroupResource,
    /// The version in which objects are stored. The hash in discovery documents is computed from this version. The version is `None` if the
    /// objects are not stored.
    pub(crate) stored_version: Option<GroupVersion>,
    pub(crate) subresources: Vec<ServedSubresource>,
    pub(crate) conduct: Conduct,
    pub(crate) strategy: Arc<dyn Strategy>,
    /// The key of `store`. Computed on first use.
    pub(crate) resource_key: OnceLock<ResourceKey>,
    /// The columns of the kind's tables. Computed on first use.
    pub(crate) columns: OnceLock<Option<Vec<table::Column>>>,
    /// The schema of the objects. Loaded on first use.
    pub(crate) types: OnceLock<Option<Arc<Schema>>>,
}

/// A served subresource, such as `status`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServedSubresource {
    pub(crate) subresource: Subresource,
    pub(crate) verbs: Vec<Verb>,
    /// The kind that request and response bodies have, if it differs from the kind of the object.
    pub(crate) kind: Option<GroupVersionKind>,
}

/// Flags that determine how the generic handlers treat a kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Conduct {
    /// The server maintains `metadata.generation`. The generation starts at 1, and each change of the desired state increases it by 1.
    pub(crate) generation: bool,
    /// If the object of a PUT request does not exist, the server creates it.
    pub(crate) creates_on_update: bool,
    /// A PUT request must contain a resourceVersion.
    pub(crate) needs_version: bool,
    /// The response to a DELETE is the deleted object instead of a Status.
    pub(crate) returns_deleted: bool,
    /// The options of a DELETE request can contain a grace period.
    pub(crate) graceful: bool,
    /// A DELETE request without a propagation policy orphans the dependents.
    pub(crate) orphans: bool,
    /// The server computes the response to a POST and stores no object.
    pub(crate) transient: bool,
    /// The kind is a custom resource whose definition is being deleted. Creates are rejected.
    pub(crate) terminating: bool,
}

impl Kind {
    /// Creates a kind that occurs only in request and response bodies, such as Scale. Objects of this kind are not stored, and no rules
    /// apply to them.
    pub(crate) fn body_only(group: &str, version: &str, kind: &str) -> Self {
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
            strategy: builtin::strategy(group, version, kind),
            resource_key: OnceLock::new(),
            columns: OnceLock::new(),
            types: OnceLock::new(),
        }
    }

    /// Returns the same kind in another version that has the same schema. This other version exists only in request and response bodies.
    pub(crate) fn with_version(self, version: &str) -> Self {
        Self { types: OnceLock::from(self.schema()), version: version.into(), ..self }
    }

    pub(crate) fn origin(&self) -> Origin {
        self.strategy.origin()
    }

    pub(crate) fn group_version(&self) -> GroupVersion {
        GroupVersion::new(&self.group, &self.version)
    }

    /// Returns the `apiVersion` of the kind's objects.
    pub(crate) fn api_version(&self) -> String {
        match self.group.is_empty() {
            true => self.version.clone(),
            false => [&*self.group, "/", &self.version].concat(),
        }
    }

    /// Returns the key under which the store keeps the objects of this kind.
    pub(crate) fn resource_key(&self) -> &ResourceKey {
        self.resource_key.get_or_init(|| self.store.to_string().into())
    }

    pub(crate) fn gvk(&self) -> GroupVersionKind {
        self.group_version().with_kind(&self.kind)
    }

    /// Returns the group and the plural name. Messages contain this name in the form `deployments.apps`.
    pub(crate) fn resource(&self) -> GroupResource {
        GroupResource::new(&self.group, &self.plural)
    }

    pub(crate) fn namespaced(&self) -> bool {
        self.scope == Scope::Namespaced
    }

    /// Returns a 422 failure for an object of this kind.
    pub(crate) fn invalid(&self, name: &str, errors: FieldErrors) -> Failure {
        // As in kube-apiserver, errors about events name the core group for both API groups.
        Failure::invalid_named(&self.store.group, &self.kind, name, errors)
    }

    /// Returns the verbs of the kind for discovery documents. The verbs create, patch and update are omitted while the custom resource
    /// definition is being deleted.
    pub(crate) fn shown_verbs(&self) -> Vec<Verb> {
        let goes = |verb: &Verb| matches!(verb, Verb::Create | Verb::Patch | Verb::Update);
        self.verbs.iter().copied().filter(|verb| !self.conduct.terminating || !goes(verb)).collect()
    }

    pub(crate) fn allows(&self, verb: Verb) -> bool {
        self.verbs.contains(&verb)
    }

    pub(crate) fn subresource(&self, subresource: Subresource) -> Option<&ServedSubresource> {
        self.subresources.iter().find(|served| served.subresource == subresource)
    }

    /// Returns whether `/status` is served. If `/status` is served, writes of the object itself ignore the status.
    pub(crate) fn splits_status(&self) -> bool {
        self.subresource(Subresource::Status).is_some()
    }

    /// Returns the columns of this kind's tables. If the result is `None`, tables have only the columns for name and age.
    pub(crate) fn columns(&self) -> Option<&[table::Column]> {
        self.columns.get_or_init(|| self.strategy.columns()).as_deref()
    }

    /// Returns the paths of the fields that a write to the subresource cannot change.
    pub(crate) fn reset_fields(&self, subresource: Subresource) -> reset::Reset {
        self.strategy.reset_fields(subresource).unwrap_or_else(|| reset::usual(subresource, self.splits_status()))
    }

    /// Converts an object from its stored form to this version.
    pub(crate) fn shown(&self, object: &Arc<Json>) -> Arc<Json> {
        self.strategy.shown(object, object.text("/apiVersion"))
    }

    /// Converts a stored object to this version. Returns `None` if the object is stored in the form of this version.
    pub(crate) fn converted(&self, stored: &Stored) -> Option<Json> {
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
    pub(crate) fn showing_weight(&self, stored: &Stored) -> usize {
        if self.is_shown_as_stored(stored) { 0 } else { stored.weight().max(self.strategy.schema_weight()) }
    }

    /// Returns the stored object in this version.
    pub(crate) fn shown_stored(&self, stored: &Stored) -> Json {
        self.converted(stored).unwrap_or_else(|| stored.decode())
    }
}

impl std::fmt::Debug for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kind").field("kind", &self.gvk()).field("plural", &self.plural).finish_non_exhaustive()
    }
}
