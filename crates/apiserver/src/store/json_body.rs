//! An object as bytes: JSON in the order in which it is served.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use pintle_json::{Json, Map};
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};

use crate::object::{METADATA, OBJECT};

/// In which order the members of an object stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Body {
    json: Arc<[u8]>,
    /// Where the metadata begin, and each of the members in them; 0 for what is absent.
    metadata: u32,
    members: [u32; MEMBERS.len()],
}

/// A text that is borrowed from the bytes where nothing in it is escaped.
#[derive(Debug, Default, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Text<'a>(#[serde(borrow)] pub(super) Cow<'a, str>);

impl Body {
    pub(super) fn new(object: &Json, order: Order) -> Self {
        Self::written(object, order, true)
    }

    /// The same without a `resourceVersion`, which is not filled in either.
    pub(super) fn unversioned(object: &Json) -> Self {
        Self::written(object, Order::Declared, false)
    }

    fn written(object: &Json, order: Order, versioned: bool) -> Self {
        let json = Vec::with_capacity(1024);
        let mut writer = Writer { json, metadata: 0, members: [0; MEMBERS.len()], versioned };
        match object {
            Json::Object(members) => writer.object(members, order),
            other => writer.value(other),
        }
        Self { json: writer.json.into(), metadata: writer.metadata, members: writer.members }
    }

    pub(super) fn len(&self) -> usize {
        self.json.len()
    }

    /// Appends the object with that revision.
    pub(super) fn write(&self, revision: u64, to: &mut Vec<u8>) {
        to.reserve(self.json.len() + 20);
        let Some(at) = self.revision_at() else { return to.extend_from_slice(&self.json) };
        let (before, after) = self.json.split_at(at);
        to.extend_from_slice(before);
        to.extend_from_slice(revision.to_string().as_bytes());
        to.extend_from_slice(after);
    }

    /// The object as a tree.
    pub(super) fn decode(&self, revision: u64) -> Json {
        let mut object: Json = read(&self.json).unwrap_or_default();
        if let Some(metadata) = object.get_mut("metadata") {
            self.number(metadata, revision);
        }
        object
    }

    /// The metadata as a tree.
    pub(super) fn metadata(&self, revision: u64) -> Json {
        let mut metadata = self.at::<Json>(self.metadata).unwrap_or_default();
        self.number(&mut metadata, revision);
        metadata
    }

    /// A member of the metadata; none if it is absent, null or of another type.
    pub(super) fn member<'a, T: Deserialize<'a>>(&'a self, member: Member) -> Option<T> {
        self.at(self.members[member as usize])
    }

    /// What stands at these paths, such as `spec.nodeName`, in a tree that has nothing else.
    pub(super) fn only(&self, paths: &[&str]) -> Json {
        let paths: Vec<Vec<&str>> = paths.iter().map(|path| path.split('.').collect()).collect();
        let mut json = serde_json::Deserializer::from_slice(&self.json);
        Only { paths: paths.iter().map(Vec::as_slice).collect() }.deserialize(&mut json).unwrap_or_default()
    }

    fn at<'a, T: Deserialize<'a>>(&'a self, start: u32) -> Option<T> {
        let json = self.json.get(start as usize..).filter(|_| start > 0)?;
        read(json)
    }

    /// Where the digits of the revision belong: behind the opening quote.
    fn revision_at(&self) -> Option<usize> {
        let start = self.members[Member::ResourceVersion as usize];
        (start > 0).then_some(start as usize + 1)
    }

    fn number(&self, metadata: &mut Json, revision: u64) {
        if let Some(metadata) = metadata.as_object_mut().filter(|_| self.revision_at().is_some()) {
            metadata.insert("resourceVersion", revision.to_string().into());
        }
    }
}

/// The value that these bytes begin with. What comes behind it does not count.
fn read<'a, T: Deserialize<'a>>(json: &'a [u8]) -> Option<T> {
    Option::deserialize(&mut serde_json::Deserializer::from_slice(json)).ok().flatten()
}

struct Writer {
    json: Vec<u8>,
    metadata: u32,
    members: [u32; MEMBERS.len()],
    versioned: bool,
}

impl Writer {
    fn object(&mut self, members: &Map, order: Order) {
        let present = members.iter().map(|(name, value)| (name.as_str(), value));
        let first: &[&str] = if order == Order::Declared { &OBJECT } else { &[] };
        let types = |name: &str| matches!(name, "apiVersion" | "kind");
        self.members(present.filter(|(name, _)| !types(name)), first, |writer, name, value| match value {
            Json::Object(metadata) if name == "metadata" => {
                writer.metadata = writer.here();
                writer.metadata(metadata, order);
            }
            value => writer.value(value),
        });
    }

    fn metadata(&mut self, metadata: &Map, order: Order) {
        const REVISION: &str = MEMBERS[Member::ResourceVersion as usize];
        let unnumbered = Json::from("");
        let present = metadata.iter().map(|(name, value)| (name.as_str(), value));
        let present =
            present.filter(|(name, _)| *name != REVISION).chain(self.versioned.then_some((REVISION, &unnumbered)));
        let first: &[&str] = if order == Order::Declared { &METADATA } else { &[] };
        self.members(present, first, |writer, name, value| {
            if let Some(at) = MEMBERS.iter().position(|member| *member == name) {
                writer.members[at] = writer.here();
            }
            writer.value(value);
        });
    }

    /// Those of `first` in that order, then the others by name.
    fn members<'a>(
        &mut self,
        members: impl Iterator<Item = (&'a str, &'a Json)>,
        first: &[&str],
        write: impl Fn(&mut Self, &str, &Json),
    ) {
        let place = |name: &str| first.iter().position(|first| *first == name).unwrap_or(first.len());
        let mut members: Vec<_> = members.map(|(name, value)| (place(name), name, value)).collect();
        members.sort_unstable_by_key(|(place, name, _)| (*place, *name));
        self.json.push(b'{');
        for (at, (_, name, value)) in members.into_iter().enumerate() {
            if at > 0 {
                self.json.push(b',');
            }
            self.text(name);
            self.json.push(b':');
            write(self, name, value);
        }
        self.json.push(b'}');
    }

    /// Bodies of requests are no longer than a few MiB.
    fn here(&self) -> u32 {
        u32::try_from(self.json.len()).unwrap_or(0)
    }

    fn text(&mut self, text: &str) {
        serde_json::to_writer(&mut self.json, text).expect("memory takes any text");
    }

    fn value(&mut self, value: &Json) {
        serde_json::to_writer(&mut self.json, value).expect("memory takes any value, whose keys are texts");
    }
}

/// Reads of a value what is at these paths, and skips all else.
struct Only<'p> {
    paths: Vec<&'p [&'p str]>,
}

impl<'de> DeserializeSeed<'de> for Only<'_> {
    type Value = Json;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Json, D::Error> {
        match self.paths.iter().any(|path| path.is_empty()) {
            true => Json::deserialize(from),
            false => from.deserialize_any(self),
        }
    }
}

impl<'de> Visitor<'de> for Only<'_> {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Json, A::Error> {
        let mut found = Map::new();
        while let Some(Text(name)) = map.next_key()? {
            let within = |path: &&'_ [&'_ str]| path.first().is_some_and(|first| *first == name);
            let paths: Vec<_> = self.paths.iter().copied().filter(within).map(|path| &path[1..]).collect();
            if paths.is_empty() {
                map.next_value::<IgnoredAny>()?;
            } else {
                found.insert(name.into_owned(), map.next_value_seed(Only { paths })?);
            }
        }
        Ok(Json::Object(found))
    }

    // What is no object has nothing at a path.
    fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut items: A) -> Result<Json, A::Error> {
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_str<E>(self, _: &str) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }
}

#[cfg(test)]
mod tests {
    use pintle_json::json;

    use super::*;

    fn written(object: &Json, order: Order) -> String {
        let mut json = Vec::new();
        Body::new(object, order).write(7, &mut json);
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
        assert_eq!(written(&object, Order::Declared), declared);
        let sorted = r#"{"data":{"a":"2","b":"1","resourceVersion":""},"metadata":{"annotations":{},"labels":{"resourceVersion":""},"name":"n","odd":1,"resourceVersion":"7","uid":"u"}}"#;
        assert_eq!(written(&object, Order::Sorted), sorted);
        assert_eq!(written(&json!({"data": 1}), Order::Declared), r#"{"data":1}"#);
    }

    #[test]
    fn what_is_written_is_read_back_with_its_revision() {
        let object = json!({
            "metadata": {"name": "n", "resourceVersion": "1", "labels": {"a": "b\"c"}, "deletionTimestamp": null},
            "spec": {"float": 0.1, "odd": 1.234_567_890_123_456_7e-200, "list": [{"x": [1]}]},
        });
        for order in [Order::Declared, Order::Sorted] {
            let body = Body::new(&object, order);
            let mut expected = object.clone();
            expected["metadata"]["resourceVersion"] = "7".into();
            assert_eq!(body.decode(7), expected);
            assert_eq!(body.metadata(7), expected["metadata"]);
            assert_eq!(body.member::<Text<'_>>(Member::Name), Some(Text("n".into())));
            assert_eq!(body.member::<Text<'_>>(Member::DeletionTimestamp), None);
            assert_eq!(body.member::<Text<'_>>(Member::Uid), None);
            assert_eq!(body.member::<Json>(Member::Labels), Some(json!({"a": "b\"c"})));
        }
    }

    #[test]
    fn only_what_is_asked_for_is_read() {
        let object = json!({
            "metadata": {"name": "n"}, "spec": {"a": 1, "b": {"c": [2], "d": true}, "e": "f"}, "reason": "r", "list": [{"a": 1}],
        });
        let body = Body::new(&object, Order::Declared);
        let found = body.only(&["spec.a", "spec.b.c", "spec.e.x", "reason", "list.a", "absent.a"]);
        let expected = json!({"spec": {"a": 1, "b": {"c": [2]}, "e": null}, "reason": "r", "list": null});
        assert_eq!(found, expected);
    }
}
