//! Converts a checked expression to a plan for the evaluator.

mod build;

use std::collections::HashSet;
use std::sync::Arc;

use crate::cost::Pricing;
use crate::library::Function;
use crate::meter::Patterns;
use crate::re2::Pattern;
use crate::value::{Key, Value};

pub(crate) use build::plan;

/// The plan of an expression, with the data that the evaluator needs.
#[derive(Debug)]
pub(crate) struct Planned {
    pub(crate) plan: Plan,
    pub(crate) slots: usize,
    pub(crate) patterns: Arc<Patterns>,
}

#[derive(Debug)]
pub(crate) enum Plan {
    Const(Value<'static>),
    Attribute(Box<Attribute>),
    And(Box<[Plan; 2]>),
    Or(Box<[Plan; 2]>),
    Equal(Box<[Plan; 2]>),
    NotEqual(Box<[Plan; 2]>),
    NotStrictlyFalse(Box<Plan>),
    Call(Box<Call>),
    /// A call of `matches` with a constant regular expression.
    Matches(Box<PlannedMatch>),
    List(Vec<PlannedItem>),
    Map(Vec<PlannedEntry>),
    Object(Box<PlannedObject>),
    Fold(Box<PlannedFold>),
    /// A search for a value in a constant list.
    OneOf(Box<(Plan, HashSet<Key<'static>>)>),
    OptionalOr(Box<[Plan; 2]>),
    OptionalOrValue(Box<[Plan; 2]>),
    /// Appends an item to the accumulated list of a comprehension.
    Append(Box<Append>),
    /// Adds an entry, or all entries of a map, to the accumulated map of a comprehension.
    Insert(Box<Insert>),
}

#[derive(Debug)]
pub(crate) struct PlannedItem {
    pub(crate) value: Plan,
    pub(crate) optional: bool,
}

#[derive(Debug)]
pub(crate) struct PlannedEntry {
    pub(crate) key: Plan,
    pub(crate) value: Plan,
    pub(crate) optional: bool,
}

#[derive(Debug)]
pub(crate) struct PlannedObject {
    pub(crate) name: Arc<str>,
    pub(crate) fields: Vec<(Arc<str>, PlannedItem)>,
}

/// A value and the selections after it, such as `a.b[0].?c`.
#[derive(Debug)]
pub(crate) struct Attribute {
    pub(crate) base: Base,
    pub(crate) qualifiers: Vec<Qualifier>,
    /// Whether the attribute only tests for presence, as in `has(a.b)`. The result of a presence test is a boolean.
    pub(crate) test_only: bool,
}

#[derive(Debug)]
pub(crate) enum Base {
    Variable(Arc<str>),
    /// The slot of a comprehension variable.
    Local(usize),
    Value(Plan),
    /// The operands of `a ? b : c`.
    Conditional(Box<[Plan; 3]>),
}

#[derive(Debug)]
pub(crate) struct Qualifier {
    pub(crate) key: QualifierKey,
    pub(crate) optional: bool,
}

#[derive(Debug)]
pub(crate) enum QualifierKey {
    Const(Value<'static>),
    /// An attribute, such as `b` in `a[b]`. Reading its variable has no cost.
    Attribute(Attribute),
    Computed(Plan),
}

#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) name: Arc<str>,
    pub(crate) function: Function,
    pub(crate) pricing: Pricing,
    /// The arguments of the call, starting with the receiver if the function is a method.
    pub(crate) args: Vec<Plan>,
    /// Whether the evaluation of the call stops at the first failed argument. If it stops, the call adds no cost.
    pub(crate) stops_early: bool,
}

#[derive(Debug)]
pub(crate) struct PlannedMatch {
    pub(crate) text: Plan,
    pub(crate) pattern: Arc<Pattern>,
    /// The length of the pattern if it affects the cost of the call. `None` means that the call has a fixed cost.
    pub(crate) length: Option<u64>,
}

#[derive(Debug)]
pub(crate) struct PlannedFold {
    pub(crate) range: Plan,
    pub(crate) init: Plan,
    pub(crate) condition: Plan,
    pub(crate) step: Plan,
    pub(crate) result: Plan,
    /// The slot of the accumulator. The other variables of the comprehension use the slots after this slot.
    pub(crate) slot: usize,
    pub(crate) two_vars: bool,
}

#[derive(Debug)]
pub(crate) struct Append {
    pub(crate) slot: usize,
    pub(crate) item: Plan,
    /// Whether the appended item is a constant. A list literal with constant items has no cost.
    pub(crate) constant: bool,
}

#[derive(Debug)]
pub(crate) struct Insert {
    pub(crate) slot: usize,
    /// The key of the entry. If `None`, `value` is a map, and all of its entries are added.
    pub(crate) key: Option<Plan>,
    pub(crate) value: Plan,
}
