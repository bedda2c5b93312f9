//! [`Strategy`], the trait that defines the rules of one kind.

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
use super::post_handler::PostHandler;
use super::reset::Reset;
use super::strategy_types::{ExtraPermission, Form, Layout, Origin, PlainFinalizers, Routing, Stream};
use super::table::{Column, ComputedCells, Table};

/// Defines the rules of one kind, such as defaults and validation. Most default implementations do nothing.
///
/// The generic handlers apply the rules that all kinds share, such as the rules for metadata, status and generation. A
/// write calls these methods in this order: [`prune`](Self::prune), [`defaults`](Self::defaults), [`admit`](Self::admit),
/// [`prepare_for_create`](Self::prepare_for_create) or [`prepare_for_update`](Self::prepare_for_update),
/// [`allocate`](Self::allocate), the validation, and [`validate_admitted`](Self::validate_admitted).
pub trait Strategy: Send + Sync {
    fn origin(&self) -> Origin {
        Origin::BuiltIn
    }

    /// Returns the uid of the custom resource definition that defines the kind, or `None` for a built-in kind.
    fn definition(&self) -> Option<&str> {
        None
    }

    /// Returns the Go representation of the objects in kube-apiserver.
    fn layout(&self) -> Layout {
        Layout::Declared
    }

    /// Returns the routing of the kind's requests in kube-apiserver.
    fn routing(&self) -> Routing {
        Routing::PerMethod
    }

    /// Returns the rule for finalizers without a domain.
    fn plain_finalizers(&self) -> PlainFinalizers {
        PlainFinalizers::Rejected
    }

    /// Removes fields that the schema does not declare, and returns their paths in sorted order.
    fn prune(&self, _object: &mut Json) -> Vec<String> {
        Vec::new()
    }

    /// Returns the reason why the object cannot be decoded, or `None` if decoding would succeed. The metadata has
    /// already been decoded. The server responds to a malformed object with status 400 instead of 422.
    fn malformed(&self, _object: &Json) -> Option<String> {
        None
    }

    /// Returns the reason why kube-apiserver could not convert the decoded object to its internal type, or `None` if it
    /// could.
    fn unconvertible(&self, _object: &Json) -> Option<String> {
        None
    }

    /// Removes nulls from fields that are not nullable and have no default.
    fn drop_nulls(&self, _object: &mut Json) {}

    /// Converts the declared parts of an object with the layout [`Layout::Free`] to the JSON that Go would write.
    fn normalise(&self, _object: &mut Json) {}

    /// Sets the defaults of missing fields, except [`Kind::defaults`].
    fn defaults(&self, _object: &mut Json) {}

    /// Sets the fields of a new object that only the server may set.
    fn prepare_for_create(&self, _context: &Context<'_>, _object: &mut Json) {}

    /// Restores the old values of fields that the request must not change.
    fn prepare_for_update(&self, _context: &Context<'_>, _new: &mut Json, _old: &Json, _part: Subresource) {}

    /// Runs the mutating admission of kube-apiserver's built-in plugins for this kind. The plugins may change the object
    /// or reject the request. `old` is the stored object if the request is an update. Mutating admission policies and
    /// webhooks run afterwards. If one of them changes the object, the server calls this method again.
    fn admit(
        &self,
        _cluster: &dyn Cluster,
        _object: &mut Json,
        _old: Option<&Json>,
        _part: Subresource,
    ) -> Outcome<()> {
        Ok(())
    }

    /// Allocates cluster-wide values, such as addresses. `old` is the stored object if the request is an update.
    fn allocate(
        &self,
        _cluster: &dyn Cluster,
        _object: &mut Json,
        _old: Option<&Json>,
        _part: Subresource,
    ) -> Outcome<()> {
        Ok(())
    }

    /// Runs the validating admission of kube-apiserver's built-in plugins for this kind. The object has already passed
    /// validation. `old` is the stored object if the request is an update.
    fn validate_admitted(
        &self,
        _cluster: &dyn Cluster,
        _object: &Json,
        _old: Option<&Json>,
        _part: Subresource,
    ) -> Outcome<()> {
        Ok(())
    }

    /// Checks an object against other objects of the cluster. The errors come before all other validation errors. `old`
    /// is the stored object if the request is an update.
    fn validate_in_cluster(
        &self,
        _cluster: &dyn Cluster,
        _new: &Json,
        _old: Option<&Json>,
        _part: Subresource,
    ) -> FieldErrors {
        FieldErrors::default()
    }

    /// Validates a new object, except its metadata.
    fn validate_create(&self, _object: &Json) -> FieldErrors {
        FieldErrors::default()
    }

    /// Validates an updated object, except its metadata.
    fn validate_update(&self, new: &Json, _old: &Json, _part: Subresource) -> FieldErrors {
        self.validate_create(new)
    }

    /// Returns the warnings for a valid object. `old` is the stored object if the request is an update.
    fn warnings(&self, _object: &Json, _old: Option<&Json>, _part: Subresource) -> Vec<String> {
        Vec::new()
    }

    /// Returns the reason why the object `name` cannot be deleted, or `None` if clients may delete it. For example,
    /// clients cannot delete an object that exists in every cluster.
    fn undeletable(&self, _name: &str) -> Option<&'static str> {
        None
    }

    /// Returns a deletion's grace period in seconds. `requested` is the grace period in the delete options.
    fn grace(&self, _object: &Json, _requested: Option<i64>) -> i64 {
        0
    }

    /// Changes an object when its deletion starts, for example to set a phase, a condition or a finalizer. The server
    /// changes the metadata itself. Returns `true` if the server must not remove the object yet.
    fn mark_terminating(&self, _object: &mut Json, _now: &str) -> bool {
        false
    }

    /// Returns `true` if the server must keep a terminating object whose metadata has no finalizers.
    fn is_held(&self, _object: &Json) -> bool {
        false
    }

    /// Returns the resource name in the error about a violated precondition.
    fn name_in_conflicts<'a>(&self, kind: &'a Kind) -> &'a str {
        &kind.kind
    }

    /// Returns the warning for DELETE requests without a propagation policy.
    fn orphaning_warning(&self) -> Option<&str> {
        None
    }

    /// Adds fields that Go writes for an empty object, although the schema does not contain them.
    fn complete_empty(&self, _object: &mut Json) {}

    /// Returns warnings about fields that this server accepts but ignores. `is_built_in` returns `true` for the group and
    /// version of a built-in kind.
    fn without_effect(&self, _object: &Json, _is_built_in: &dyn Fn(&str, &str) -> bool) -> Vec<String> {
        Vec::new()
    }

    /// Returns `true` if a change increments `metadata.generation`. By default, every change outside of metadata and
    /// status increments it.
    fn changes_generation(&self, new: &Json, old: &Json) -> bool {
        pintle_apimachinery::object::differ_outside(new, old, &["apiVersion", "kind", "metadata", "status"])
    }

    /// Returns the field labels of a custom resource, or `None` for a built-in kind.
    fn field_labels(&self) -> Option<Vec<&str>> {
        None
    }

    /// Returns the paths of the fields that [`field`](Self::field) reads to compute the value of a label.
    fn field_paths<'a>(&self, label: &'a str) -> Vec<&'a str> {
        vec![label]
    }

    /// Returns the current name of a deprecated field label, and returns any other label unchanged.
    fn field_label<'a>(&self, label: &'a str) -> &'a str {
        label
    }

    /// Returns the error for an unsupported field label.
    fn unknown_field_label(&self, _kind: &GroupVersionKind, label: &str) -> String {
        format!("field label not supported: {label}")
    }

    /// Returns a field label's value.
    fn field(&self, object: &Json, label: &str) -> Option<String> {
        let pointer = format!("/{}", label.replace('.', "/"));
        Some(pintle_apimachinery::object::text(object.at(&pointer)))
    }

    /// Returns the values of a stored object that must be unique, such as addresses, because no two objects may share
    /// them.
    fn claims(&self, _stored: &Json) -> Vec<String> {
        Vec::new()
    }

    /// Converts an object of the strategy's version to its stored form.
    fn to_stored(&self, object: Json) -> Json {
        object
    }

    /// Returns whether the server must convert stored objects to the strategy's version.
    fn form(&self) -> Form {
        Form::Stored
    }

    /// Converts a stored object to the strategy's version. `stored_version` is the `apiVersion` of the last write, or
    /// an empty string if it is unknown.
    fn to_version(&self, stored: &Arc<Json>, _stored_version: &str) -> Arc<Json> {
        Arc::clone(stored)
    }

    /// Returns the conversion between the versions of the kind, or `None` if all versions have the same field names.
    fn conversion(&self) -> Option<&dyn pintle_fieldmanager::Conversion> {
        None
    }

    /// Returns the client of the conversion webhook, if the kind has one.
    fn conversion_webhook(&self) -> Option<&WebhookClient> {
        None
    }

    /// If a webhook converts the objects, returns a strategy for one request, which takes the conversions from `calls`.
    fn with_conversions(&self, _calls: &WebhookCalls) -> Option<Arc<dyn Strategy>> {
        None
    }

    /// If a webhook converts the objects, returns a strategy that stores objects in its own version, without a
    /// conversion.
    fn without_conversions(&self) -> Option<Arc<dyn Strategy>> {
        None
    }

    /// Returns `true` if a webhook must convert an object that is stored in the version `stored_version`. Only a
    /// strategy that was returned by [`with_conversions`](Self::with_conversions) can return `true`.
    fn needs_webhook(&self, _stored_version: &str) -> bool {
        false
    }

    /// Returns `true` if kube-apiserver stores a new object without some of its defaults. kube-apiserver adds these
    /// defaults whenever it reads the object, and stores them at the next update, which therefore counts as a change
    /// even if the client changes no field.
    fn stores_defaults_late(&self, _created: &Json) -> bool {
        false
    }

    /// Returns the handler for POST requests to `part` that store no object.
    fn post_handler(&self, _part: Subresource) -> Option<&dyn PostHandler> {
        None
    }

    /// Returns the stream of a subresource such as `exec`, `log` or `proxy`.
    fn stream(&self, _part: Subresource) -> Option<Stream> {
        None
    }

    /// Returns all objects of a kind whose objects the server computes for each request, or `None` for a stored kind.
    fn computed_objects(&self) -> Option<Vec<Json>> {
        None
    }

    /// Returns the group and kind of the other objects that the server reads for a write to the subresource.
    fn read_kinds(&self, _part: Subresource) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    /// Returns a permission that the writer needs in addition to the permission for the verb of the request. Returns an
    /// error if the kind never allows this write. `old` is the stored object if the request is an update.
    fn extra_permission(
        &self,
        _new: &Json,
        _old: Option<&Json>,
        _part: Subresource,
    ) -> Outcome<Option<ExtraPermission>> {
        Ok(None)
    }

    /// Returns the paths of fields that can contain secrets. By default, a plan (a dry run against a live cluster) does
    /// not show the values of these fields.
    fn secrets(&self) -> &'static [&'static str] {
        &[]
    }

    /// Returns the warning for requests to a deprecated version.
    fn deprecation(&self) -> Option<&str> {
        None
    }

    /// Returns the field paths of `/scale` if the kind is a custom resource with this subresource.
    fn scale(&self) -> Option<&super::scale::Scale> {
        None
    }

    /// Returns the cost of validating an object against the schema, in addition to the cost for its size. A cost of 1
    /// corresponds to the time to process one byte of a request body.
    fn schema_weight(&self) -> usize {
        0
    }

    /// Returns the OpenAPI schema of a custom resource, or `None` for a built-in kind.
    fn openapi(&self) -> Option<&Json> {
        None
    }

    /// Returns the paths of fields that a write to the subresource must not change, and that its field manager cannot
    /// own. Returns `None` if the default paths apply.
    fn reset_fields(&self, _part: Subresource) -> Option<Reset> {
        None
    }

    /// Returns the functions for the computed columns of a built-in kind.
    fn computed_cells(&self) -> ComputedCells {
        &[]
    }

    /// Returns the table columns of a custom resource, or `None` for a built-in kind.
    fn columns(&self) -> Option<Vec<Column>> {
        None
    }

    /// Returns the row of an object in a table, with one cell per column. `table` contains the columns of a built-in
    /// kind.
    fn cells(&self, table: Table, object: &Json, now: Timestamp) -> Vec<Json> {
        table.iter().map(|column| column.of(self.computed_cells(), object, now)).collect()
    }
}

/// A strategy with only the default rules.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plain;

impl Strategy for Plain {}
