//! Label and field selectors: read from a query, held against objects.

mod field;
mod label;
#[cfg(test)]
mod tests;

pub use field::{FieldSelector, FieldTerm};
pub use label::{LabelSelector, Operator, Requirement};

/// Why a selector cannot be read or is not served: the message of a 400.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SelectorError(pub(crate) String);
