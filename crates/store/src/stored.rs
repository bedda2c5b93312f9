//! Stored objects and their changes.

use std::borrow::{Borrow, Cow};
use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use pintle_json::Json;

use super::encodings::{Encoding, EncodingCache, Encodings};
use super::interner::Interner;
use super::json_body::{BorrowedText, JsonBody, Member, MemberOrder};

/// The name of a resource in a store, such as `pods` or `deployments.apps`.
pub type ResourceKey = Arc<str>;

/// The key of an object within its resource, in the form `namespace/name`, or `name` for a cluster-scoped object.
pub type Key = Arc<str>;

/// An object to write to a store.
pub struct Draft {
    pub(super) body: JsonBody,
    pub(super) version: String,
    pub(super) claims: Vec<String>,
    /// The values of the selectable fields, if they are the same in all API versions of the object's kind.
    pub(super) fields: Vec<String>,
}

/// The `Debug` output omits the object, because it may be a Secret.
impl fmt::Debug for Draft {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Draft").field("version", &self.version).finish_non_exhaustive()
    }
}

impl Draft {
    /// Creates a draft. `interner` must be the interner of the store that will contain the object.
    pub fn new(interner: &Arc<Interner>, object: &Json, order: MemberOrder, claims: Vec<String>) -> Self {
        let version = object.get("apiVersion").and_then(Json::as_str).unwrap_or_default().to_owned();
        Self { body: JsonBody::new(interner, object, order), version, claims, fields: Vec::new() }
    }

    /// Returns the draft without its claims (values that only one object in the store can own).
    pub fn without_claims(self) -> Self {
        Self { claims: Vec::new(), ..self }
    }

    /// Sets the values of the fields that field selectors can use, in the order that the kind defines.
    pub fn selectable(self, fields: Vec<String>) -> Self {
        Self { fields, ..self }
    }
}

#[derive(Debug)]
pub(crate) struct Origin {
    resource: ResourceKey,
    pub(super) version: Box<str>,
    encoding_cache: Arc<EncodingCache>,
}

impl Origin {
    pub(super) fn new(resource: &ResourceKey, version: &str, encoding_cache: &Arc<EncodingCache>) -> Arc<Self> {
        Arc::new(Self { resource: resource.clone(), version: version.into(), encoding_cache: encoding_cache.clone() })
    }

    /// Creates the origin of an object outside a store, whose encodings are not cached.
    fn detached(version: &str) -> Arc<Self> {
        Self::new(&ResourceKey::default(), version, &Arc::default())
    }
}

/// A version of an object, which is immutable: each write stores a new version.
///
/// The store keeps the version as the bytes for clients, and decodes them only if necessary. The stored bytes do not
/// contain `apiVersion` and `kind`, because both depend on the requested API version, and lists of built-in kinds omit
/// them. The `apiVersion` of the write is stored separately, because the kind's storage version can change.
pub struct Stored {
    revision: u64,
    origin: Arc<Origin>,
    is_first: bool,
    body: JsonBody,
    /// Data that is computed at its first use. Most small objects never need it, because they are sent unchanged.
    derived: OnceLock<Box<Derived>>,
}

#[derive(Debug, Default)]
struct Derived {
    /// The number of a form that the stored bytes are known to have, or 0. A form is the structure of the kind's
    /// objects in one served API version.
    fits: AtomicU64,
    /// The decoded object, which is stored only for objects that the server reads often.
    tree: OnceLock<Arc<Json>>,
    fields: OnceLock<Arc<SelectableFields>>,
    encodings: OnceLock<Arc<Encodings>>,
}

/// The `Debug` output omits the object, because it may be a Secret.
impl fmt::Debug for Stored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stored").field("revision", &self.revision).finish_non_exhaustive()
    }
}

/// The values of an object's selectable fields in one form, in the order defined by the kind. One string contains all
/// values, because most of them are short or empty.
#[derive(Debug)]
struct SelectableFields {
    form: u64,
    text: Box<str>,
    ends: Box<[usize]>,
}

/// The form number to pass to [`Stored::field`] if the selectable fields have the same values in all forms. A form is
/// the structure of the kind's objects in one served API version.
pub const SAME: u64 = 0;

impl SelectableFields {
    fn new(form: u64, values: &[String]) -> Self {
        let mut end = 0;
        let ends = values.iter().map(|value| {
            end += value.len();
            end
        });
        Self { form, ends: ends.collect(), text: values.concat().into() }
    }

    fn value(&self, at: usize) -> Option<&str> {
        let start = at.checked_sub(1).map_or(Some(&0), |before| self.ends.get(before))?;
        self.text.get(*start..*self.ends.get(at)?)
    }
}

impl Stored {
    pub(super) fn new(revision: u64, origin: Arc<Origin>, is_first: bool, body: JsonBody) -> Self {
        Self { revision, origin, is_first, body, derived: OnceLock::new() }
    }

    pub(super) fn selectable(self, fields: Vec<String>) -> Self {
        if !fields.is_empty() {
            self.derived().fields.get_or_init(|| Arc::new(SelectableFields::new(SAME, &fields)));
        }
        self
    }

    fn derived(&self) -> &Derived {
        self.derived.get_or_init(Box::default)
    }

    /// Creates an object that is not in a store and has no revision.
    pub fn of(draft: Draft) -> Self {
        Self::new(0, Origin::detached(&draft.version), true, draft.body)
    }

    /// Creates an object without a resourceVersion that is not in a store.
    pub fn unversioned(object: &Json) -> Self {
        Self::new(0, Origin::detached(""), true, JsonBody::unversioned(object))
    }

    /// Returns a copy of the object with this revision.
    pub fn at(&self, revision: u64) -> Self {
        let other = Self::new(revision, self.origin.clone(), false, self.body.clone());
        if let Some(Derived { fits, fields, .. }) = self.derived.get().map(Box::as_ref) {
            let fits = fits.load(Ordering::Relaxed).into();
            other.derived.get_or_init(|| Box::new(Derived { fits, fields: fields.clone(), ..Derived::default() }));
        }
        other
    }

    /// Returns the revision of the write that stored this version.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Returns the `apiVersion` of the write, or an empty string if the written object had none.
    pub fn version(&self) -> &str {
        &self.origin.version
    }

    /// Returns `true` if this version was stored by the write that created the object.
    pub fn is_first(&self) -> bool {
        self.is_first
    }

    /// Returns the object's approximate memory size, in bytes.
    pub fn weight(&self) -> usize {
        size_of::<Self>() + self.body.len()
    }

    /// Returns the approximate size, in bytes, of the object's parts whose addresses are not in `counted`, and adds
    /// these addresses.
    pub(super) fn uncounted_weight(self: &Arc<Self>, counted: &mut HashSet<usize>) -> usize {
        let own = if counted.insert(Arc::as_ptr(self).addr()) { size_of::<Self>() } else { 0 };
        // A deletion shares the body of the object's last version, so count a shared body only once.
        let body = if counted.insert(self.body.address()) { self.body.len() } else { 0 };
        own + body
    }

    /// Returns `true` if both objects have the same content, ignoring their `apiVersion` and revision.
    pub fn has_content_of(&self, other: &Self) -> bool {
        self.body == other.body
    }

    /// Appends the object's JSON, without `apiVersion` and `kind`.
    pub fn write(&self, to: &mut Vec<u8>) {
        self.body.write(self.revision, to);
    }

    /// Returns the object in an encoding other than the stored JSON. The first call for an encoding creates it with
    /// `make`. The encoding stays cached until the cache evicts it. Table cells stay cached for only one second,
    /// because they contain the object's age.
    ///
    /// # Errors
    ///
    /// Returns an error if `make` returns an error.
    pub fn encode<E>(&self, encoding: Encoding, make: impl FnOnce() -> Result<Vec<u8>, E>) -> Result<Arc<[u8]>, E> {
        let encodings = self.derived().encodings.get_or_init(|| Arc::new(Encodings::new(&self.origin.encoding_cache)));
        encodings.find_or_make(encoding, make)
    }

    pub(super) fn encoding_cache(&self) -> &Arc<EncodingCache> {
        &self.origin.encoding_cache
    }

    /// Returns the decoded object, without `apiVersion` and `kind`.
    pub fn decode(&self) -> Json {
        self.body.decode(self.revision)
    }

    /// Returns the decoded object, and keeps it in memory for later calls. Because of the memory use, call `kept_tree`
    /// only for the few small objects that almost every request reads.
    pub fn kept_tree(&self) -> Arc<Json> {
        self.derived().tree.get_or_init(|| Arc::new(self.decode())).clone()
    }

    /// Decodes the metadata.
    pub fn metadata(&self) -> Json {
        self.body.metadata(self.revision)
    }

    /// Returns an object that contains only the values at these paths, such as `spec.nodeName`, without decoding other
    /// values.
    pub fn only(&self, paths: &[&str]) -> Json {
        self.body.projection(self.revision, paths)
    }

    /// Returns the value of a selectable field in the form with the number `form`. A form is the structure of the
    /// kind's objects in one served API version. `at` is the field's index in the order that the kind defines. The
    /// first call computes the values of all selectable fields with `read`, and stores them. Returns `None` if the
    /// stored values belong to a different form.
    pub fn field(&self, form: u64, at: usize, read: impl FnOnce() -> Vec<String>) -> Option<&str> {
        let fields = self.derived().fields.get_or_init(|| Arc::new(SelectableFields::new(form, &read())));
        fields.value(at).filter(|_| fields.form == form)
    }

    /// Returns the stored value of a selectable field. Returns `None` if no value is stored, or if the stored value is
    /// valid for only one form.
    pub fn kept_field(&self, at: usize) -> Option<&str> {
        self.derived.get()?.fields.get().filter(|fields| fields.form == SAME)?.value(at)
    }

    /// Returns the object's name.
    pub fn name(&self) -> Cow<'_, str> {
        self.text(Member::Name)
    }

    /// Returns the object's namespace, which is empty for a cluster-scoped object.
    pub fn namespace(&self) -> Cow<'_, str> {
        self.text(Member::Namespace)
    }

    /// Returns the object's UID.
    pub fn uid(&self) -> Cow<'_, str> {
        self.text(Member::Uid)
    }

    /// Returns the object's labels.
    pub fn labels(&self) -> Labels<'_> {
        Labels(self.body.member(Member::Labels).unwrap_or_default())
    }

    /// Returns `true` if the object has a deletion timestamp.
    pub fn is_deleting(&self) -> bool {
        self.body.member::<BorrowedText<'_>>(Member::DeletionTimestamp).is_some()
    }

    /// Returns the deletion grace period in seconds, or `None` if the object has none.
    pub fn grace_seconds(&self) -> Option<i64> {
        self.body.member(Member::DeletionGracePeriodSeconds)
    }

    /// Returns the object's finalizers.
    pub fn finalizers(&self) -> Vec<String> {
        self.body.member(Member::Finalizers).unwrap_or_default()
    }

    /// Returns the object's owner references.
    pub fn owner_references(&self) -> Vec<Json> {
        self.body.member(Member::OwnerReferences).unwrap_or_default()
    }

    /// Returns `true` if the last call of [`mark_as_fitting`](Self::mark_as_fitting) had this form number, which means
    /// that the stored bytes need no conversion. If the method returns `false`, the bytes may need a conversion.
    pub fn fits(&self, form: u64) -> bool {
        self.derived.get().is_some_and(|derived| derived.fits.load(Ordering::Relaxed) == form)
    }

    /// Records that the stored bytes need no conversion to the form with this number.
    pub fn mark_as_fitting(&self, form: u64) {
        self.derived().fits.store(form, Ordering::Relaxed);
    }

    fn text(&self, member: Member) -> Cow<'_, str> {
        self.body.member(member).map(|BorrowedText(text)| text).unwrap_or_default()
    }
}

/// The labels of an object.
#[derive(Debug)]
pub struct Labels<'a>(BTreeMap<BorrowedText<'a>, BorrowedText<'a>>);

impl Labels<'_> {
    /// Returns the value of the label `key`.
    pub fn value(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(|BorrowedText(value)| &**value)
    }
}

impl Borrow<str> for BorrowedText<'_> {
    fn borrow(&self) -> &str {
        &self.0
    }
}

/// The type of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// The object was created.
    Created,
    /// The object was updated.
    Updated,
    /// The object was removed.
    Deleted,
}

/// An entry of the change log.
#[derive(Debug)]
pub struct StoreChange {
    /// The time of the change.
    pub at: Instant,
    /// The type of the change.
    pub kind: ChangeKind,
    /// The key of the object.
    pub key: Key,
    /// The object before the change.
    pub old: Option<Arc<Stored>>,
    /// The object after the change. For a deletion, this is the last content of the object, with the revision of the
    /// deletion.
    pub new: Arc<Stored>,
}

impl StoreChange {
    /// Returns the revision of the change.
    pub fn revision(&self) -> u64 {
        self.new.revision
    }

    /// Returns the object's resource.
    pub fn resource(&self) -> &ResourceKey {
        &self.new.origin.resource
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_objects_and_changes_have_little_overhead() {
        // Including the reference counts of the `Arc` and the overhead of malloc, a `Stored` takes 96 bytes and a
        // `StoreChange` takes 80 bytes.
        assert!(size_of::<Stored>() <= 72 && size_of::<StoreChange>() <= 56);
    }
}
