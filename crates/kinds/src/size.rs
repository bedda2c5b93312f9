//! The maximum size of stored objects. kube-apiserver stores built-in kinds as protobuf and custom resources as JSON.

use std::io;

use pintle_apimachinery::failure::{Failure, Outcome};
use pintle_json::Json;
use pintle_schema::{Scalar, Type};

use crate::Kind;

/// The maximum size in bytes of a request to etcd and of a message from an etcd client.
const LARGEST_STORED: usize = 1536 * 1024;
const LARGEST_SENT: usize = 2 * 1024 * 1024;
/// The approximate size in bytes of a write request to etcd, excluding the object and the key. An etcd write request
/// contains the key three times.
const FRAME: usize = 96;

/// Returns kube-apiserver's error if the object is too large for etcd.
pub fn check(kind: &Kind, key: &str, object: &Json) -> Outcome<()> {
    let size = FRAME + 3 * key.len() + stored(kind, object);
    if size <= LARGEST_STORED {
        return Ok(());
    }
    let message = if size > LARGEST_SENT {
        format!(
            "rpc error: code = ResourceExhausted desc = trying to send message larger than max ({size} vs. {LARGEST_SENT})"
        )
    } else {
        "etcdserver: request is too large".to_owned()
    };
    Err(Failure::plain(500, message))
}

/// Returns the size in bytes of the object in the store.
pub fn stored(kind: &Kind, object: &Json) -> usize {
    match kind.schema().filter(|_| kind.has_protobuf()) {
        Some(schema) => content_length(object, schema.root()),
        None => json_length(object),
    }
}

fn json_length(value: &Json) -> usize {
    struct Length(usize);
    impl io::Write for Length {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut length = Length(0);
    // Writing cannot fail, because the writer only counts bytes.
    let _ = pintle_json::to_writer(&mut length, value);
    length.0
}

/// Returns the length of the protobuf encoding of a value in bytes, excluding the tag and the length prefix of the
/// field.
fn content_length(value: &Json, ty: &Type) -> usize {
    match (ty, value) {
        (_, Json::Null) => 0,
        (Type::Struct { struct_type, .. }, Json::Object(members)) => {
            let fields = members.iter().map(|(name, value)| match (struct_type.field(name), value) {
                (Some(field), Json::Array(items)) => {
                    items.iter().map(|item| field_length(content_length(item, item_type(&field.ty)))).sum()
                }
                (Some(field), Json::Object(entries)) if matches!(field.ty, Type::Map(_)) => entries
                    .iter()
                    .map(|(key, value)| {
                        field_length(
                            field_length(key.len()) + field_length(content_length(value, item_type(&field.ty))),
                        )
                    })
                    .sum(),
                (Some(field), value) => field_length(content_length(value, &field.ty)),
                (None, _) => 0,
            });
            fields.sum()
        }
        (Type::Scalar(Scalar::Bytes), Json::String(text)) => text.len() / 4 * 3,
        (Type::Scalar(Scalar::Time | Scalar::MicroTime), _) => 6,
        (Type::Scalar(scalar), Json::String(text)) if *scalar != Scalar::Raw => text.len(),
        (Type::Scalar(scalar), Json::Number(number)) if *scalar != Scalar::Raw => {
            number.as_u64().map_or(10, |number| varint_length(usize::try_from(number).unwrap_or(usize::MAX)))
        }
        (Type::Scalar(scalar), Json::Bool(_)) if *scalar != Scalar::Raw => 1,
        (_, value) => json_length(value),
    }
}

fn item_type(ty: &Type) -> &Type {
    match ty {
        Type::List(list) => &list.item,
        Type::Map(map) => &map.value,
        other => other,
    }
}

/// Returns the length of a protobuf field, including its tag and length prefix.
fn field_length(content_length: usize) -> usize {
    1 + varint_length(content_length) + content_length
}

fn varint_length(number: usize) -> usize {
    (usize::BITS - number.leading_zeros()).div_ceil(7).max(1) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varint_uses_seven_bits_per_byte() {
        for (number, bytes) in [(0, 1), (127, 1), (128, 2), (16_383, 2), (16_384, 3)] {
            assert_eq!(varint_length(number), bytes, "{number}");
        }
    }
}
