//! The types of all kinds, and how objects are read by them.
//!
//! A [`Schema`] is the type of the objects of one kind. Those of the built-in kinds come from a table (`README.md` beside it says
//! how it is made); those of custom resources are made from their definitions. [`decode`] reads the body of a request by a schema,
//! as Go does; the patches and the tracking of field managers ask it what a list or a map is.

use serde_json::Value;

mod builtin_types;
mod codec;
mod convert;
mod custom;
mod document;
pub(crate) mod quantity;
mod scalar;
mod types;
mod yaml;

pub(crate) use codec::{Expected, Format, check_version, decode, handled, no_type_meta, strict_error, strict_words};
pub(crate) use convert::note;
pub(crate) use convert::{DecodeError, Decoded, Finding};
pub(crate) use document::Node;
pub(crate) use types::{Field, ListType, MapType, Scalar, Struct, StructRef, Topology, Type, Union};

/// So many lists and objects may stand one in another in a body: what reads, writes and drops them calls itself once a level, and
/// overflows the stack on what is much deeper. serde_json has the same limit.
pub(crate) const DEEPEST: usize = 127;

/// The type of the objects of one kind.
#[derive(Clone, Debug)]
pub(crate) struct Schema {
    kind: String,
    root: Type,
    custom: bool,
}

impl Schema {
    /// The schema of a built-in kind; `version` is `version` or `group/version`.
    pub(crate) fn builtin(version: &str, kind: &str) -> Option<Self> {
        Some(Self { kind: kind.into(), root: builtin_types::table().kind(version, kind)?, custom: false })
    }

    /// The schema of a custom resource; `structural` is its `openAPIV3Schema`.
    pub(crate) fn custom(kind: &str, structural: &Value) -> Self {
        Self { kind: kind.into(), root: custom::root(structural), custom: true }
    }

    /// Whether the built-in types have this kind in this version, served or not.
    pub(crate) fn knows(version: &str, kind: &str) -> bool {
        builtin_types::table().kind(version, kind).is_some()
    }

    /// The kind.
    pub(crate) fn kind(&self) -> &str {
        &self.kind
    }

    /// The type of the whole object.
    pub(crate) fn root(&self) -> &Type {
        &self.root
    }

    /// Whether it is a custom resource.
    pub(crate) fn is_custom(&self) -> bool {
        self.custom
    }

    /// Reads an object that is JSON already, such as the result of a patch, as [`decode`] reads a body.
    ///
    /// # Errors
    ///
    /// A value of the wrong type, or text of the wrong form.
    pub(crate) fn read(&self, object: Value) -> Result<Decoded, DecodeError> {
        convert::convert(object.into(), self)
    }

    /// The object as Go writes it: empty values that Go leaves out are left out, those that it always writes are there. An object
    /// that does not fit the schema stays as it is.
    pub(crate) fn normalised(&self, object: Value) -> Value {
        match self.read(object.clone()) {
            Ok(decoded) => decoded.object,
            Err(_) => object,
        }
    }

    /// The object of this kind that has nothing set, as Go writes it.
    pub(crate) fn empty(&self) -> Value {
        match self.custom {
            true => Value::Object(Default::default()),
            false => self.normalised(Value::Object(Default::default())),
        }
    }
}

/// The type of a built-in struct, such as `meta.ObjectMeta`; JSON of any shape where there is none of that name.
pub(crate) fn named(name: &str) -> Type {
    builtin_types::table().named(name).unwrap_or(Type::Any)
}

/// The versions and names of the built-in kinds.
#[cfg(test)]
pub(crate) fn builtin_kinds() -> Vec<(&'static str, &'static str)> {
    builtin_types::table().kinds()
}

/// The first document of a YAML text, with the keys that stand twice; or what is wrong with it.
pub(crate) type Yaml = Result<(Node, Vec<Finding>), String>;

/// Reads a body that is YAML 1.1, as Kubernetes does: the first document alone counts, and no text is null.
pub(crate) fn read_yaml(body: &[u8]) -> Yaml {
    yaml::read(body)
}

/// A value as YAML.
pub(crate) fn write_yaml(value: &Value) -> String {
    yaml::write(value)
}

/// The documents of a YAML text as JSON, up to the first that cannot be read; the error says what is wrong with that one.
pub(crate) fn yaml_documents(text: &str) -> impl Iterator<Item = Result<Value, String>> {
    yaml::Documents::new(text).map(|read| read.map(|(node, _)| node.into_value()))
}

/// Reads the metadata of an object within an object.
///
/// # Errors
///
/// A value of the wrong type, or text of the wrong form.
pub(crate) fn read_metadata(metadata: &Value) -> Result<Value, DecodeError> {
    convert::read(&metadata.clone().into(), &object_meta())
}

/// The type of `metadata`.
pub(crate) fn object_meta() -> Type {
    builtin_types::table().named("meta.ObjectMeta").unwrap_or(Type::Any)
}

#[cfg(test)]
mod tests;
