//! Estimates the sizes of values from literals and schemas.

use std::collections::HashMap;
use std::sync::Arc;

use super::{CostRange, Estimator};
use crate::ast::{Id, Kind, Literal};
use crate::schema::Schema;
use crate::types::Type;

/// The origin of an expression's value in the caller's data.
#[derive(Clone, Copy, Debug)]
pub(super) enum Place<'e> {
    Outside,
    Schema(&'e Schema),
    Keys { max_length: u64 },
    NoSchema,
}

impl<'e> Place<'e> {
    /// Returns the origin of the value that `step`, such as a field name, selects from this value. As in
    /// kube-apiserver, a step from a value outside of the caller's data always selects the root of the
    /// data.
    pub(super) fn step(self, step: &str, root: Option<&'e Schema>) -> Self {
        match (self, root) {
            (Self::Outside, Some(root)) => Self::Schema(root),
            (Self::Schema(schema), _) if step == KEYS && schema.is_map() => {
                Self::Keys { max_length: schema.max_key_length }
            }
            (Self::Schema(schema), _) => schema.part(step).map_or(Self::NoSchema, Self::Schema),
            _ => Self::NoSchema,
        }
    }

    pub(super) fn size(self) -> Option<CostRange> {
        match self {
            Self::Schema(schema) => Some(CostRange { min: 0, max: schema.max_elements }),
            Self::Keys { max_length } => Some(CostRange { min: 0, max: max_length }),
            Self::Outside | Self::NoSchema => None,
        }
    }
}

pub(super) const KEYS: &str = "@keys";
pub(super) const INDICES: &str = "@indices";
pub(super) const VALUES: &str = "@values";
pub(super) const ITEMS: &str = "@items";

#[derive(Clone, Copy, Debug)]
pub(super) struct EntrySize {
    pub(super) is_map: bool,
    pub(super) key: CostRange,
    pub(super) value: CostRange,
}

impl EntrySize {
    pub(super) fn union(self, other: Self) -> Self {
        Self { key: self.key.union(other.key), value: self.value.union(other.value), ..self }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct LocalVariable<'e> {
    pub(super) place: Place<'e>,
    pub(super) size: Option<CostRange>,
    pub(super) entries: Option<EntrySize>,
}

#[derive(Default)]
pub(super) struct Scopes<'e>(HashMap<Arc<str>, Vec<LocalVariable<'e>>>);

impl<'e> Scopes<'e> {
    pub(super) fn push(&mut self, name: &Arc<str>, variable: LocalVariable<'e>) {
        self.0.entry(name.clone()).or_default().push(variable);
    }

    pub(super) fn pop(&mut self, name: &str) {
        self.0.get_mut(name).and_then(Vec::pop);
    }

    pub(super) fn find(&self, name: &str) -> Option<&LocalVariable<'e>> {
        self.0.get(name)?.last()
    }
}

impl<'e> Estimator<'e> {
    pub(super) fn place(&self, id: Id) -> Place<'e> {
        if let Kind::Ident(name) = self.checked.ast.kind(id)
            && let Some(variable) = self.scopes.find(name)
        {
            return variable.place;
        }
        self.places.get(&id).copied().unwrap_or(Place::Outside)
    }

    pub(super) fn variable_like(&mut self, id: Id) -> LocalVariable<'e> {
        LocalVariable { place: self.place(id), size: self.size(id), entries: self.entry_size(id) }
    }

    pub(super) fn is_list(&self, range: Id) -> bool {
        match self.entry_size(range) {
            Some(entries) => !entries.is_map,
            None => matches!(self.checked.type_of(range), Type::List(_)),
        }
    }

    /// Returns the comprehension variable for the keys of a map or the indices of a list.
    pub(super) fn key_variable(&self, range: Id) -> LocalVariable<'e> {
        let step = if self.is_list(range) { INDICES } else { KEYS };
        let size = self.entry_size(range).map(|entries| entries.key);
        LocalVariable { place: self.place(range).step(step, self.root), size, entries: None }
    }

    /// Returns the comprehension variable for the values of a map or the items of a list.
    pub(super) fn value_variable(&self, range: Id) -> LocalVariable<'e> {
        let step = if self.is_list(range) { ITEMS } else { VALUES };
        let size = self.entry_size(range).map(|entries| entries.value);
        LocalVariable { place: self.place(range).step(step, self.root), size, entries: None }
    }

    pub(super) fn size_or_unknown(&mut self, id: Id) -> CostRange {
        self.size(id).unwrap_or(CostRange::UNKNOWN)
    }

    /// Returns the range of possible sizes of an expression's value, or `None` if the size is unbounded.
    pub(super) fn size(&mut self, id: Id) -> Option<CostRange> {
        if let Some(size) = self.sizes.get(&id) {
            return Some(*size);
        }
        if let Some(size) = literal_size(self.checked.ast.kind(id)) {
            return Some(CostRange::fixed(size));
        }
        if let Some(size) = self.place(id).size() {
            self.sizes.insert(id, size);
            return Some(size);
        }
        if self.checked.type_of(id).is_scalar() {
            return Some(CostRange::fixed(1));
        }
        match self.checked.ast.kind(id) {
            Kind::Ident(name) => self.scopes.find(name)?.size,
            _ => None,
        }
    }

    pub(super) fn set_size(&mut self, id: Id, size: Option<CostRange>) {
        if let Some(size) = size {
            self.sizes.insert(id, size);
        }
    }

    pub(super) fn entry_size(&self, id: Id) -> Option<EntrySize> {
        if let Some(entries) = self.entries.get(&id) {
            return Some(*entries);
        }
        match self.checked.ast.kind(id) {
            Kind::Ident(name) => self.scopes.find(name)?.entries,
            _ => None,
        }
    }

    pub(super) fn set_entry_size(&mut self, id: Id, entries: Option<EntrySize>) {
        if let Some(entries) = entries {
            self.entries.insert(id, entries);
        }
    }

    pub(super) fn copy_sizes(&mut self, to: Id, from: Id) {
        let size = self.size(from);
        self.set_size(to, size);
        let entries = self.entry_size(from);
        self.set_entry_size(to, entries);
    }
}

fn literal_size(kind: &Kind) -> Option<u64> {
    Some(match kind {
        Kind::Literal(Literal::String(text)) => text.chars().count() as u64,
        Kind::Literal(Literal::Bytes(bytes)) => bytes.len() as u64,
        Kind::Literal(_) => 1,
        Kind::List(items) => items.len() as u64,
        Kind::Map(entries) => entries.len() as u64,
        _ => return None,
    })
}
