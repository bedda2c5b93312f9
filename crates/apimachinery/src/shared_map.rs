//! A sorted map with cheap clones that share unchanged entries.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

/// A sorted map from names to values. Its clones are snapshots. Cloning takes constant time, and later changes to the
/// original do not affect the clone. A change copies only the nodes on the path from the root of the tree to the
/// changed entry.
///
/// The map is a weight-balanced tree: a subtree weighs at most three times as much as its sibling. Therefore, the depth
/// is logarithmic in the number of entries, regardless of their names and insertion order.
pub struct SharedMap<V>(Option<Arc<MapNode<V>>>);

#[derive(Clone)]
struct MapNode<V> {
    name: Arc<str>,
    value: V,
    size: usize,
    /// The subtrees before and after this entry.
    sides: [SharedMap<V>; 2],
}

const MAX_RATIO: usize = 3;
/// A double rotation is necessary if the inner child of the heavier subtree weighs at least this many times as much as
/// the outer child.
const DOUBLE_RATIO: usize = 2;

impl<V> SharedMap<V> {
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    pub fn get(&self, name: &str) -> Option<&V> {
        let mut subtree = self;
        loop {
            let node = subtree.0.as_deref()?;
            match side_of(name, node) {
                Some(side) => subtree = &node.sides[side],
                None => return Some(&node.value),
            }
        }
    }

    /// Returns all entries, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &V)> {
        let (mut ancestors, mut next) = (Vec::new(), self);
        std::iter::from_fn(move || {
            while let Some(node) = next.0.as_deref() {
                ancestors.push(node);
                next = &node.sides[0];
            }
            let node = ancestors.pop()?;
            next = &node.sides[1];
            Some((&*node.name, &node.value))
        })
    }

    fn size(&self) -> usize {
        self.0.as_ref().map_or(0, |node| node.size)
    }

    fn weight(&self) -> usize {
        self.size() + 1
    }
}

impl<V: Clone> SharedMap<V> {
    /// Inserts a value and replaces any existing value with the same name.
    pub fn insert(&mut self, name: &str, value: V) {
        let Some(node) = self.0.as_mut().map(Arc::make_mut) else {
            self.0 = Some(Arc::new(MapNode { name: name.into(), value, size: 1, sides: Default::default() }));
            return;
        };
        match side_of(name, node) {
            Some(side) => node.sides[side].insert(name, value),
            None => node.value = value,
        }
        self.balance();
    }

    pub fn remove(&mut self, name: &str) {
        let Some(node) = self.0.as_mut().map(Arc::make_mut) else { return };
        match side_of(name, node) {
            Some(side) => node.sides[side].remove(name),
            None => match node.sides[1].take_first() {
                Some((name, value)) => (node.name, node.value) = (name, value),
                None => *self = std::mem::take(&mut node.sides[0]),
            },
        }
        self.balance();
    }

    fn take_first(&mut self) -> Option<(Arc<str>, V)> {
        let node = Arc::make_mut(self.0.as_mut()?);
        let first = node.sides[0].take_first();
        if first.is_some() {
            self.balance();
            return first;
        }
        let first = (node.name.clone(), node.value.clone());
        *self = std::mem::take(&mut node.sides[1]);
        Some(first)
    }

    fn balance(&mut self) {
        let Some(node) = self.0.as_mut().map(Arc::make_mut) else { return };
        node.update_size();
        for (heavy, light) in [(0, 1), (1, 0)] {
            if node.sides[heavy].weight() > MAX_RATIO * node.sides[light].weight() {
                let [inner, outer] = [light, heavy].map(|side| node.sides[heavy].child(side).map_or(1, Self::weight));
                if inner >= DOUBLE_RATIO * outer {
                    node.sides[heavy].rotate(light);
                }
                return self.rotate(heavy);
            }
        }
    }

    fn child(&self, side: usize) -> Option<&Self> {
        self.0.as_ref().map(|node| &node.sides[side])
    }

    /// Rotates this subtree. The child in `sides[side]` becomes the new root, and the old root becomes a child of the
    /// new root.
    fn rotate(&mut self, side: usize) {
        let Some(mut old) = self.0.take() else { return };
        let lower = Arc::make_mut(&mut old);
        let Some(mut new) = lower.sides[side].0.take() else {
            self.0 = Some(old);
            return;
        };
        let upper = Arc::make_mut(&mut new);
        lower.sides[side] = std::mem::take(&mut upper.sides[1 - side]);
        lower.update_size();
        upper.sides[1 - side] = Self(Some(old));
        upper.update_size();
        self.0 = Some(new);
    }
}

/// Returns the index in [`sides`](MapNode::sides) of the subtree for `name`, or `None` if the node itself has this name.
fn side_of<V>(name: &str, node: &MapNode<V>) -> Option<usize> {
    match name.cmp(&node.name) {
        Ordering::Less => Some(0),
        Ordering::Greater => Some(1),
        Ordering::Equal => None,
    }
}

impl<V> MapNode<V> {
    fn update_size(&mut self) {
        self.size = 1 + self.sides.iter().map(SharedMap::size).sum::<usize>();
    }
}

impl<V> Clone for SharedMap<V> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<V> Default for SharedMap<V> {
    fn default() -> Self {
        Self(None)
    }
}

impl<V: fmt::Debug> fmt::Debug for SharedMap<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<V> SharedMap<V> {
    /// Returns the number of nodes that are not shared with `other`. Tests use this number to check that a change
    /// copies only the necessary nodes.
    pub fn unshared_with(&self, other: &Self) -> usize {
        let theirs: HashSet<_> = other.nodes().into_iter().map(std::ptr::from_ref).collect();
        self.nodes().into_iter().filter(|node| !theirs.contains(&std::ptr::from_ref(*node))).count()
    }

    fn nodes(&self) -> Vec<&MapNode<V>> {
        let mut nodes: Vec<_> = self.0.as_deref().into_iter().collect();
        let mut index = 0;
        while let Some(node) = nodes.get(index) {
            let children = node.sides.each_ref().map(|side| side.0.as_deref());
            nodes.extend(children.into_iter().flatten());
            index += 1;
        }
        nodes
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn is_balanced<V>(map: &SharedMap<V>) -> bool {
        map.nodes().iter().all(|node| {
            let [left, right] = node.sides.each_ref().map(SharedMap::weight);
            node.size + 1 == left + right && left <= MAX_RATIO * right && right <= MAX_RATIO * left
        })
    }

    proptest! {
        #[test]
        fn map_and_its_clones_match_a_model(changes in vec((0..40_u8, any::<bool>()), 0..200)) {
            let (mut map, mut model) = (SharedMap::default(), BTreeMap::new());
            let mut past = Vec::new();
            for (at, (name, stays)) in changes.into_iter().enumerate() {
                past.push((map.clone(), model.clone()));
                let name = name.to_string();
                if stays {
                    map.insert(&name, at);
                    model.insert(name, at);
                } else {
                    map.remove(&name);
                    model.remove(&name);
                }
                prop_assert!(is_balanced(&map));
            }
            past.push((map, model));
            for (map, model) in past {
                let entries: Vec<_> = map.iter().map(|(name, value)| (name.to_owned(), *value)).collect();
                prop_assert_eq!(&entries, &model.clone().into_iter().collect::<Vec<_>>());
                prop_assert!(model.iter().all(|(name, value)| map.get(name) == Some(value)));
                prop_assert_eq!(map.is_empty(), model.is_empty());
            }
        }
    }

    #[test]
    fn change_copies_only_the_path_to_the_entry() {
        const COUNT: usize = 1000;
        let mut map = SharedMap::default();
        for at in 0..COUNT {
            let before = map.clone();
            map.insert(&format!("{at:04}"), at);
            assert!(map.unshared_with(&before) <= 25, "{at}: {}", map.unshared_with(&before));
        }
        let (whole, first) = (map.clone(), "0000");
        map.remove(first);
        assert!((1..=25).contains(&map.unshared_with(&whole)), "{}", map.unshared_with(&whole));
        assert_eq!((map.get(first), whole.get(first)), (None, Some(&0)));
    }
}
