//! Estimates the cost of an expression before its evaluation.

mod calls;
mod range;
mod sizes;

use std::collections::HashMap;

use crate::ast::{ACCUMULATOR, Fold, Id, Kind, Literal};
use crate::checker::Checked;
use crate::schema::Schema;
use crate::types::Type;

pub use range::CostRange;
use sizes::{EntrySize, Place, Scopes, VALUES};

const CREATE_LIST: CostRange = CostRange::fixed(10);
const CREATE_MAP: CostRange = CostRange::fixed(30);
const CREATE_OBJECT: CostRange = CostRange::fixed(40);
const READ_NAME: CostRange = CostRange::fixed(1);

/// Estimates the cost of an expression. kube-apiserver makes the same estimate for the rules of
/// CustomResourceDefinitions. If `maps_have_fields` is set, a field of a map has the size of the map's values.
pub(crate) fn estimate(root: Option<&Schema>, maps_have_fields: bool, checked: &Checked) -> CostRange {
    let mut estimator = Estimator {
        checked,
        root,
        maps_have_fields,
        scopes: Scopes::default(),
        places: HashMap::new(),
        sizes: HashMap::new(),
        entries: HashMap::new(),
        costs: HashMap::new(),
    };
    estimator.cost(checked.ast.root)
}

struct Estimator<'e> {
    checked: &'e Checked,
    root: Option<&'e crate::schema::Schema>,
    maps_have_fields: bool,
    scopes: Scopes<'e>,
    places: HashMap<Id, Place<'e>>,
    sizes: HashMap<Id, CostRange>,
    entries: HashMap<Id, EntrySize>,
    /// The estimated costs of expressions that occur more than once in the syntax tree.
    costs: HashMap<Id, CostRange>,
}

impl<'e> Estimator<'e> {
    /// Returns the estimated cost of an expression. The recursion is bounded by the maximum depth of the tree.
    fn cost(&mut self, id: Id) -> CostRange {
        if let Some(cost) = self.costs.get(&id) {
            return *cost;
        }
        let checked = self.checked;
        let cost = match checked.ast.kind(id) {
            Kind::Literal(_) | Kind::Broken => CostRange::fixed(0),
            Kind::Ident(name) => {
                let place = match self.scopes.find(name) {
                    Some(local) => local.place,
                    None => Place::Outside.step("", self.root),
                };
                self.places.insert(id, place);
                READ_NAME
            }
            Kind::Select { operand, test_only: true, .. } => self.cost(*operand),
            Kind::Select { operand, field, .. } => self.select(id, *operand, field),
            Kind::Call { function, target, args } => self.call(id, function, *target, args),
            Kind::List(items) => {
                let parts: Vec<_> = items.iter().map(|item| item.value).collect();
                let cost = self.cost_of_all(&parts);
                let value = self.union_of_sizes(&parts);
                self.entries.insert(id, EntrySize { is_map: false, key: CostRange::fixed(1), value });
                cost.plus(CREATE_LIST)
            }
            Kind::Map(entries) => {
                let mut cost = CostRange::fixed(0);
                for entry in entries {
                    cost = cost.plus(self.cost(entry.key)).plus(self.cost(entry.value));
                }
                let keys: Vec<_> = entries.iter().map(|entry| entry.key).collect();
                let values: Vec<_> = entries.iter().map(|entry| entry.value).collect();
                let (key, value) = (self.union_of_sizes(&keys), self.union_of_sizes(&values));
                self.entries.insert(id, EntrySize { is_map: true, key, value });
                cost.plus(CREATE_MAP)
            }
            Kind::Struct { fields, .. } => {
                let parts: Vec<_> = fields.iter().map(|field| field.value).collect();
                self.cost_of_all(&parts).plus(CREATE_OBJECT)
            }
            Kind::Fold(fold) if self.is_binding(fold) => self.binding(id, fold),
            Kind::Fold(fold) => self.fold(id, fold),
        };
        self.costs.insert(id, cost);
        cost
    }

    fn cost_of_all(&mut self, parts: &[Id]) -> CostRange {
        parts.iter().fold(CostRange::fixed(0), |sum, part| sum.plus(self.cost(*part)))
    }

    fn union_of_sizes(&mut self, parts: &[Id]) -> CostRange {
        let empty = CostRange { min: u64::MAX, max: 0 };
        let start = if parts.is_empty() { CostRange::fixed(0) } else { empty };
        parts.iter().fold(start, |union, part| union.union(self.size_or_unknown(*part)))
    }

    fn select(&mut self, id: Id, operand: Id, field: &str) -> CostRange {
        let cost = self.cost(operand);
        let place = match self.place(operand) {
            Place::Schema(schema) if self.maps_have_fields && schema.is_map() => {
                Place::Schema(schema).step(VALUES, None)
            }
            place => place.step(field, self.root),
        };
        self.places.insert(id, place);
        match self.checked.type_of(operand) {
            Type::Map(_) | Type::Object(_) => cost.plus(READ_NAME),
            _ => cost,
        }
    }

    /// Returns `true` if a comprehension only binds a value to a name and does not iterate.
    fn is_binding(&self, fold: &Fold) -> bool {
        let ast = &self.checked.ast;
        matches!(ast.kind(fold.range), Kind::List(items) if items.is_empty())
            && matches!(ast.kind(fold.condition), Kind::Literal(Literal::Bool(false)))
            && &*fold.accumulator != ACCUMULATOR
    }

    fn binding(&mut self, id: Id, fold: &'e Fold) -> CostRange {
        let cost = self.cost(fold.range).plus(self.cost(fold.init));
        let accumulator = self.variable_like(fold.init);
        self.scopes.push(&fold.accumulator, accumulator);
        let cost = cost.plus(self.cost(fold.result));
        self.scopes.pop(&fold.accumulator);
        self.copy_sizes(id, fold.result);
        cost
    }

    fn fold(&mut self, id: Id, fold: &'e Fold) -> CostRange {
        let cost = self.cost(fold.range).plus(self.cost(fold.init));
        let accumulator = self.variable_like(fold.init);
        self.scopes.push(&fold.accumulator, accumulator);
        match &fold.second_var {
            Some(second_var) => {
                let (key, value) = (self.key_variable(fold.range), self.value_variable(fold.range));
                self.scopes.push(&fold.var, key);
                self.scopes.push(second_var, value);
            }
            None => {
                let variable = if self.is_list(fold.range) {
                    self.value_variable(fold.range)
                } else {
                    self.key_variable(fold.range)
                };
                self.scopes.push(&fold.var, variable);
            }
        }
        let iteration_cost = self.cost(fold.condition);
        let iteration_cost = iteration_cost.plus(self.cost(fold.step));
        self.scopes.pop(&fold.var);
        if let Some(second_var) = &fold.second_var {
            self.scopes.pop(second_var);
        }
        let cost = cost.plus(self.cost(fold.result));
        self.scopes.pop(&fold.accumulator);
        let iterations = self.size_or_unknown(fold.range);
        match self.checked.ast.kind(fold.init) {
            Kind::Literal(_) => {
                let size = self.size(fold.init);
                self.set_size(id, size);
            }
            Kind::List(_) | Kind::Map(_) => {
                self.set_size(id, Some(iterations));
                let entries = self.entry_size(fold.step);
                self.set_entry_size(id, entries);
            }
            _ => {}
        }
        cost.plus(iterations.times(iteration_cost))
    }
}
