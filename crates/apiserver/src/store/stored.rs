//! What the log holds.

use std::borrow::{Borrow, Cow};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use pintle_json::Json;

use super::json_body::{Body, Member, Order, Text};

/// Under which name a resource's objects are stored: `pods`, `deployments.apps`.
pub(crate) type ResourceKey = Arc<str>;

/// An object's place within its resource: `namespace/name`, or `name` alone in cluster scope.
pub(crate) type Key = Arc<str>;

/// An object that is about to be written.
#[derive(Debug)]
pub(crate) struct Draft {
    pub(super) body: Body,
    pub(super) version: String,
    /// What no other object may have as well, such as an address.
    pub(super) claims: Vec<String>,
    /// What can be selected of it, where that is the same however it is shown.
    pub(super) fields: Vec<String>,
}

impl Draft {
    pub(crate) fn new(object: &Json, order: Order, claims: Vec<String>) -> Self {
        let version = object.text("/apiVersion").to_owned();
        Self { body: Body::new(object, order), version, claims, fields: Vec::new() }
    }

    /// The same with what can be selected of it, in the order of its kind.
    pub(crate) fn selectable(self, fields: Vec<String>) -> Self {
        Self { fields, ..self }
    }
}

/// An `apiVersion` that objects were written in, which they share, and the room for what is kept of them in other encodings.
#[derive(Debug)]
pub(crate) struct WrittenIn {
    version: Box<str>,
    room: Arc<Room>,
}

impl WrittenIn {
    pub(super) fn new(version: &str, room: &Arc<Room>) -> Arc<Self> {
        Arc::new(Self { version: version.into(), room: room.clone() })
    }

    /// That of an object of no store, of which nothing is kept.
    fn nowhere(version: &str) -> Arc<Self> {
        Self::new(version, &Arc::default())
    }

    pub(super) fn version(&self) -> &str {
        &self.version
    }
}

/// How many bytes more all objects of a store may keep in other encodings, those of the past among them.
#[derive(Debug, Default)]
pub(super) struct Room(AtomicUsize);

impl Room {
    pub(super) fn new(bytes: usize) -> Self {
        Self(AtomicUsize::new(bytes))
    }

    /// Takes so much of it, if it is there.
    fn take(&self, bytes: usize) -> bool {
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(bytes)).is_ok()
    }

    fn give_back(&self, bytes: usize) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// An object as one write left it. It never changes; the next write makes another.
///
/// It is kept as the bytes in which it is served, without `apiVersion` and `kind`: which one is shown depends on the version that
/// it is read through, and in typed lists neither is. The version that it was written in is kept beside it, for it may cease to be
/// the one that is stored. A tree of it is there for as long as somebody works with one.
#[derive(Debug)]
pub(crate) struct Stored {
    revision: u64,
    written: Arc<WrittenIn>,
    is_first: bool,
    body: Body,
    /// The form in which it was last found to be shown just as it is stored; 0 for none.
    fits: AtomicU64,
    /// The tree of what the server itself reads all the time.
    tree: OnceLock<Arc<Json>>,
    fields: OnceLock<Arc<Fields>>,
    /// What somebody asked for while there was room.
    encoded: Mutex<Vec<(Encoding, Arc<[u8]>)>>,
}

impl Drop for Stored {
    fn drop(&mut self) {
        self.encoded().drain(..).for_each(|(_, bytes)| self.written.room.give_back(kept(&bytes)));
    }
}

/// What it takes to keep an object in another encoding, about.
fn kept(bytes: &[u8]) -> usize {
    size_of::<(Encoding, Arc<[u8]>)>() + bytes.len()
}

/// What an object is shown as, beside its own JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// The object in protobuf.
    Message,
    /// Its metadata alone, as JSON of that `apiVersion`.
    Metadata(String),
    /// Its metadata alone in protobuf.
    MetadataMessage,
    /// The cells of a table of that `apiVersion` and form, at that second: they tell ages.
    Cells(String, u64, i64),
}

/// What can be selected of an object, in the order of its kind, in one form: one text behind the other, since most are short or
/// empty.
#[derive(Debug)]
struct Fields {
    form: u64,
    text: Box<str>,
    /// Where each ends.
    ends: Box<[usize]>,
}

/// The form of what is the same however it is shown.
pub(crate) const SAME: u64 = 0;

impl Fields {
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
    pub(super) fn new(revision: u64, written: Arc<WrittenIn>, is_first: bool, body: Body) -> Self {
        Self {
            revision,
            written,
            is_first,
            body,
            fits: AtomicU64::new(0),
            tree: OnceLock::new(),
            fields: OnceLock::new(),
            encoded: Mutex::default(),
        }
    }

    /// The same with what can be selected of it, if that is known.
    pub(super) fn selectable(mut self, fields: Vec<String>) -> Self {
        if !fields.is_empty() {
            self.fields = Arc::new(Fields::new(SAME, &fields)).into();
        }
        self
    }

    /// An object that some other store held. It has no revision of this one.
    pub(crate) fn of(draft: Draft) -> Self {
        Self::new(0, WrittenIn::nowhere(&draft.version), true, draft.body)
    }

    /// An object that no store holds: it is shown without a version.
    pub(crate) fn unversioned(object: &Json) -> Self {
        Self::new(0, WrittenIn::nowhere(""), true, Body::unversioned(object))
    }

    #[cfg(test)]
    pub(crate) fn sample(object: &Json) -> Self {
        Self::new(1, WrittenIn::nowhere("v1"), true, Body::new(object, Order::Declared))
    }

    /// The same content under another revision.
    pub(crate) fn at(&self, revision: u64) -> Self {
        let mut other = Self::new(revision, self.written.clone(), false, self.body.clone());
        other.fits = AtomicU64::new(self.fits.load(Ordering::Relaxed));
        other.fields = self.fields.clone();
        other
    }

    /// The revision of the write.
    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    /// The `apiVersion` that it was written with; empty if it was written without.
    pub(crate) fn version(&self) -> &str {
        self.written.version()
    }

    /// Whether the write created the object.
    pub(crate) fn is_first(&self) -> bool {
        self.is_first
    }

    /// What it takes in memory, about.
    pub(crate) fn weight(&self) -> usize {
        size_of::<Self>() + self.body.len()
    }

    /// Whether the other holds the same, under whatever version.
    pub(crate) fn has_content_of(&self, other: &Self) -> bool {
        self.body == other.body
    }

    /// Appends the object as JSON, without `apiVersion` and `kind`.
    pub(crate) fn write(&self, to: &mut Vec<u8>) {
        self.body.write(self.revision, to);
    }

    /// The object in another encoding, made when somebody first asks for it, and kept if there is room: there may be many who ask. Of
    /// its cells the last are kept.
    pub(crate) fn encode<E>(
        &self,
        encoding: Encoding,
        make: impl FnOnce() -> Result<Vec<u8>, E>,
    ) -> Result<Arc<[u8]>, E> {
        let known = self.encoded().iter().find(|(of, _)| *of == encoding).map(|(_, bytes)| bytes.clone());
        if let Some(known) = known {
            return Ok(known);
        }
        let made: Arc<[u8]> = make()?.into();
        let (room, mut encoded) = (&self.written.room, self.encoded());
        // What another has made meanwhile gives way too.
        let gives_way =
            |of: &Encoding| *of == encoding || matches!((of, &encoding), (Encoding::Cells(..), Encoding::Cells(..)));
        encoded.extract_if(.., |(of, _)| gives_way(of)).for_each(|(_, bytes)| room.give_back(kept(&bytes)));
        if room.take(kept(&made)) {
            // Most objects are shown in one or two ways.
            encoded.reserve_exact(1);
            encoded.push((encoding, made.clone()));
        }
        Ok(made)
    }

    fn encoded(&self) -> MutexGuard<'_, Vec<(Encoding, Arc<[u8]>)>> {
        self.encoded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The object as a tree, without `apiVersion` and `kind`. It is made anew each time.
    pub(crate) fn decode(&self) -> Json {
        self.body.decode(self.revision)
    }

    /// The same, made once and kept: for the few small objects that are read with nearly every request.
    pub(crate) fn kept_tree(&self) -> Arc<Json> {
        self.tree.get_or_init(|| Arc::new(self.decode())).clone()
    }

    /// The metadata alone as a tree.
    pub(crate) fn metadata(&self) -> Json {
        self.body.metadata(self.revision)
    }

    /// A tree of what is at these paths, such as `spec.nodeName`, and of nothing else.
    pub(crate) fn only(&self, paths: &[&str]) -> Json {
        self.body.only(paths)
    }

    /// What can be selected of it in that form, at that place in the order of its kind. All of it is read once and kept; none if that
    /// was done in another form.
    pub(crate) fn field(&self, form: u64, at: usize, read: impl FnOnce() -> Vec<String>) -> Option<&str> {
        let fields = self.fields.get_or_init(|| Arc::new(Fields::new(form, &read())));
        fields.value(at).filter(|_| fields.form == form)
    }

    /// The same where it is known already, and the same however the object is shown.
    pub(super) fn kept_field(&self, at: usize) -> Option<&str> {
        self.fields.get().filter(|fields| fields.form == SAME)?.value(at)
    }

    pub(crate) fn name(&self) -> Cow<'_, str> {
        self.text(Member::Name)
    }

    /// Empty in cluster scope.
    pub(crate) fn namespace(&self) -> Cow<'_, str> {
        self.text(Member::Namespace)
    }

    pub(crate) fn uid(&self) -> Cow<'_, str> {
        self.text(Member::Uid)
    }

    /// The value of a label, looked up by [`Labels::value`].
    pub(crate) fn labels(&self) -> Labels<'_> {
        Labels(self.body.member(Member::Labels).unwrap_or_default())
    }

    /// Whether a deletion is under way.
    pub(crate) fn is_deleting(&self) -> bool {
        self.body.member::<Text<'_>>(Member::DeletionTimestamp).is_some()
    }

    /// The seconds that a deletion under way leaves the object.
    pub(crate) fn grace_seconds(&self) -> Option<i64> {
        self.body.member(Member::DeletionGracePeriodSeconds)
    }

    pub(crate) fn finalizers(&self) -> Vec<String> {
        self.body.member(Member::Finalizers).unwrap_or_default()
    }

    pub(crate) fn owner_references(&self) -> Vec<Json> {
        self.body.member(Member::OwnerReferences).unwrap_or_default()
    }

    /// Whether it is known to be shown just as it is stored, in a form in which not every object is.
    pub(crate) fn fits(&self, form: u64) -> bool {
        self.fits.load(Ordering::Relaxed) == form
    }

    pub(crate) fn note_fit(&self, form: u64) {
        self.fits.store(form, Ordering::Relaxed);
    }

    fn text(&self, member: Member) -> Cow<'_, str> {
        self.body.member(member).map(|Text(text)| text).unwrap_or_default()
    }
}

/// The labels of an object.
#[derive(Debug)]
pub(crate) struct Labels<'a>(BTreeMap<Text<'a>, Text<'a>>);

impl Labels<'_> {
    pub(crate) fn value(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(|Text(value)| &**value)
    }
}

impl Borrow<str> for Text<'_> {
    fn borrow(&self) -> &str {
        &self.0
    }
}

/// What a change did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChangeKind {
    Created,
    Updated,
    Deleted,
}

/// One entry of the log.
#[derive(Debug)]
pub(crate) struct Change {
    pub(crate) revision: u64,
    pub(crate) at: Instant,
    pub(crate) kind: ChangeKind,
    pub(crate) resource: ResourceKey,
    pub(crate) key: Key,
    /// What was there before.
    pub(crate) old: Option<Arc<Stored>>,
    /// What is there now; of a deletion, the last content with the deletion's revision.
    pub(crate) new: Arc<Stored>,
}
