//! Compares two objects of the same type, and returns the added, modified and removed fields.

use std::collections::BTreeMap;

use pintle_json::Json;
use pintle_schema::{ListType, Topology, Type};

use super::path_element::PathElement;
use super::set::Set;

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Comparison {
    /// The paths that exist only in the new object.
    pub added: Set,
    /// The paths whose values differ between the objects.
    pub modified: Set,
    /// The paths that exist only in the old object.
    pub removed: Set,
}

impl Comparison {
    pub(crate) fn changed(&self) -> Set {
        self.modified.union(&self.added)
    }

    pub(crate) fn into_changed(self) -> Set {
        let (mut all, rest) =
            if self.modified.is_empty() { (self.added, self.modified) } else { (self.modified, self.added) };
        all.extend(rest);
        all
    }

    pub(crate) fn cut(&mut self, ignored: &Set) {
        for set in [&mut self.added, &mut self.modified, &mut self.removed] {
            set.cut(ignored);
        }
    }

    /// Compares two values at the same path element. Calls `step` to create the path element only if the values differ,
    /// because most values are equal.
    fn below(&mut self, step: impl FnOnce() -> PathElement, ty: &Type, old: Option<&Json>, new: Option<&Json>) {
        let mut below = Self::default();
        let marks = value(ty, old, new, &mut below);
        let is_equal = !marks.any() && [&below.added, &below.modified, &below.removed].into_iter().all(Set::is_empty);
        if is_equal {
            return;
        }
        let step = step();
        let sets =
            [(&mut self.added, below.added), (&mut self.modified, below.modified), (&mut self.removed, below.removed)];
        for (set, below) in sets.into_iter().filter(|(_, below)| !below.is_empty()) {
            set.extend_below(step.clone(), below);
        }
        self.mark(&step, marks);
    }

    fn mark(&mut self, step: &PathElement, marks: Marks) {
        let Marks { added, modified, removed } = marks;
        for (holds, set) in [(added, &mut self.added), (modified, &mut self.modified), (removed, &mut self.removed)] {
            if holds {
                set.insert(std::slice::from_ref(step));
            }
        }
    }
}

pub(crate) fn compare(ty: &Type, old: &Json, new: &Json) -> Comparison {
    let mut found = Comparison::default();
    value(ty, Some(old), Some(new), &mut found);
    found
}

/// The shape of a value, which determines how two values are compared. The type of a value determines its shape. If the
/// type allows scalars, lists and maps, the value itself determines the shape, and null counts as a map.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Shape {
    Map,
    List,
    Scalar,
}

pub(super) fn shape(ty: &Type, value: &Json) -> Shape {
    match (ty, value) {
        (Type::Struct { struct_type, .. }, _) if !struct_type.is_typeless => Shape::Map,
        (Type::Map(_), _) => Shape::Map,
        (Type::List(_), _) => Shape::List,
        (Type::Scalar(_), _) => Shape::Scalar,
        (_, Json::Object(_) | Json::Null) => Shape::Map,
        (_, Json::Array(_)) => Shape::List,
        _ => Shape::Scalar,
    }
}

/// Returns `true` if maps of this type are atomic, which means that all of their members have the same owners.
pub(super) fn is_atomic_map(ty: &Type) -> bool {
    match ty {
        Type::Struct { atomic, .. } => *atomic,
        Type::Map(map) => map.atomic,
        _ => false,
    }
}

/// Returns the type of a list, or `None` if the list is atomic.
pub(super) fn associative_list(ty: &Type) -> Option<&ListType> {
    match ty {
        Type::List(list) if list.topology != Topology::Atomic => Some(list),
        _ => None,
    }
}

/// Returns the type of an object member, or [`Type::Any`] if the type does not declare it.
pub(super) fn member<'a>(ty: &'a Type, name: &str) -> &'a Type {
    ty.child(name).unwrap_or(&Type::Any)
}

pub(super) fn is_empty_or_absent(value: Option<&Json>) -> bool {
    match value {
        Some(Json::Object(members)) => members.is_empty(),
        Some(Json::Array(items)) => items.is_empty(),
        _ => true,
    }
}

/// Returns `true` if two values are equal. Numbers are compared by value, so 3 equals 3.0.
pub(super) fn equal(a: &Json, b: &Json) -> bool {
    match (a, b) {
        (Json::Number(a), Json::Number(b)) => a == b || (a.is_f64() != b.is_f64() && a.as_f64() == b.as_f64()),
        (Json::Array(a), Json::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b)),
        (Json::Object(a), Json::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(name, a)| b.get(name).is_some_and(|b| equal(a, b)))
        }
        (a, b) => a == b,
    }
}

/// Records whether a value was added, modified or removed as a whole.
#[derive(Clone, Copy, Default)]
struct Marks {
    added: bool,
    modified: bool,
    removed: bool,
}

impl Marks {
    fn any(self) -> bool {
        self.added || self.modified || self.removed
    }
}

fn value(ty: &Type, old: Option<&Json>, new: Option<&Json>, found: &mut Comparison) -> Marks {
    let mut marks = Marks::default();
    let leaf = match (old, new) {
        (None, None) => return marks,
        (Some(Json::Null) | None, Some(other)) | (Some(other), Some(Json::Null) | None) => {
            shaped(ty, shape(ty, other), old, new, found, &mut marks)
        }
        (Some(before), Some(after)) => {
            let (before, after) = (shape(ty, before), shape(ty, after));
            if before != after {
                shaped(ty, before, old, new, found, &mut marks);
            }
            shaped(ty, after, old, new, found, &mut marks)
        }
    };
    if !leaf {
        marks.added |= old.is_none();
        marks.removed |= old.is_some() && new.is_none();
    }
    marks
}

/// Compares two values of the given shape, and returns `true` if they were compared as a whole.
fn shaped(
    ty: &Type,
    shape: Shape,
    old: Option<&Json>,
    new: Option<&Json>,
    found: &mut Comparison,
    marks: &mut Marks,
) -> bool {
    match shape {
        Shape::Map => {
            let (before, after) = (old.and_then(Json::as_object), new.and_then(Json::as_object));
            let empty = before.is_none_or(|map| map.is_empty()) && after.is_none_or(|map| map.is_empty());
            if !is_atomic_map(ty) && !empty {
                for (name, value) in before.into_iter().flatten() {
                    let new = after.and_then(|map| map.get(name));
                    found.below(|| PathElement::Field(name.clone()), member(ty, name), Some(value), new);
                }
                for (name, value) in after.into_iter().flatten() {
                    if before.is_none_or(|map| !map.contains_key(name)) {
                        found.below(|| PathElement::Field(name.clone()), member(ty, name), None, Some(value));
                    }
                }
                return false;
            }
        }
        Shape::List => {
            let (before, after) = (old.and_then(Json::as_array), new.and_then(Json::as_array));
            let empty = before.is_none_or(Vec::is_empty) && after.is_none_or(Vec::is_empty);
            if let Some(list) = associative_list(ty).filter(|_| !empty) {
                items(list, before, after, found);
                return false;
            }
        }
        Shape::Scalar => {}
    }
    match (old, new) {
        (None, _) => marks.added = true,
        (_, None) => marks.removed = true,
        (Some(old), Some(new)) => marks.modified |= !equal(old, new),
    }
    true
}

fn items(ty: &ListType, old: Option<&Vec<Json>>, new: Option<&Vec<Json>>, found: &mut Comparison) {
    let mut by_step: BTreeMap<PathElement, [Vec<&Json>; 2]> = BTreeMap::new();
    for (side, items) in [old, new].into_iter().enumerate() {
        for item in items.into_iter().flatten() {
            // Ignore items without an identity, such as items without keys.
            if let Ok(step) = PathElement::of_item(ty, item) {
                by_step.entry(step).or_default()[side].push(item);
            }
        }
    }
    for (step, [old, new]) in by_step {
        match (&old[..], &new[..]) {
            ([_] | [], [_] | []) => found.below(|| step, &ty.item, old.first().copied(), new.first().copied()),
            // Compare duplicate list items as a single value.
            ([_, _, ..], [_, _, ..]) => {
                let is_equal = old.len() == new.len() && old.iter().zip(&new).all(|(old, new)| equal(old, new));
                found.mark(&step, Marks { modified: !is_equal, ..Marks::default() });
            }
            ([_, _, ..], new) => {
                if let Some(new) = new.first() {
                    found.below(|| step.clone(), &ty.item, None, Some(new));
                }
                found.mark(&step, Marks { removed: true, ..Marks::default() });
            }
            (old, [_, _, ..]) => {
                if let Some(old) = old.first() {
                    found.below(|| step.clone(), &ty.item, Some(old), None);
                }
                found.mark(&step, Marks { added: true, ..Marks::default() });
            }
        }
    }
}
