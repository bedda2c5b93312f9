//! What the log holds.

use std::borrow::{Borrow, Cow};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use pintle_json::Json;

use super::interner::Interner;
use super::json_body::{BorrowedText, JsonBody, Member, MemberOrder};
use super::kept::{Encoding, Encodings, Room};

/// Under which name a resource's objects are stored: `pods`, `deployments.apps`.
pub type ResourceKey = Arc<str>;

/// An object's place within its resource: `namespace/name`, or `name` alone in cluster scope.
pub type Key = Arc<str>;

/// An object that is about to be written.
pub struct Draft {
    pub(super) body: JsonBody,
    pub(super) version: String,
    /// What no other object may have as well, such as an address.
    pub(super) claims: Vec<String>,
    /// What can be selected of it, where that is the same however it is shown.
    pub(super) fields: Vec<String>,
}

/// Without the object: it may be a Secret.
impl fmt::Debug for Draft {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Draft").field("version", &self.version).finish_non_exhaustive()
    }
}

impl Draft {
    /// What others have as well is kept once by `interner`, that of the store that it is for.
    pub fn new(interner: &Arc<Interner>, object: &Json, order: MemberOrder, claims: Vec<String>) -> Self {
        let version = object.get("apiVersion").and_then(Json::as_str).unwrap_or_default().to_owned();
        Self { body: JsonBody::new(interner, object, order), version, claims, fields: Vec::new() }
    }

    /// The same without what no other object may have as well.
    pub fn without_claims(self) -> Self {
        Self { claims: Vec::new(), ..self }
    }

    /// The same with what can be selected of it, in the order of its kind.
    pub fn selectable(self, fields: Vec<String>) -> Self {
        Self { fields, ..self }
    }
}

/// What objects share that were written to one resource in one `apiVersion`: these, and the room for what is kept of them in other
/// encodings.
#[derive(Debug)]
pub(crate) struct WrittenIn {
    resource: ResourceKey,
    version: Box<str>,
    room: Arc<Room>,
}

impl WrittenIn {
    pub(super) fn new(resource: &ResourceKey, version: &str, room: &Arc<Room>) -> Arc<Self> {
        Arc::new(Self { resource: resource.clone(), version: version.into(), room: room.clone() })
    }

    /// That of an object of no store, of which nothing is kept.
    fn nowhere(version: &str) -> Arc<Self> {
        Self::new(&ResourceKey::default(), version, &Arc::default())
    }

    pub(super) fn version(&self) -> &str {
        &self.version
    }
}

/// An object as one write left it. It never changes; the next write makes another.
///
/// It is kept as the bytes in which it is served, without `apiVersion` and `kind`: which one is shown depends on the version that
/// it is read through, and in typed lists neither is. The version that it was written in is kept beside it, for it may cease to be
/// the one that is stored. A tree of it is there for as long as somebody works with one.
pub struct Stored {
    revision: u64,
    written: Arc<WrittenIn>,
    is_first: bool,
    body: JsonBody,
    /// Most small objects are never shown but as they are.
    shown: OnceLock<Box<ShownAs>>,
}

/// What is known of an object beside its bytes.
#[derive(Debug, Default)]
struct ShownAs {
    /// The form in which it was last found to be shown just as it is stored; 0 for none.
    fits: AtomicU64,
    /// The tree of what the server itself reads all the time.
    tree: OnceLock<Arc<Json>>,
    fields: OnceLock<Arc<SelectableFields>>,
    /// What it is shown as otherwise, once somebody has asked for that.
    encodings: OnceLock<Arc<Encodings>>,
}

/// Without the object: it may be a Secret.
impl fmt::Debug for Stored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stored").field("revision", &self.revision).finish_non_exhaustive()
    }
}

/// What can be selected of an object, in the order of its kind, in one form: one text behind the other, since most are short or
/// empty.
#[derive(Debug)]
struct SelectableFields {
    form: u64,
    text: Box<str>,
    /// Where each ends.
    ends: Box<[usize]>,
}

/// The form of what is the same however it is shown.
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
    pub(super) fn new(revision: u64, written: Arc<WrittenIn>, is_first: bool, body: JsonBody) -> Self {
        Self { revision, written, is_first, body, shown: OnceLock::new() }
    }

    /// The same with what can be selected of it, if that is known.
    pub(super) fn selectable(self, fields: Vec<String>) -> Self {
        if !fields.is_empty() {
            self.shown().fields.get_or_init(|| Arc::new(SelectableFields::new(SAME, &fields)));
        }
        self
    }

    fn shown(&self) -> &ShownAs {
        self.shown.get_or_init(Box::default)
    }

    /// An object that some other store held. It has no revision of this one.
    pub fn of(draft: Draft) -> Self {
        Self::new(0, WrittenIn::nowhere(&draft.version), true, draft.body)
    }

    /// An object that no store holds: it is shown without a version.
    pub fn unversioned(object: &Json) -> Self {
        Self::new(0, WrittenIn::nowhere(""), true, JsonBody::unversioned(object))
    }

    /// The same content under another revision.
    pub fn at(&self, revision: u64) -> Self {
        let other = Self::new(revision, self.written.clone(), false, self.body.clone());
        if let Some(ShownAs { fits, fields, .. }) = self.shown.get().map(Box::as_ref) {
            let fits = fits.load(Ordering::Relaxed).into();
            other.shown.get_or_init(|| Box::new(ShownAs { fits, fields: fields.clone(), ..ShownAs::default() }));
        }
        other
    }

    /// The revision of the write.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// The `apiVersion` that it was written with; empty if it was written without.
    pub fn version(&self) -> &str {
        self.written.version()
    }

    /// Whether the write created the object.
    pub fn is_first(&self) -> bool {
        self.is_first
    }

    /// What it takes in memory, about.
    pub fn weight(&self) -> usize {
        size_of::<Self>() + self.body.len()
    }

    /// Whether the other holds the same, under whatever version.
    pub fn has_content_of(&self, other: &Self) -> bool {
        self.body == other.body
    }

    /// Appends the object as JSON, without `apiVersion` and `kind`.
    pub fn write(&self, to: &mut Vec<u8>) {
        self.body.write(self.revision, to);
    }

    /// The object in another encoding, made when somebody first asks for it, and kept while there is room: there may be many who ask.
    /// Cells are kept for their second.
    ///
    /// # Errors
    ///
    /// Those of `make`.
    pub fn encode<E>(&self, encoding: Encoding, make: impl FnOnce() -> Result<Vec<u8>, E>) -> Result<Arc<[u8]>, E> {
        let encodings = self.shown().encodings.get_or_init(|| Arc::new(Encodings::new(&self.written.room)));
        encodings.find_or_make(encoding, make)
    }

    /// The room for what is kept of it and its neighbours.
    pub(super) fn room(&self) -> &Arc<Room> {
        &self.written.room
    }

    /// The object as a tree, without `apiVersion` and `kind`. It is made anew each time.
    pub fn decode(&self) -> Json {
        self.body.decode(self.revision)
    }

    /// The same, made once and kept: for the few small objects that are read with nearly every request.
    pub fn kept_tree(&self) -> Arc<Json> {
        self.shown().tree.get_or_init(|| Arc::new(self.decode())).clone()
    }

    /// The metadata alone as a tree.
    pub fn metadata(&self) -> Json {
        self.body.metadata(self.revision)
    }

    /// A tree of what is at these paths, such as `spec.nodeName`, and of nothing else.
    pub fn only(&self, paths: &[&str]) -> Json {
        self.body.only(self.revision, paths)
    }

    /// What can be selected of it in that form, at that place in the order of its kind. All of it is read once and kept; none if that
    /// was done in another form.
    pub fn field(&self, form: u64, at: usize, read: impl FnOnce() -> Vec<String>) -> Option<&str> {
        let fields = self.shown().fields.get_or_init(|| Arc::new(SelectableFields::new(form, &read())));
        fields.value(at).filter(|_| fields.form == form)
    }

    /// The same where it is known already, and the same however the object is shown.
    pub fn kept_field(&self, at: usize) -> Option<&str> {
        self.shown.get()?.fields.get().filter(|fields| fields.form == SAME)?.value(at)
    }

    /// Its name.
    pub fn name(&self) -> Cow<'_, str> {
        self.text(Member::Name)
    }

    /// Empty in cluster scope.
    pub fn namespace(&self) -> Cow<'_, str> {
        self.text(Member::Namespace)
    }

    /// Its uid.
    pub fn uid(&self) -> Cow<'_, str> {
        self.text(Member::Uid)
    }

    /// The value of a label, looked up by [`Labels::value`].
    pub fn labels(&self) -> Labels<'_> {
        Labels(self.body.member(Member::Labels).unwrap_or_default())
    }

    /// Whether a deletion is under way.
    pub fn is_deleting(&self) -> bool {
        self.body.member::<BorrowedText<'_>>(Member::DeletionTimestamp).is_some()
    }

    /// The seconds that a deletion under way leaves the object.
    pub fn grace_seconds(&self) -> Option<i64> {
        self.body.member(Member::DeletionGracePeriodSeconds)
    }

    /// What has to be done before it goes.
    pub fn finalizers(&self) -> Vec<String> {
        self.body.member(Member::Finalizers).unwrap_or_default()
    }

    /// Its owners, as they stand in the metadata.
    pub fn owner_references(&self) -> Vec<Json> {
        self.body.member(Member::OwnerReferences).unwrap_or_default()
    }

    /// Whether it is known to be shown just as it is stored, in a form in which not every object is.
    pub fn fits(&self, form: u64) -> bool {
        self.shown.get().is_some_and(|shown| shown.fits.load(Ordering::Relaxed) == form)
    }

    /// Takes note that it is shown in that form just as it is stored.
    pub fn note_fit(&self, form: u64) {
        self.shown().fits.store(form, Ordering::Relaxed);
    }

    fn text(&self, member: Member) -> Cow<'_, str> {
        self.body.member(member).map(|BorrowedText(text)| text).unwrap_or_default()
    }
}

/// The labels of an object.
#[derive(Debug)]
pub struct Labels<'a>(BTreeMap<BorrowedText<'a>, BorrowedText<'a>>);

impl Labels<'_> {
    /// The value of that label.
    pub fn value(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(|BorrowedText(value)| &**value)
    }
}

impl Borrow<str> for BorrowedText<'_> {
    fn borrow(&self) -> &str {
        &self.0
    }
}

/// What a change did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// It made the object.
    Created,
    /// It wrote an object that was there.
    Updated,
    /// It took the object away.
    Deleted,
}

/// One entry of the log.
#[derive(Debug)]
pub struct StoreChange {
    /// When it was.
    pub at: Instant,
    /// What it did.
    pub kind: ChangeKind,
    /// Which object it is.
    pub key: Key,
    /// What was there before.
    pub old: Option<Arc<Stored>>,
    /// What is there now; of a deletion, the last content with the deletion's revision.
    pub new: Arc<Stored>,
}

impl StoreChange {
    /// The number of the change.
    pub fn revision(&self) -> u64 {
        self.new.revision
    }

    /// Of which resource the object is.
    pub fn resource(&self) -> &ResourceKey {
        &self.new.written.resource
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn little_is_kept_beside_the_bytes_of_an_object_and_of_a_change() {
        // With the counts of an `Arc` and what malloc adds, these are 96 and 80 bytes.
        assert!(size_of::<Stored>() <= 72 && size_of::<StoreChange>() <= 56);
    }
}
