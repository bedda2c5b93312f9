//! Maps.

use std::collections::HashMap;
use std::sync::Arc;

use super::{Text, Value};
use crate::error::Failure;
use crate::meter::Meter;
use crate::node::Node;
use crate::schema::{Schema, escape};

/// A map value of an expression.
#[derive(Clone, Debug)]
pub struct Map<'a>(Layout<'a>);

#[derive(Clone, Debug)]
enum Layout<'a> {
    /// A map in the caller's data, with its schema.
    Node(&'a dyn Node, Option<&'a Schema>),
    Entries(Arc<Entries<'a>>),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Key<'a> {
    Bool(bool),
    Int(i64),
    Uint(u64),
    /// The bits of a floating-point number.
    Double(u64),
    String(Text<'a>),
}

impl<'a> Key<'a> {
    /// Converts a value to a map key. Returns `None` if the type cannot be used for keys.
    pub(crate) fn of(value: &Value<'a>) -> Option<Self> {
        Some(match value {
            Value::Bool(value) => Self::Bool(*value),
            Value::Int(value) => Self::Int(*value),
            Value::Uint(value) => Self::Uint(*value),
            // Add 0.0 to turn negative zero into positive zero, because both are the same key.
            Value::Double(value) => Self::Double((value + 0.0).to_bits()),
            Value::String(text) => Self::String(text.clone()),
            _ => return None,
        })
    }

    /// Converts a boolean, an integer or a string to a key. Booleans, integers and strings are equal if their keys are
    /// equal.
    pub(crate) fn of_plain(value: &Value<'a>) -> Option<Self> {
        match value {
            Value::Bool(_) | Value::Int(_) | Value::String(_) => Self::of(value),
            _ => None,
        }
    }

    pub(crate) fn value(&self) -> Value<'a> {
        match self {
            Self::Bool(value) => Value::Bool(*value),
            Self::Int(value) => Value::Int(*value),
            Self::Uint(value) => Value::Uint(*value),
            Self::Double(bits) => Value::Double(f64::from_bits(*bits)),
            Self::String(text) => Value::String(text.clone()),
        }
    }

    /// Returns the keys with other number types that are equal to this key.
    fn equal_numbers(&self) -> [Option<Self>; 2] {
        match self {
            Self::Int(value) => [u64::try_from(*value).ok().map(Self::Uint), None],
            Self::Uint(value) => [i64::try_from(*value).ok().map(Self::Int), None],
            Self::Double(bits) => {
                let number = f64::from_bits(*bits);
                let (int, uint) = (number as i64, number as u64);
                [(int as f64 == number).then_some(Self::Int(int)), (uint as f64 == number).then_some(Self::Uint(uint))]
            }
            Self::Bool(_) | Self::String(_) => [None, None],
        }
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Entries<'a> {
    list: Vec<(Key<'a>, Value<'a>)>,
    /// Maps each key to the index of its entry in `list`. The index of a small map is empty, because a linear
    /// search is faster.
    index: HashMap<Key<'a>, usize>,
}

/// The maximum number of entries for a linear search.
const FEW: usize = 8;

impl<'a> Entries<'a> {
    fn position(&self, key: &Key<'a>) -> Option<usize> {
        if matches!(key, Key::Double(bits) if f64::from_bits(*bits).is_nan()) {
            return None;
        }
        if self.index.is_empty() {
            self.list.iter().position(|(known, _)| known == key)
        } else {
            self.index.get(key).copied()
        }
    }

    fn get(&self, key: &Key<'a>) -> Option<&Value<'a>> {
        let others = || key.equal_numbers().into_iter().flatten().find_map(|other| self.position(&other));
        self.position(key).or_else(others).map(|at| &self.list[at].1)
    }

    pub(crate) fn set(&mut self, key: Key<'a>, value: Value<'a>) {
        if let Some(at) = self.position(&key) {
            self.list[at].1 = value;
            return;
        }
        if !self.index.is_empty() {
            self.index.insert(key.clone(), self.list.len());
        }
        self.list.push((key, value));
        if self.list.len() == FEW + 1 {
            self.index = self.list.iter().enumerate().map(|(at, (key, _))| (key.clone(), at)).collect();
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    /// Removes an entry in linear time. Returns `true` if the entry existed.
    pub(crate) fn remove(&mut self, key: &Key<'a>) -> bool {
        let Some(at) = self.position(key) else { return false };
        self.list.remove(at);
        self.index = if self.list.len() > FEW {
            self.list.iter().enumerate().map(|(at, (key, _))| (key.clone(), at)).collect()
        } else {
            HashMap::new()
        };
        true
    }
}

impl<'a> From<Entries<'a>> for Map<'a> {
    fn from(entries: Entries<'a>) -> Self {
        Self(Layout::Entries(Arc::new(entries)))
    }
}

impl<'a> Map<'a> {
    pub(crate) fn of(node: &'a dyn Node, schema: Option<&'a Schema>) -> Self {
        Self(Layout::Node(node, schema))
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        match &self.0 {
            Layout::Node(node, _) => node.len(),
            Layout::Entries(entries) => entries.list.len(),
        }
    }

    /// Returns `true` if the map has no entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the data and its schema if the map borrows data from the caller.
    pub(crate) fn node(&self) -> Option<(&'a dyn Node, Option<&'a Schema>)> {
        match self.0 {
            Layout::Node(node, schema) => Some((node, schema)),
            Layout::Entries(_) => None,
        }
    }

    /// Returns the value of a key. Fails if the key or its value does not conform to the schema.
    pub(crate) fn get(&self, key: &Value<'a>, meter: &mut Meter) -> Result<Option<Value<'a>>, Failure> {
        match (&self.0, key) {
            (Layout::Entries(entries), _) => Ok(Key::of(key).and_then(|key| entries.get(&key).cloned())),
            (Layout::Node(..), Value::String(name)) => self.field(name, meter),
            (Layout::Node(_, Some(_)), _) => Err(Failure::no_overload()),
            (Layout::Node(_, None), _) => Ok(None),
        }
    }

    pub(crate) fn field(&self, name: &str, meter: &mut Meter) -> Result<Option<Value<'a>>, Failure> {
        match &self.0 {
            Layout::Node(node, None) => Ok(node.field(name).map(Value::of)),
            Layout::Node(node, Some(schema)) => schema.field(*node, name, meter),
            Layout::Entries(entries) => {
                let found = if entries.index.is_empty() {
                    entries.list.iter().find(|(key, _)| matches!(key, Key::String(text) if **text == *name))
                } else {
                    entries.position(&Key::String(Text::Owned(name.into()))).map(|at| &entries.list[at])
                };
                Ok(found.map(|(_, value)| value.clone()))
            }
        }
    }

    /// Returns an iterator over the values. The iterator yields an error for a value that does not conform to its
    /// schema.
    pub fn values(&self) -> impl Iterator<Item = Result<Value<'a>, Failure>> {
        self.entries().filter_map(|(_, value)| value.transpose())
    }

    /// Returns an iterator over the entries. Does not count the work, because it is used outside of an evaluation.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (Key<'a>, Result<Option<Value<'a>>, Failure>)> {
        self.keys().into_iter().map(|key| {
            let value = self.get(&key.value(), &mut Meter::unlimited());
            (key, value)
        })
    }

    /// Returns the keys of the map. Field names are escaped for use in expressions.
    pub(crate) fn keys(&self) -> Vec<Key<'a>> {
        match &self.0 {
            Layout::Entries(entries) => entries.list.iter().map(|(key, _)| key.clone()).collect(),
            Layout::Node(node, None) => node.fields().map(|(name, _)| Key::String(Text::Borrowed(name))).collect(),
            Layout::Node(node, Some(schema)) => {
                let known = node.fields().filter(|(name, _)| schema.declares(name));
                known.map(|(name, _)| Key::String(key_text(name, schema))).collect()
            }
        }
    }

    /// Adds an entry. Returns `false` if the map already contains the key. Copies the map only if it is shared.
    pub(crate) fn insert(&mut self, key: Key<'a>, value: Value<'a>, meter: &mut Meter) -> Result<bool, Failure> {
        if self.get(&key.value(), meter)?.is_some() {
            return Ok(false);
        }
        if let Layout::Node(..) = self.0 {
            let mut entries = Entries::default();
            for key in self.keys() {
                if let Some(value) = self.get(&key.value(), meter)? {
                    entries.set(key, value);
                }
            }
            *self = Self::from(entries);
        }
        if let Layout::Entries(entries) = &mut self.0 {
            Arc::make_mut(entries).set(key, value);
        }
        Ok(true)
    }
}

fn key_text<'a>(name: &'a str, schema: &Schema) -> Text<'a> {
    match schema.has_properties().then(|| escape(name)).flatten() {
        Some(escaped) if *escaped != *name => Text::Owned(escaped.into()),
        _ => Text::Borrowed(name),
    }
}
