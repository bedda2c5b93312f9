//! Builds the plan of an expression. Constant subexpressions are evaluated in the same cases as in cel-go.

use std::collections::HashSet;
use std::sync::Arc;

use super::*;
use crate::ast::{ACCUMULATOR, Entry, Field, Fold, Id, Item, Kind, operator};
use crate::checker::{Checked, MAX_VISITS, type_named};
use crate::error::Failure;
use crate::meter::{MAX_AUTOMATON, Meter, Patterns};
use crate::types::Type;
use crate::value::{Key, Value};
use crate::{cost, library};

/// Builds the plan for an expression.
///
/// # Errors
///
/// Returns an error if a constant regular expression is invalid, or if the conversion of a constant fails, such as in
/// `int('x')`. Also returns an error if the expression has errors, is too complex, or has too many or too large
/// constant regular expressions.
pub(crate) fn plan(checked: &Checked) -> Result<Planned, Failure> {
    let mut planner = Planner {
        checked,
        locals: Vec::new(),
        next_slot: 0,
        slots: 0,
        patterns: Patterns::new(),
        pattern_size: 0,
        visits: 0,
    };
    let plan = planner.expr(checked.ast.root)?;
    Ok(Planned { plan, slots: planner.slots, patterns: Arc::new(planner.patterns) })
}

struct Planner<'c> {
    checked: &'c Checked,
    locals: Vec<(Arc<str>, usize)>,
    next_slot: usize,
    slots: usize,
    patterns: Patterns,
    pattern_size: u64,
    visits: u32,
}

/// The maximum number of constant regular expressions in an expression. `MAX_PATTERNS` and `MAX_PATTERN_SIZE` bound the
/// memory of a program.
const MAX_PATTERNS: usize = 500;
const MAX_PATTERN_SIZE: u64 = 50_000;

/// Conversion functions. Calls with a constant argument are evaluated while the plan is built.
const CONVERSIONS: [&str; 10] =
    ["bool", "bytes", "double", "dyn", "duration", "int", "string", "timestamp", "type", "uint"];

impl Planner<'_> {
    fn expr(&mut self, id: Id) -> Result<Plan, Failure> {
        self.visits += 1;
        if self.visits > MAX_VISITS {
            return Err(Failure::new("expression is too complex"));
        }
        match self.checked.ast.kind(id) {
            Kind::Literal(literal) => Ok(Plan::Const(literal.into())),
            Kind::Ident(name) => Ok(self.ident(id, name)),
            Kind::Select { operand, field, test_only } => self.select(*operand, field, *test_only),
            Kind::Call { function, target, args } => self.call(id, function, *target, args),
            Kind::List(items) => self.list(items),
            Kind::Map(entries) => self.map(entries),
            Kind::Struct { name, fields } => self.object(name, fields),
            Kind::Fold(fold) => self.fold(fold),
            Kind::Broken => Err(Failure::new("the expression has errors")),
        }
    }

    fn ident(&self, id: Id, name: &Arc<str>) -> Plan {
        let base = match self.local(name) {
            Some(slot) => Base::Local(slot),
            None => match self.checked.type_of(id) {
                Type::Type(inner) if !self.checked.variables.contains(name) => {
                    let named = type_named(name).unwrap_or_else(|| (**inner).clone());
                    return Plan::Const(Value::Type(named));
                }
                _ => Base::Variable(name.clone()),
            },
        };
        attribute(base)
    }

    fn local(&self, name: &str) -> Option<usize> {
        self.locals.iter().rfind(|(local, _)| **local == *name).map(|(_, slot)| *slot)
    }

    fn select(&mut self, operand: Id, field: &Arc<str>, test_only: bool) -> Result<Plan, Failure> {
        let key = QualifierKey::Const(Value::string(field.clone()));
        let mut selected = self.attribute(operand)?;
        selected.qualifiers.push(Qualifier { key, optional: false });
        selected.test_only = test_only;
        Ok(Plan::Attribute(Box::new(selected)))
    }

    /// Plans an operand as an attribute. The caller can add qualifiers such as `.name`.
    fn attribute(&mut self, operand: Id) -> Result<Attribute, Failure> {
        match self.expr(operand)? {
            Plan::Attribute(attribute) if !attribute.test_only => Ok(*attribute),
            plan => Ok(Attribute { base: Base::Value(plan), qualifiers: Vec::new(), test_only: false }),
        }
    }

    fn pair(&mut self, args: &[Id]) -> Result<Box<[Plan; 2]>, Failure> {
        match *args {
            [left, right] => Ok(Box::new([self.expr(left)?, self.expr(right)?])),
            _ => Err(Failure::no_overload()),
        }
    }

    fn call(&mut self, id: Id, function: &Arc<str>, target: Option<Id>, args: &[Id]) -> Result<Plan, Failure> {
        match (&**function, args) {
            (operator::AND, _) => Ok(Plan::And(self.pair(args)?)),
            (operator::OR, _) => Ok(Plan::Or(self.pair(args)?)),
            (operator::EQUALS, _) => Ok(Plan::Equal(self.pair(args)?)),
            (operator::NOT_EQUALS, _) => Ok(Plan::NotEqual(self.pair(args)?)),
            (operator::NOT_STRICTLY_FALSE, [arg]) => Ok(Plan::NotStrictlyFalse(Box::new(self.expr(*arg)?))),
            (operator::CONDITIONAL, [condition, yes, no]) => {
                let parts = [self.expr(*condition)?, self.expr(*yes)?, self.expr(*no)?];
                Ok(attribute(Base::Conditional(Box::new(parts))))
            }
            (operator::INDEX, [operand, index]) => self.index(*operand, *index, false),
            (operator::OPTIONAL_INDEX | operator::OPTIONAL_SELECT, [operand, index]) => {
                self.index(*operand, *index, true)
            }
            ("or", [other]) if let Some(target) = target => Ok(Plan::OptionalOr(self.pair(&[target, *other])?)),
            ("orValue", [other]) if let Some(target) = target => {
                Ok(Plan::OptionalOrValue(self.pair(&[target, *other])?))
            }
            (operator::ADD, [list, item]) if let Some(plan) = self.append(*list, *item)? => Ok(plan),
            (operator::MAP_INSERT, [map, rest @ ..]) if let Some(plan) = self.insert(*map, rest)? => Ok(plan),
            _ => {
                let ids = target.iter().chain(args);
                let args = ids.map(|arg| self.expr(*arg)).collect::<Result<_, _>>()?;
                self.function(id, function, args)
            }
        }
    }

    fn function(&mut self, id: Id, name: &Arc<str>, args: Vec<Plan>) -> Result<Plan, Failure> {
        let overload = match self.checked.overloads(id) {
            [only] => Some(only.id),
            _ => None,
        };
        if overload == Some("in_list")
            && let Some(plan) = one_of(&args)
        {
            return Ok(plan(args));
        }
        let (mut function, mut stops_early) = library::function(name, args.len(), overload.is_some());
        if &**name == "sum" {
            function = library::sum(overload);
        }
        if let ("matches" | "find" | "findAll", [_, Plan::Const(Value::String(pattern)), ..]) = (&**name, &*args) {
            let pattern_length = pattern.chars().count() as u64;
            let compiled = self.compile(pattern)?;
            stops_early = true;
            if &**name == "matches" {
                let mut args = args;
                let length = (overload == Some("matches_string")).then_some(pattern_length);
                let planned = PlannedMatch { text: args.swap_remove(0), pattern: compiled, length };
                return Ok(Plan::Matches(Box::new(planned)));
            }
        }
        let pricing = cost::pricing(name, overload);
        let constant = match args.as_slice() {
            [Plan::Const(value)] if CONVERSIONS.contains(&&**name) => Some(value.clone()),
            _ => None,
        };
        let call = Call { name: name.clone(), function, pricing, args, stops_early };
        match constant {
            Some(arg) => {
                // Converting a constant needs no cost limit, because it takes no longer than reading the constant.
                let mut meter = Meter::unlimited();
                Ok(Plan::Const(call.apply(&mut meter, &[arg])?))
            }
            None => Ok(Plan::Call(Box::new(call))),
        }
    }

    /// Compiles a constant regular expression once for all evaluations.
    fn compile(&mut self, pattern: &str) -> Result<Arc<Pattern>, Failure> {
        if let Some(known) = self.patterns.get(pattern) {
            return Ok(known.clone());
        }
        let parsed = Arc::new(Pattern::parse(pattern, MAX_AUTOMATON).map_err(Failure::new)?);
        self.pattern_size = self.pattern_size.saturating_add(parsed.size());
        if self.patterns.len() >= MAX_PATTERNS || self.pattern_size > MAX_PATTERN_SIZE {
            return Err(Failure::new("expression has too many patterns"));
        }
        self.patterns.insert(pattern.into(), parsed.clone());
        Ok(parsed)
    }

    /// Plans `operand[index]`, or the optional forms `operand[?index]` and `operand.?index`.
    fn index(&mut self, operand: Id, index: Id, optional: bool) -> Result<Plan, Failure> {
        let mut indexed = self.attribute(operand)?;
        let key = match self.expr(index)? {
            Plan::Const(value) => QualifierKey::Const(value),
            Plan::Attribute(attribute) => QualifierKey::Attribute(*attribute),
            plan => QualifierKey::Computed(plan),
        };
        indexed.qualifiers.push(Qualifier { key, optional });
        Ok(Plan::Attribute(Box::new(indexed)))
    }

    fn accumulator(&self, id: Id) -> Option<usize> {
        match self.checked.ast.kind(id) {
            Kind::Ident(name) if &**name == ACCUMULATOR => self.local(name),
            _ => None,
        }
    }

    /// Plans `@result + [item]` as an append in place. Returns `None` for all other additions.
    fn append(&mut self, list: Id, item: Id) -> Result<Option<Plan>, Failure> {
        let Some(slot) = self.accumulator(list) else { return Ok(None) };
        let Kind::List(items) = self.checked.ast.kind(item) else { return Ok(None) };
        let [item] = items.as_slice() else { return Ok(None) };
        if item.optional {
            return Ok(None);
        }
        let item = self.expr(item.value)?;
        let constant = matches!(item, Plan::Const(_));
        Ok(Some(Plan::Append(Box::new(Append { slot, item, constant }))))
    }

    /// Plans `cel.@mapInsert(@result, …)` as an insert in place. Returns `None` for all other calls.
    fn insert(&mut self, map: Id, rest: &[Id]) -> Result<Option<Plan>, Failure> {
        let Some(slot) = self.accumulator(map) else { return Ok(None) };
        let (key, value) = match *rest {
            [key, value] => (Some(self.expr(key)?), self.expr(value)?),
            [value] => (None, self.expr(value)?),
            _ => return Ok(None),
        };
        Ok(Some(Plan::Insert(Box::new(Insert { slot, key, value }))))
    }

    /// Plans a list literal. If all items are constants, the plan is a constant list.
    fn list(&mut self, items: &[Item]) -> Result<Plan, Failure> {
        let plan = |item: &Item| {
            let (value, optional) = (self.expr(item.value)?, item.optional);
            Ok(PlannedItem { value, optional })
        };
        let planned: Vec<_> = items.iter().map(plan).collect::<Result<_, Failure>>()?;
        let constants = planned.iter().map(|item| match &item.value {
            Plan::Const(value) if !item.optional => Some(value.clone()),
            _ => None,
        });
        Ok(match constants.collect() {
            Some(values) => Plan::Const(Value::list(values)),
            None => Plan::List(planned),
        })
    }

    /// Plans a map literal. If all keys and values are constants, the plan is a constant map.
    fn map(&mut self, entries: &[Entry]) -> Result<Plan, Failure> {
        let plan = |entry: &Entry| {
            let (key, value) = (self.expr(entry.key)?, self.expr(entry.value)?);
            Ok(PlannedEntry { key, value, optional: entry.optional })
        };
        let planned: Vec<_> = entries.iter().map(plan).collect::<Result<_, Failure>>()?;
        let mut constants = crate::value::Entries::default();
        for entry in &planned {
            match (&entry.key, &entry.value) {
                (Plan::Const(key), Plan::Const(value)) if !entry.optional => match Key::of(key) {
                    Some(key) => constants.set(key, value.clone()),
                    None => return Ok(Plan::Map(planned)),
                },
                _ => return Ok(Plan::Map(planned)),
            }
        }
        Ok(Plan::Const(Value::Map(constants.into())))
    }

    fn object(&mut self, name: &Arc<str>, fields: &[Field]) -> Result<Plan, Failure> {
        let plan = |field: &Field| {
            let (value, optional) = (self.expr(field.value)?, field.optional);
            Ok((field.name.clone(), PlannedItem { value, optional }))
        };
        let fields = fields.iter().map(plan).collect::<Result<_, Failure>>()?;
        Ok(Plan::Object(Box::new(PlannedObject { name: name.clone(), fields })))
    }

    fn fold(&mut self, fold: &Fold) -> Result<Plan, Failure> {
        let range = self.expr(fold.range)?;
        let (slot, outer) = (self.next_slot, self.locals.len());
        self.declare(&fold.accumulator);
        self.declare(&fold.var);
        if let Some(second_var) = &fold.second_var {
            self.declare(second_var);
        }
        let (condition, step) = (self.expr(fold.condition)?, self.expr(fold.step)?);
        self.locals.truncate(outer + 1);
        let result = self.expr(fold.result)?;
        self.locals.truncate(outer);
        // The initial value of the accumulator must not share slots with the loop condition, the loop step or the
        // result. The initial value is computed on its first read, while the slots of the loop are in use.
        self.next_slot = self.slots;
        let init = self.expr(fold.init)?;
        self.next_slot = slot;
        let two_vars = fold.second_var.is_some();
        Ok(Plan::Fold(Box::new(PlannedFold { range, init, condition, step, result, slot, two_vars })))
    }

    fn declare(&mut self, name: &Arc<str>) {
        self.locals.push((name.clone(), self.next_slot));
        self.next_slot += 1;
        self.slots = self.slots.max(self.next_slot);
    }
}

fn attribute(base: Base) -> Plan {
    Plan::Attribute(Box::new(Attribute { base, qualifiers: Vec::new(), test_only: false }))
}

/// Plans a lookup in a hash set for `x in list`. Returns `None` if the list is not a constant, or if an item of the
/// list cannot be a map key.
fn one_of(args: &[Plan]) -> Option<impl FnOnce(Vec<Plan>) -> Plan + use<>> {
    let [_, Plan::Const(Value::List(list))] = args else { return None };
    let mut keys = HashSet::new();
    for item in list.items() {
        let item = item.ok()?;
        let key = Key::of(&item)?;
        let numbers = match item {
            Value::Double(number) if number.is_nan() => continue,
            Value::Bool(_) | Value::String(_) => [None, None, None],
            _ => [same_int(&item), same_uint(&item), same_double(&item)],
        };
        keys.insert(key);
        keys.extend(numbers.into_iter().flatten().filter_map(|number| Key::of(&number)));
    }
    Some(move |mut args: Vec<Plan>| match (keys.is_empty(), args.swap_remove(0)) {
        (true, _) => Plan::Const(Value::Bool(false)),
        (false, value) => Plan::OneOf(Box::new((value, keys))),
    })
}

/// Returns the signed integer that equals an unsigned integer or a floating-point number.
fn same_int(value: &Value<'_>) -> Option<Value<'static>> {
    match value {
        Value::Uint(number) => i64::try_from(*number).ok().map(Value::Int),
        Value::Double(number) => (*number as i64 as f64 == *number).then_some(Value::Int(*number as i64)),
        _ => None,
    }
}

/// Returns the unsigned integer that equals a signed integer or a floating-point number.
fn same_uint(value: &Value<'_>) -> Option<Value<'static>> {
    match value {
        Value::Int(number) => u64::try_from(*number).ok().map(Value::Uint),
        Value::Double(number) => (*number as u64 as f64 == *number).then_some(Value::Uint(*number as u64)),
        _ => None,
    }
}

/// Returns the floating-point number nearest to an integer.
fn same_double(value: &Value<'_>) -> Option<Value<'static>> {
    match value {
        Value::Int(number) => Some(Value::Double(*number as f64)),
        Value::Uint(number) => Some(Value::Double(*number as f64)),
        _ => None,
    }
}
