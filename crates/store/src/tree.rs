//! A persistent map. A write copies a few nodes of the tree, and a clone of the map copies no nodes.

use std::collections::HashSet;
use std::sync::{Arc, OnceLock};

use super::encodings::Encodings;
use crate::stored::Key;

/// A B-tree that maps keys to values. Cloning the tree creates an immutable snapshot. A write copies only the nodes on
/// the path to the key that are shared with a clone.
#[derive(Clone, Debug)]
pub struct Tree<V>(Node<V>);

/// In a tree, all leaves have the same depth. Every node except the root of an empty tree has entries.
#[derive(Clone, Debug)]
enum Node<V> {
    Leaf(Arc<[(Key, V)]>),
    Branch(Arc<Branch<V>>),
}

#[derive(Debug)]
pub(super) struct Branch<V> {
    len: usize,
    nodes: Vec<Node<V>>,
    /// The cached encodings of all values below this branch. A change of any of these values drops the encodings.
    pub(super) encodings: OnceLock<Arc<Encodings>>,
}

/// The maximum number of values in a leaf, and of children of a branch. The limits are small in tests, so that nodes
/// are split and merged even in small trees.
const MAX_LEAF_LEN: usize = if cfg!(test) { 2 } else { 8 };
const MAX_BRANCH_LEN: usize = if cfg!(test) { 2 } else { 16 };

struct Inserted<V> {
    key: Key,
    old: Option<V>,
    right: Option<Node<V>>,
}

impl<V> Tree<V> {
    /// Returns `true` if the tree has no entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the value of a key.
    pub fn get(&self, key: &str) -> Option<&V> {
        let entries = self.0.leaf(key).1;
        let at = find(entries, key).ok()?;
        Some(&entries[at].1)
    }

    /// Returns all entries, sorted by key.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &V)> {
        (0..self.len()).filter_map(|rank| self.at(rank)).map(|(key, value)| (&**key, value))
    }

    pub(super) fn rank(&self, key: &str) -> usize {
        let (before, entries) = self.0.leaf(key);
        before + find(entries, key).unwrap_or_else(|at| at)
    }

    /// Returns the entry with this rank, which is the number of entries before it.
    pub(super) fn at(&self, rank: usize) -> Option<&(Key, V)> {
        let (mut node, mut rank) = (&self.0, rank);
        loop {
            match node {
                Node::Leaf(entries) => return entries.get(rank),
                Node::Branch(branch) => (node, rank) = branch.node_at(rank)?,
            }
        }
    }

    /// Returns the lowest branch that contains the entry with this rank, and the number of entries before this branch.
    pub(super) fn branch_at(&self, rank: usize) -> Option<(usize, &Arc<Branch<V>>)> {
        let (mut node, mut left) = (&self.0, rank);
        while let Node::Branch(branch) = node {
            let below = branch.node_at(left)?;
            if let (Node::Leaf(_), _) = below {
                return Some((rank - left, branch));
            }
            (node, left) = below;
        }
        None
    }

    /// Returns the number of nodes that are not shared with `other`. Tests use this number to check that a change
    /// copies only the necessary nodes.
    pub fn unshared_with(&self, other: &Self) -> usize {
        self.addresses().difference(&other.addresses()).count()
    }

    fn addresses(&self) -> HashSet<usize> {
        let mut found = HashSet::new();
        self.visit(&mut found, |_| ());
        found
    }

    /// Calls `each` with the values of all nodes whose addresses are not in `visited`, and adds these addresses.
    /// Visiting several clones with the same `visited` visits shared nodes only once.
    pub(super) fn visit(&self, visited: &mut HashSet<usize>, mut each: impl FnMut(&V)) {
        let mut nodes = vec![&self.0];
        while let Some(node) = nodes.pop() {
            match node {
                Node::Leaf(entries) if visited.insert(Arc::as_ptr(entries).addr()) => {
                    entries.iter().for_each(|(_, value)| each(value));
                }
                Node::Branch(branch) if visited.insert(Arc::as_ptr(branch).addr()) => nodes.extend(&branch.nodes),
                Node::Leaf(_) | Node::Branch(_) => (),
            }
        }
    }
}

impl<V: Clone> Tree<V> {
    /// Inserts a value, and returns the stored key and the old value. If the key exists, the tree keeps its existing
    /// copy of the key.
    pub fn insert(&mut self, key: &str, value: V) -> (Key, Option<V>) {
        let Inserted { key, old, right } = self.0.insert(key, value, true);
        if let Some(right) = right {
            let before = std::mem::take(&mut self.0);
            self.0 = Node::branch(vec![before, right]);
        }
        (key, old)
    }

    /// Removes a key, and returns the stored key and its value.
    pub fn remove(&mut self, key: &str) -> Option<(Key, V)> {
        // Return early if the key is absent, because `remove` would copy nodes.
        self.get(key)?;
        let removed = self.0.remove(key);
        while let Node::Branch(branch) = &self.0
            && branch.nodes.len() < 2
        {
            self.0 = branch.nodes.first().cloned().unwrap_or_default();
        }
        removed
    }
}

impl<V> Default for Tree<V> {
    fn default() -> Self {
        Self(Node::default())
    }
}

impl<V> Node<V> {
    fn branch(nodes: Vec<Self>) -> Self {
        Self::Branch(Arc::new(Branch::new(nodes)))
    }

    fn len(&self) -> usize {
        match self {
            Self::Leaf(entries) => entries.len(),
            Self::Branch(branch) => branch.len,
        }
    }

    fn entries(&self) -> &[(Key, V)] {
        match self {
            Self::Leaf(entries) => entries,
            Self::Branch(_) => &[],
        }
    }

    fn first(&self) -> Option<&str> {
        let mut node = self;
        loop {
            match node {
                Self::Leaf(entries) => return entries.first().map(|(key, _)| &**key),
                Self::Branch(branch) => node = branch.nodes.first()?,
            }
        }
    }

    /// Returns the leaf that contains the key or would contain it after an insertion, and the number of entries before
    /// the leaf.
    fn leaf(&self, key: &str) -> (usize, &[(Key, V)]) {
        let (mut before, mut node) = (0, self);
        loop {
            match node {
                Self::Leaf(entries) => return (before, entries),
                Self::Branch(branch) => {
                    let at = branch.place(key);
                    before += branch.nodes[..at].iter().map(Self::len).sum::<usize>();
                    node = &branch.nodes[at];
                }
            }
        }
    }
}

impl<V: Clone> Node<V> {
    /// Inserts a value below this node. `is_last` is `true` if the node is the rightmost node at its depth.
    fn insert(&mut self, key: &str, value: V, is_last: bool) -> Inserted<V> {
        match self {
            Self::Leaf(entries) => match find(entries, key) {
                Ok(at) => {
                    let (key, there) = &mut Arc::make_mut(entries)[at];
                    Inserted { key: key.clone(), old: Some(std::mem::replace(there, value)), right: None }
                }
                Err(at) => {
                    let key = Key::from(key);
                    let mut all = Vec::with_capacity(entries.len() + 1);
                    all.extend_from_slice(&entries[..at]);
                    all.push((key.clone(), value));
                    all.extend_from_slice(&entries[at..]);
                    let right = split_overflow(&mut all, MAX_LEAF_LEN, is_last && at == entries.len());
                    *entries = all.into();
                    Inserted { key, old: None, right: right.map(|right| Self::Leaf(right.into())) }
                }
            },
            Self::Branch(branch) => {
                let (at, branch) = branch_mut(branch, key);
                let is_last = is_last && at + 1 == branch.nodes.len();
                let inserted = branch.nodes[at].insert(key, value, is_last);
                branch.len += usize::from(inserted.old.is_none());
                let Some(right) = inserted.right else { return inserted };
                branch.nodes.insert(at + 1, right);
                let right = split_overflow(&mut branch.nodes, MAX_BRANCH_LEN, is_last).map(Self::branch);
                branch.len -= right.as_ref().map_or(0, Self::len);
                Inserted { right, ..inserted }
            }
        }
    }

    fn remove(&mut self, key: &str) -> Option<(Key, V)> {
        match self {
            Self::Leaf(entries) => {
                let at = find(entries, key).ok()?;
                let removed = entries[at].clone();
                *entries = [&entries[..at], &entries[at + 1..]].concat().into();
                Some(removed)
            }
            Self::Branch(branch) => {
                let (at, branch) = branch_mut(branch, key);
                let removed = branch.nodes[at].remove(key)?;
                branch.len -= 1;
                if branch.nodes[at].len() == 0 {
                    branch.nodes.remove(at);
                } else if let Some(merged) = branch.nodes.get(at + 1).and_then(|next| branch.nodes[at].merged(next)) {
                    branch.nodes[at] = merged;
                    branch.nodes.remove(at + 1);
                }
                Some(removed)
            }
        }
    }

    /// Merges two nodes, or returns `None` if the merged node would be more than half full.
    fn merged(&self, next: &Self) -> Option<Self> {
        match (self, next) {
            (Self::Leaf(one), Self::Leaf(next)) if one.len() + next.len() <= MAX_LEAF_LEN / 2 => {
                Some(Self::Leaf([&**one, next].concat().into()))
            }
            (Self::Branch(one), Self::Branch(next)) if one.nodes.len() + next.nodes.len() <= MAX_BRANCH_LEN / 2 => {
                Some(Self::branch([&*one.nodes, &next.nodes].concat()))
            }
            _ => None,
        }
    }
}

impl<V> Default for Node<V> {
    fn default() -> Self {
        Self::Leaf(Arc::default())
    }
}

impl<V> Branch<V> {
    fn new(nodes: Vec<Node<V>>) -> Self {
        Self { len: nodes.iter().map(Node::len).sum(), nodes, encodings: OnceLock::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &V> {
        self.nodes.iter().flat_map(Node::entries).map(|(_, value)| value)
    }

    /// Returns the index of the child that contains the key or would contain it after an insertion.
    fn place(&self, key: &str) -> usize {
        self.nodes.partition_point(|node| node.first().is_some_and(|first| first <= key)).saturating_sub(1)
    }

    /// Returns the child that contains the entry with this rank, and the entry's rank within the child.
    fn node_at(&self, mut rank: usize) -> Option<(&Node<V>, usize)> {
        for node in &self.nodes {
            match rank.checked_sub(node.len()) {
                Some(rest) => rank = rest,
                None => return Some((node, rank)),
            }
        }
        None
    }
}

impl<V: Clone> Clone for Branch<V> {
    fn clone(&self) -> Self {
        Self { len: self.len, nodes: self.nodes.clone(), encodings: OnceLock::new() }
    }
}

/// Prepares a branch for a write by copying it if it is shared with a clone of the tree. Also returns the index of the
/// child for the key.
fn branch_mut<'a, V: Clone>(branch: &'a mut Arc<Branch<V>>, key: &str) -> (usize, &'a mut Branch<V>) {
    let at = branch.place(key);
    let branch = Arc::make_mut(branch);
    branch.encodings = OnceLock::new();
    (at, branch)
}

fn find<V>(entries: &[(Key, V)], key: &str) -> Result<usize, usize> {
    entries.binary_search_by(|(known, _)| (**known).cmp(key))
}

/// Splits off the entries that exceed a node's maximum size. The left node stays full if keys are inserted in ascending
/// order.
fn split_overflow<T>(all: &mut Vec<T>, most: usize, in_order: bool) -> Option<Vec<T>> {
    let stay = if in_order { most } else { all.len() / 2 };
    (all.len() > most).then(|| all.split_off(stay))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    /// Checks the sizes of all nodes and that all leaves have the same depth, and returns this depth.
    fn depth<V>(tree: &Tree<V>) -> usize {
        let (mut depth, mut level) = (0, vec![&tree.0]);
        while let Some(first) = level.first() {
            let (is_leaf, is_root) = (matches!(first, Node::Leaf(_)), depth == 0);
            depth += 1;
            let mut below = Vec::new();
            for node in level {
                match node {
                    Node::Leaf(entries) => {
                        assert!(is_leaf && entries.len() <= MAX_LEAF_LEN && (is_root || !entries.is_empty()));
                    }
                    Node::Branch(branch) => {
                        assert!(!is_leaf && (1..=MAX_BRANCH_LEN).contains(&branch.nodes.len()));
                        assert_eq!(branch.len, branch.nodes.iter().map(Node::len).sum::<usize>());
                        below.extend(&branch.nodes);
                    }
                }
            }
            level = below;
        }
        depth
    }

    proptest! {
        #[test]
        fn tree_and_its_clones_match_the_model(writes in prop::collection::vec((0..40_u8, any::<bool>()), 0..80)) {
            let (mut tree, mut model) = (Tree::default(), BTreeMap::new());
            let mut past = Vec::new();
            for (at, (key, stays)) in writes.into_iter().enumerate() {
                past.push((tree.clone(), model.clone()));
                let key = key.to_string();
                if stays {
                    prop_assert_eq!(tree.insert(&key, at).1, model.insert(key, at));
                } else {
                    prop_assert_eq!(tree.remove(&key).map(|(_, value)| value), model.remove(&key));
                }
                depth(&tree);
            }
            past.push((tree, model));
            for (tree, model) in past {
                prop_assert_eq!((tree.len(), tree.is_empty()), (model.len(), model.is_empty()));
                prop_assert!(tree.iter().eq(model.iter().map(|(key, value)| (key.as_str(), value))));
                for (rank, (key, value)) in model.iter().enumerate() {
                    prop_assert_eq!(tree.at(rank).map(|(key, value)| (&**key, value)), Some((&**key, value)));
                    prop_assert_eq!((tree.get(key), tree.rank(key), tree.rank(&format!("{key}\0"))), (Some(value), rank, rank + 1));
                }
                prop_assert!(tree.at(model.len()).is_none());
            }
        }
    }

    #[test]
    fn write_copies_only_the_path_to_its_key() {
        const COUNT: usize = 1_000;
        // These steps visit each key exactly once, because they have no common divisor with the count.
        for step in [1, COUNT - 1, 1_237] {
            let mut tree = Tree::default();
            let keys = (0..COUNT).map(|at| format!("{:04}", at * step % COUNT));
            for (at, key) in keys.clone().enumerate() {
                tree.insert(&key, at);
            }
            let most = depth(&tree);
            assert!(most <= 20, "{most}");
            for (at, key) in keys.enumerate().step_by(97) {
                let before = tree.clone();
                tree.insert(&key, at + 1);
                assert_eq!(tree.unshared_with(&before), most);
                tree.remove(&key);
                assert!(tree.unshared_with(&before) <= most);
            }
        }
    }
}
