//! Types of expressions.

use std::fmt;
use std::sync::Arc;

/// The type of an expression, a variable or a field.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Type {
    /// Any value. The evaluator checks it.
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
    /// A span of time.
    Duration,
    /// A point in time.
    Timestamp,
    /// A list of items of one type.
    List(Arc<Type>),
    /// A map, with the types of its keys and values.
    Map(Arc<(Type, Type)>),
    /// A value that may be absent.
    Optional(Arc<Type>),
    /// A type as a value.
    Type(Arc<Type>),
    /// An object with declared fields, by the name of its type.
    Object(Arc<str>),
    /// A type without fields, by its name.
    Opaque(Arc<str>),
    /// A type parameter of a function, or a type that the checker has yet to infer.
    Param(Arc<str>),
    /// The type of an expression with a finding.
    Error,
}

impl Type {
    /// Returns the type of lists of items.
    pub fn list(items: Self) -> Self {
        Self::List(Arc::new(items))
    }

    /// Returns the type of maps.
    pub fn map(keys: Self, values: Self) -> Self {
        Self::Map(Arc::new((keys, values)))
    }

    /// Returns the type of optional values.
    pub fn optional(value: Self) -> Self {
        Self::Optional(Arc::new(value))
    }

    /// Returns the type of objects with a name.
    pub fn object(name: impl Into<Arc<str>>) -> Self {
        Self::Object(name.into())
    }

    pub(crate) fn type_of(value: Self) -> Self {
        Self::Type(Arc::new(value))
    }

    pub(crate) fn is_dyn_or_error(&self) -> bool {
        matches!(self, Self::Dyn | Self::Error)
    }

    /// Whether values have one unit of size.
    pub(crate) fn is_scalar(&self) -> bool {
        match self {
            Self::Bool | Self::Double | Self::Duration | Self::Int | Self::Timestamp | Self::Uint => true,
            Self::Optional(value) => value.is_scalar(),
            _ => false,
        }
    }

    /// Returns the name of the type without parameters, as cel-go's `TypeName`.
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

    /// Writes the type as the type checker's messages do.
    pub(crate) fn in_messages(&self) -> InMessages<'_> {
        InMessages(self)
    }
}

/// The form in kube-apiserver's messages about result types.
impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.name())?;
        match self {
            Self::List(inner) | Self::Optional(inner) => write!(f, "({inner})"),
            Self::Type(inner) => match &**inner {
                Self::Dyn | Self::Type(_) => Ok(()),
                inner => write!(f, "({inner})"),
            },
            Self::Map(parts) => write!(f, "({}, {})", parts.0, parts.1),
            _ => Ok(()),
        }
    }
}

pub(crate) struct InMessages<'a>(&'a Type);

impl fmt::Display for InMessages<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Type::Null => f.write_str("null"),
            Type::Duration => f.write_str("duration"),
            Type::Timestamp => f.write_str("timestamp"),
            Type::Error => f.write_str("!error!"),
            Type::List(inner) | Type::Optional(inner) | Type::Type(inner) => {
                write!(f, "{}({})", self.0.name(), InMessages(inner))
            }
            Type::Map(parts) => write!(f, "map({}, {})", InMessages(&parts.0), InMessages(&parts.1)),
            _ => f.write_str(self.0.name()),
        }
    }
}
