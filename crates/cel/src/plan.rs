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
    Matches(Box<PlannedMatch>),
    List(Vec<PlannedItem>),
    Map(Vec<PlannedEntry>),
    Object(Box<PlannedObject>),
    Fold(Box<PlannedFold>),
    /// A lookup of a value in a constant list.
    OneOf(Box<(Plan, HashSet<Key<'static>>)>),
    OptionalOr(Box<[Plan; 2]>),
    OptionalOrValue(Box<[Plan; 2]>),
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

/// A value and the selections that follow it, such as `a.b[0].?c`.
#[derive(Debug)]
pub(crate) struct Attribute {
    pub(crate) base: Base,
    pub(crate) qualifiers: Vec<Qualifier>,
    /// If `true`, the attribute only tests for presence, as in `has(a.b)`, and its result is a boolean.
    pub(crate) test_only: bool,
}

#[derive(Debug)]
pub(crate) enum Base {
    Variable(Arc<str>),
    Local(usize),
    Value(Plan),
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
    /// An attribute, such as `b` in `a[b]`. Reading the variable of such an attribute has no cost.
    Attribute(Attribute),
    Computed(Plan),
}

#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) name: Arc<str>,
    pub(crate) function: Function,
    pub(crate) pricing: Pricing,
    /// The arguments of the call. For a method, the first argument is the receiver.
    pub(crate) args: Vec<Plan>,
    /// If `true`, the evaluation of the call stops at the first failed argument, and the call then adds no cost.
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
    /// `true` if the appended item is a constant. A list literal with constant items has no cost.
    pub(crate) constant: bool,
}

#[derive(Debug)]
pub(crate) struct Insert {
    pub(crate) slot: usize,
    pub(crate) key: Option<Plan>,
    pub(crate) value: Plan,
}
