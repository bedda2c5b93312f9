//! The types of all built-in kinds of Kubernetes and of custom resources, and how objects are read and written by them.
//!
//! - [`Schema`]: the type of the objects of one kind. Those of the built-in kinds come from a table of Kubernetes 1.36 (`generate/README.md`
//!   says how it is made); those of custom resources are made from their definitions. Of what it consists is a [`Type`].
//! - [`decode`] reads a body by a schema as kube-apiserver does: the object comes as Go would write it, and each [`StrictFinding`] is a
//!   field that the type does not know or that stands twice.
//! - [`read_yaml`], [`write_yaml`], [`write_yaml_line`], [`yaml_documents`]: YAML as Kubernetes reads it.
//! - [`openapi`] tells the built-in types as OpenAPI schemas.
//! - [`patch`] lays patches over objects, [`protobuf`] writes and reads the binary form, [`quantity`] counts in amounts with units.
//!
//! All are functions of what they are given: no I/O, no clock, no task.
//!
//! Who has a manifest learns before any cluster does what is wrong with it:
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
//! What reads bytes goes no deeper into them than [`DEEPEST`] levels, and its work is linear in them, but where a function says otherwise.
//! What takes a `Json` calls itself once a level of that.

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

/// So many lists and objects may stand one in another in a body: what reads, writes and drops them calls itself once a level, and
/// overflows the stack on what is much deeper. serde_json has the same limit.
pub const DEEPEST: usize = 127;

/// The type of the objects of one kind.
#[derive(Clone, Debug)]
pub struct Schema {
    kind: String,
    root: Type,
    custom: bool,
}

impl Schema {
    /// The schema of a built-in kind; `version` is `version` or `group/version`.
    pub fn builtin(version: &str, kind: &str) -> Option<Self> {
        Some(Self { kind: kind.into(), root: builtin_types::table().kind(version, kind)?, custom: false })
    }

    /// The schema of a custom resource; `structural` is its `openAPIV3Schema`.
    pub fn custom(kind: &str, structural: &Json) -> Self {
        Self { kind: kind.into(), root: custom::root(structural), custom: true }
    }

    /// Whether the built-in types have this kind in this version, served or not.
    pub fn knows(version: &str, kind: &str) -> bool {
        builtin_types::table().kind(version, kind).is_some()
    }

    /// The kind.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// The type of the whole object.
    pub fn root(&self) -> &Type {
        &self.root
    }

    /// Whether it is a custom resource.
    pub fn is_custom(&self) -> bool {
        self.custom
    }

    /// Reads an object that is JSON already, such as the result of a patch, as [`decode`] reads a body.
    ///
    /// # Errors
    ///
    /// A value of the wrong type, or text of the wrong form.
    pub fn read(&self, object: Json) -> Result<Decoded, BodyError> {
        convert::read_object(&object, self)
    }

    /// The object as Go writes it: empty values that Go leaves out are left out, those that it always writes are there. An object
    /// that does not fit the schema stays as it is.
    pub fn normalised(&self, object: Json) -> Json {
        match convert::read_object(&object, self) {
            Ok(decoded) => decoded.object,
            Err(_) => object,
        }
    }

    /// The object of this kind that has nothing set, as Go writes it.
    pub fn empty(&self) -> Json {
        match self.custom {
            true => Json::Object(Default::default()),
            false => fields::zero(&self.root),
        }
    }
}

/// The type of a built-in struct, such as `meta.ObjectMeta`; JSON of any shape where there is none of that name.
pub fn named(name: &str) -> Type {
    builtin_types::table().named(name).unwrap_or(Type::Any)
}

/// The versions and names of the built-in kinds, in order.
pub fn builtin_kinds() -> Vec<(&'static str, &'static str)> {
    builtin_types::table().kinds()
}

/// The first document of a YAML text, with the keys that stand twice; or what is wrong with it.
pub type Yaml = Result<(JsonNode, Vec<StrictFinding>), String>;

/// Reads a body that is YAML 1.1, as Kubernetes does: the first document alone counts, and no text is null.
pub fn read_yaml(body: &[u8]) -> Yaml {
    yaml::read(body)
}

/// A value as YAML.
pub fn write_yaml(value: &Json) -> String {
    yaml::write(value)
}

/// A value as YAML on a single line, without its end: of a value that nests deep, that is far less text. Some readers take no key of more
/// than a thousand bytes there.
pub fn write_yaml_line(value: &Json) -> String {
    yaml::write_line(value)
}

/// Returns the text of a YAML or JSON file: UTF-8 or, with a byte order mark, UTF-16. The mark is left out.
///
/// # Errors
///
/// The bytes are neither; the error says why in libyaml's words.
pub fn yaml_text(bytes: &[u8]) -> Result<std::borrow::Cow<'_, str>, &'static str> {
    yaml::text(bytes)
}

/// The documents of a YAML text as JSON, up to the first that cannot be read; the error says what is wrong with that one.
pub fn yaml_documents(text: &str) -> impl Iterator<Item = Result<Json, String>> {
    yaml::YamlDocuments::new(text).map(|read| read.map(|(node, _)| node.into_value()))
}

/// Reads the metadata of an object within an object.
///
/// # Errors
///
/// A value of the wrong type, or text of the wrong form.
pub fn read_metadata(metadata: &Json) -> Result<Json, BodyError> {
    convert::read(metadata, &object_meta()).map(|decoded| decoded.object)
}

/// The type of `metadata`.
pub fn object_meta() -> Type {
    builtin_types::table().named("meta.ObjectMeta").unwrap_or(Type::Any)
}
