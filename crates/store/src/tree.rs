//! A map by key of which a write copies a little, and a clone nothing.

use std::sync::{Arc, OnceLock};

use super::Key;
use super::kept::Encodings;

/// Values by key, in the order of their keys. A clone shows for ever what was there when it was made: a write copies the nodes on the
/// way to its key that clones share with it, and no others.
#[derive(Clone, Debug)]
pub(super) struct Tree<V>(Node<V>);

/// All leaves are equally deep. Only a tree without values has a node without any.
#[derive(Clone, Debug)]
enum Node<V> {
    Leaf(Arc<[(Key, V)]>),
    Branch(Arc<Branch<V>>),
}

/// Nodes that stand one behind the other.
#[derive(Debug)]
pub(super) struct Branch<V> {
    /// How many values there are in all.
    len: usize,
    nodes: Vec<Node<V>>,
    /// What the values are shown as together: that is over with the first that changes.
    pub(super) encodings: OnceLock<Arc<Encodings>>,
}

/// So many values share a leaf at most, and so many nodes a branch; few in tests, so that nodes come and go in these.
const LEAF: usize = if cfg!(test) { 2 } else { 8 };
const BRANCH: usize = if cfg!(test) { 2 } else { 16 };

struct Inserted<V> {
    key: Key,
    old: Option<V>,
    /// What is to stand behind the node, which has no room for all.
    behind: Option<Node<V>>,
}

impl<V> Tree<V> {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn get(&self, key: &str) -> Option<&V> {
        let entries = self.0.leaf(key).1;
        let at = find(entries, key).ok()?;
        Some(&entries[at].1)
    }

    /// How many come before that key.
    pub(super) fn rank(&self, key: &str) -> usize {
        let (before, entries) = self.0.leaf(key);
        before + find(entries, key).unwrap_or_else(|at| at)
    }

    /// The one before which so many come.
    pub(super) fn at(&self, rank: usize) -> Option<&(Key, V)> {
        let (mut node, mut rank) = (&self.0, rank);
        loop {
            match node {
                Node::Leaf(entries) => return entries.get(rank),
                Node::Branch(branch) => (node, rank) = branch.node_at(rank)?,
            }
        }
    }

    /// The lowest branch that has the one before which so many come, and how many come before the branch.
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
}

impl<V: Clone> Tree<V> {
    /// Puts a value there. Answers the key, which is shared with all values that were there, and the one that was.
    pub(super) fn insert(&mut self, key: &str, value: V) -> (Key, Option<V>) {
        let Inserted { key, old, behind } = self.0.insert(key, value, true);
        if let Some(behind) = behind {
            let before = std::mem::take(&mut self.0);
            self.0 = Node::branch(vec![before, behind]);
        }
        (key, old)
    }

    pub(super) fn remove(&mut self, key: &str) -> Option<(Key, V)> {
        // Of a tree that has it not, nothing is copied.
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

    /// Those of a leaf.
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

    /// The leaf where the key is or would be, and how many come before it.
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
    /// `is_last`: nothing stands behind it.
    fn insert(&mut self, key: &str, value: V, is_last: bool) -> Inserted<V> {
        match self {
            Self::Leaf(entries) => match find(entries, key) {
                Ok(at) => {
                    let (key, there) = &mut Arc::make_mut(entries)[at];
                    Inserted { key: key.clone(), old: Some(std::mem::replace(there, value)), behind: None }
                }
                Err(at) => {
                    let key = Key::from(key);
                    let mut all = Vec::with_capacity(entries.len() + 1);
                    all.extend_from_slice(&entries[..at]);
                    all.push((key.clone(), value));
                    all.extend_from_slice(&entries[at..]);
                    let behind = cut(&mut all, LEAF, is_last && at == entries.len());
                    *entries = all.into();
                    Inserted { key, old: None, behind: behind.map(|behind| Self::Leaf(behind.into())) }
                }
            },
            Self::Branch(branch) => {
                let (at, branch) = branch_mut(branch, key);
                let is_last = is_last && at + 1 == branch.nodes.len();
                let inserted = branch.nodes[at].insert(key, value, is_last);
                branch.len += usize::from(inserted.old.is_none());
                let Some(behind) = inserted.behind else { return inserted };
                branch.nodes.insert(at + 1, behind);
                let behind = cut(&mut branch.nodes, BRANCH, is_last).map(Self::branch);
                branch.len -= behind.as_ref().map_or(0, Self::len);
                Inserted { behind, ..inserted }
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
                } else if let Some(joined) = branch.nodes.get(at + 1).and_then(|next| branch.nodes[at].joined(next)) {
                    branch.nodes[at] = joined;
                    branch.nodes.remove(at + 1);
                }
                Some(removed)
            }
        }
    }

    /// The two as one, if that is half empty still.
    fn joined(&self, next: &Self) -> Option<Self> {
        match (self, next) {
            (Self::Leaf(one), Self::Leaf(next)) if one.len() + next.len() <= LEAF / 2 => {
                Some(Self::Leaf([&**one, next].concat().into()))
            }
            (Self::Branch(one), Self::Branch(next)) if one.nodes.len() + next.nodes.len() <= BRANCH / 2 => {
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

    /// The values of a branch that has leaves.
    pub(super) fn values(&self) -> impl Iterator<Item = &V> {
        self.nodes.iter().flat_map(Node::entries).map(|(_, value)| value)
    }

    /// Which of its nodes the key is in or would be.
    fn place(&self, key: &str) -> usize {
        self.nodes.partition_point(|node| node.first().is_some_and(|first| first <= key)).saturating_sub(1)
    }

    /// The node that has the one before which so many come here, and how many of these are in that node.
    fn node_at(&self, mut rank: usize) -> Option<(&Node<V>, usize)> {
        for node in &self.nodes {
            match rank.checked_sub(node.len()) {
                Some(behind) => rank = behind,
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

/// A branch that is about to change, and in which of its nodes.
fn branch_mut<'a, V: Clone>(branch: &'a mut Arc<Branch<V>>, key: &str) -> (usize, &'a mut Branch<V>) {
    let at = branch.place(key);
    let branch = Arc::make_mut(branch);
    branch.encodings = OnceLock::new();
    (at, branch)
}

fn find<V>(entries: &[(Key, V)], key: &str) -> Result<usize, usize> {
    entries.binary_search_by(|(known, _)| (**known).cmp(key))
}

/// Takes away what is too much for one node: where keys come in their order, nodes get full.
fn cut<T>(all: &mut Vec<T>, most: usize, in_order: bool) -> Option<Vec<T>> {
    let stay = if in_order { most } else { all.len() / 2 };
    (all.len() > most).then(|| all.split_off(stay))
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, HashSet};

    use proptest::prelude::*;

    use super::*;

    /// The addresses of all nodes, and how deep they go. All leaves are equally deep, and no node is empty or too wide.
    fn nodes<V>(tree: &Tree<V>) -> (HashSet<usize>, usize) {
        let (mut found, mut depth, mut level) = (HashSet::new(), 0, vec![&tree.0]);
        while let Some(first) = level.first() {
            let (is_leaf, is_root) = (matches!(first, Node::Leaf(_)), depth == 0);
            depth += 1;
            let mut below = Vec::new();
            for node in level {
                match node {
                    Node::Leaf(entries) => {
                        assert!(is_leaf && entries.len() <= LEAF && (is_root || !entries.is_empty()));
                        found.insert(Arc::as_ptr(entries).addr());
                    }
                    Node::Branch(branch) => {
                        assert!(!is_leaf && (1..=BRANCH).contains(&branch.nodes.len()));
                        assert_eq!(branch.len, branch.nodes.iter().map(Node::len).sum::<usize>());
                        found.insert(Arc::as_ptr(branch).addr());
                        below.extend(&branch.nodes);
                    }
                }
            }
            level = below;
        }
        (found, depth)
    }

    proptest! {
        #[test]
        fn it_is_what_was_put_and_not_removed_and_so_are_its_clones(writes in prop::collection::vec((0..40_u8, any::<bool>()), 0..80)) {
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
                nodes(&tree);
            }
            past.push((tree, model));
            for (tree, model) in past {
                prop_assert_eq!(tree.len(), model.len());
                for (rank, (key, value)) in model.iter().enumerate() {
                    prop_assert_eq!(tree.at(rank).map(|(key, value)| (&**key, value)), Some((&**key, value)));
                    prop_assert_eq!((tree.get(key), tree.rank(key), tree.rank(&format!("{key}\0"))), (Some(value), rank, rank + 1));
                }
                prop_assert!(tree.at(model.len()).is_none());
            }
        }
    }

    #[test]
    fn a_write_copies_the_way_to_its_key_alone_whatever_the_order_of_keys() {
        const COUNT: usize = 1_000;
        // By a step that has no divisor in common with the number, each comes once.
        for step in [1, COUNT - 1, 1_237] {
            let mut tree = Tree::default();
            let keys = (0..COUNT).map(|at| format!("{:04}", at * step % COUNT));
            for (at, key) in keys.clone().enumerate() {
                tree.insert(&key, at);
            }
            let (_, most) = nodes(&tree);
            assert!(most <= 20, "{most}");
            for (at, key) in keys.enumerate().step_by(97) {
                let before = tree.clone();
                tree.insert(&key, at + 1);
                let copied = nodes(&tree).0.difference(&nodes(&before).0).count();
                assert_eq!(copied, most);
                tree.remove(&key);
                assert!(nodes(&tree).0.difference(&nodes(&before).0).count() <= most);
            }
        }
    }
}
