//! Lists.

use std::sync::Arc;

use super::Value;
use crate::error::Failure;
use crate::meter::Meter;
use crate::node::Node;
use crate::schema::{ListKind, Schema};

/// A list value of an expression.
#[derive(Clone, Debug)]
pub struct List<'a>(Layout<'a>);

#[derive(Clone, Debug)]
enum Layout<'a> {
    /// A list in the caller's data, with its schema.
    Node(&'a dyn Node, Option<&'a Schema>),
    /// A list of values. The schema is set if an expression created the list by adding items to a set or a keyed list.
    Values(Arc<Vec<Value<'a>>>, Option<&'a Schema>),
    Joined(Arc<Joined<'a>>),
}

/// Two concatenated lists. Long lists are not copied, because a concatenation costs only one unit, even for long
/// lists.
#[derive(Debug)]
struct Joined<'a> {
    left: Layout<'a>,
    right: Layout<'a>,
    len: usize,
}

const SHORT: usize = 64;

impl Drop for Joined<'_> {
    /// Drops nested lists without recursion.
    fn drop(&mut self) {
        let empty = || Layout::Values(Arc::default(), None);
        let mut pending = vec![std::mem::replace(&mut self.left, empty()), std::mem::replace(&mut self.right, empty())];
        while let Some(layout) = pending.pop() {
            if let Layout::Joined(joined) = layout
                && let Some(mut joined) = Arc::into_inner(joined)
            {
                pending.push(std::mem::replace(&mut joined.left, empty()));
                pending.push(std::mem::replace(&mut joined.right, empty()));
            }
        }
    }
}

impl<'a> Layout<'a> {
    fn len(&self) -> usize {
        match self {
            Self::Node(node, _) => node.len(),
            Self::Values(values, _) => values.len(),
            Self::Joined(joined) => joined.len,
        }
    }
}

impl<'a> List<'a> {
    pub(crate) fn of(node: &'a dyn Node, schema: Option<&'a Schema>) -> Self {
        Self(Layout::Node(node, schema))
    }

    /// Returns the number of items.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns `true` if the list has no items.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn schema(&self) -> Option<&'a Schema> {
        match &self.0 {
            Layout::Node(_, schema) | Layout::Values(_, schema) => *schema,
            Layout::Joined(_) => None,
        }
    }

    pub(crate) fn kind(&self) -> ListKind<'_> {
        self.schema().map_or(ListKind::Atomic, Schema::list_kind)
    }

    /// Returns the item at `index`, or `None` if the index is out of range. Returns an error if the item does not
    /// conform to its schema.
    pub(crate) fn get(&self, mut index: usize, meter: &mut Meter) -> Option<Result<Value<'a>, Failure>> {
        let mut layout = &self.0;
        loop {
            match layout {
                Layout::Node(node, schema) => return node.item(index).map(|item| typed(item, *schema, meter)),
                Layout::Values(values, _) => return values.get(index).cloned().map(Ok),
                Layout::Joined(joined) => {
                    let left = joined.left.len();
                    if index < left {
                        layout = &joined.left;
                    } else {
                        index -= left;
                        layout = &joined.right;
                    }
                }
            }
        }
    }

    /// Returns an iterator over the items. The iterator yields an error for an item that does not conform to its
    /// schema.
    pub fn items(&self) -> impl Iterator<Item = Result<Value<'a>, Failure>> {
        let (mut reader, mut meter) = (self.reader(), Meter::unlimited());
        std::iter::from_fn(move || reader.next(&mut meter))
    }

    /// Returns a reader for the items, which counts the work of reading an item.
    pub(crate) fn reader(&self) -> Reader<'_, 'a> {
        Reader { current: Some(&self.0), pending: Vec::new(), index: 0 }
    }

    pub(crate) fn to_vec(&self, meter: &mut Meter) -> Result<Vec<Value<'a>>, Failure> {
        let mut reader = self.reader();
        std::iter::from_fn(|| reader.next(meter)).collect()
    }

    pub(crate) fn join(self, other: Self) -> Self {
        if self.is_empty() {
            return other;
        }
        if other.is_empty() {
            return self;
        }
        Self(joined(self.0, other.0))
    }

    /// Creates a list with a schema, which specifies whether the list is a set or a keyed list.
    pub(crate) fn with_schema(values: Vec<Value<'a>>, schema: &'a Schema) -> Self {
        Self(Layout::Values(Arc::new(values), Some(schema)))
    }

    /// Appends a value to the list. Copies the list only if it is shared.
    pub(crate) fn push(&mut self, value: Value<'a>) {
        if let Layout::Values(values, None) = &mut self.0 {
            Arc::make_mut(values).push(value);
        } else {
            let list = std::mem::replace(self, Self::from(Vec::new()));
            *self = list.join(Self::from(vec![value]));
        }
    }
}

fn joined<'a>(left: Layout<'a>, right: Layout<'a>) -> Layout<'a> {
    let len = left.len().saturating_add(right.len());
    if let (Layout::Values(first, None), Layout::Values(second, None)) = (&left, &right)
        && len <= SHORT
    {
        return Layout::Values(Arc::new(first.iter().chain(&**second).cloned().collect()), None);
    }
    // Append a short list to the last list, because repeated concatenation would otherwise build a deep tree.
    if let (Layout::Joined(inner), Layout::Values(..)) = (&left, &right)
        && matches!(inner.right, Layout::Values(..))
        && inner.right.len() + right.len() <= SHORT
    {
        let right = joined(inner.right.clone(), right);
        return Layout::Joined(Arc::new(Joined { left: inner.left.clone(), right, len }));
    }
    Layout::Joined(Arc::new(Joined { left, right, len }))
}

fn typed<'a>(item: &'a dyn Node, schema: Option<&'a Schema>, meter: &mut Meter) -> Result<Value<'a>, Failure> {
    match schema.and_then(Schema::items) {
        Some(items) => items.read(item, meter),
        None => Ok(Value::of(item)),
    }
}

impl<'a> From<Vec<Value<'a>>> for List<'a> {
    fn from(items: Vec<Value<'a>>) -> Self {
        Self(Layout::Values(Arc::new(items), None))
    }
}

pub(crate) struct Reader<'l, 'a> {
    current: Option<&'l Layout<'a>>,
    pending: Vec<&'l Layout<'a>>,
    index: usize,
}

impl<'a> Reader<'_, 'a> {
    /// Returns the next item. Returns an error if the item does not conform to its schema, or if the work exceeds the
    /// limit.
    pub(crate) fn next(&mut self, meter: &mut Meter) -> Option<Result<Value<'a>, Failure>> {
        loop {
            let item = match self.current? {
                Layout::Node(node, schema) => node.item(self.index).map(|item| typed(item, *schema, meter)),
                Layout::Values(values, _) => values.get(self.index).cloned().map(Ok),
                Layout::Joined(joined) => {
                    let joined = &**joined;
                    self.pending.push(&joined.right);
                    self.current = Some(&joined.left);
                    continue;
                }
            };
            if item.is_some() {
                self.index += 1;
                return item;
            }
            self.current = self.pending.pop();
            self.index = 0;
        }
    }
}
