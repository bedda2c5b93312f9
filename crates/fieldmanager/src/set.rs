//! A set of field paths in an object.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use pintle_json::{Json, Map};
use pintle_schema::Type;

use super::path_element::PathElement;

/// A set of field paths in an object, such as the paths that a manager owns.
///
/// A set can contain a path without containing its parents or children.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Set {
    members: BTreeSet<PathElement>,
    children: BTreeMap<PathElement, Set>,
}

impl Set {
    /// Parses `fieldsV1`, or returns `None` if the JSON is malformed.
    pub fn from_fields(fields: &Json) -> Option<Self> {
        Self::from_members(fields.as_object()?)
    }

    fn from_members(fields: &Map) -> Option<Self> {
        let mut set = Self::default();
        for (name, below) in fields {
            if name == "." {
                continue;
            }
            // As in kube-apiserver, steps of unknown types are ignored.
            if name.as_bytes().get(1) == Some(&b':') && !name.starts_with(['f', 'k', 'v', 'i']) {
                continue;
            }
            let step = PathElement::parse(name)?;
            let below = below.as_object()?;
            let is_member = below.is_empty() || below.contains_key(".");
            let below = Self::from_members(below)?;
            match (is_member, below.is_empty()) {
                (true, true) => drop(set.members.insert(step)),
                (true, false) => {
                    set.members.insert(step.clone());
                    set.children.insert(step, below);
                }
                (false, _) => set.put(step, below),
            }
        }
        Some(set)
    }

    /// Returns the set in the JSON format of `fieldsV1`.
    pub fn to_fields(&self) -> Json {
        let mut fields = Map::new();
        for step in &self.members {
            fields.insert(step.spell(), Json::Object(Map::new()));
        }
        for (step, below) in &self.children {
            let mut below = below.to_fields();
            if let (true, Json::Object(below)) = (self.members.contains(step), &mut below) {
                below.insert(".", Json::Object(Map::new()));
            }
            fields.insert(step.spell(), below);
        }
        Json::Object(fields)
    }

    /// Adds a path to the set. Does nothing if the path is empty.
    pub fn insert(&mut self, path: &[PathElement]) {
        match path {
            [] => {}
            [last] => {
                self.members.insert(last.clone());
            }
            [first, rest @ ..] => self.children.entry(first.clone()).or_default().insert(rest),
        }
    }

    /// Returns `true` if the set contains the path that consists of only `step`.
    pub fn has(&self, step: &PathElement) -> bool {
        self.members.contains(step)
    }

    /// Returns `true` if the set contains `path` itself, and not only its parents or children.
    pub fn contains(&self, path: &[PathElement]) -> bool {
        match path {
            [] => false,
            [last] => self.members.contains(last),
            [first, rest @ ..] => self.children.get(first).is_some_and(|below| below.contains(rest)),
        }
    }

    /// Returns the paths below `step`, relative to `step`.
    pub fn below(&self, step: &PathElement) -> Option<&Set> {
        self.children.get(step)
    }

    /// Returns `true` if the set contains no paths.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty() && self.children.values().all(Self::is_empty)
    }

    /// Returns the paths in sorted order until their total size exceeds `left` bytes, and subtracts this size from
    /// `left`.
    pub fn paths(&self, left: &mut usize) -> Vec<Vec<PathElement>> {
        let mut all = Vec::new();
        self.walk(&mut Vec::new(), 0, &mut all, left);
        all
    }

    /// Returns the union of the two sets.
    pub fn union(&self, other: &Self) -> Self {
        let mut all = self.clone();
        all.extend(other.clone());
        all
    }

    /// Adds all paths of `other`.
    pub fn extend(&mut self, other: Self) {
        self.members.extend(other.members);
        for (step, below) in other.children {
            self.extend_below(step, below);
        }
    }

    /// Removes all paths of `other`.
    pub fn subtract(&mut self, other: &Self) {
        if !other.members.is_empty() {
            self.members.retain(|step| !other.members.contains(step));
        }
        if !other.children.is_empty() {
            self.children.retain(|step, below| {
                other.children.get(step).is_none_or(|other| {
                    below.subtract(other);
                    !below.is_empty()
                })
            });
        }
    }

    /// Removes all paths of `other`, and the children of these paths.
    pub fn cut(&mut self, other: &Self) {
        if !other.members.is_empty() {
            self.members.retain(|step| !other.members.contains(step));
            self.children.retain(|step, _| !other.members.contains(step));
        }
        if !other.children.is_empty() {
            self.children.retain(|step, below| {
                other.children.get(step).is_none_or(|other| {
                    below.cut(other);
                    !below.is_empty()
                })
            });
        }
    }

    /// Adds each path of `below` with the prefix `step`.
    pub fn extend_below(&mut self, step: PathElement, below: Self) {
        match self.children.entry(step) {
            _ if below.is_empty() => {}
            Entry::Vacant(place) => drop(place.insert(below)),
            Entry::Occupied(mut known) => known.get_mut().extend(below),
        }
    }

    /// Returns the intersection of the two sets.
    pub fn intersection(&self, other: &Self) -> Self {
        let mut both = Self { members: &self.members & &other.members, children: BTreeMap::new() };
        for (step, below) in &self.children {
            if let Some(other) = other.children.get(step) {
                both.put(step.clone(), below.intersection(other));
            }
        }
        both
    }

    /// Returns the paths of the set, and the paths of all struct fields that contain them.
    pub fn with_named_fields(&self, ty: Option<&Type>) -> Self {
        let mut all = Self { members: self.members.clone(), children: BTreeMap::new() };
        for (step, below) in &self.children {
            let inner = match (step, ty) {
                (PathElement::Field(name), Some(ty)) => {
                    if ty.names(name) {
                        all.members.insert(step.clone());
                    }
                    ty.child(name)
                }
                (PathElement::Key(_), Some(Type::List(list))) => Some(&list.item),
                _ => None,
            };
            all.children.insert(step.clone(), below.with_named_fields(inner));
        }
        all
    }

    /// Replaces the paths below each atomic value by the path of the value. The set contains such paths if the value
    /// was not atomic when the set was recorded. `ty` is the type of the value that contains the paths.
    pub fn cover_atomic_values(&mut self, ty: &Type) {
        let Self { members, children } = self;
        children.retain(|step, below| {
            let inner = match (step, ty) {
                (PathElement::Field(name), ty) => ty.child(name),
                (_, Type::List(list)) => Some(&list.item),
                _ => None,
            };
            let Some(inner) = inner else { return true };
            // As in structured-merge-diff, do not adapt the paths in free-form values.
            if inner.is_free_form() {
                return true;
            }
            if inner.is_atomic() {
                members.insert(step.clone());
                return false;
            }
            below.cover_atomic_values(inner);
            true
        });
    }

    fn put(&mut self, step: PathElement, below: Self) {
        if below.is_empty() {
            self.children.remove(&step)
        } else {
            self.children.insert(step, below)
        };
    }

    fn walk(&self, path: &mut Vec<PathElement>, length: usize, all: &mut Vec<Vec<PathElement>>, left: &mut usize) {
        for step in &self.members {
            if *left == 0 {
                return;
            }
            *left = left.saturating_sub(length + step.weight());
            path.push(step.clone());
            all.push(path.clone());
            path.pop();
        }
        for (step, below) in &self.children {
            path.push(step.clone());
            below.walk(path, length + step.weight(), all, left);
            path.pop();
        }
    }
}
