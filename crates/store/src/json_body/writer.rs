//! An object on its way from a tree to the bytes that are kept.

use std::sync::Arc;

use pintle_json::{Json, Map};

use super::{JsonBody, MEMBERS, METADATA, METADATA_AT, Member, MemberOrder, MemberPlaces, OBJECT};
use crate::interner::{Interned, Interner};

/// What is shorter stays with its object: to keep it apart takes about half as much.
const APART_FROM: usize = 256;

/// The same of what a manager owns: hardly ever is that one object's alone.
const OWNED_FROM: usize = 128;

/// So deep are the members of a spec among the fields that a manager owns.
const PARTED: usize = 2;

pub(super) struct BodyWriter<'i> {
    json: Vec<u8>,
    places: MemberPlaces,
    apart: Vec<(u32, Arc<Interned>)>,
    /// None: nothing is kept apart.
    interner: Option<&'i Arc<Interner>>,
    /// Whether there is a `resourceVersion` to be filled in.
    versioned: bool,
}

impl<'i> BodyWriter<'i> {
    pub(super) fn new(interner: Option<&'i Arc<Interner>>, versioned: bool) -> Self {
        // Most objects fit.
        let json = Vec::with_capacity(1024);
        Self { json, places: MemberPlaces::default(), apart: Vec::new(), interner, versioned }
    }

    pub(super) fn written(mut self, object: &Json, order: MemberOrder) -> JsonBody {
        match object {
            Json::Object(members) => self.object(members, order),
            other => self.value(other),
        }
        JsonBody::of(self.json, self.places, self.apart)
    }

    fn object(&mut self, members: &Map, order: MemberOrder) {
        let present = members.iter().map(|(name, value)| (name.as_str(), value));
        let first: &[&str] = if order == MemberOrder::Declared { &OBJECT } else { &[] };
        let types = |name: &str| matches!(name, "apiVersion" | "kind");
        self.members(present.filter(|(name, _)| !types(name)), first, |writer, name, value| match value {
            Json::Object(metadata) if name == "metadata" => {
                writer.places[METADATA_AT] = writer.here();
                writer.metadata(metadata, order);
                writer.places[METADATA_AT + 1] = writer.here();
            }
            value => writer.apart(value),
        });
    }

    fn metadata(&mut self, metadata: &Map, order: MemberOrder) {
        const REVISION: &str = MEMBERS[Member::ResourceVersion as usize];
        let unnumbered = Json::from("");
        let present = metadata.iter().map(|(name, value)| (name.as_str(), value));
        let present =
            present.filter(|(name, _)| *name != REVISION).chain(self.versioned.then_some((REVISION, &unnumbered)));
        let first: &[&str] = if order == MemberOrder::Declared { &METADATA } else { &[] };
        self.members(present, first, |writer, name, value| {
            if let Some(at) = MEMBERS.iter().position(|member| *member == name) {
                writer.places[at] = writer.here();
            }
            match value {
                Json::Array(entries) if name == "managedFields" => writer.managed(entries),
                value => writer.value(value),
            }
        });
    }

    /// What the managers own is most of the metadata, and the same for many objects of one template.
    fn managed(&mut self, entries: &[Json]) {
        self.json.push(b'[');
        for (at, entry) in entries.iter().enumerate() {
            if at > 0 {
                self.json.push(b',');
            }
            let Json::Object(entry) = entry else {
                self.value(entry);
                continue;
            };
            let (start, parts) = (self.json.len(), self.apart.len());
            let entry = entry.iter().map(|(name, value)| (name.as_str(), value));
            self.members(entry, &[], |writer, name, value| match name {
                "fieldsV1" => writer.owned(value, PARTED),
                // It comes last, and what little is before it is the same in all that the manager has written alike.
                "time" if writer.apart.len() == parts => {
                    writer.keep_apart(start, OWNED_FROM);
                    writer.value(value);
                }
                _ => writer.value(value),
            });
        }
        self.json.push(b']');
    }

    /// What is each object's own, such as a volume of its pod, is not to keep the rest from being shared: so each member is kept apart,
    /// down to those of this depth.
    fn owned(&mut self, value: &Json, depth: usize) {
        match value {
            Json::Object(members) if depth > 0 => {
                let members = members.iter().map(|(name, value)| (name.as_str(), value));
                self.members(members, &[], |writer, _, value| writer.owned(value, depth - 1));
            }
            value => self.apart(value),
        }
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

    /// A value that other objects, or other versions of this one, may have as well.
    fn apart(&mut self, value: &Json) {
        let start = self.json.len();
        self.value(value);
        self.keep_apart(start, APART_FROM);
    }

    /// Keeps what was written since `start` apart, if it is that long.
    fn keep_apart(&mut self, start: usize, least: usize) {
        if let Some(interner) = self.interner
            && self.json.len() - start >= least
            && let Ok(at) = u32::try_from(start)
        {
            self.apart.push((at, interner.intern(&self.json[start..])));
            self.json.truncate(start);
        }
    }

    /// Bodies of requests are no longer than a few MiB.
    fn here(&self) -> u32 {
        u32::try_from(self.json.len()).unwrap_or(0)
    }

    fn text(&mut self, text: &str) {
        pintle_json::to_writer(&mut self.json, text).expect("memory takes any text");
    }

    fn value(&mut self, value: &Json) {
        pintle_json::to_writer(&mut self.json, value).expect("memory takes any value, whose keys are texts");
    }
}
