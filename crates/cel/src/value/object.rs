//! Objects that expressions create, such as `Object{}` in mutating policies.

use std::sync::Arc;

use super::Value;

/// An object created by an expression such as `JSONPatch{op: 'add'}`.
#[derive(Clone, Debug)]
pub struct Object<'a> {
    type_name: Arc<str>,
    fields: Vec<(Arc<str>, Value<'a>)>,
}

impl<'a> Object<'a> {
    pub(crate) fn new(type_name: Arc<str>, fields: Vec<(Arc<str>, Value<'a>)>) -> Self {
        Self { type_name, fields }
    }

    /// Returns the name of the object type.
    pub fn type_name(&self) -> &str {
        &self.type_name
    }

    /// Returns an iterator over the fields.
    pub fn fields(&self) -> impl Iterator<Item = (&str, &Value<'a>)> {
        self.fields.iter().map(|(name, value)| (&**name, value))
    }

    /// Returns the value of the field `name`.
    pub fn field(&self, name: &str) -> Option<&Value<'a>> {
        self.fields.iter().rev().find(|(known, _)| **known == *name).map(|(_, value)| value)
    }
}
