//! An object as bytes: JSON in the order in which it is served.

mod only;
mod writer;

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use only::Only;
use pintle_json::Json;
use serde::Deserialize;
use serde::de::DeserializeSeed;
use writer::BodyWriter;

use super::interner::{Interned, Interner};

/// In which order the members of an object stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberOrder {
    /// As Go declares what all kinds have; then by name.
    Declared,
    /// By name, as custom resources have it.
    Sorted,
}

/// What of an object's metadata is found without decoding it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Member {
    Name,
    Namespace,
    Uid,
    ResourceVersion,
    DeletionTimestamp,
    DeletionGracePeriodSeconds,
    Labels,
    OwnerReferences,
    Finalizers,
}

/// The members of metadata, as Go declares them.
pub const METADATA: [&str; 15] = [
    "name",
    "generateName",
    "namespace",
    "selfLink",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
    "managedFields",
];

/// What comes first in an object.
pub const OBJECT: [&str; 3] = ["kind", "apiVersion", "metadata"];

/// The members in the order of [`Member`].
const MEMBERS: [&str; 9] = [
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "ownerReferences",
    "finalizers",
];

/// An object without `apiVersion` and `kind`, with its metadata's `resourceVersion` left empty: that is filled in on the way out, so
/// that the bytes are made before the revision is known, and what a deletion tells shares those of the last write.
///
/// Its longer members, and what each manager owns of it, are kept apart, since most of them are the same in the version before, or in
/// other objects of one template.
#[derive(Clone, Debug)]
pub(super) struct JsonBody {
    /// The JSON, and behind it its places.
    bytes: Arc<[u8]>,
    /// What is kept apart, by where in the JSON it is left out.
    apart: Arc<[(u32, Arc<Interned>)]>,
}

/// Where each of the members of the metadata begins in the JSON, and where these begin and end; 0 for what is absent.
type MemberPlaces = [u32; PLACES];
const PLACES: usize = MEMBERS.len() + 2;
/// Which of them is that of the metadata.
const METADATA_AT: usize = MEMBERS.len();
/// Up to this length of the JSON, a place takes two bytes, and then four.
const NARROW: usize = u16::MAX as usize;

/// A text that is borrowed from the bytes where nothing in it is escaped.
#[derive(Debug, Default, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct BorrowedText<'a>(#[serde(borrow)] pub(super) Cow<'a, str>);

impl JsonBody {
    /// What is the same in other objects is kept once by `interner`.
    pub(super) fn new(interner: &Arc<Interner>, object: &Json, order: MemberOrder) -> Self {
        BodyWriter::new(Some(interner), true).written(object, order)
    }

    /// The same without a `resourceVersion`, which is not filled in either.
    pub(super) fn unversioned(object: &Json) -> Self {
        BodyWriter::new(None, false).written(object, MemberOrder::Declared)
    }

    /// `places` are those in `json`.
    fn of(mut json: Vec<u8>, places: MemberPlaces, apart: Vec<(u32, Arc<Interned>)>) -> Self {
        let width = if json.len() > NARROW { 4 } else { 2 };
        json.extend(places.iter().flat_map(|place| place.to_le_bytes().into_iter().take(width)));
        // What has no parts is the same for all.
        let apart = if apart.is_empty() { Arc::default() } else { apart.into() };
        Self { bytes: json.into(), apart }
    }

    /// The JSON, and what each of its places takes behind it.
    fn split(&self) -> (&[u8], usize) {
        let width = if self.bytes.len() - 2 * PLACES > NARROW { 4 } else { 2 };
        (&self.bytes[..self.bytes.len() - width * PLACES], width)
    }

    fn json(&self) -> &[u8] {
        self.split().0
    }

    fn place(&self, at: usize) -> usize {
        let (json, width) = self.split();
        let place = self.bytes[json.len() + at * width..].iter().take(width);
        place.rev().fold(0, |place, byte| place << 8 | usize::from(*byte))
    }

    pub(super) fn len(&self) -> usize {
        self.json().len() + self.apart.iter().map(|(_, apart)| apart.bytes().len()).sum::<usize>()
    }

    /// Appends the object with that revision.
    pub(super) fn write(&self, revision: u64, to: &mut Vec<u8>) {
        to.reserve(self.len() + 20);
        self.write_part(0..self.json().len(), revision, to);
    }

    /// Appends what stands in a part of the JSON, with all that is left out there.
    fn write_part(&self, part: Range<usize>, revision: u64, to: &mut Vec<u8>) {
        let revision = revision.to_string();
        let revision = self.revision_at().map(|at| (at, revision.as_bytes()));
        let at = revision.map_or(0, |(at, _)| at);
        let (before, behind) = self.apart.split_at(self.apart.partition_point(|(apart, _)| (*apart as usize) < at));
        let [before, behind] =
            [before, behind].map(|apart| apart.iter().map(|(at, apart)| (*at as usize, apart.bytes())));
        let (json, mut from) = (self.json(), part.start);
        for (at, left_out) in before.chain(revision).chain(behind).filter(|(at, _)| part.contains(at)) {
            to.extend_from_slice(&json[from..at]);
            to.extend_from_slice(left_out);
            from = at;
        }
        to.extend_from_slice(&json[from..part.end]);
    }

    /// The object as a tree.
    pub(super) fn decode(&self, revision: u64) -> Json {
        let mut json = Vec::new();
        self.write(revision, &mut json);
        read(&json).unwrap_or_default()
    }

    /// The metadata as a tree.
    pub(super) fn metadata(&self, revision: u64) -> Json {
        let mut json = Vec::new();
        self.write_part(self.place(METADATA_AT)..self.place(METADATA_AT + 1), revision, &mut json);
        read(&json).unwrap_or_default()
    }

    /// A member of the metadata; none if it is absent, null or of another type.
    pub(super) fn member<'a, T: Deserialize<'a>>(&'a self, member: Member) -> Option<T> {
        let start = self.place(member as usize);
        // None of them has anything left out but the revision.
        read(self.json().get(start..).filter(|_| start > 0)?)
    }

    /// What stands at these paths, such as `spec.nodeName`, in a tree of the object with that revision that has nothing else.
    pub(super) fn only(&self, revision: u64, paths: &[&str]) -> Json {
        let paths: Vec<Vec<&str>> = paths.iter().map(|path| path.split('.').collect()).collect();
        let mut json = Vec::new();
        self.write(revision, &mut json);
        let mut json = serde_json::Deserializer::from_slice(&json);
        Only { paths: paths.iter().map(Vec::as_slice).collect() }.deserialize(&mut json).unwrap_or_default()
    }

    /// Where the digits of the revision belong: behind the opening quote.
    fn revision_at(&self) -> Option<usize> {
        let start = self.place(Member::ResourceVersion as usize);
        (start > 0).then_some(start + 1)
    }
}

impl PartialEq for JsonBody {
    fn eq(&self, other: &Self) -> bool {
        // What is left out follows from the content, but where nothing is.
        if self.apart.len() == other.apart.len() {
            let mut apart = self.apart.iter().zip(&*other.apart);
            let is_same = |one: &Arc<Interned>, other| Arc::ptr_eq(one, other) || one.bytes() == other.bytes();
            return self.json() == other.json()
                && apart.all(|(one, other)| one.0 == other.0 && is_same(&one.1, &other.1));
        }
        let whole = |body: &Self| {
            let mut json = Vec::new();
            body.write(0, &mut json);
            json
        };
        self.len() == other.len() && whole(self) == whole(other)
    }
}

/// The value that these bytes begin with. What comes behind it does not count.
fn read<'a, T: Deserialize<'a>>(json: &'a [u8]) -> Option<T> {
    Option::deserialize(&mut serde_json::Deserializer::from_slice(json)).ok().flatten()
}

#[cfg(test)]
mod tests {
    use pintle_json::json;

    use super::*;

    fn written(object: &Json, order: MemberOrder) -> String {
        let mut json = Vec::new();
        JsonBody::new(&Arc::default(), object, order).write(7, &mut json);
        String::from_utf8(json).expect("JSON")
    }

    #[test]
    fn metadata_come_first_and_in_the_usual_order_but_in_custom_resources() {
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"uid": "u", "labels": {"resourceVersion": ""}, "name": "n", "odd": 1, "annotations": {}},
            "data": {"b": "1", "a": "2", "resourceVersion": ""},
        });
        let declared = r#"{"metadata":{"name":"n","uid":"u","resourceVersion":"7","labels":{"resourceVersion":""},"annotations":{},"odd":1},"data":{"a":"2","b":"1","resourceVersion":""}}"#;
        assert_eq!(written(&object, MemberOrder::Declared), declared);
        let sorted = r#"{"data":{"a":"2","b":"1","resourceVersion":""},"metadata":{"annotations":{},"labels":{"resourceVersion":""},"name":"n","odd":1,"resourceVersion":"7","uid":"u"}}"#;
        assert_eq!(written(&object, MemberOrder::Sorted), sorted);
        assert_eq!(written(&json!({"data": 1}), MemberOrder::Declared), r#"{"data":1}"#);
    }

    #[test]
    fn what_is_written_is_read_back_with_its_revision() {
        let object = json!({
            "metadata": {"name": "n", "resourceVersion": "1", "labels": {"a": "b\"c"}, "deletionTimestamp": null},
            "spec": {"float": 0.1, "odd": 1.234_567_890_123_456_7e-200, "list": [{"x": [1]}]},
        });
        for order in [MemberOrder::Declared, MemberOrder::Sorted] {
            let body = JsonBody::new(&Arc::default(), &object, order);
            let mut expected = object.clone();
            expected["metadata"]["resourceVersion"] = "7".into();
            assert_eq!(body.decode(7), expected);
            assert_eq!(body.metadata(7), expected["metadata"]);
            assert_eq!(body.member::<BorrowedText<'_>>(Member::Name), Some(BorrowedText("n".into())));
            assert_eq!(body.member::<BorrowedText<'_>>(Member::DeletionTimestamp), None);
            assert_eq!(body.member::<BorrowedText<'_>>(Member::Uid), None);
            assert_eq!(body.member::<Json>(Member::Labels), Some(json!({"a": "b\"c"})));
        }
    }

    #[test]
    fn a_member_is_found_however_long_the_object_is() {
        let beside =
            written(&json!({"metadata": {"annotations": {"a": ""}, "finalizers": ["f"]}}), MemberOrder::Declared).len()
                - 1;
        for len in (NARROW - 2 * PLACES - 2..NARROW + 2 * PLACES + 2).chain([0, 2 * NARROW]) {
            let annotations = json!({"a": "x".repeat(len.saturating_sub(beside))});
            let object = json!({"metadata": {"annotations": annotations, "finalizers": ["f"]}});
            let body = JsonBody::new(&Arc::default(), &object, MemberOrder::Declared);
            assert_eq!(body.member::<Vec<String>>(Member::Finalizers), Some(vec!["f".into()]), "{len}");
            assert_eq!(body.member::<BorrowedText<'_>>(Member::Name), None);
            assert!(len == 0 || body.json().len() == len, "{len}");
        }
    }

    #[test]
    fn only_what_is_asked_for_is_read() {
        let object = json!({
            "metadata": {"name": "n"}, "spec": {"a": 1, "b": {"c": [2], "d": true}, "e": "f"}, "reason": "r", "list": [{"a": 1}],
        });
        let body = JsonBody::new(&Arc::default(), &object, MemberOrder::Declared);
        let found = body.only(7, &["spec.a", "spec.b.c", "spec.e.x", "reason", "list.a", "absent.a", "metadata"]);
        let expected = json!({"metadata": {"name": "n", "resourceVersion": "7"}, "spec": {"a": 1, "b": {"c": [2]}, "e": null}, "reason": "r", "list": null});
        assert_eq!(found, expected);
    }

    /// An object of some template: what is long is the same in all of them, but for the status.
    fn replica(number: usize) -> Json {
        let owned = |what: &str| (0..40).map(|at| (format!("f:{what}{at}"), json!({}))).collect::<Json>();
        json!({
            "metadata": {
                "name": format!("n{number}"), "resourceVersion": "1",
                "managedFields": [
                    {"manager": "a", "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:a": owned("a"), "f:own": {(number.to_string()): {}}}}, "time": number.to_string()},
                    "odd",
                    {"manager": "b", "fieldsType": "FieldsV1", "fieldsV1": {"f:status": {"f:b": owned("b")}}, "subresource": "status"},
                    {"manager": "short", "fieldsV1": {"f:c": {}}},
                ],
                "finalizers": ["f"],
            },
            "data": {"long": "x".repeat(1000)},
            "spec": {"long": "y".repeat(1000), "number": 1},
            "status": {"long": number.to_string().repeat(1000)},
            "short": number,
        })
    }

    #[test]
    fn what_is_kept_apart_is_read_where_it_belongs() {
        let object = replica(3);
        for order in [MemberOrder::Declared, MemberOrder::Sorted] {
            let mut whole = object.clone();
            whole["metadata"]["resourceVersion"] = "12".into();
            let body = JsonBody::new(&Arc::default(), &object, order);
            assert_eq!(body.apart.len(), 5, "{order:?}");
            assert_eq!(body.decode(12), whole);
            assert_eq!(body.metadata(12), whole["metadata"]);
            assert_eq!(body.member::<Vec<String>>(Member::Finalizers), Some(vec!["f".into()]));
            assert_eq!(body.only(7, &["spec.number", "short"]), json!({"spec": {"number": 1}, "short": 3}));
            // As long as it says, and as if nothing had been left out.
            let mut json = Vec::new();
            body.write(12, &mut json);
            assert_eq!(json.len(), body.len() + 2);
            let mut unparted = Vec::new();
            JsonBody { apart: Arc::default(), ..BodyWriter::new(None, true).written(&object, order) }
                .write(12, &mut unparted);
            let json = String::from_utf8(json).expect("JSON");
            assert_eq!(json, String::from_utf8(unparted).expect("JSON"));
            assert!(json.contains(&object["metadata"]["managedFields"].to_string()), "{json}");
        }
        let unversioned = JsonBody::unversioned(&object);
        let mut without = object.clone();
        without["metadata"].as_object_mut().expect("an object").remove("resourceVersion");
        assert_eq!((unversioned.decode(12), unversioned.apart.len()), (without, 0));
    }

    #[test]
    fn versions_of_an_object_and_others_of_its_template_share_what_is_the_same() {
        let interner = Arc::default();
        let shared = |object: &Json| JsonBody::new(&interner, object, MemberOrder::Declared);
        let first = shared(&replica(1));
        let once = interner.kept();
        let others: Vec<_> = (2..9).map(|number| shared(&replica(number))).collect();
        assert_eq!(interner.kept(), once + 7 * 1011, "only the statuses differ");
        drop(others);
        let mut updated = replica(1);
        updated["spec"]["number"] = 2.into();
        let second = shared(&updated);
        assert!(interner.kept() - once < 1100, "only the spec differs");
        drop((first, second));
        assert_eq!(interner.kept(), 0);
    }

    #[test]
    fn small_objects_share_what_their_manager_owns_of_each() {
        let small = |number: usize| {
            let fields = json!({"f:data": {".": {}, "f:key": {}}});
            let written = json!({"apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": fields, "manager": "manager", "operation": "Update", "time": number.to_string()});
            json!({"metadata": {"name": number.to_string(), "managedFields": [written]}, "data": {"key": "value"}})
        };
        let interner = Arc::default();
        let objects = [1, 2].map(|number| JsonBody::new(&interner, &small(number), MemberOrder::Declared));
        assert_eq!((objects[0].apart.len(), objects[0].json().len() + interner.kept()), (1, objects[0].len()));
        for (number, object) in [1, 2].into_iter().zip(&objects) {
            let mut whole = small(number);
            whole["metadata"]["resourceVersion"] = "7".into();
            assert_eq!(object.decode(7), whole);
        }
    }

    #[test]
    fn what_is_the_same_is_equal_however_it_is_kept() {
        let (one, same) =
            (JsonBody::new(&Arc::default(), &replica(1), MemberOrder::Declared), BodyWriter::new(None, true));
        let same = same.written(&replica(1), MemberOrder::Declared);
        assert_eq!(one, same);
        assert_eq!(one, JsonBody::new(&Arc::default(), &replica(1), MemberOrder::Declared));
        let interner = Arc::default();
        let [one, other] = [1, 2].map(|number| JsonBody::new(&interner, &replica(number), MemberOrder::Declared));
        assert_ne!(one, other);
    }
}
