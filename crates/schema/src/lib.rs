//! The types of all built-in Kubernetes kinds and of custom resources, with functions to decode and encode objects.
//!
//! - [`Schema`] describes the objects of one kind with [`Type`]s. The schemas of built-in kinds are generated from
//!   Kubernetes 1.36, as described in `generate/README.md`. The schema of a custom resource is part of its definition.
//! - [`decode`] decodes a request body like kube-apiserver. The decoded object has exactly the members that Go's JSON
//!   encoder would write. Each [`StrictFinding`] describes an unknown or duplicate field.
//! - [`read_yaml`], [`write_yaml`], [`write_yaml_line`] and [`yaml_documents`] parse and write YAML in the same way as Kubernetes.
//! - [`openapi`] returns the built-in types as OpenAPI schemas.
//! - [`patch`] applies patches. [`protobuf`] encodes and decodes the protobuf format. [`quantity`] parses and formats
//!   quantities.
//!
//! No function performs I/O, reads the clock or spawns tasks.
//!
//! The following example validates a manifest without a cluster:
//!
//! ```
//! use pintle_schema::{Expected, BodyFormat, Schema, decode, read_yaml, strict_error};
//!
//! let manifest = b"{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, spec: {replica: 3}}";
//! let schema = Schema::builtin("apps/v1", "Deployment").unwrap();
//! let expected = Expected { api_version: "apps/v1", schema: &schema };
//! let decoded = decode(manifest, BodyFormat::Yaml(&read_yaml(manifest)), &expected)?;
//! let wrong = strict_error(&decoded.findings, &expected).unwrap();
//! assert!(wrong.ends_with("strict decoding error: unknown field \"spec.replica\""), "{wrong}");
//! # Ok::<(), pintle_schema::BodyError>(())
//! ```
//!
//! # Bounds
//!
//! Functions that parse bytes accept at most [`DEEPEST`] levels of nested lists and objects. The running time of a
//! function is linear in the size of its input, unless its documentation says otherwise. Functions with a `Json`
//! argument recurse once per nesting level of the argument.

use pintle_json::Json;

mod builtin_types;
mod convert;
mod custom;
mod decode;
mod decoded;
mod descriptions;
mod finding;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
mod go_base64;
mod go_json;
mod go_time;
mod go_zero;
mod object_sink;
pub mod openapi;
pub mod patch;
pub mod protobuf;
pub mod quantity;
mod reader;
mod scalar;
mod sink;
mod typed;
mod types;
mod yaml;

pub use decode::{
    BodyFormat, Expected, cannot_be_handled, check_version, decode, not_an_object_message, strict_decoding_error,
    strict_error,
};
pub use decoded::{BodyError, Decoded};
pub use finding::{StrictFinding, push_finding};
pub use go_base64::decode_base64;
pub use types::{Field, ListKey, ListType, MapType, Merge, Scalar, Struct, StructRef, Topology, Type, Union};
pub use yaml::YAML_CONVERSION;

/// The maximum nesting depth of lists and objects in a request body. A much deeper value would overflow the stack,
/// because functions that read, write or drop a value are recursive. serde_json has the same nesting limit.
pub const DEEPEST: usize = 127;

/// The schema of a Kubernetes kind.
#[derive(Clone, Debug)]
pub struct Schema {
    kind: String,
    root: Type,
    custom: bool,
}

impl Schema {
    /// Returns the schema of a built-in kind, or `None` if the kind does not exist. `version` has the form `version` or
    /// `group/version`.
    pub fn builtin(version: &str, kind: &str) -> Option<Self> {
        Some(Self { kind: kind.into(), root: builtin_types::table().kind(version, kind)?, custom: false })
    }

    /// Creates the schema of a custom resource from its `openAPIV3Schema`.
    pub fn custom(kind: &str, structural: &Json) -> Self {
        Self { kind: kind.into(), root: custom::root(structural), custom: true }
    }

    /// Returns `true` if `kind` is a built-in kind in this version, even if kube-apiserver does not serve the version.
    pub fn knows(version: &str, kind: &str) -> bool {
        builtin_types::table().kind(version, kind).is_some()
    }

    /// Returns the name of the kind.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// Returns the type of an object of this kind.
    pub fn root(&self) -> &Type {
        &self.root
    }

    /// Formats a value of the built-in struct `name`, such as `meta.OwnerReference`, with its members in Go's order.
    pub fn go_text(name: &str, value: &Json) -> String {
        match builtin_types::table().named(name) {
            Some(ty) => patch::patched_text::go_ordered(value, &ty),
            None => value.to_string(),
        }
    }

    /// Returns `true` for the schema of a custom resource.
    pub fn is_custom(&self) -> bool {
        self.custom
    }

    /// Decodes an object from a JSON value, such as the result of a patch, with the rules of [`decode`].
    ///
    /// # Errors
    ///
    /// Returns an error if a value has the wrong type or format.
    pub fn read(&self, object: Json) -> Result<Decoded, BodyError> {
        convert::read_object(&object, self)
    }

    /// Normalizes an object like Go's JSON encoder: removes the empty values that Go omits, and adds the values that Go
    /// always writes. An object that does not match the schema is returned unchanged. An empty list that Go always writes
    /// becomes null, because kube-apiserver stores objects as protobuf, which has no empty lists.
    pub fn normalised(&self, object: Json) -> Json {
        match convert::read_stored(&object, self) {
            Ok(decoded) => decoded.object,
            Err(_) => object,
        }
    }

    /// Returns an empty object in the form that Go's JSON encoder would write.
    pub fn empty(&self) -> Json {
        if self.custom { Json::Object(Default::default()) } else { go_zero::zero(&self.root) }
    }
}

/// Returns the type of the built-in struct `name`, such as `meta.ObjectMeta`, or [`Type::Any`] if the struct does not
/// exist.
pub fn named(name: &str) -> Type {
    builtin_types::table().named(name).unwrap_or(Type::Any)
}

/// The result of parsing YAML: the first document with findings about duplicate keys, or an error message.
pub type Yaml = Result<(Json, Vec<StrictFinding>), String>;

/// Parses a JSON text like Go. If a member occurs several times, the last value is kept. Invalid UTF-8 bytes and unpaired
/// surrogates become U+FFFD.
///
/// # Errors
///
/// Returns an error if the text is not JSON. The error message is similar to the message of Go.
pub fn read_json(body: &[u8]) -> Result<Json, String> {
    sink::feed_json(body, reader::Reader::default().untyped_sink(None))
}

/// Parses a YAML 1.1 body like Kubernetes. Reads only the first document, and parses an empty body as null.
pub fn read_yaml(body: &[u8]) -> Yaml {
    yaml::read(body)
}

/// Formats a value as YAML.
pub fn write_yaml(value: &Json) -> String {
    yaml::write(value)
}

/// Formats a value as YAML on a single line, without a trailing newline. For deeply nested values, the text is much
/// shorter than with [`write_yaml`]. Some YAML parsers reject single-line keys of more than 1000 bytes.
pub fn write_yaml_line(value: &Json) -> String {
    yaml::write_line(value)
}

/// Decodes the text of a YAML or JSON file. The file must be UTF-8, or UTF-16 with a byte order mark. The returned text
/// does not contain the byte order mark.
///
/// # Errors
///
/// Returns libyaml's error message if the bytes are not valid text.
pub fn yaml_text(bytes: &[u8]) -> Result<std::borrow::Cow<'_, str>, &'static str> {
    yaml::text(bytes)
}

/// Returns an iterator over the documents in a YAML text, converted to JSON. The iterator ends after the first document
/// with an error.
pub fn yaml_documents(text: &str) -> impl Iterator<Item = Result<Json, String>> {
    yaml::YamlDocuments::new(text).map(|read| read.map(|(value, _)| value))
}

/// Decodes the metadata of an embedded object, such as the metadata in a pod template.
///
/// # Errors
///
/// Returns an error if a value has the wrong type or format.
pub fn read_metadata(metadata: &Json) -> Result<Json, BodyError> {
    convert::read(metadata, &object_meta()).map(|decoded| decoded.object)
}

/// Returns the type of an object's `metadata`.
pub fn object_meta() -> Type {
    builtin_types::table().named("meta.ObjectMeta").unwrap_or(Type::Any)
}
