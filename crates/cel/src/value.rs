//! The values of expressions.

mod compare;
mod format;
mod json;
mod list;
mod map;
mod object;
mod text;
mod typed;

use std::sync::Arc;

pub(crate) use compare::key_of;
pub use list::List;
pub use map::Map;
pub(crate) use map::{Entries, Key};
pub use object::Object;
pub use text::Text;

use crate::ast::Literal;
use crate::error::Failure;
use crate::meter::Meter;
use crate::node::{Node, Scalar};
use crate::opaque::Opaque;
use crate::time::Timestamp;
use crate::types::Type;

/// The value of a variable or an expression.
///
/// Lists and maps can borrow data from the caller.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Value<'a> {
    /// `null`.
    Null,
    /// A boolean.
    Bool(bool),
    /// A signed integer.
    Int(i64),
    /// An unsigned integer.
    Uint(u64),
    /// A floating-point number.
    Double(f64),
    /// A string.
    String(Text<'a>),
    /// Bytes.
    Bytes(Arc<[u8]>),
    /// A duration in nanoseconds.
    Duration(i64),
    /// A timestamp.
    Timestamp(Timestamp),
    /// A list.
    List(List<'a>),
    /// A map.
    Map(Map<'a>),
    /// An optional value, which may be absent.
    Optional(Option<Arc<Value<'a>>>),
    /// A type that an expression uses as a value, such as `int`.
    Type(Type),
    /// An object created by an expression, such as `JSONPatch{…}`.
    Object(Arc<Object<'a>>),
    /// A value of a type from the Kubernetes libraries, such as an IP address.
    Opaque(Opaque),
}

impl<'a> Value<'a> {
    /// Creates a value from data without a schema.
    pub fn of(node: &'a dyn Node) -> Self {
        match node.scalar() {
            Scalar::Null => Self::Null,
            Scalar::Bool(value) => Self::Bool(value),
            Scalar::Int(value) => Self::Int(value),
            // As in Kubernetes, an integer outside the range of `i64` becomes a floating-point number.
            Scalar::Uint(value) => Self::Double(value as f64),
            Scalar::Double(value) => Self::Double(value),
            Scalar::String(text) => Self::String(Text::Borrowed(text)),
            Scalar::List => Self::List(List::of(node, None)),
            Scalar::Map => Self::Map(Map::of(node, None)),
        }
    }

    /// Creates a string.
    pub fn string(text: impl Into<Arc<str>>) -> Self {
        Self::String(Text::Owned(text.into()))
    }

    /// Creates a list with the values in `items`.
    pub fn list(items: Vec<Value<'a>>) -> Self {
        Self::List(List::from(items))
    }

    /// Creates a map with string keys. If a key occurs several times, the map contains the last value of this key.
    pub fn map(fields: impl IntoIterator<Item = (&'a str, Value<'a>)>) -> Self {
        let mut entries = Entries::default();
        for (name, value) in fields {
            entries.set(Key::String(Text::Borrowed(name)), value);
        }
        Self::Map(Map::from(entries))
    }

    /// Creates an optional value that contains `value`.
    pub fn some(value: Self) -> Self {
        Self::Optional(Some(Arc::new(value)))
    }

    /// An empty optional value.
    pub const NONE: Self = Self::Optional(None);

    pub(crate) fn strings(items: impl IntoIterator<Item = String>) -> Self {
        Self::list(items.into_iter().map(Self::string).collect())
    }

    /// Returns the boolean, or `None` for other values.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(value) => Some(*value),
            _ => None,
        }
    }

    /// Returns the string, or `None` for other values.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the value's runtime type. The type parameters of lists, maps and optional values are `Dyn`.
    pub fn type_of(&self) -> Type {
        match self {
            Self::Null => Type::Null,
            Self::Bool(_) => Type::Bool,
            Self::Int(_) => Type::Int,
            Self::Uint(_) => Type::Uint,
            Self::Double(_) => Type::Double,
            Self::String(_) => Type::String,
            Self::Bytes(_) => Type::Bytes,
            Self::Duration(_) => Type::Duration,
            Self::Timestamp(_) => Type::Timestamp,
            Self::List(_) => Type::list(Type::Dyn),
            Self::Map(_) => Type::map(Type::Dyn, Type::Dyn),
            Self::Optional(_) => Type::optional(Type::Dyn),
            Self::Type(_) => Type::Opaque("type".into()),
            Self::Object(object) => Type::Object(object.type_name().into()),
            Self::Opaque(value) => value.type_of(),
        }
    }

    /// Returns the size of the value for cost computations. A scalar has a size of 1.
    pub(crate) fn size(&self) -> u64 {
        match self {
            Self::Optional(Some(value)) => value.library_size(),
            _ => self.library_size(),
        }
    }

    /// Returns the size of the value in the cost model of the Kubernetes libraries, which do not count the content of
    /// optional values.
    pub(crate) fn library_size(&self) -> u64 {
        self.length().unwrap_or(1)
    }

    /// Returns an upper limit of [`size`](Self::size), without counting the characters of a string. The upper limit is
    /// at most four times the actual size.
    pub(crate) fn size_limit(&self) -> u64 {
        match self {
            Self::String(text) => text.len() as u64,
            Self::Optional(Some(value)) if let Self::String(text) = &**value => text.len() as u64,
            _ => self.size(),
        }
    }

    /// Returns the result of the CEL function `size`, or `None` if the value has no size.
    pub(crate) fn length(&self) -> Option<u64> {
        Some(match self {
            Self::String(text) => text.chars().count() as u64,
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::List(list) => list.len() as u64,
            Self::Map(map) => map.len() as u64,
            Self::Opaque(value) => value.length()?,
            _ => return None,
        })
    }

    /// Returns the approximate units of work for reading the value. Excludes its list items and map entries, and the
    /// content of an [opaque value](Opaque::weight), because most functions read only a part of it.
    pub(crate) fn weight(&self) -> u64 {
        let length = match self {
            Self::String(text) => text.len(),
            Self::Bytes(bytes) => bytes.len(),
            _ => 0,
        };
        1 + length as u64 / 8
    }

    /// Returns `true` for a zero value, as defined by `optional.ofNonZeroValue`.
    pub(crate) fn is_zero(&self) -> bool {
        match self {
            Self::Null => true,
            Self::Bool(value) => !value,
            Self::Int(value) | Self::Duration(value) => *value == 0,
            Self::Uint(value) => *value == 0,
            Self::Double(value) => *value == 0.0,
            Self::String(text) => text.is_empty(),
            Self::Bytes(bytes) => bytes.is_empty(),
            Self::Timestamp(time) => time.is_zero(),
            Self::List(list) => list.is_empty(),
            Self::Map(map) => map.is_empty(),
            Self::Object(object) => object.fields().next().is_none(),
            Self::Optional(_) | Self::Type(_) | Self::Opaque(_) => false,
        }
    }
}

impl From<&Literal> for Value<'_> {
    fn from(literal: &Literal) -> Self {
        match literal {
            Literal::Null => Self::Null,
            Literal::Bool(value) => Self::Bool(*value),
            Literal::Int(value) => Self::Int(*value),
            Literal::Uint(value) => Self::Uint(*value),
            Literal::Double(value) => Self::Double(*value),
            Literal::String(text) => Self::String(Text::Owned(text.clone())),
            Literal::Bytes(bytes) => Self::Bytes(bytes.clone()),
        }
    }
}

macro_rules! scalars {
    ($($type:ty => $variant:ident),*) => {$(
        impl From<$type> for Value<'_> {
            fn from(value: $type) -> Self {
                Self::$variant(value)
            }
        }
    )*};
}

scalars!(bool => Bool, i64 => Int, u64 => Uint, f64 => Double);

impl<'a> From<&'a str> for Value<'a> {
    fn from(text: &'a str) -> Self {
        Self::String(Text::Borrowed(text))
    }
}

impl From<String> for Value<'_> {
    fn from(text: String) -> Self {
        Self::string(text)
    }
}

impl<'a> From<&'a serde_json::Value> for Value<'a> {
    fn from(value: &'a serde_json::Value) -> Self {
        Self::of(value)
    }
}

impl<'a> From<&'a pintle_json::Json> for Value<'a> {
    fn from(value: &'a pintle_json::Json) -> Self {
        Self::of(value)
    }
}

impl Meter {
    pub(crate) fn hash(&mut self, key: &Value<'_>) -> Result<(), Failure> {
        self.work(key.weight().saturating_mul(8))
    }
}

#[cfg(test)]
mod tests {
    use super::Value;

    #[test]
    fn value_is_small() {
        assert!(size_of::<Value<'_>>() <= 40, "{}", size_of::<Value<'_>>());
    }
}
