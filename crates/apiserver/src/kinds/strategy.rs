//! The rules of one kind, as the trait [`Strategy`].

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
/// The generic handlers apply the rules about metadata, status and generation, which all kinds share. A write calls [`prune`](Self::prune),
/// [`defaults`](Self::defaults), [`prepare_for_create`](Self::prepare_for_create) or [`prepare_for_update`](Self::prepare_for_update),
/// [`admit`](Self::admit) and then the validation, in this order.
pub(crate) trait Strategy: Send + Sync {
    fn origin(&self) -> Origin {
        Origin::BuiltIn
    }

    /// Returns the uid of the kind's custom resource definition. Returns `None` for a built-in kind.
    fn definition(&self) -> Option<&str> {
        None
    }

    /// Returns the representation of the objects in kube-apiserver.
    fn layout(&self) -> Layout {
        Layout::Declared
    }

    /// Returns how kube-apiserver routes requests to the kind.
    fn routing(&self) -> Routing {
        Routing::PerMethod
    }

    /// Returns the rule for finalizers without a domain.
    fn plain_finalizers(&self) -> PlainFinalizers {
        PlainFinalizers::Rejected
    }

    /// Returns whether a write of the status keeps all stored metadata except the managed fields.
    fn status_keeps_metadata(&self) -> bool {
        false
    }

    /// Removes the fields that the schema does not declare. Returns the sorted paths of the removed fields.
    fn prune(&self, _object: &mut Json) -> Vec<String> {
        Vec::new()
    }

    /// Returns the reason if the object cannot be decoded although its metadata can be decoded. The server then responds with status 400
    /// instead of 422.
    fn malformed(&self, _object: &Json) -> Option<String> {
        None
    }

    /// Returns the reason if kube-apiserver cannot convert the decoded object to its internal type.
    fn unconvertible(&self, _object: &Json) -> Option<String> {
        None
    }

    /// Removes null values of fields that are not nullable and have no default.
    fn drop_nulls(&self, _object: &mut Json) {}

    /// Sets the defaults of missing fields.
    fn defaults(&self, _object: &mut Json) {}

    /// Sets the fields of a new object that only the server may set.
    fn prepare_for_create(&self, _context: &Context<'_>, _object: &mut Json) {}

    /// Restores the fields of the old object that this request may not change.
    fn prepare_for_update(&self, _context: &Context<'_>, _new: &mut Json, _old: &Json, _part: Subresource) {}

    /// Runs the built-in admission plugins of kube-apiserver for this kind. The plugins may change the object or reject the request. `old`
    /// is the stored object of an update.
    fn admit(
        &self,
        _context: &Context<'_>,
        _object: &mut Json,
        _old: Option<&Json>,
        _part: Subresource,
    ) -> Outcome<()> {
        Ok(())
    }

    /// Returns the validation errors of a new object, without errors about its metadata.
    fn validate_create(&self, _object: &Json) -> FieldErrors {
        FieldErrors::default()
    }

    /// Returns the validation errors of an updated object, without errors about its metadata.
    fn validate_update(&self, new: &Json, _old: &Json, _part: Subresource) -> FieldErrors {
        self.validate_create(new)
    }

    /// Returns the warnings for a valid object. `old` is the stored object of an update.
    fn warnings(&self, _object: &Json, _old: Option<&Json>, _part: Subresource) -> Vec<String> {
        Vec::new()
    }

    /// Returns the metadata checks that the validation of an update runs a second time for this kind.
    fn metadata_checks(&self) -> MetadataChecks {
        MetadataChecks::Update
    }

    /// Returns whether a create validates the metadata only after all other fields are valid.
    fn checks_metadata_last(&self) -> bool {
        false
    }

    /// Returns whether a create keeps the status of the request, although `/status` is a subresource.
    fn keeps_sent_status(&self) -> bool {
        false
    }

    /// Returns the reason why an object with this name cannot be deleted, because every cluster needs it. Returns `None` for other names.
    fn undeletable(&self, _name: &str) -> Option<&'static str> {
        None
    }

    /// Returns the grace period of a deletion in seconds. `requested` is the period in the delete options.
    fn grace(&self, _object: &Json, _requested: Option<i64>) -> i64 {
        0
    }

    /// Changes an object that becomes terminating: sets a phase, a condition or a finalizer, in addition to the common metadata. Returns
    /// true if this deletion must not remove the object yet.
    fn mark_terminating(&self, _object: &mut Json, _now: &str) -> bool {
        false
    }

    /// Returns whether a terminating object must stay for a reason other than its metadata finalizers.
    fn is_held(&self, _object: &Json) -> bool {
        false
    }

    /// Returns whether `orphanDependents=false` means foreground deletion.
    fn waits_for_dependents(&self) -> bool {
        false
    }

    /// Returns the name of the resource for conflict errors about preconditions.
    fn name_in_conflicts<'a>(&self, kind: &'a Kind) -> &'a str {
        &kind.kind
    }

    /// Returns the warning for a DELETE without a propagation policy.
    fn orphaning_warning(&self) -> Option<&str> {
        None
    }

    /// Adds fields that Go writes for an empty object although the schema does not list them.
    fn complete_empty(&self, _object: &mut Json) {}

    /// Returns warnings about fields that have an effect in a real cluster but not in this server.
    fn without_effect(&self, _object: &Json, _kinds: &Kinds, _cluster: &dyn Cluster) -> Vec<String> {
        Vec::new()
    }

    /// Returns whether the change increases the generation. By default, every change outside of metadata and status does.
    fn changes_generation(&self, new: &Json, old: &Json) -> bool {
        crate::object::differ_outside(new, old, &["apiVersion", "kind", "metadata", "status"])
    }

    /// Returns the validation rule for `metadata.name`.
    fn name_rule(&self) -> crate::validate::NameRule {
        crate::validate::NameRule::Subdomain
    }

    /// Returns the field labels that a field selector may name, in addition to `metadata.name` and `metadata.namespace`. Returns `None` if
    /// kube-apiserver has no table of labels for the kind. In that case, the error for an unsupported label has another text.
    fn field_labels(&self) -> Option<Vec<&str>> {
        None
    }

    /// Returns the paths in the object that [`field`](Self::field) reads for a label.
    fn field_paths<'a>(&self, label: &'a str) -> Vec<&'a str> {
        vec![label]
    }

    /// Returns the current name of a field label that is a deprecated alias.
    fn field_label<'a>(&self, label: &'a str) -> &'a str {
        label
    }

    /// Returns the error for a field label that the kind does not support.
    fn unknown_field_label(&self, _kind: &GroupVersionKind, label: &str) -> String {
        format!("field label not supported: {label}")
    }

    /// Returns the value of a field label.
    fn field(&self, object: &Json, label: &str) -> Option<String> {
        let pointer = format!("/{}", label.replace('.', "/"));
        Some(crate::object::text(object.at(&pointer)))
    }

    /// Returns the values of a stored object that no other object may have, such as addresses.
    fn claims(&self, _stored: &Json) -> Vec<String> {
        Vec::new()
    }

    /// Returns whether the store caches the decoded objects. It caches the objects of kinds that the rules of other kinds read often.
    fn is_read_often(&self) -> bool {
        false
    }

    /// Converts an object of this version to its stored form.
    fn to_stored(&self, object: Json) -> Json {
        object
    }

    /// Returns how stored objects are converted to this version.
    fn form(&self) -> Form {
        Form::Stored
    }

    /// Converts a stored object to this version. `written` is the `apiVersion` of the last write. It is empty if the version of the last
    /// write is unknown.
    fn shown(&self, stored: &Arc<Json>, _written: &str) -> Arc<Json> {
        Arc::clone(stored)
    }

    /// Returns the conversion to another version, for managed fields. Returns `None` if all versions have the same field names.
    fn conversion(&self) -> Option<pintle_fieldmanager::Convert> {
        None
    }

    /// Returns whether kube-apiserver stores this new object without some defaults and adds these defaults on each read. The next update
    /// stores the defaults. This update counts as a change even if it has no other effect.
    fn stores_defaults_late(&self, _created: &Json) -> bool {
        false
    }

    /// Returns the handler of POST requests that store no object. The requests are for a subresource or for the kind itself.
    fn post_handler(&self, _part: Subresource) -> Option<&dyn PostHandler> {
        None
    }

    /// Returns the stream of a subresource, such as `exec`, `log` or `proxy`.
    fn stream(&self, _part: Subresource) -> Option<Stream> {
        None
    }

    /// Returns the objects of a kind that computes its objects instead of storing them.
    fn computed_objects(&self) -> Option<Vec<Json>> {
        None
    }

    /// Returns other kinds whose objects the rules read when the subresource is written. Each item has the group and the kind.
    fn read_kinds(&self, _part: Subresource) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    /// Returns a permission that the write needs in addition to the permission for its verb. Returns an error if the write is never
    /// allowed. `old` is the stored object of an update.
    fn extra_permission(
        &self,
        _new: &Json,
        _old: Option<&Json>,
        _part: Subresource,
    ) -> Outcome<Option<ExtraPermission>> {
        Ok(None)
    }

    /// Returns the relation of the objects to pods.
    fn pods(&self) -> Pods {
        Pods::Unrelated
    }

    /// Returns whether the objects are only reports, like events. A plan does not list changes of reports.
    fn is_report(&self) -> bool {
        false
    }

    /// Returns the paths whose values a plan hides by default, because the values can be secret.
    fn secrets(&self) -> &'static [&'static str] {
        &[]
    }

    /// Returns the warning for requests to this version if it is deprecated.
    fn deprecation(&self) -> Option<&str> {
        None
    }

    /// Returns the paths for `/scale`, if the kind has this subresource.
    fn scale(&self) -> Option<&super::Scale> {
        None
    }

    /// Returns the cost of validating an object against the schema. It is added to the cost that depends on the size of the object. The
    /// unit is the time to process one byte of a body.
    fn schema_weight(&self) -> usize {
        0
    }

    /// Returns the OpenAPI schema of a custom resource. Returns `None` for a built-in kind.
    fn openapi(&self) -> Option<&Json> {
        None
    }

    /// Returns the paths that a write to the subresource cannot change. A field manager cannot own these paths through the subresource.
    /// `None` selects the paths that apply to most kinds.
    fn reset_fields(&self, _part: Subresource) -> Option<Reset> {
        None
    }

    /// Returns the columns of a table. Returns `None` if kube-apiserver has no printer for the kind.
    fn columns(&self) -> Option<Vec<Column>> {
        None
    }

    /// Returns the cells of a table row. There is one cell for each column.
    fn cells(&self, _object: &Json, _now: Timestamp) -> Vec<Json> {
        Vec::new()
    }
}

/// A strategy without rules.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Plain;

impl Strategy for Plain {}
