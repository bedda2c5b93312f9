//! What the server knows of each kind: its names, its place in the store, its rules.
//!
//! A [`Kind`] is one resource in one version. The [`Kinds`] holds them all; custom resource definitions add theirs at run time.
//! What sets one kind apart from another beyond names and flags is its [`Strategy`].

use std::sync::{Arc, OnceLock};

use pintle_json::Json;
pub(crate) use pintle_meta::GroupResource;
use pintle_meta::{GroupVersion, GroupVersionKind, Scope};
use pintle_schema::Schema;

use crate::failure::Failure;
use crate::request::{Subresource, Verb};
use crate::store::Stored;
use crate::validate::FieldErrors;

mod admission_registration;
mod amounts_of_resources;
mod answers;
pub(crate) mod api_service;
mod apps;
mod authentication;
mod authorization;
mod batch;
mod builtin;
mod certificate_signing_request;
mod check;
mod cluster;
mod cluster_of_store;
mod core;
mod default_class;
mod devices;
mod field_selectors;
mod flow_control;
#[cfg(test)]
mod found_by_comparison;
mod horizontal_pod_autoscaler;
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
pub(crate) mod posting;
mod priority_class;
mod rbac;
mod request_target;
pub(crate) mod reset;
mod runtime_class;
mod scale;
mod scale_body;
mod shares;
mod storage;
mod strategy;
pub(crate) mod table;
#[cfg(test)]
mod tests;
mod token_grant;
#[cfg(test)]
mod validation_rows;
mod warnings;
mod webhook_service;
pub(crate) mod without_effect;

pub(crate) use self::core::{NAMESPACES, unknown_namespace};
pub(crate) use answers::{Form, FurtherRight, Origin, PlainFinalizers, Pods, Routing, Stream, StreamAnswer};
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
pub(crate) use token_grant::{Bound, Named, TokenGrant};
pub(crate) use without_effect::WITHOUT_EFFECT;

/// One resource in one version: all that the generic handlers need to serve it.
#[derive(Clone)]
pub(crate) struct Kind {
    /// The group; empty for the core group.
    pub(crate) group: String,
    /// The version.
    pub(crate) version: String,
    /// The kind, such as `Pod`.
    pub(crate) kind: String,
    /// The kind of its lists, such as `PodList`.
    pub(crate) list_kind: String,
    /// The path segment, such as `pods`.
    pub(crate) plural: String,
    /// What kubectl calls one of them.
    pub(crate) singular: String,
    /// Other names that kubectl takes.
    pub(crate) short_names: Vec<String>,
    /// Groups of kinds that kubectl takes, such as `all`.
    pub(crate) categories: Vec<String>,
    /// Whether the objects live in namespaces.
    pub(crate) scope: Scope,
    /// What can be done, in the order that discovery shows.
    pub(crate) verbs: Vec<Verb>,
    /// Where the objects are stored. Kinds that are views of one set of objects share it.
    pub(crate) store: GroupResource,
    /// The version that is stored, for the hash in discovery; `None` where nothing is.
    pub(crate) stored_version: Option<GroupVersion>,
    /// Further paths below an object.
    pub(crate) subresources: Vec<ServedSubresource>,
    /// How the generic handlers treat it.
    pub(crate) conduct: Conduct,
    /// Its own rules.
    pub(crate) strategy: Arc<dyn Strategy>,
    /// The columns of its tables, read when first needed.
    pub(crate) columns: OnceLock<Option<Vec<table::Column>>>,
    /// The types of its fields, read when first needed.
    pub(crate) types: OnceLock<Option<Arc<Schema>>>,
}

/// A path below an object, such as `status`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServedSubresource {
    /// The path below the object.
    pub(crate) subresource: Subresource,
    /// What can be done with it.
    pub(crate) verbs: Vec<Verb>,
    /// What it is read and written as, where that is not the kind of the object itself.
    pub(crate) kind: Option<GroupVersionKind>,
}

/// How the generic handlers treat a kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Conduct {
    /// `metadata.generation` is kept: 1 at first, one more with each change of the desired state.
    pub(crate) generation: bool,
    /// PUT of an absent object creates it.
    pub(crate) creates_on_update: bool,
    /// PUT needs a resourceVersion.
    pub(crate) needs_version: bool,
    /// DELETE answers with the object instead of a Status.
    pub(crate) answers_deleted: bool,
    /// DELETE waits for a grace period.
    pub(crate) graceful: bool,
    /// DELETE without a policy leaves the dependents alone.
    pub(crate) orphans: bool,
    /// Nothing is stored: POST computes an answer.
    pub(crate) transient: bool,
    /// A custom resource whose definition is being deleted: no more objects are created.
    pub(crate) terminating: bool,
}

impl Kind {
    /// A kind that only bodies and answers are of, such as Scale: nothing of it is stored, and it has no rules of its own.
    pub(crate) fn of_bodies(group: &str, version: &str, kind: &str) -> Self {
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
            columns: OnceLock::new(),
            types: OnceLock::new(),
        }
    }

    /// The same in a version that is gone but for such bodies, with the same fields.
    pub(crate) fn also_as(self, version: &str) -> Self {
        Self { types: OnceLock::from(self.schema()), version: version.into(), ..self }
    }

    /// Where it comes from.
    pub(crate) fn origin(&self) -> Origin {
        self.strategy.origin()
    }

    /// Group and version.
    pub(crate) fn group_version(&self) -> GroupVersion {
        GroupVersion::new(&self.group, &self.version)
    }

    /// What the objects carry as `apiVersion`.
    pub(crate) fn api_version(&self) -> String {
        self.group_version().to_string()
    }

    /// The kind, with its group and version.
    pub(crate) fn gvk(&self) -> GroupVersionKind {
        self.group_version().with_kind(&self.kind)
    }

    /// Group and plural, as messages name the resource: `deployments.apps`.
    pub(crate) fn resource(&self) -> GroupResource {
        GroupResource::new(&self.group, &self.plural)
    }

    /// Whether the objects live in namespaces.
    pub(crate) fn namespaced(&self) -> bool {
        self.scope == Scope::Namespaced
    }

    /// 422 for an object of this kind.
    pub(crate) fn invalid(&self, name: &str, errors: FieldErrors) -> Failure {
        // Events of both groups are told as those of the core group.
        Failure::invalid_named(&self.store.group, &self.kind, name, errors)
    }

    /// The verbs that discovery shows: fewer while the definition of a custom resource is being deleted.
    pub(crate) fn shown_verbs(&self) -> Vec<Verb> {
        let goes = |verb: &Verb| matches!(verb, Verb::Create | Verb::Patch | Verb::Update);
        self.verbs.iter().copied().filter(|verb| !self.conduct.terminating || !goes(verb)).collect()
    }

    /// Whether the verb is served.
    pub(crate) fn allows(&self, verb: Verb) -> bool {
        self.verbs.contains(&verb)
    }

    /// The subresource by which that part is served.
    pub(crate) fn subresource(&self, subresource: Subresource) -> Option<&ServedSubresource> {
        self.subresources.iter().find(|served| served.subresource == subresource)
    }

    /// Whether `/status` is a path of its own, so that writes of the object leave the status alone.
    pub(crate) fn splits_status(&self) -> bool {
        self.subresource(Subresource::Status).is_some()
    }

    /// The columns of its tables; `None` for the name and the time of creation alone.
    pub(crate) fn columns(&self) -> Option<&[table::Column]> {
        self.columns.get_or_init(|| self.strategy.columns()).as_deref()
    }

    /// The paths that a write of that part cannot change.
    pub(crate) fn reset_fields(&self, subresource: Subresource) -> reset::Reset {
        self.strategy.reset_fields(subresource).unwrap_or_else(|| reset::usual(subresource, self.splits_status()))
    }

    /// An object in stored form as this version shows it.
    pub(crate) fn shown(&self, object: &Arc<Json>) -> Arc<Json> {
        self.strategy.shown(object, object.text("/apiVersion"))
    }

    /// The stored object as this version shows it, if that is not just as it is stored.
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

    /// Whether that is known.
    fn is_shown_as_stored(&self, stored: &Stored) -> bool {
        match self.strategy.form() {
            Form::Stored => true,
            Form::Checked(form) => stored.fits(form),
            Form::Converted => false,
        }
    }

    /// What it takes to find out how this version shows the stored object, as bytes of a body that takes as long: nothing, where it is known
    /// to be shown as it is stored.
    pub(crate) fn showing_weight(&self, stored: &Stored) -> usize {
        if self.is_shown_as_stored(stored) { 0 } else { stored.weight().max(self.strategy.schema_weight()) }
    }

    /// The stored object as this version shows it.
    pub(crate) fn shown_stored(&self, stored: &Stored) -> Json {
        self.converted(stored).unwrap_or_else(|| stored.decode())
    }
}

impl std::fmt::Debug for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kind").field("kind", &self.gvk()).field("plural", &self.plural).finish_non_exhaustive()
    }
}
