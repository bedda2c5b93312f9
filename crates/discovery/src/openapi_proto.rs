//! Encodes OpenAPI documents in protobuf, as the gnostic messages that Go clients use. A single encoder interprets
//! tables that describe all messages.

mod backwards;
#[cfg(test)]
mod tests;
mod v2;
mod v3;

use backwards::Backwards;
use pintle_json::{Json, Map};

use super::openapi_v2::DocumentPart;

/// How a JSON value is encoded in a protobuf message. The encoder omits JSON values of another type.
#[derive(Clone, Copy)]
enum ProtoShape {
    Text,
    Flag,
    Integer,
    Double,
    /// A value of any type, encoded as YAML in a separate message.
    Any,
    /// A list. Each list item is encoded as a separate field.
    Each(&'static ProtoShape),
    One(&'static ProtoMessage),
    /// A message with exactly one set field. The function selects the set field for a value.
    Either(fn(&Json) -> (u32, ProtoShape)),
}

/// A message that encodes an object. Each table entry contains the name, the field number and the encoding of a member.
/// The first table entry that matches a member applies. A name that ends with a star is a prefix: it matches all
/// members whose names start with the text before the star. Members that match a prefix become messages with a name and
/// a value.
struct ProtoMessage {
    fields: &'static [(&'static str, u32, ProtoShape)],
}

macro_rules! messages {
    ($($message:ident { $($name:literal $number:literal $shape:expr),* $(,)? })*) => {
        $(pub(super) static $message: ProtoMessage = ProtoMessage { fields: &[$(($name, $number, $shape)),*] };)*
    };
}
use messages;

impl ProtoMessage {
    /// Returns the field number and the encoding of a member. The returned boolean is `true` if the encoded message
    /// also contains the name of the member.
    fn field(&self, name: &str) -> Option<(u32, ProtoShape, bool)> {
        self.fields.iter().find_map(|(known, number, shape)| match known.strip_suffix('*') {
            Some(start) => name.starts_with(start).then_some((*number, *shape, true)),
            None => (*known == name).then_some((*number, *shape, false)),
        })
    }
}

/// Encodes an OpenAPI 3 document, in linear time. The recursion needs a few calls per nesting level of the document.
pub(super) fn v3(document: &Json) -> Vec<u8> {
    let mut out = Backwards::default();
    members(&v3::DOCUMENT, document.as_object().unwrap_or(&Map::new()), &mut out);
    out.finish()
}

#[derive(Default)]
pub(super) struct ProtoV2 {
    paths: Vec<u8>,
    definitions: Vec<u8>,
}

impl ProtoV2 {
    pub(super) fn add(&mut self, part: DocumentPart, name: &str, value: &Json) {
        let (message, to) = match part {
            DocumentPart::Path => (&v2::PATHS, &mut self.paths),
            DocumentPart::Definition => (&v2::DEFINITIONS, &mut self.definitions),
        };
        let mut out = Backwards::default();
        member(message, name, value, &mut out);
        to.extend(out.finish());
    }

    /// Returns the encoded document. `head` contains all members of the document except paths and definitions.
    pub(super) fn finish(self, head: &Map) -> Vec<u8> {
        let mut out = Backwards::default();
        out.bytes(9, &self.definitions);
        out.bytes(8, &self.paths);
        members(&v2::DOCUMENT, head, &mut out);
        out.finish()
    }
}

fn members(message: &ProtoMessage, members: &Map, out: &mut Backwards) {
    members.iter().rev().for_each(|(name, value)| member(message, name, value, out));
}

fn member(message: &ProtoMessage, name: &str, value: &Json, out: &mut Backwards) {
    match message.field(name) {
        Some((number, shape, true)) => out.nested(number, |out| {
            field(2, shape, value, out);
            out.bytes(1, name.as_bytes());
        }),
        Some((number, shape, false)) => field(number, shape, value, out),
        None => (),
    }
}

fn field(number: u32, shape: ProtoShape, value: &Json, out: &mut Backwards) {
    match (shape, value) {
        (ProtoShape::Text, Json::String(text)) => out.bytes(number, text.as_bytes()),
        (ProtoShape::Flag, Json::Bool(flag)) => out.varint(number, u64::from(*flag)),
        (ProtoShape::Integer, Json::Number(amount)) => {
            amount.as_i64().into_iter().for_each(|amount| out.varint(number, amount.cast_unsigned()));
        }
        (ProtoShape::Double, Json::Number(amount)) => {
            amount.as_f64().into_iter().for_each(|amount| out.double(number, amount));
        }
        (ProtoShape::Any, value) => out.nested(number, |out| out.bytes(2, yaml(value).as_bytes())),
        (ProtoShape::Each(shape), Json::Array(items)) => {
            items.iter().rev().for_each(|item| field(number, *shape, item, out));
        }
        (ProtoShape::One(message), Json::Object(object)) => out.nested(number, |out| members(message, object, out)),
        (ProtoShape::Either(choose), value) => {
            let (one, shape) = choose(value);
            out.nested(number, |out| field(one, shape, value, out));
        }
        _ => (),
    }
}

/// The maximum nesting depth of values that are written on several lines. At deeper levels, the indentation would be
/// longer than the content.
const MAX_BLOCK_DEPTH: usize = 8;

fn yaml(value: &Json) -> String {
    if nests_deeper(value, MAX_BLOCK_DEPTH) {
        pintle_schema::write_yaml_line(value)
    } else {
        pintle_schema::write_yaml(value)
    }
}

fn nests_deeper(value: &Json, than: usize) -> bool {
    let deeper = |part: &Json| than == 0 || nests_deeper(part, than - 1);
    match value {
        Json::Array(items) => items.iter().any(deeper),
        Json::Object(members) => members.values().any(deeper),
        _ => false,
    }
}
