//! A trait for data that expressions can read without copying it.

use std::fmt;

/// A node in a tree of data, such as a JSON value.
///
/// The evaluator borrows nodes, and copies data only into results. This crate implements `Node` for
/// [`pintle_json::Json`] and [`serde_json::Value`]. To use another type in expressions, implement `Node` for the type:
///
/// ```
/// use pintle_cel::{Node, Scalar};
///
/// #[derive(Debug)]
/// struct Point(i64, i64);
///
/// # #[derive(Debug)] struct Number(i64);
/// # static ZERO: Number = Number(0);
/// # impl Node for Number {
/// #     fn scalar(&self) -> Scalar<'_> { Scalar::Int(self.0) }
/// # }
/// impl Node for Point {
///     fn scalar(&self) -> Scalar<'_> {
///         Scalar::Map
///     }
///     fn len(&self) -> usize {
///         2
///     }
///     fn field(&self, name: &str) -> Option<&dyn Node> {
///         # return Some(&ZERO);
///         # #[cfg(any())]
///         match name {
///             "x" => Some(&self.0),
///             "y" => Some(&self.1),
///             _ => None,
///         }
///     }
///     fn fields<'a>(&'a self) -> Box<dyn Iterator<Item = (&'a str, &'a dyn Node)> + 'a> {
///         Box::new(["x", "y"].into_iter().filter_map(|name| Some((name, self.field(name)?))))
///     }
/// }
/// ```
pub trait Node: fmt::Debug + Sync {
    /// Returns the value of a scalar, or the kind of the node if it is a list or a map.
    fn scalar(&self) -> Scalar<'_>;

    /// Returns the number of list items or map fields.
    fn len(&self) -> usize {
        0
    }

    /// Returns `true` if the node has no items and no fields.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the list item at an index.
    fn item(&self, _index: usize) -> Option<&dyn Node> {
        None
    }

    /// Returns the field `name` of a map.
    fn field(&self, _name: &str) -> Option<&dyn Node> {
        None
    }

    /// Returns an iterator over the fields of a map.
    fn fields<'a>(&'a self) -> Box<dyn Iterator<Item = (&'a str, &'a dyn Node)> + 'a> {
        Box::new(std::iter::empty())
    }
}

/// The value of a scalar [`Node`], or the kind of a list or map.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scalar<'a> {
    /// `null`.
    Null,
    /// A boolean.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A non-negative integer that exceeds `i64::MAX`.
    Uint(u64),
    /// A number with a decimal point or an exponent.
    Double(f64),
    /// A string.
    String(&'a str),
    /// A list.
    List,
    /// A map with string keys.
    Map,
}

fn number(number: &serde_json::Number) -> Scalar<'_> {
    match (number.as_i64(), number.as_u64(), number.as_f64()) {
        (Some(number), ..) => Scalar::Int(number),
        (_, Some(number), _) => Scalar::Uint(number),
        (.., number) => Scalar::Double(number.unwrap_or(f64::NAN)),
    }
}

macro_rules! json_node {
    ($json:ty) => {
        impl Node for $json {
            fn scalar(&self) -> Scalar<'_> {
                match self {
                    Self::Null => Scalar::Null,
                    Self::Bool(value) => Scalar::Bool(*value),
                    Self::Number(value) => number(value),
                    Self::String(text) => Scalar::String(text),
                    Self::Array(_) => Scalar::List,
                    Self::Object(_) => Scalar::Map,
                }
            }

            fn len(&self) -> usize {
                match self {
                    Self::Array(items) => items.len(),
                    Self::Object(fields) => fields.len(),
                    _ => 0,
                }
            }

            fn item(&self, index: usize) -> Option<&dyn Node> {
                self.as_array()?.get(index).map(|item| item as &dyn Node)
            }

            fn field(&self, name: &str) -> Option<&dyn Node> {
                self.as_object()?.get(name).map(|field| field as &dyn Node)
            }

            fn fields<'a>(&'a self) -> Box<dyn Iterator<Item = (&'a str, &'a dyn Node)> + 'a> {
                let fields = self.as_object().into_iter().flat_map(|fields| fields.iter());
                Box::new(fields.map(|(name, field)| (name.as_str(), field as &dyn Node)))
            }
        }
    };
}

json_node!(serde_json::Value);
json_node!(pintle_json::Json);
