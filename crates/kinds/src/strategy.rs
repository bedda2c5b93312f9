//! Defines the trait [`Strategy`], which contains the rules of one kind.

use std::sync::Arc;

use jiff::Timestamp;
use pintle_apimachinery::cluster::{Cluster, Context};
use pintle_apimachinery::failure::Outcome;
use pintle_apimachinery::request::Subresource;
use pintle_apimachinery::request::webhook_calls::{WebhookCalls, WebhookClient};
use pintle_apimachinery::validate::FieldErrors;
use pintle_json::Json;
use pintle_meta::GroupVersionKind;

use super::Kind;
use super::layout::Layout;
use super::post_handler::PostHandler;
use super::reset::Reset;
use super::strategy_types::{ExtraPermission, Form, Origin, PlainFinalizers, Routing, Stream};
use super::table::{self, Column, Table};
use crate::known::Kinds;

/// The rules of one kind. The default methods do nothing.
///
/// The generic handlers apply those rules that all kinds share. These rules concern, for example, metadata, status and generation. A write
/// calls [`prune`](Self::prune), [`defaults`](Self::defaults), [`prepare_for_create`](Self::prepare_for_create) or
/// [`prepare_for_update`](Self::prepare_for_update), [`admit`](Self::admit) and then the validation, in this order.
pub trait Strategy: Send + Sync {
    fn origin(&self) -> Origin {
        Origin::BuiltIn
    }

    /// Returns the uid of the custom resource definition that defines the kind. Returns `None` for a built-in kind.
    fn definition(&self) -> Option<&str> {
        None
    }

    /// Returns how kube-apiserver represents objects of this kind.
    fn layout(&self) -> Layout {
        Layout::Declared
    }

    /// Returns how kube-apiserver routes requests for this kind.
    fn routing(&self) -> Routing {
        Routing::PerMethod
    }

    /// Returns the rule that applies to finalizers without a domain.
    fn plain_finalizers(&self) -> PlainFinalizers {
        PlainFinalizers::Rejected
    }

    /// Removes the fields that the schema does not declare. Returns the paths of the removed fields in sorted order.
    fn prune(&self, _object: &mut Json) -> Vec<String> {
        Vec::new()
    }

    /// Returns the reason why the object cannot be decoded. Returns `None` if the object can be decoded. When this method is called, the
    /// metadata of the object has already been decoded. If this method returns a reason, the server responds with status 400 instead of
    /// 422.
    fn malformed(&self, _object: &Json) -> Option<String> {
        None
    }

    /// Returns the reason why kube-apiserver would fail to convert the decoded object to its internal type. Returns `None` if the
    /// conversion would succeed.
    fn unconvertible(&self, _object: &Json) -> Option<String> {
        None
    }

    /// Removes null values of fields that are not nullable and have no default.
    fn drop_nulls(&self, _object: &mut Json) {}

    /// Sets the defaults of missing fields.
    fn defaults(&self, _object: &mut Json) {}

    /// Sets the fields that only the server may set in a new object.
    fn prepare_for_create(&self, _context: &Context<'_>, _object: &mut Json) {}

    /// Restores the fields of the old object that the request must not change.
    fn prepare_for_update(&self, _context: &Context<'_>, _new: &mut Json, _old: &Json, _part: Subresource) {}

    /// Runs the built-in admission plugins of kube-apiserver for this kind. The plugins may change the object or reject the request. For an
    /// update, `old` is the stored object.
    fn admit(
        &self,
        _context: &Context<'_>,
        _object: &mut Json,
        _old: Option<&Json>,
        _part: Subresource,
    ) -> Outcome<()> {
        Ok(())
    }

    /// Returns the validation errors of a new object, except errors about its metadata.
    fn validate_create(&self, _object: &Json) -> FieldErrors {
        FieldErrors::default()
    }

    /// Returns the validation errors of an updated object, except errors about its metadata.
    fn validate_update(&self, new: &Json, _old: &Json, _part: Subresource) -> FieldErrors {
        self.validate_create(new)
    }

    /// Returns the warnings for a valid object. For an update, `old` is the stored object.
    fn warnings(&self, _object: &Json, _old: Option<&Json>, _part: Subresource) -> Vec<String> {
        Vec::new()
    }

    /// Returns the reason why an object with this name cannot be deleted. Every cluster needs certain objects, so these objects are
    /// protected. Returns `None` if an object with this name can be deleted.
    fn undeletable(&self, _name: &str) -> Option<&'static str> {
        None
    }

    /// Returns the grace period of a deletion, in seconds. `requested` is the grace period in the delete options.
    fn grace(&self, _object: &Json, _requested: Option<i64>) -> i64 {
        0
    }

    /// Changes an object when its deletion starts. This method can set a phase, a condition or a finalizer, in addition to the common
    /// metadata. Returns true if the object must not be removed yet.
    fn mark_terminating(&self, _object: &mut Json, _now: &str) -> bool {
        false
    }

    /// Returns whether a terminating object must be kept, regardless of the finalizers in its metadata.
    fn is_held(&self, _object: &Json) -> bool {
        false
    }

    /// Returns the resource name that conflict errors about preconditions contain.
    fn name_in_conflicts<'a>(&self, kind: &'a Kind) -> &'a str {
        &kind.kind
    }

    /// Returns the warning for DELETE requests without a propagation policy.
    fn orphaning_warning(&self) -> Option<&str> {
        None
    }

    /// Adds the fields that are not in the schema, but that Go writes even for an empty object.
    fn complete_empty(&self, _object: &mut Json) {}

    /// Returns warnings about fields that have an effect in a real cluster but not in this server.
    fn without_effect(&self, _object: &Json, _kinds: &Kinds, _cluster: &dyn Cluster) -> Vec<String> {
        Vec::new()
    }

    /// Returns whether this change of an object increases the generation. By default, every change outside of metadata and status increases
    /// the generation.
    fn changes_generation(&self, new: &Json, old: &Json) -> bool {
        pintle_apimachinery::object::differ_outside(new, old, &["apiVersion", "kind", "metadata", "status"])
    }

    /// Returns the field labels that a field selector can contain, in addition to `metadata.name` and `metadata.namespace`. Returns `None`
    /// if kube-apiserver has no table of field labels for the kind. If there is no such table, the error for an unsupported field label has
    /// a different text.
    fn field_labels(&self) -> Option<Vec<&str>> {
        None
    }

    /// Returns the paths of those fields in the object from which [`field`](Self::field) reads the value of a label.
    fn field_paths<'a>(&self, label: &'a str) -> Vec<&'a str> {
        vec![label]
    }

    /// If the field label is a deprecated alias, returns the current name. If the field label is not an alias, returns the label itself.
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
        Some(pintle_apimachinery::object::text(object.at(&pointer)))
    }

    /// Returns the unique values of a stored object, such as addresses. No other object may have one of these values.
    fn claims(&self, _stored: &Json) -> Vec<String> {
        Vec::new()
    }

    /// Converts an object from this version to its stored form.
    fn to_stored(&self, object: Json) -> Json {
        object
    }

    /// Returns how stored objects are converted to this version.
    fn form(&self) -> Form {
        Form::Stored
    }

    /// Converts a stored object to this version. `written` is the `apiVersion` of the last write. `written` is empty if this version is
    /// unknown.
    fn shown(&self, stored: &Arc<Json>, _written: &str) -> Arc<Json> {
        Arc::clone(stored)
    }

    /// Returns the conversion between the versions of the kind. Returns `None` if all versions have the same field names.
    fn conversion(&self) -> Option<&dyn pintle_fieldmanager::Conversion> {
        None
    }

    /// Returns the server of the webhook that converts the objects of the kind.
    fn conversion_webhook(&self) -> Option<&WebhookClient> {
        None
    }

    /// Returns the strategy of this kind for one request, if a webhook converts the objects of the kind. The strategy asks `calls` for the
    /// results of the webhook.
    fn with_conversions(&self, _calls: &WebhookCalls) -> Option<Arc<dyn Strategy>> {
        None
    }

    /// Returns whether a webhook must convert an object that was written in the version `written`. Only a strategy that
    /// [`with_conversions`](Self::with_conversions) returned can return true.
    fn needs_webhook(&self, _written: &str) -> bool {
        false
    }

    /// Returns whether kube-apiserver stores a new object without some of its defaults. kube-apiserver adds these defaults whenever it
    /// reads the object. The next update then stores the defaults. Because of the added defaults, this update counts as a change, even if
    /// the client changes nothing.
    fn stores_defaults_late(&self, _created: &Json) -> bool {
        false
    }

    /// Returns the handler for those POST requests that do not store an object. Such a request is for a subresource or for the kind itself.
    fn post_handler(&self, _part: Subresource) -> Option<&dyn PostHandler> {
        None
    }

    /// Returns the stream that serves a subresource such as `exec`, `log` or `proxy`.
    fn stream(&self, _part: Subresource) -> Option<Stream> {
        None
    }

    /// Returns all objects of a kind whose objects are computed and not stored.
    fn computed_objects(&self) -> Option<Vec<Json>> {
        None
    }

    /// Returns those other kinds whose objects the server reads when a request writes the subresource. Each item of the result consists of
    /// a group and a kind.
    fn read_kinds(&self, _part: Subresource) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    /// Returns a permission that the writer needs in addition to the permission for the request's verb. Returns an error if the kind never
    /// allows this write. For an update, `old` is the stored object.
    fn extra_permission(
        &self,
        _new: &Json,
        _old: Option<&Json>,
        _part: Subresource,
    ) -> Outcome<Option<ExtraPermission>> {
        Ok(None)
    }

    /// Returns the paths of fields whose values can be secret. By default, a plan, which is a dry run against a live cluster, does not show
    /// secret values.
    fn secrets(&self) -> &'static [&'static str] {
        &[]
    }

    /// Returns the warning for requests that use this version, if the version is deprecated.
    fn deprecation(&self) -> Option<&str> {
        None
    }

    /// Returns the paths of the fields that `/scale` reads and writes, if the kind has this subresource.
    fn scale(&self) -> Option<&super::scale::Scale> {
        None
    }

    /// Returns the cost of validating an object against the schema. This cost is added to the cost that results from the size of the
    /// object. The unit of cost is the time to process one byte of a body.
    fn schema_weight(&self) -> usize {
        0
    }

    /// Returns the OpenAPI schema that a custom resource has. Returns `None` for a built-in kind.
    fn openapi(&self) -> Option<&Json> {
        None
    }

    /// Returns the paths of the fields that a write to the subresource cannot change. A field manager that writes to the subresource cannot
    /// own these fields. If the result is `None`, the server uses the paths that apply to most kinds.
    fn reset_fields(&self, _part: Subresource) -> Option<Reset> {
        None
    }

    /// Returns the columns and the cells of the table for this kind. The result is empty if kube-apiserver defines no columns for the kind.
    fn table(&self) -> Table {
        &[]
    }

    /// Returns the names and descriptions of those columns that kube-apiserver describes.
    fn column_descriptions(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    /// Returns the columns of the table for this kind. Returns `None` if kube-apiserver defines no columns for the kind.
    fn columns(&self) -> Option<Vec<Column>> {
        table::columns(self.table(), self.column_descriptions())
    }

    /// Returns the cells of the table row for an object. The row has one cell for each column.
    fn cells(&self, object: &Json, now: Timestamp) -> Vec<Json> {
        self.table().iter().map(|(_, cell)| cell.of(object, now)).collect()
    }
}

/// A strategy without rules.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plain;

impl Strategy for Plain {}
