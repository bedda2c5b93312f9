//! Converts a checked expression to a plan that the evaluator runs.

mod build;

use std::collections::HashSet;
use std::sync::Arc;

use crate::cost::Pricing;
use crate::library::Function;
use crate::meter::Patterns;
use crate::re2::Pattern;
use crate::value::{Key, Value};

pub(crate) use build::plan;

/// The plan of an expression, with the data that the evaluator needs to run the plan.
#[derive(Debug)]
pub(crate) struct Planned {
    pub(crate) plan: Plan,
    /// The number of slots in which the evaluator stores the variables of comprehensions.
    pub(crate) slots: usize,
    /// The constant regular expressions of the plan.
    pub(crate) patterns: Arc<Patterns>,
}

/// An expression to evaluate.
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
    /// A call of `matches` with a constant pattern. The variant contains the operands and the pattern.
    Matches(Box<PlannedMatch>),
    List(Vec<PlannedItem>),
    Map(Vec<PlannedEntry>),
    Object(Box<PlannedObject>),
    Fold(Box<PlannedFold>),
    /// A search for a value in a constant list.
    OneOf(Box<(Plan, HashSet<Key<'static>>)>),
    OptionalOr(Box<[Plan; 2]>),
    OptionalOrValue(Box<[Plan; 2]>),
    /// Appends an item to the list that a comprehension builds.
    Append(Box<Append>),
    /// Adds an entry, or all entries of a map, to the map that a comprehension builds.
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
    /// Whether the attribute only tests for presence, as `has(a.b)` does. The result is then a boolean, and not the selected value.
    pub(crate) test_only: bool,
}

#[derive(Debug)]
pub(crate) enum Base {
    Variable(Arc<str>),
    /// The variable of a comprehension. The number is the index of the slot in which the evaluator stores the variable.
    Local(usize),
    Value(Plan),
    /// The operands of `a ? b : c`: the condition, the value if the condition is true, and the value if the condition is false.
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
    /// An attribute. No cost is counted for reading the variable at the start of this attribute.
    Attribute(Attribute),
    Computed(Plan),
}

/// A call of a function.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) name: Arc<str>,
    pub(crate) function: Function,
    pub(crate) pricing: Pricing,
    /// The receiver comes first.
    pub(crate) args: Vec<Plan>,
    /// Whether the evaluation of the call ends as soon as an argument fails. If an argument fails, the call itself then adds no cost.
    pub(crate) stops_early: bool,
}

/// A call of `matches` whose pattern is a constant.
#[derive(Debug)]
pub(crate) struct PlannedMatch {
    pub(crate) text: Plan,
    pub(crate) pattern: Arc<Pattern>,
    /// The length of the pattern, if the length of the pattern influences the cost of the call. `None` means that the cost is fixed.
    pub(crate) length: Option<u64>,
}

#[derive(Debug)]
pub(crate) struct PlannedFold {
    pub(crate) range: Plan,
    pub(crate) init: Plan,
    pub(crate) condition: Plan,
    pub(crate) step: Plan,
    pub(crate) result: Plan,
    /// The slot of the accumulator. The slots after the accumulator's slot belong to the variables of the
    /// comprehension.
    pub(crate) slot: usize,
    pub(crate) two_vars: bool,
}

#[derive(Debug)]
pub(crate) struct Append {
    pub(crate) slot: usize,
    pub(crate) item: Plan,
    /// Whether the list to search is a constant. Creating a constant list costs nothing.
    pub(crate) constant: bool,
}

#[derive(Debug)]
pub(crate) struct Insert {
    pub(crate) slot: usize,
    /// The key of the entry. `None` means that `value` is a map whose entries are all added.
    pub(crate) key: Option<Plan>,
    pub(crate) value: Plan,
}
