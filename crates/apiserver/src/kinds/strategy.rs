//! The trait [`Strategy`]: what sets one kind apart from another.

use std::sync::Arc;

use jiff::Timestamp;
use pintle_json::Json;
use pintle_meta::GroupVersionKind;

use super::answers::{Form, FurtherRight, Origin, PlainFinalizers, Pods, Routing, Stream};
use super::layout::Layout;
use super::object_meta::MetadataChecks;
use super::posting::Posting;
use super::reset::Reset;
use super::table::Column;
use super::{Cluster, Context, Kind, Kinds};
use crate::failure::Outcome;
use crate::request::Subresource;
use crate::validate::FieldErrors;

/// What sets one kind apart. Each method does nothing unless a kind has a rule there.
///
/// The handlers add what all kinds have in common (metadata, status split, generation) around these.
/// The order of a write: [`prune`](Self::prune), [`defaults`](Self::defaults), [`prepare_for_create`](Self::prepare_for_create) or
/// [`prepare_for_update`](Self::prepare_for_update), [`admit`](Self::admit), then validation.
pub(crate) trait Strategy: Send + Sync {
    /// Where the kind comes from.
    fn origin(&self) -> Origin {
        Origin::BuiltIn
    }

    /// The uid of the definition that made the kind, if one has.
    fn definition(&self) -> Option<&str> {
        None
    }

    /// How its objects are laid out.
    fn layout(&self) -> Layout {
        Layout::Declared
    }

    /// How its requests are routed.
    fn routing(&self) -> Routing {
        Routing::PerMethod
    }

    /// What becomes of finalizers that are not qualified.
    fn plain_finalizers(&self) -> PlainFinalizers {
        PlainFinalizers::Refused
    }

    /// Whether a write of the status leaves the metadata alone, but for the managed fields.
    fn status_keeps_metadata(&self) -> bool {
        false
    }

    /// Takes away what the schema does not know; answers the paths of what went, sorted.
    fn prune(&self, _object: &mut Json) -> Vec<String> {
        Vec::new()
    }

    /// Why the object cannot be read, though its own metadata can; it is told as a body that is wrong, not as an invalid object.
    fn malformed(&self, _object: &Json) -> Option<String> {
        None
    }

    /// Why Go, which can read the object, cannot make of it what it works with.
    fn unconvertible(&self, _object: &Json) -> Option<String> {
        None
    }

    /// Takes away nulls that stand for nothing.
    fn drop_nulls(&self, _object: &mut Json) {}

    /// Fills in what was left out.
    fn defaults(&self, _object: &mut Json) {}

    /// Sets what only the server sets in a new object.
    fn prepare_for_create(&self, _context: &Context<'_>, _object: &mut Json) {}

    /// Puts back what this request may not change.
    fn prepare_for_update(&self, _context: &Context<'_>, _new: &mut Json, _old: &Json, _part: Subresource) {}

    /// What admission does on a real server: changes the object, or refuses the request. `old` is the stored object of an update.
    fn admit(
        &self,
        _context: &Context<'_>,
        _object: &mut Json,
        _old: Option<&Json>,
        _part: Subresource,
    ) -> Outcome<()> {
        Ok(())
    }

    /// The faults of a new object, those of its metadata aside.
    fn validate_create(&self, _object: &Json) -> FieldErrors {
        FieldErrors::default()
    }

    /// The faults of a changed object, those of its metadata aside.
    fn validate_update(&self, new: &Json, _old: &Json, _part: Subresource) -> FieldErrors {
        self.validate_create(new)
    }

    /// What to warn of in a valid object. `old` is the stored object of an update.
    fn warnings(&self, _object: &Json, _old: Option<&Json>, _part: Subresource) -> Vec<String> {
        Vec::new()
    }

    /// Which checks of the metadata the rules for updates of this kind repeat.
    fn metadata_checks(&self) -> MetadataChecks {
        MetadataChecks::Update
    }

    /// Whether the metadata of a new object is checked only if all else is valid.
    fn checks_metadata_last(&self) -> bool {
        false
    }

    /// Whether a new object keeps the status that it came with, though `/status` is a path of its own.
    fn keeps_sent_status(&self) -> bool {
        false
    }

    /// Why the object of that name, which every cluster has, may not be deleted.
    fn undeletable(&self, _name: &str) -> Option<&'static str> {
        None
    }

    /// The seconds that an object is left which is to go in so many.
    fn grace(&self, _object: &Json, _asked: Option<i64>) -> i64 {
        0
    }

    /// Marks an object that is deleted for the first time as one that is going, where more than its metadata tells that. It is not
    /// removed before that is seen.
    fn mark_terminating(&self, _object: &mut Json, _now: &str) -> bool {
        false
    }

    /// Whether anything but the finalizers of its metadata holds an object that is going.
    fn is_held(&self, _object: &Json) -> bool {
        false
    }

    /// Whether an object whose dependents are not to be left alone waits for them.
    fn waits_for_dependents(&self) -> bool {
        false
    }

    /// What the objects are called where a deletion is meant for another one.
    fn called_in_conflicts<'a>(&self, kind: &'a Kind) -> &'a str {
        &kind.kind
    }

    /// What to warn of where a deletion does not say what becomes of the dependents.
    fn orphaning_warning(&self) -> Option<&str> {
        None
    }

    /// Fills in what Go writes of an empty object beyond what its schema says.
    fn complete_empty(&self, _object: &mut Json) {}

    /// What to warn of in an object that is about to be stored, for it has no effect here and would have one elsewhere.
    fn without_effect(&self, _object: &Json, _kinds: &Kinds, _cluster: &dyn Cluster) -> Vec<String> {
        Vec::new()
    }

    /// Whether the desired state changed, beyond any change outside metadata and status.
    fn changes_generation(&self, new: &Json, old: &Json) -> bool {
        crate::object::differ_outside(new, old, &["apiVersion", "kind", "metadata", "status"])
    }

    /// The rule for `metadata.name`.
    fn name_rule(&self) -> crate::validate::NameRule {
        crate::validate::NameRule::Subdomain
    }

    /// The field labels that a field selector may name besides `metadata.name` and `metadata.namespace`; `None` where the kind
    /// has no table of them, which changes the words of an error.
    fn field_labels(&self) -> Option<Vec<&str>> {
        None
    }

    /// The paths of what [`field`](Self::field) looks at for a label.
    fn field_paths<'a>(&self, label: &'a str) -> Vec<&'a str> {
        vec![label]
    }

    /// The label that stands for one that is asked for, of those that a kind has under an old name as well.
    fn field_label<'a>(&self, asked: &'a str) -> &'a str {
        asked
    }

    /// What is told of a label that the kind does not have.
    fn unknown_field_label(&self, _kind: &GroupVersionKind, label: &str) -> String {
        format!("field label not supported: {label}")
    }

    /// The value of one of these labels.
    fn field(&self, object: &Json, label: &str) -> Option<String> {
        let pointer = format!("/{}", label.replace('.', "/"));
        Some(crate::object::text(object.at(&pointer)))
    }

    /// What of a stored object no other object may have as well.
    fn claims(&self, _stored: &Json) -> Vec<String> {
        Vec::new()
    }

    /// Whether rules look at the objects so often that their trees are kept.
    fn is_read_often(&self) -> bool {
        false
    }

    /// The stored form of an object of this version.
    fn to_stored(&self, object: Json) -> Json {
        object
    }

    /// How stored objects become what this version shows.
    fn form(&self) -> Form {
        Form::Stored
    }

    /// A stored object as this version shows it. `written` is the `apiVersion` that it was written with; empty if that is not
    /// known.
    fn shown(&self, stored: &Arc<Json>, _written: &str) -> Arc<Json> {
        Arc::clone(stored)
    }

    /// How objects become those of another version that calls its fields otherwise; none where all versions share their fields.
    fn conversion(&self) -> Option<pintle_fieldmanager::Convert> {
        None
    }

    /// Whether a new object of a real server lacks, where it is stored, what is filled in whenever it is read. The next write
    /// stores that: it counts, even if it changes nothing.
    fn settles_late(&self, _created: &Json) -> bool {
        false
    }

    /// What is posted to that part of its objects, or to the kind itself, where it is not to be stored.
    fn posting(&self, _part: Subresource) -> Option<&dyn Posting> {
        None
    }

    /// What goes on there for as long as somebody listens.
    fn stream(&self, _part: Subresource) -> Option<Stream> {
        None
    }

    /// Its objects, where none are stored.
    fn made_up(&self) -> Option<Vec<Json>> {
        None
    }

    /// The other kinds whose objects the rules look at, each with its group, where that part is written.
    fn looks_at(&self, _part: Subresource) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    /// A right that a write takes beside that to write; or why nobody may do it. `old` is the stored object of an update.
    fn further_right(&self, _new: &Json, _old: Option<&Json>, _part: Subresource) -> Outcome<Option<FurtherRight>> {
        Ok(None)
    }

    /// What its objects have to do with pods.
    fn pods(&self) -> Pods {
        Pods::Unrelated
    }

    /// Whether its objects only report what happened: there are many, nobody waits for them, and they go by themselves.
    fn is_report(&self) -> bool {
        false
    }

    /// The members that nobody is shown unasked.
    fn secrets(&self) -> &'static [&'static str] {
        &[]
    }

    /// What to warn of in every request, of a version that is on its way out.
    fn deprecation(&self) -> Option<&str> {
        None
    }

    /// Where the number of replicas stands, of a kind with `/scale`.
    fn scale(&self) -> Option<&super::Scale> {
        None
    }

    /// What holding objects against the kind's schema takes apart from their size, as bytes of a body that takes as long.
    fn schema_weight(&self) -> usize {
        0
    }

    /// The OpenAPI schema that a definition gives the kind.
    fn openapi(&self) -> Option<&Json> {
        None
    }

    /// The paths that a write of that part cannot change, so that nobody comes to own them by it; `None` as for most kinds.
    fn reset_fields(&self, _part: Subresource) -> Option<Reset> {
        None
    }

    /// The columns of a table; `None` for the columns of a kind without a printer.
    fn columns(&self) -> Option<Vec<Column>> {
        None
    }

    /// The cells of one row, as many as there are columns.
    fn cells(&self, _object: &Json, _now: Timestamp) -> Vec<Json> {
        Vec::new()
    }
}

/// A kind without rules of its own.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Plain;

impl Strategy for Plain {}
