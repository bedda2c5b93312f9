//! Types of expressions.

use std::fmt;
use std::sync::Arc;

/// The static type of an expression, a variable or a field.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Type {
    /// A value of any type, which is checked at evaluation time.
    Dyn,
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool,
    /// A signed 64-bit integer.
    Int,
    /// An unsigned 64-bit integer.
    Uint,
    /// A 64-bit floating-point number.
    Double,
    /// A Unicode string.
    String,
    /// A sequence of bytes.
    Bytes,
    /// A duration.
    Duration,
    /// A timestamp.
    Timestamp,
    /// A list with items of this type.
    List(Arc<Type>),
    /// A map with the given key and value types.
    Map(Arc<(Type, Type)>),
    /// An optional value, which may be absent.
    Optional(Arc<Type>),
    /// A type that an expression uses as a value, such as `int`.
    Type(Arc<Type>),
    /// An object type with declared fields, identified by its name.
    Object(Arc<str>),
    /// A type without fields, identified by its name.
    Opaque(Arc<str>),
    /// A type parameter of a function signature, or a type that has not been inferred yet.
    Param(Arc<str>),
    /// The type of an expression with a type error.
    Error,
}

impl Type {
    /// Returns the type of a list with items of type `items`.
    pub fn list(items: Self) -> Self {
        Self::List(Arc::new(items))
    }

    /// Returns the type of a map from type `keys` to type `values`.
    pub fn map(keys: Self, values: Self) -> Self {
        Self::Map(Arc::new((keys, values)))
    }

    /// Returns the type of an optional value of type `value`.
    pub fn optional(value: Self) -> Self {
        Self::Optional(Arc::new(value))
    }

    /// Returns the object type `name`.
    pub fn object(name: impl Into<Arc<str>>) -> Self {
        Self::Object(name.into())
    }

    pub(crate) fn type_of(value: Self) -> Self {
        Self::Type(Arc::new(value))
    }

    pub(crate) fn is_dyn_or_error(&self) -> bool {
        matches!(self, Self::Dyn | Self::Error)
    }

    /// Returns `true` if values of this type have a size of 1 in cost estimates.
    pub(crate) fn is_scalar(&self) -> bool {
        match self {
            Self::Bool | Self::Double | Self::Duration | Self::Int | Self::Timestamp | Self::Uint => true,
            Self::Optional(value) => value.is_scalar(),
            _ => false,
        }
    }

    /// Returns the name of the type without its parameters, like cel-go's `TypeName`.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Dyn => "dyn",
            Self::Null => "null_type",
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Uint => "uint",
            Self::Double => "double",
            Self::String => "string",
            Self::Bytes => "bytes",
            Self::Duration => "google.protobuf.Duration",
            Self::Timestamp => "google.protobuf.Timestamp",
            Self::List(_) => "list",
            Self::Map(_) => "map",
            Self::Optional(_) => "optional_type",
            Self::Type(_) => "type",
            Self::Object(name) | Self::Opaque(name) | Self::Param(name) => name,
            Self::Error => "error",
        }
    }

    /// Returns a value that displays the type in the format of the type checker's error messages.
    pub(crate) fn in_messages(&self) -> InMessages<'_> {
        InMessages(self)
    }
}

/// Formats the type as in kube-apiserver's error messages about result types. Truncates long type names.
impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text(Self::name))
    }
}

/// The maximum length of a formatted type. Nested types share memory, so even a short expression can have a type with a
/// very long name.
const MAX_TEXT: usize = 16_384;

impl Type {
    fn text(&self, name: fn(&Self) -> &str) -> String {
        let mut text = String::new();
        if !self.write(name, &mut text) {
            text.push('\u{2026}');
        }
        text
    }

    /// Writes the type to `text`. Returns `false` if the text is too long.
    fn write(&self, name: fn(&Self) -> &str, text: &mut String) -> bool {
        if text.len() > MAX_TEXT {
            return false;
        }
        text.push_str(name(self));
        let parts = match self {
            Self::List(inner) | Self::Optional(inner) | Self::Type(inner) => [Some(&**inner), None],
            Self::Map(parts) => [Some(&parts.0), Some(&parts.1)],
            _ => return true,
        };
        for (part, before) in parts.into_iter().flatten().zip(["(", ", "]) {
            text.push_str(before);
            if !part.write(name, text) {
                return false;
            }
        }
        text.push(')');
        true
    }

    /// Returns the name of the type in the type checker's error messages, without type parameters.
    fn name_in_messages(&self) -> &str {
        match self {
            Self::Null => "null",
            Self::Duration => "duration",
            Self::Timestamp => "timestamp",
            Self::Error => "!error!",
            _ => self.name(),
        }
    }
}

pub(crate) struct InMessages<'a>(&'a Type);

impl fmt::Display for InMessages<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.text(Type::name_in_messages))
    }
}
