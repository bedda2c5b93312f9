//! An object as JSON bytes, with its members in the order of the API server's responses.

mod projection;
mod writer;

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use pintle_json::Json;
use projection::Projection;
use serde::Deserialize;
use serde::de::DeserializeSeed;
use writer::BodyWriter;

use super::interner::{Interned, Interner};

/// The order of the members in an object's JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberOrder {
    /// The members that all kinds have come first, in the order of the Go types. The other members of the object
    /// follow, sorted by name.
    Declared,
    /// All members are sorted by name, as in custom resources.
    Sorted,
}

/// A metadata member that can be read without decoding the whole object.
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

/// The names of the members of `metadata`, in the order of the Go types.
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

/// The first members of an object's JSON, in the order of the Go types.
pub const OBJECT: [&str; 3] = ["kind", "apiVersion", "metadata"];

/// The metadata members, in the order of [`Member`].
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

/// The JSON of an object without `apiVersion` and `kind`, and with an empty `resourceVersion`. The store inserts the
/// revision when it writes the object to a response. The store can therefore encode an object before it knows the
/// revision, and a deletion event shares the bytes of the object's last write.
///
/// Long members, and the managed fields of each manager, are interned. Interned values usually share memory with equal
/// values in the previous version of the object or in other objects from the same template.
#[derive(Clone, Debug)]
pub(super) struct JsonBody {
    /// The object's JSON without the interned values, followed by the offsets of the metadata members.
    bytes: Arc<[u8]>,
    interned: Arc<[(u32, Arc<Interned>)]>,
}

/// The offset of each metadata member in the JSON, or 0 for an absent member. The last two offsets are the start and
/// the end of the metadata.
type MemberOffsets = [u32; OFFSETS];
const OFFSETS: usize = MEMBERS.len() + 2;
const METADATA_AT: usize = MEMBERS.len();
/// The maximum length of JSON for which an offset takes two bytes instead of four.
const MAX_NARROW_LEN: usize = u16::MAX as usize;

/// A string in the JSON, borrowed unless it contains escape sequences.
#[derive(Debug, Default, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct BorrowedText<'a>(#[serde(borrow)] pub(super) Cow<'a, str>);

impl JsonBody {
    /// Encodes an object. The interner stores a long value only once, even if several objects contain it.
    pub(super) fn new(interner: &Arc<Interner>, object: &Json, order: MemberOrder) -> Self {
        BodyWriter::new(Some(interner), true).encode(object, order)
    }

    /// Encodes an object without a `resourceVersion`, into which no revision can be inserted.
    pub(super) fn unversioned(object: &Json) -> Self {
        BodyWriter::new(None, false).encode(object, MemberOrder::Declared)
    }

    fn of(mut json: Vec<u8>, offsets: MemberOffsets, interned: Vec<(u32, Arc<Interned>)>) -> Self {
        let width = if json.len() > MAX_NARROW_LEN { 4 } else { 2 };
        json.extend(offsets.iter().flat_map(|offset| offset.to_le_bytes().into_iter().take(width)));
        // All bodies without interned values share one empty list.
        let interned = if interned.is_empty() { Arc::default() } else { interned.into() };
        Self { bytes: json.into(), interned }
    }

    fn split(&self) -> (&[u8], usize) {
        let width = if self.bytes.len() - 2 * OFFSETS > MAX_NARROW_LEN { 4 } else { 2 };
        (&self.bytes[..self.bytes.len() - width * OFFSETS], width)
    }

    fn json(&self) -> &[u8] {
        self.split().0
    }

    fn offset(&self, at: usize) -> usize {
        let (json, width) = self.split();
        let offset = self.bytes[json.len() + at * width..].iter().take(width);
        offset.rev().fold(0, |offset, byte| offset << 8 | usize::from(*byte))
    }

    pub(super) fn len(&self) -> usize {
        self.json().len() + self.interned.iter().map(|(_, interned)| interned.bytes.len()).sum::<usize>()
    }

    /// Returns the address of the bytes, which all clones of this body share.
    pub(super) fn address(&self) -> usize {
        Arc::as_ptr(&self.bytes).addr()
    }

    pub(super) fn write(&self, revision: u64, to: &mut Vec<u8>) {
        to.reserve(self.len() + 20);
        self.write_part(0..self.json().len(), revision, to);
    }

    fn write_part(&self, part: Range<usize>, revision: u64, to: &mut Vec<u8>) {
        let revision = revision.to_string();
        let revision = self.revision_at().map(|at| (at, revision.as_bytes()));
        let at = revision.map_or(0, |(at, _)| at);
        let (before, behind) =
            self.interned.split_at(self.interned.partition_point(|(offset, _)| (*offset as usize) < at));
        let [before, behind] =
            [before, behind].map(|interned| interned.iter().map(|(at, interned)| (*at as usize, &*interned.bytes)));
        let (json, mut from) = (self.json(), part.start);
        for (at, left_out) in before.chain(revision).chain(behind).filter(|(at, _)| part.contains(at)) {
            to.extend_from_slice(&json[from..at]);
            to.extend_from_slice(left_out);
            from = at;
        }
        to.extend_from_slice(&json[from..part.end]);
    }

    pub(super) fn decode(&self, revision: u64) -> Json {
        let mut json = Vec::new();
        self.write(revision, &mut json);
        read(&json).unwrap_or_default()
    }

    pub(super) fn metadata(&self, revision: u64) -> Json {
        let mut json = Vec::new();
        self.write_part(self.offset(METADATA_AT)..self.offset(METADATA_AT + 1), revision, &mut json);
        read(&json).unwrap_or_default()
    }

    /// Returns a metadata member's value, or `None` if the member is absent, null, or not a `T`.
    pub(super) fn member<'a, T: Deserialize<'a>>(&'a self, member: Member) -> Option<T> {
        let start = self.offset(member as usize);
        // Read metadata members directly from the bytes, because these members contain no interned values. However, the
        // bytes do not contain the revision.
        read(self.json().get(start..).filter(|_| start > 0)?)
    }

    /// Returns an object that contains only the values at these paths, such as `spec.nodeName`. `revision` becomes the
    /// object's `resourceVersion`.
    pub(super) fn projection(&self, revision: u64, paths: &[&str]) -> Json {
        let paths: Vec<Vec<&str>> = paths.iter().map(|path| path.split('.').collect()).collect();
        let mut json = Vec::new();
        self.write(revision, &mut json);
        let mut json = serde_json::Deserializer::from_slice(&json);
        Projection { paths: paths.iter().map(Vec::as_slice).collect() }.deserialize(&mut json).unwrap_or_default()
    }

    /// Returns the offset at which the revision is inserted, directly after the opening quote of the `resourceVersion`.
    fn revision_at(&self) -> Option<usize> {
        let start = self.offset(Member::ResourceVersion as usize);
        (start > 0).then_some(start + 1)
    }
}

impl PartialEq for JsonBody {
    fn eq(&self, other: &Self) -> bool {
        // Equal objects have the same interned values, unless one of them was encoded without an interner.
        if self.interned.len() == other.interned.len() {
            let mut interned = self.interned.iter().zip(&*other.interned);
            let is_same = |one: &Arc<Interned>, other| Arc::ptr_eq(one, other) || one.bytes == other.bytes;
            return self.json() == other.json()
                && interned.all(|(one, other)| one.0 == other.0 && is_same(&one.1, &other.1));
        }
        let whole = |body: &Self| {
            let mut json = Vec::new();
            body.write(0, &mut json);
            json
        };
        self.len() == other.len() && whole(self) == whole(other)
    }
}

/// Deserializes the value at the start of `json` and ignores the remaining bytes. Returns `None` for null and for an
/// invalid value.
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
    fn member_order_follows_go_except_for_custom_resources() {
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
    fn written_object_is_decoded_with_its_revision() {
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
    fn member_is_found_for_any_object_length() {
        let other_len =
            written(&json!({"metadata": {"annotations": {"a": ""}, "finalizers": ["f"]}}), MemberOrder::Declared).len()
                - 1;
        for len in (MAX_NARROW_LEN - 2 * OFFSETS - 2..MAX_NARROW_LEN + 2 * OFFSETS + 2).chain([0, 2 * MAX_NARROW_LEN]) {
            let annotations = json!({"a": "x".repeat(len.saturating_sub(other_len))});
            let object = json!({"metadata": {"annotations": annotations, "finalizers": ["f"]}});
            let body = JsonBody::new(&Arc::default(), &object, MemberOrder::Declared);
            assert_eq!(body.member::<Vec<String>>(Member::Finalizers), Some(vec!["f".into()]), "{len}");
            assert_eq!(body.member::<BorrowedText<'_>>(Member::Name), None);
            assert!(len == 0 || body.json().len() == len, "{len}");
        }
    }

    #[test]
    fn projection_reads_only_the_requested_paths() {
        let object = json!({
            "metadata": {"name": "n"}, "spec": {"a": 1, "b": {"c": [2], "d": true}, "e": "f"}, "reason": "r", "list": [{"a": 1}],
        });
        let body = JsonBody::new(&Arc::default(), &object, MemberOrder::Declared);
        let found = body.projection(7, &["spec.a", "spec.b.c", "spec.e.x", "reason", "list.a", "absent.a", "metadata"]);
        let expected = json!({"metadata": {"name": "n", "resourceVersion": "7"}, "spec": {"a": 1, "b": {"c": [2]}, "e": null}, "reason": "r", "list": null});
        assert_eq!(found, expected);
    }

    /// Creates an object from a template. All these objects have the same long values, except in the status.
    fn replica(number: usize) -> Json {
        let owned = |field: &str| (0..40).map(|at| (format!("f:{field}{at}"), json!({}))).collect::<Json>();
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
    fn interned_parts_are_written_at_their_offsets() {
        let object = replica(3);
        for order in [MemberOrder::Declared, MemberOrder::Sorted] {
            let mut whole = object.clone();
            whole["metadata"]["resourceVersion"] = "12".into();
            let body = JsonBody::new(&Arc::default(), &object, order);
            assert_eq!(body.interned.len(), 5, "{order:?}");
            assert_eq!(body.decode(12), whole);
            assert_eq!(body.metadata(12), whole["metadata"]);
            assert_eq!(body.member::<Vec<String>>(Member::Finalizers), Some(vec!["f".into()]));
            assert_eq!(body.projection(7, &["spec.number", "short"]), json!({"spec": {"number": 1}, "short": 3}));
            // Interning must not change the JSON or the result of `len`.
            let mut json = Vec::new();
            body.write(12, &mut json);
            assert_eq!(json.len(), body.len() + 2);
            let mut not_interned = Vec::new();
            JsonBody { interned: Arc::default(), ..BodyWriter::new(None, true).encode(&object, order) }
                .write(12, &mut not_interned);
            let json = String::from_utf8(json).expect("JSON");
            assert_eq!(json, String::from_utf8(not_interned).expect("JSON"));
            assert!(json.contains(&object["metadata"]["managedFields"].to_string()), "{json}");
        }
        let unversioned = JsonBody::unversioned(&object);
        let mut without = object.clone();
        without["metadata"].as_object_mut().expect("an object").remove("resourceVersion");
        assert_eq!((unversioned.decode(12), unversioned.interned.len()), (without, 0));
    }

    #[test]
    fn versions_and_objects_of_a_template_share_equal_parts() {
        let interner = Arc::default();
        let shared = |object: &Json| JsonBody::new(&interner, object, MemberOrder::Declared);
        let first = shared(&replica(1));
        let once = interner.total_bytes();
        let others: Vec<_> = (2..9).map(|number| shared(&replica(number))).collect();
        assert_eq!(interner.total_bytes(), once + 7 * 1011, "only the statuses differ");
        drop(others);
        let mut updated = replica(1);
        updated["spec"]["number"] = 2.into();
        let second = shared(&updated);
        assert!(interner.total_bytes() - once < 1100, "only the spec differs");
        drop((first, second));
        assert_eq!(interner.total_bytes(), 0);
    }

    #[test]
    fn small_objects_share_their_managed_fields() {
        let small = |number: usize| {
            let fields = json!({"f:data": {".": {}, "f:key": {}}});
            let written = json!({"apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": fields, "manager": "manager", "operation": "Update", "time": number.to_string()});
            json!({"metadata": {"name": number.to_string(), "managedFields": [written]}, "data": {"key": "value"}})
        };
        let interner = Arc::default();
        let objects = [1, 2].map(|number| JsonBody::new(&interner, &small(number), MemberOrder::Declared));
        assert_eq!(
            (objects[0].interned.len(), objects[0].json().len() + interner.total_bytes()),
            (1, objects[0].len())
        );
        for (number, object) in [1, 2].into_iter().zip(&objects) {
            let mut whole = small(number);
            whole["metadata"]["resourceVersion"] = "7".into();
            assert_eq!(object.decode(7), whole);
        }
    }

    #[test]
    fn equality_ignores_interning() {
        let (one, same) =
            (JsonBody::new(&Arc::default(), &replica(1), MemberOrder::Declared), BodyWriter::new(None, true));
        let same = same.encode(&replica(1), MemberOrder::Declared);
        assert_eq!(one, same);
        assert_eq!(one, JsonBody::new(&Arc::default(), &replica(1), MemberOrder::Declared));
        let interner = Arc::default();
        let [one, other] = [1, 2].map(|number| JsonBody::new(&interner, &replica(number), MemberOrder::Declared));
        assert_ne!(one, other);
    }
}
