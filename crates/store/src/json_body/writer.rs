//! Encodes an object to the bytes that the store keeps.

use std::sync::Arc;

use pintle_json::{Json, Map};

use super::{JsonBody, MEMBERS, METADATA, METADATA_AT, Member, MemberOffsets, MemberOrder, OBJECT};
use crate::interner::{Interned, Interner};

/// The minimum length of interned members, in bytes. Interning costs about half this length in additional memory per
/// member.
const MIN_MEMBER_LEN: usize = 256;

/// The minimum length of interned managed fields, in bytes. The limit is lower than for other members, because
/// managed fields often occur in several objects.
const MIN_FIELDS_LEN: usize = 128;

/// The nesting depth up to which members of managed fields are interned separately. For comparison, the members of
/// `spec` are at depth 2.
const FIELDS_DEPTH: usize = 2;

pub(super) struct BodyWriter<'i> {
    json: Vec<u8>,
    offsets: MemberOffsets,
    interned: Vec<(u32, Arc<Interned>)>,
    /// The interner for long members, or `None` to disable interning.
    interner: Option<&'i Arc<Interner>>,
    /// Whether to write an empty `resourceVersion`, into which the store inserts the revision later.
    versioned: bool,
}

impl<'i> BodyWriter<'i> {
    pub(super) fn new(interner: Option<&'i Arc<Interner>>, versioned: bool) -> Self {
        // This capacity is enough for most objects.
        let json = Vec::with_capacity(1024);
        Self { json, offsets: MemberOffsets::default(), interned: Vec::new(), interner, versioned }
    }

    pub(super) fn encode(mut self, object: &Json, order: MemberOrder) -> JsonBody {
        match object {
            Json::Object(members) => self.object(members, order),
            other => self.value(other),
        }
        JsonBody::of(self.json, self.offsets, self.interned)
    }

    fn object(&mut self, members: &Map, order: MemberOrder) {
        let present = members.iter().map(|(name, value)| (name.as_str(), value));
        let first: &[&str] = if order == MemberOrder::Declared { &OBJECT } else { &[] };
        let types = |name: &str| matches!(name, "apiVersion" | "kind");
        self.members(present.filter(|(name, _)| !types(name)), first, |writer, name, value| match value {
            Json::Object(metadata) if name == "metadata" => {
                writer.offsets[METADATA_AT] = writer.offset();
                writer.metadata(metadata, order);
                writer.offsets[METADATA_AT + 1] = writer.offset();
            }
            value => writer.interned_value(value),
        });
    }

    fn metadata(&mut self, metadata: &Map, order: MemberOrder) {
        const REVISION: &str = MEMBERS[Member::ResourceVersion as usize];
        let empty = Json::from("");
        let present = metadata.iter().map(|(name, value)| (name.as_str(), value));
        let present = present.filter(|(name, _)| *name != REVISION).chain(self.versioned.then_some((REVISION, &empty)));
        let first: &[&str] = if order == MemberOrder::Declared { &METADATA } else { &[] };
        self.members(present, first, |writer, name, value| {
            if let Some(at) = MEMBERS.iter().position(|member| *member == name) {
                writer.offsets[at] = writer.offset();
            }
            match value {
                Json::Array(entries) if name == "managedFields" => writer.managed_fields(entries),
                value => writer.value(value),
            }
        });
    }

    /// Writes the managed fields, which are the largest metadata member and are often equal in objects from the same
    /// template.
    fn managed_fields(&mut self, entries: &[Json]) {
        self.json.push(b'[');
        for (at, entry) in entries.iter().enumerate() {
            if at > 0 {
                self.json.push(b',');
            }
            let Json::Object(entry) = entry else {
                self.value(entry);
                continue;
            };
            let (start, parts) = (self.json.len(), self.interned.len());
            let entry = entry.iter().map(|(name, value)| (name.as_str(), value));
            self.members(entry, &[], |writer, name, value| match name {
                "fieldsV1" => writer.owned_fields(value, FIELDS_DEPTH),
                // Write `time` last, because two writes of one manager often differ only in `time`.
                "time" if writer.interned.len() == parts => {
                    writer.intern_since(start, MIN_FIELDS_LEN);
                    writer.value(value);
                }
                _ => writer.value(value),
            });
        }
        self.json.push(b']');
    }

    /// Writes the managed fields of one manager, and interns each member up to the nesting depth `FIELDS_DEPTH`
    /// separately. Objects therefore share equal members even if another member, such as the volume of a pod, is
    /// unique.
    fn owned_fields(&mut self, value: &Json, depth: usize) {
        match value {
            Json::Object(members) if depth > 0 => {
                let members = members.iter().map(|(name, value)| (name.as_str(), value));
                self.members(members, &[], |writer, _, value| writer.owned_fields(value, depth - 1));
            }
            value => self.interned_value(value),
        }
    }

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

    fn interned_value(&mut self, value: &Json) {
        let start = self.json.len();
        self.value(value);
        self.intern_since(start, MIN_MEMBER_LEN);
    }

    fn intern_since(&mut self, start: usize, min_len: usize) {
        if let Some(interner) = self.interner
            && self.json.len() - start >= min_len
            && let Ok(at) = u32::try_from(start)
        {
            self.interned.push((at, interner.intern(&self.json[start..])));
            self.json.truncate(start);
        }
    }

    /// Returns the current offset, which fits into 32 bits because request bodies have at most a few MiB.
    fn offset(&self) -> u32 {
        u32::try_from(self.json.len()).unwrap_or(0)
    }

    fn text(&mut self, text: &str) {
        pintle_json::to_writer(&mut self.json, text).expect("a string can be serialized to memory");
    }

    fn value(&mut self, value: &Json) {
        pintle_json::to_writer(&mut self.json, value).expect("a value with string keys can be serialized to memory");
    }
}
