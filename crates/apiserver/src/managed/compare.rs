//! Compares two objects of one type: the fields that were added, changed and removed.

use serde_json::Value;

use super::path::Step;
use super::set::Set;
use crate::schema::{ListType, Topology, Type};

/// How two objects differ.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Comparison {
    /// Paths in the new object alone.
    pub added: Set,
    /// Paths in both, with other values.
    pub modified: Set,
    /// Paths in the old object alone.
    pub removed: Set,
}

impl Comparison {
    /// What the new object has that the old one has not, or not so.
    pub fn changed(&self) -> Set {
        self.modified.union(&self.added)
    }

    /// The same without these paths and all below them.
    pub fn without(&self, ignored: &Set) -> Self {
        Self {
            added: self.added.without(ignored),
            modified: self.modified.without(ignored),
            removed: self.removed.without(ignored),
        }
    }
}

/// Compares two objects of one type.
pub fn compare(of: &Type, old: &Value, new: &Value) -> Comparison {
    let mut walk = Walk::default();
    walk.value(of, Some(old), Some(new));
    walk.found
}

/// What a value is to its type. JSON of any shape decides by itself; null takes the shape of its counterpart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Shape {
    Map,
    List,
    Scalar,
}

pub(super) fn shape(of: &Type, value: &Value) -> Shape {
    match (of, value) {
        (Type::Struct { .. } | Type::Map(_), _) => Shape::Map,
        (Type::List(_), _) => Shape::List,
        (Type::Scalar(_), _) => Shape::Scalar,
        (Type::Any | Type::Union(_), Value::Object(_) | Value::Null) => Shape::Map,
        (Type::Any | Type::Union(_), Value::Array(_)) => Shape::List,
        (Type::Any | Type::Union(_), _) => Shape::Scalar,
    }
}

/// Whether a map of this type is owned as a whole.
pub(super) fn atomic_map(of: &Type) -> bool {
    match of {
        Type::Struct { atomic, .. } => *atomic,
        Type::Map(map) => map.atomic,
        _ => false,
    }
}

/// The list's type, unless the list is owned as a whole.
pub(super) fn keyed(of: &Type) -> Option<&ListType> {
    match of {
        Type::List(list) if list.topology != Topology::Atomic => Some(list),
        _ => None,
    }
}

/// The type of a member; one that the type does not know is taken as it comes.
pub(super) fn member<'a>(of: &'a Type, name: &str) -> &'a Type {
    of.child(name).unwrap_or(&Type::Any)
}

pub(super) fn nothing(value: Option<&Value>) -> bool {
    match value {
        Some(Value::Object(members)) => members.is_empty(),
        Some(Value::Array(items)) => items.is_empty(),
        _ => true,
    }
}

/// Equality by value: 3 and 3.0 are one number.
pub(super) fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a == b || (a.is_f64() != b.is_f64() && a.as_f64() == b.as_f64()),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(name, a)| b.get(name).is_some_and(|b| same(a, b)))
        }
        (a, b) => a == b,
    }
}

#[derive(Default)]
struct Walk {
    path: Vec<Step>,
    found: Comparison,
}

impl Walk {
    fn value(&mut self, of: &Type, old: Option<&Value>, new: Option<&Value>) {
        let leaf = match (old, new) {
            (None, None) => return,
            (Some(Value::Null) | None, Some(new)) => self.shaped(of, shape(of, new), old, Some(new)),
            (Some(old), Some(Value::Null) | None) => self.shaped(of, shape(of, old), Some(old), new),
            (Some(old), Some(new)) => {
                let (before, after) = (shape(of, old), shape(of, new));
                if before != after {
                    self.shaped(of, before, Some(old), Some(new));
                }
                self.shaped(of, after, Some(old), Some(new))
            }
        };
        if !leaf {
            match (old, new) {
                (None, _) => self.found.added.insert(&self.path),
                (_, None) => self.found.removed.insert(&self.path),
                _ => {}
            }
        }
    }

    /// Answers whether the value was compared as a whole.
    fn shaped(&mut self, of: &Type, shape: Shape, old: Option<&Value>, new: Option<&Value>) -> bool {
        match shape {
            Shape::Map => {
                let (before, after) = (old.and_then(Value::as_object), new.and_then(Value::as_object));
                let empty = before.is_none_or(|map| map.is_empty()) && after.is_none_or(|map| map.is_empty());
                if atomic_map(of) || empty {
                    return self.leaf(old, new);
                }
                for (name, value) in before.into_iter().flatten() {
                    self.below(
                        Step::Field(name.clone()),
                        member(of, name),
                        Some(value),
                        after.and_then(|map| map.get(name)),
                    );
                }
                for (name, value) in after.into_iter().flatten() {
                    if before.is_none_or(|map| !map.contains_key(name)) {
                        self.below(Step::Field(name.clone()), member(of, name), None, Some(value));
                    }
                }
                false
            }
            Shape::List => {
                let (before, after) = (old.and_then(Value::as_array), new.and_then(Value::as_array));
                let empty = before.is_none_or(Vec::is_empty) && after.is_none_or(Vec::is_empty);
                match keyed(of) {
                    Some(list) if !empty => {
                        self.items(list, before, after);
                        false
                    }
                    _ => self.leaf(old, new),
                }
            }
            Shape::Scalar => self.leaf(old, new),
        }
    }

    fn items(&mut self, of: &ListType, old: Option<&Vec<Value>>, new: Option<&Vec<Value>>) {
        let (before, after) = (by_step(of, old), by_step(of, new));
        let steps = before.iter().map(|(step, _)| step);
        let added = after.iter().map(|(step, _)| step).filter(|step| !before.iter().any(|(known, _)| known == *step));
        for step in steps.chain(added) {
            let find = |items: &[(Step, Vec<Value>)]| {
                items.iter().find(|(known, _)| known == step).map(|(_, values)| values.clone()).unwrap_or_default()
            };
            let (old, new) = (find(&before), find(&after));
            match (&old[..], &new[..]) {
                ([_] | [], [_] | []) => self.below(step.clone(), &of.item, old.first(), new.first()),
                // Items that stand more than once are compared as a whole.
                ([_, _, ..], [_, _, ..]) => {
                    if old.len() != new.len() || !old.iter().zip(&new).all(|(old, new)| same(old, new)) {
                        self.mark(step, |found| &mut found.modified);
                    }
                }
                ([_, _, ..], new) => {
                    if let Some(new) = new.first() {
                        self.below(step.clone(), &of.item, None, Some(new));
                    }
                    self.mark(step, |found| &mut found.removed);
                }
                (old, [_, _, ..]) => {
                    if let Some(old) = old.first() {
                        self.below(step.clone(), &of.item, Some(old), None);
                    }
                    self.mark(step, |found| &mut found.added);
                }
            }
        }
    }

    fn below(&mut self, step: Step, of: &Type, old: Option<&Value>, new: Option<&Value>) {
        self.path.push(step);
        self.value(of, old, new);
        self.path.pop();
    }

    fn mark(&mut self, step: &Step, which: impl FnOnce(&mut Comparison) -> &mut Set) {
        self.path.push(step.clone());
        which(&mut self.found).insert(&self.path);
        self.path.pop();
    }

    fn leaf(&mut self, old: Option<&Value>, new: Option<&Value>) -> bool {
        match (old, new) {
            (None, _) => self.found.added.insert(&self.path),
            (_, None) => self.found.removed.insert(&self.path),
            (Some(old), Some(new)) if !same(old, new) => self.found.modified.insert(&self.path),
            _ => {}
        }
        true
    }
}

/// The items of a list by their steps, in order; items that cannot be told from others are left out.
fn by_step(of: &ListType, items: Option<&Vec<Value>>) -> Vec<(Step, Vec<Value>)> {
    let mut all: Vec<(Step, Vec<Value>)> = Vec::new();
    for item in items.into_iter().flatten() {
        let Ok(step) = Step::of_item(of, item) else { continue };
        match all.iter_mut().find(|(known, _)| *known == step) {
            Some((_, values)) => values.push(item.clone()),
            None => all.push((step, vec![item.clone()])),
        }
    }
    all
}
