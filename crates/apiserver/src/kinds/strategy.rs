//! The trait [`Strategy`], which defines the rules of one kind.

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
/// The generic handlers apply the rules that all kinds share, which are about metadata, status and generation. A write calls
/// [`prune`](Self::prune), [`defaults`](Self::defaults), [`prepare_for_create`](Self::prepare_for_create) or
/// [`prepare_for_update`](Self::prepare_for_update), [`admit`](Self::admit) and then the validation, in this order.
pub(crate) trait Strategy: Send + Sync {
    fn origin(&self) -> Origin {
        Origin::BuiltIn
    }

    /// Returns the uid of the custom resource definition that defines the kind. Returns `None` for a built-in kind.
    fn definition(&self) -> Option<&str> {
        None
    }

    /// Returns how kube-apiserver represents the objects.
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

    /// Returns whether a status write keeps all stored metadata except the managed fields.
    fn status_keeps_metadata(&self) -> bool {
        false
    }

    /// Removes the fields that are not declared in the schema. Returns the paths of the removed fields in sorted order.
    fn prune(&self, _object: &mut Json) -> Vec<String> {
        Vec::new()
    }

    /// Returns the reason if the object cannot be decoded. The metadata of the object has already been decoded. If there is a reason, the
    /// server responds with status 400 instead of 422.
    fn malformed(&self, _object: &Json) -> Option<String> {
        None
    }

    /// Returns the reason if kube-apiserver would fail to convert the decoded object to its internal type.
    fn unconvertible(&self, _object: &Json) -> Option<String> {
        None
    }

    /// Removes null values of fields that are not nullable and have no default.
    fn drop_nulls(&self, _object: &mut Json) {}

    /// Sets the defaults of missing fields.
    fn defaults(&self, _object: &mut Json) {}

    /// Sets the fields that only the server may set in a new object.
    fn prepare_for_create(&self, _context: &Context<'_>, _object: &mut Json) {}

    /// Restores the fields of the old object that the request is not allowed to change.
    fn prepare_for_update(&self, _context: &Context<'_>, _new: &mut Json, _old: &Json, _part: Subresource) {}

    /// Runs the built-in admission plugins of kube-apiserver for this kind. The plugins may change the object or reject the request. If the
    /// request is an update, `old` is the stored object.
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

    /// Returns the warnings for a valid object. If the request is an update, `old` is the stored object.
    fn warnings(&self, _object: &Json, _old: Option<&Json>, _part: Subresource) -> Vec<String> {
        Vec::new()
    }

    /// Returns the metadata checks that this kind repeats when it validates an update.
    fn metadata_checks(&self) -> MetadataChecks {
        MetadataChecks::Update
    }

    /// Returns whether a create request validates the metadata last, and only if all other fields are valid.
    fn checks_metadata_last(&self) -> bool {
        false
    }

    /// Returns whether a create request can set the status, although `/status` is a subresource.
    fn keeps_sent_status(&self) -> bool {
        false
    }

    /// Returns the reason why an object with this name cannot be deleted. Some objects are protected because every cluster needs them.
    /// Returns `None` for other names.
    fn undeletable(&self, _name: &str) -> Option<&'static str> {
        None
    }

    /// Returns the grace period of a deletion, in seconds. `requested` is the period in the delete options.
    fn grace(&self, _object: &Json, _requested: Option<i64>) -> i64 {
        0
    }

    /// Changes an object that starts to terminate. The method sets a phase, a condition or a finalizer, in addition to the common metadata.
    /// Returns true if the object must not be removed yet.
    fn mark_terminating(&self, _object: &mut Json, _now: &str) -> bool {
        false
    }

    /// Returns whether a terminating object must stay, regardless of its metadata finalizers.
    fn is_held(&self, _object: &Json) -> bool {
        false
    }

    /// Returns whether the delete option `orphanDependents=false` means foreground deletion.
    fn waits_for_dependents(&self) -> bool {
        false
    }

    /// Returns the resource name that conflict errors about preconditions contain.
    fn name_in_conflicts<'a>(&self, kind: &'a Kind) -> &'a str {
        &kind.kind
    }

    /// Returns the warning for a DELETE request without a propagation policy.
    fn orphaning_warning(&self) -> Option<&str> {
        None
    }

    /// Adds fields that Go writes even for an empty object, and that the schema does not list.
    fn complete_empty(&self, _object: &mut Json) {}

    /// Returns warnings about fields that have no effect in this server but have an effect in a real cluster.
    fn without_effect(&self, _object: &Json, _kinds: &Kinds, _cluster: &dyn Cluster) -> Vec<String> {
        Vec::new()
    }

    /// Returns whether the change increases the generation. By default, every change outside of metadata and status increases the
    /// generation.
    fn changes_generation(&self, new: &Json, old: &Json) -> bool {
        crate::object::differ_outside(new, old, &["apiVersion", "kind", "metadata", "status"])
    }

    /// Returns the validation rule for `metadata.name`.
    fn name_rule(&self) -> crate::validate::NameRule {
        crate::validate::NameRule::Subdomain
    }

    /// Returns the field labels that a field selector can contain, in addition to `metadata.name` and `metadata.namespace`. Returns `None`
    /// if kube-apiserver has no table of labels for the kind. Without such a table, the error for an unsupported label has another text.
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

    /// Returns the values of a stored object that must be unique, such as addresses.
    fn claims(&self, _stored: &Json) -> Vec<String> {
        Vec::new()
    }

    /// Returns whether the store keeps decoded objects of this kind in a cache. The cache is for kinds whose objects are often read by the
    /// rules of other kinds.
    fn is_read_often(&self) -> bool {
        false
    }

    /// Converts an object from this version to its stored form.
    fn to_stored(&self, object: Json) -> Json {
        object
    }

    /// Returns how stored objects are converted to this version.
    fn form(&self) -> Form {
        Form::Stored
    }

    /// Converts a stored object to this version. `written` is the `apiVersion` of the last write, or empty if it is
    /// unknown.
    fn shown(&self, stored: &Arc<Json>, _written: &str) -> Arc<Json> {
        Arc::clone(stored)
    }

    /// Returns the conversion of field names in managed fields to another version. Returns `None` if all versions have the same field
    /// names.
    fn conversion(&self) -> Option<pintle_fieldmanager::Convert> {
        None
    }

    /// Returns whether kube-apiserver stores this new object without some of its defaults and adds them whenever the object is read. The
    /// next update then stores the defaults. Because of the defaults, this update counts as a change even if the client changes nothing.
    fn stores_defaults_late(&self, _created: &Json) -> bool {
        false
    }

    /// Returns the handler for POST requests that store no object. Such a request is for a subresource or for the kind itself.
    fn post_handler(&self, _part: Subresource) -> Option<&dyn PostHandler> {
        None
    }

    /// Returns the stream for a subresource such as `exec`, `log` or `proxy`.
    fn stream(&self, _part: Subresource) -> Option<Stream> {
        None
    }

    /// Returns all objects, for a kind whose objects are computed instead of stored.
    fn computed_objects(&self) -> Option<Vec<Json>> {
        None
    }

    /// Returns the other kinds whose objects are read when the subresource is written. Each item consists of the group and the kind.
    fn read_kinds(&self, _part: Subresource) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    /// Returns a permission that the writer needs in addition to the permission for the request's verb. Returns an error if this write is
    /// never allowed. If the request is an update, `old` is the stored object.
    fn extra_permission(
        &self,
        _new: &Json,
        _old: Option<&Json>,
        _part: Subresource,
    ) -> Outcome<Option<ExtraPermission>> {
        Ok(None)
    }

    /// Returns how the objects of this kind are related to pods.
    fn pods(&self) -> Pods {
        Pods::Unrelated
    }

    /// Returns whether the objects are only reports, such as events. A plan does not list changes of such objects.
    fn is_report(&self) -> bool {
        false
    }

    /// Returns the paths whose values a plan does not show by default, because the values can be secret.
    fn secrets(&self) -> &'static [&'static str] {
        &[]
    }

    /// If this version is deprecated, returns the warning for requests to it.
    fn deprecation(&self) -> Option<&str> {
        None
    }

    /// Returns the paths that `/scale` uses, if the kind has this subresource.
    fn scale(&self) -> Option<&super::Scale> {
        None
    }

    /// Returns the cost of validating an object against the schema. This cost is added to the cost for the size of the object. The unit of
    /// cost is the time to process one byte of a body.
    fn schema_weight(&self) -> usize {
        0
    }

    /// Returns the OpenAPI schema of the custom resource. Returns `None` for a built-in kind.
    fn openapi(&self) -> Option<&Json> {
        None
    }

    /// Returns the paths that a write to the subresource cannot change. A field manager that writes to the subresource cannot own these
    /// paths. If the result is `None`, the paths that are common to most kinds apply.
    fn reset_fields(&self, _part: Subresource) -> Option<Reset> {
        None
    }

    /// Returns the columns of the table for this kind. Returns `None` if kube-apiserver defines no columns for the kind.
    fn columns(&self) -> Option<Vec<Column>> {
        None
    }

    /// Returns the cells of a table row. The number of cells is the number of columns.
    fn cells(&self, _object: &Json, _now: Timestamp) -> Vec<Json> {
        Vec::new()
    }
}

/// A strategy without rules.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Plain;

impl Strategy for Plain {}
