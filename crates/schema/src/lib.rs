//! The types of all built-in Kubernetes kinds and of custom resources, and functions that decode and encode objects with these types.
//!
//! - [`Schema`] describes the type of the objects of one kind. The schemas of built-in kinds come from a table of Kubernetes 1.36
//!   (`generate/README.md` describes how it is generated). The schema of a custom resource comes from its definition. A schema consists of
//!   [`Type`]s.
//! - [`decode`] decodes a body in the same way as kube-apiserver. The decoded object contains exactly what Go's JSON encoder would write
//!   for it. Each [`StrictFinding`] describes an unknown or duplicate field.
//! - [`read_yaml`], [`write_yaml`], [`write_yaml_line`] and [`yaml_documents`] read and write YAML as Kubernetes does.
//! - [`openapi`] returns the built-in types as OpenAPI schemas.
//! - [`patch`] applies patches. [`protobuf`] encodes and decodes the protobuf format. [`quantity`] parses and formats quantities.
//!
//! All functions are pure. The functions perform no I/O, read no clock and start no tasks.
//!
//! This example checks a manifest without a cluster:
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
//! A function that reads bytes accepts at most [`DEEPEST`] levels of nested lists and objects. The running time of such a function is
//! linear in the size of the input, unless the docs of the function state another bound. A function with a `Json` argument recurses once
//! for each level of nesting.

use pintle_json::Json;

mod builtin_types;
mod codec;
mod convert;
mod custom;
mod decoded;
mod descriptions;
mod document;
mod fields;
mod finding;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
mod go_json;
pub mod openapi;
pub mod patch;
pub mod protobuf;
pub mod quantity;
mod reader;
mod scalar;
mod sink;
mod types;
mod whole;
mod yaml;

pub use codec::{BodyFormat, Expected, check_version, decode, handled, no_type_meta, strict_error, strict_words};
pub use decoded::{BodyError, Decoded};
pub use document::JsonNode;
pub use finding::{StrictFinding, note};
pub use types::{Field, ListKey, ListType, MapType, Merge, Scalar, Struct, StructRef, Topology, Type, Union};

/// The maximum nesting depth of lists and objects in a request body. Code that reads, writes or drops a value recurses once for each
/// level. A value that is nested much deeper would overflow the stack. serde_json has the same limit.
pub const DEEPEST: usize = 127;

/// The type of the objects of one Kubernetes kind.
#[derive(Clone, Debug)]
pub struct Schema {
    kind: String,
    root: Type,
    custom: bool,
}

impl Schema {
    /// Returns the schema of a built-in kind. `version` has the form `version` or `group/version`.
    pub fn builtin(version: &str, kind: &str) -> Option<Self> {
        Some(Self { kind: kind.into(), root: builtin_types::table().kind(version, kind)?, custom: false })
    }

    /// Creates the schema of a custom resource. `structural` is its `openAPIV3Schema`.
    pub fn custom(kind: &str, structural: &Json) -> Self {
        Self { kind: kind.into(), root: custom::root(structural), custom: true }
    }

    /// Returns whether the built-in types include this kind in this version. kube-apiserver does not necessarily serve this version.
    pub fn knows(version: &str, kind: &str) -> bool {
        builtin_types::table().kind(version, kind).is_some()
    }

    /// Returns the kind.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// Returns the type of an object of this kind.
    pub fn root(&self) -> &Type {
        &self.root
    }

    /// Returns whether this is the schema of a custom resource.
    pub fn is_custom(&self) -> bool {
        self.custom
    }

    /// Decodes an object from a JSON value, such as the result of a patch. The rules are the same as for [`decode`].
    ///
    /// # Errors
    ///
    /// Returns an error if a value has the wrong type or format.
    pub fn read(&self, object: Json) -> Result<Decoded, BodyError> {
        convert::read_object(&object, self)
    }

    /// Returns the object as Go's JSON encoder would write it. The method removes empty values that Go omits, and adds the values that Go
    /// always writes. If the object does not fit the schema, the method returns it unchanged.
    pub fn normalised(&self, object: Json) -> Json {
        match convert::read_object(&object, self) {
            Ok(decoded) => decoded.object,
            Err(_) => object,
        }
    }

    /// Returns an object of this kind without any field values. The object contains exactly what Go's JSON encoder
    /// would write for it.
    pub fn empty(&self) -> Json {
        if self.custom { Json::Object(Default::default()) } else { fields::zero(&self.root) }
    }
}

/// Returns the type of a built-in struct, such as `meta.ObjectMeta`. Returns [`Type::Any`] if no struct has this name.
pub fn named(name: &str) -> Type {
    builtin_types::table().named(name).unwrap_or(Type::Any)
}

/// Returns the versions and names of all built-in kinds in sorted order.
pub fn builtin_kinds() -> Vec<(&'static str, &'static str)> {
    builtin_types::table().kinds()
}

/// The result of reading YAML. On success, the result contains the first document and the findings about duplicate keys. On failure, it
/// contains an error message.
pub type Yaml = Result<(JsonNode, Vec<StrictFinding>), String>;

/// Reads a YAML 1.1 body in the same way as Kubernetes. Reads only the first document. An empty body is null.
pub fn read_yaml(body: &[u8]) -> Yaml {
    yaml::read(body)
}

/// Formats a value as YAML.
pub fn write_yaml(value: &Json) -> String {
    yaml::write(value)
}

/// Formats a value as YAML on a single line. The result has no line break at the end. For a deeply nested value, this text is much
/// shorter than the result of [`write_yaml`]. Some YAML parsers reject a single-line key of more than 1000 bytes.
pub fn write_yaml_line(value: &Json) -> String {
    yaml::write_line(value)
}

/// Returns the text of a YAML or JSON file. The file must be UTF-8, or UTF-16 with a byte order mark. The result does not contain the byte
/// order mark.
///
/// # Errors
///
/// Returns libyaml's error if the bytes are not valid text.
pub fn yaml_text(bytes: &[u8]) -> Result<std::borrow::Cow<'_, str>, &'static str> {
    yaml::text(bytes)
}

/// Returns the documents of a YAML text as JSON. If a document cannot be read, the iterator returns the error as its
/// last item.
pub fn yaml_documents(text: &str) -> impl Iterator<Item = Result<Json, String>> {
    yaml::YamlDocuments::new(text).map(|read| read.map(|(node, _)| node.into_value()))
}

/// Decodes the metadata of an object that is embedded in another object, such as a pod template.
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
