//! Types of expressions.

use std::fmt;
use std::sync::Arc;

/// The static type of an expression, a variable or a field.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Type {
    /// Any value. The type of the value is checked only during the evaluation.
    Dyn,
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool,
    /// A signed integer of 64 bits.
    Int,
    /// An unsigned integer of 64 bits.
    Uint,
    /// A floating-point number of 64 bits.
    Double,
    /// A Unicode string.
    String,
    /// A sequence of bytes.
    Bytes,
    /// A duration.
    Duration,
    /// A timestamp.
    Timestamp,
    /// A list of items of one type.
    List(Arc<Type>),
    /// A map. The two types are the types of its keys and its values.
    Map(Arc<(Type, Type)>),
    /// A value that may be absent.
    Optional(Arc<Type>),
    /// A type as a value.
    Type(Arc<Type>),
    /// An object with declared fields. The string is the name of its type.
    Object(Arc<str>),
    /// A type without fields. The string is the name of the type.
    Opaque(Arc<str>),
    /// A type parameter of a function, or a type that the type checker has not inferred yet.
    Param(Arc<str>),
    /// The type of an expression that has a finding.
    Error,
}

impl Type {
    /// Returns the type of lists whose items have this type.
    pub fn list(items: Self) -> Self {
        Self::List(Arc::new(items))
    }

    /// Returns the type of maps.
    pub fn map(keys: Self, values: Self) -> Self {
        Self::Map(Arc::new((keys, values)))
    }

    /// Returns the type of optional values that contain this type.
    pub fn optional(value: Self) -> Self {
        Self::Optional(Arc::new(value))
    }

    /// Returns the object type with this name.
    pub fn object(name: impl Into<Arc<str>>) -> Self {
        Self::Object(name.into())
    }

    pub(crate) fn type_of(value: Self) -> Self {
        Self::Type(Arc::new(value))
    }

    pub(crate) fn is_dyn_or_error(&self) -> bool {
        matches!(self, Self::Dyn | Self::Error)
    }

    /// Whether each value of the type has the size 1.
    pub(crate) fn is_scalar(&self) -> bool {
        match self {
            Self::Bool | Self::Double | Self::Duration | Self::Int | Self::Timestamp | Self::Uint => true,
            Self::Optional(value) => value.is_scalar(),
            _ => false,
        }
    }

    /// Returns the name of the type without its parameters, as cel-go's `TypeName` does.
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

    /// Writes the type in the form of the type checker's messages.
    pub(crate) fn in_messages(&self) -> InMessages<'_> {
        InMessages(self)
    }
}

/// Returns the form that kube-apiserver's messages about result types use. A very long text is truncated.
impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text(Self::name))
    }
}

/// The maximum length of a type's text. Nested types are shared in memory, so even a short expression can have a type
/// with a huge text.
const MAX_TEXT: usize = 16_384;

impl Type {
    fn text(&self, name: fn(&Self) -> &str) -> String {
        let mut text = String::new();
        if !self.write(name, &mut text) {
            text.push('\u{2026}');
        }
        text
    }

    /// Writes the type. Returns false if the text would exceed the maximum length.
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

    /// Returns the name of the type, without its parameters, that the type checker's messages use.
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
