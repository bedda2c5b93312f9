//! The trait [`Strategy`]: the rules of one kind.

use std::sync::Arc;

use jiff::Timestamp;
use pintle_json::Json;
use pintle_meta::GroupVersionKind;

use super::layout::Layout;
use super::object_meta::MetadataChecks;
use super::post_handler::PostHandler;
use super::reset::Reset;
use super::strategy_types::{ExtraPermission, Form, Origin, PlainFinalizers, Pods, Routing, Stream};
use super::table::Column;
use super::{Cluster, Context, Kind, Kinds};
use crate::failure::Outcome;
use crate::request::Subresource;
use crate::validate::FieldErrors;

/// The rules of one kind. The default methods do nothing.
///
/// The generic handlers add the rules that all kinds share: metadata, status and generation. A write calls [`prune`](Self::prune),
/// [`defaults`](Self::defaults), [`prepare_for_create`](Self::prepare_for_create) or [`prepare_for_update`](Self::prepare_for_update),
/// [`admit`](Self::admit) and then the validation, in this order.
pub(crate) trait Strategy: Send + Sync {
    fn origin(&self) -> Origin {
        Origin::BuiltIn
    }

    /// Returns the uid of the custom resource definition, if the kind is a custom resource.
    fn definition(&self) -> Option<&str> {
        None
    }

    /// How kube-apiserver represents the objects.
    fn layout(&self) -> Layout {
        Layout::Declared
    }

    /// How kube-apiserver routes requests to the kind.
    fn routing(&self) -> Routing {
        Routing::PerMethod
    }

    /// How the server treats finalizers without a domain.
    fn plain_finalizers(&self) -> PlainFinalizers {
        PlainFinalizers::Rejected
    }

    /// Returns whether a write of the status keeps all metadata but the managed fields.
    fn status_keeps_metadata(&self) -> bool {
        false
    }

    /// Removes the fields that the schema does not declare. Returns their paths, sorted.
    fn prune(&self, _object: &mut Json) -> Vec<String> {
        Vec::new()
    }

    /// Returns why the object cannot be decoded, although its metadata can. The server responds with 400 and not with 422.
    fn malformed(&self, _object: &Json) -> Option<String> {
        None
    }

    /// Returns why kube-apiserver cannot convert the decoded object to its internal type.
    fn unconvertible(&self, _object: &Json) -> Option<String> {
        None
    }

    /// Removes null values that the schema does not allow and has no default for.
    fn drop_nulls(&self, _object: &mut Json) {}

    /// Sets the defaults of missing fields.
    fn defaults(&self, _object: &mut Json) {}

    /// Sets the fields of a new object that only the server may set.
    fn prepare_for_create(&self, _context: &Context<'_>, _object: &mut Json) {}

    /// Restores the fields that this request may not change.
    fn prepare_for_update(&self, _context: &Context<'_>, _new: &mut Json, _old: &Json, _part: Subresource) {}

    /// Runs the built-in admission plugins of kube-apiserver for this kind. It may change the object or reject the request. `old` is the
    /// stored object of an update.
    fn admit(
        &self,
        _context: &Context<'_>,
        _object: &mut Json,
        _old: Option<&Json>,
        _part: Subresource,
    ) -> Outcome<()> {
        Ok(())
    }

    /// Returns the validation errors of a new object, except for its metadata.
    fn validate_create(&self, _object: &Json) -> FieldErrors {
        FieldErrors::default()
    }

    /// Returns the validation errors of an updated object, except for its metadata.
    fn validate_update(&self, new: &Json, _old: &Json, _part: Subresource) -> FieldErrors {
        self.validate_create(new)
    }

    /// Returns the warnings for a valid object. `old` is the stored object of an update.
    fn warnings(&self, _object: &Json, _old: Option<&Json>, _part: Subresource) -> Vec<String> {
        Vec::new()
    }

    /// The metadata checks that the update validation of this kind repeats.
    fn metadata_checks(&self) -> MetadataChecks {
        MetadataChecks::Update
    }

    /// Returns whether a create validates the metadata only if everything else is valid.
    fn checks_metadata_last(&self) -> bool {
        false
    }

    /// Returns whether a create keeps the status of the request, although `/status` is a subresource.
    fn keeps_sent_status(&self) -> bool {
        false
    }

    /// Returns why the named object cannot be deleted, if it is one that every cluster needs.
    fn undeletable(&self, _name: &str) -> Option<&'static str> {
        None
    }

    /// Returns the grace period of a deletion in seconds. `requested` is the period in the delete options.
    fn grace(&self, _object: &Json, _requested: Option<i64>) -> i64 {
        0
    }

    /// Marks an object that becomes terminating, in addition to the common metadata: with a phase, a condition or a finalizer. If it
    /// returns true, this deletion does not remove the object yet.
    fn mark_terminating(&self, _object: &mut Json, _now: &str) -> bool {
        false
    }

    /// Returns whether something other than metadata finalizers keeps a terminating object.
    fn is_held(&self, _object: &Json) -> bool {
        false
    }

    /// Returns whether `orphanDependents=false` means foreground deletion.
    fn waits_for_dependents(&self) -> bool {
        false
    }

    /// The name of the resource in a conflict about preconditions.
    fn name_in_conflicts<'a>(&self, kind: &'a Kind) -> &'a str {
        &kind.kind
    }

    /// The warning for a DELETE without a propagation policy.
    fn orphaning_warning(&self) -> Option<&str> {
        None
    }

    /// Adds the fields that Go writes for an empty object and that its schema does not list.
    fn complete_empty(&self, _object: &mut Json) {}

    /// Returns warnings for parts of the object that would have an effect in a real cluster but have none here.
    fn without_effect(&self, _object: &Json, _kinds: &Kinds, _cluster: &dyn Cluster) -> Vec<String> {
        Vec::new()
    }

    /// Returns whether the change bumps the generation. By default, any change outside of metadata and status does.
    fn changes_generation(&self, new: &Json, old: &Json) -> bool {
        crate::object::differ_outside(new, old, &["apiVersion", "kind", "metadata", "status"])
    }

    /// The validation rule for `metadata.name`.
    fn name_rule(&self) -> crate::validate::NameRule {
        crate::validate::NameRule::Subdomain
    }

    /// The field labels that a field selector may name, in addition to `metadata.name` and `metadata.namespace`. `None` if the kind has no
    /// table of labels, which changes the text of the error.
    fn field_labels(&self) -> Option<Vec<&str>> {
        None
    }

    /// The paths that [`field`](Self::field) reads for a label.
    fn field_paths<'a>(&self, label: &'a str) -> Vec<&'a str> {
        vec![label]
    }

    /// Maps a deprecated alias of a field label to its current name.
    fn field_label<'a>(&self, label: &'a str) -> &'a str {
        label
    }

    /// The error for a field label that the kind does not support.
    fn unknown_field_label(&self, _kind: &GroupVersionKind, label: &str) -> String {
        format!("field label not supported: {label}")
    }

    /// Returns the value of a field label.
    fn field(&self, object: &Json, label: &str) -> Option<String> {
        let pointer = format!("/{}", label.replace('.', "/"));
        Some(crate::object::text(object.at(&pointer)))
    }

    /// Returns the values of a stored object that must be unique in the cluster, such as addresses.
    fn claims(&self, _stored: &Json) -> Vec<String> {
        Vec::new()
    }

    /// Returns whether rules read the objects so often that the store caches their decoded trees.
    fn is_read_often(&self) -> bool {
        false
    }

    /// Converts an object of this version to its stored form.
    fn to_stored(&self, object: Json) -> Json {
        object
    }

    /// How stored objects are converted to this version.
    fn form(&self) -> Form {
        Form::Stored
    }

    /// Converts a stored object to this version. `written` is the `apiVersion` of the last write, or empty if unknown.
    fn shown(&self, stored: &Arc<Json>, _written: &str) -> Arc<Json> {
        Arc::clone(stored)
    }

    /// Returns the conversion to another version, for managed fields. `None` if all versions have the same field names.
    fn conversion(&self) -> Option<pintle_fieldmanager::Convert> {
        None
    }

    /// Returns whether kube-apiserver stores a new object without defaults that it adds on each read. The next update stores these
    /// defaults. It counts as a change even if it changes nothing else.
    fn stores_defaults_late(&self, _created: &Json) -> bool {
        false
    }

    /// Returns the handler of POST requests that store nothing, for a subresource or for the kind itself.
    fn post_handler(&self, _part: Subresource) -> Option<&dyn PostHandler> {
        None
    }

    /// Returns the stream of a subresource, such as `exec`, `log` or `proxy`.
    fn stream(&self, _part: Subresource) -> Option<Stream> {
        None
    }

    /// Returns the objects of a kind whose objects are computed and not stored.
    fn computed_objects(&self) -> Option<Vec<Json>> {
        None
    }

    /// The other kinds that the rules read when the subresource is written, as pairs of group and kind.
    fn read_kinds(&self, _part: Subresource) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    /// Returns a permission that the write needs in addition to its own verb. Fails if the write is never allowed. `old` is the stored
    /// object of an update.
    fn extra_permission(
        &self,
        _new: &Json,
        _old: Option<&Json>,
        _part: Subresource,
    ) -> Outcome<Option<ExtraPermission>> {
        Ok(None)
    }

    /// How the objects relate to pods.
    fn pods(&self) -> Pods {
        Pods::Unrelated
    }

    /// Returns whether the objects only report what happened, as events do. There are many, no client waits for them, and they expire.
    fn is_report(&self) -> bool {
        false
    }

    /// The paths whose values a plan hides by default, because they can contain secrets.
    fn secrets(&self) -> &'static [&'static str] {
        &[]
    }

    /// The warning for every request to a deprecated version.
    fn deprecation(&self) -> Option<&str> {
        None
    }

    /// The paths for `/scale`, if the kind has this subresource.
    fn scale(&self) -> Option<&super::Scale> {
        None
    }

    /// Returns the cost of validating an object against the schema, apart from the size of the object. It is the size in bytes of a body
    /// that takes as long to process.
    fn schema_weight(&self) -> usize {
        0
    }

    /// The OpenAPI schema of a custom resource.
    fn openapi(&self) -> Option<&Json> {
        None
    }

    /// The paths that a write to the subresource cannot change, and that no field manager owns through it. `None` selects the paths of most
    /// kinds.
    fn reset_fields(&self, _part: Subresource) -> Option<Reset> {
        None
    }

    /// The columns of a table. `None` if kube-apiserver has no printer for the kind.
    fn columns(&self) -> Option<Vec<Column>> {
        None
    }

    /// Returns the cells of one row, one per column.
    fn cells(&self, _object: &Json, _now: Timestamp) -> Vec<Json> {
        Vec::new()
    }
}

/// A strategy without rules.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Plain;

impl Strategy for Plain {}
