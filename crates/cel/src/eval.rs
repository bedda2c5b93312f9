//! Evaluates plans.

mod attribute;
mod fold;

use std::borrow::Cow;

use crate::activation::Variables;
use crate::environment::JSON_PATCH;
use crate::error::Failure;
use crate::meter::Meter;
use crate::plan::{Call, Plan, PlannedEntry, PlannedItem, PlannedMatch, PlannedObject};
use crate::value::{Entries, Key, Object, Value};

pub(crate) type Evaluated<'a> = Result<Value<'a>, Failure>;

fn is_spent<T>(evaluated: &Result<T, Failure>) -> bool {
    matches!(evaluated, Err(Failure::Budget))
}

/// The units of work for evaluating one subexpression, excluding its operands.
const STEP: u64 = 15;
/// The number of list items that count as much work as one map entry.
const ENTRY: usize = 4;
/// The maximum number of arguments that are stored without a heap allocation.
const FEW: usize = 3;
const CREATE_LIST: u64 = 10;
const CREATE_MAP: u64 = 30;
const CREATE_OBJECT: u64 = 40;

/// Evaluates a plan recursively. The recursion is bounded by the maximum depth of a plan.
pub(crate) struct Evaluator<'a, 'e> {
    pub(crate) variables: &'e dyn Variables<'a>,
    pub(crate) meter: Meter,
    /// The comprehension variables. The slot of an accumulator is `None` until an expression reads the accumulator.
    pub(crate) slots: Vec<Option<Evaluated<'a>>>,
    pub(crate) inits: Vec<Option<&'e Plan>>,
}

impl<'a, 'e> Evaluator<'a, 'e> {
    pub(crate) fn eval(&mut self, plan: &'e Plan) -> Evaluated<'a> {
        // Count work for each subexpression, because some subexpressions have no cost.
        self.meter.work(STEP)?;
        match plan {
            Plan::Const(value) => Ok(value.clone()),
            Plan::Attribute(attribute) => self.attribute(attribute, true),
            Plan::And(terms) => self.logical(terms, false),
            Plan::Or(terms) => self.logical(terms, true),
            Plan::Equal(sides) => self.equal(sides).map(Value::Bool),
            Plan::NotEqual(sides) => self.not_equal(sides),
            Plan::NotStrictlyFalse(arg) => self.not_strictly_false(arg),
            Plan::Call(call) => self.call(call),
            Plan::Matches(planned) => self.matches(planned),
            Plan::List(items) => self.list(items),
            Plan::Map(entries) => self.map(entries),
            Plan::Object(object) => self.object(object),
            Plan::Fold(fold) => self.fold(fold),
            Plan::OneOf(search) => {
                let value = self.eval(&search.0)?;
                self.meter.hash(&value)?;
                Ok(Value::Bool(Key::of(&value).is_some_and(|key| search.1.contains(&key))))
            }
            Plan::OptionalOr(sides) => match self.eval(&sides[0])? {
                Value::Optional(None) => self.eval(&sides[1]),
                first => Ok(first),
            },
            Plan::OptionalOrValue(sides) => match self.eval(&sides[0])? {
                Value::Optional(None) => self.eval(&sides[1]),
                Value::Optional(Some(value)) => Ok((*value).clone()),
                first => Ok(first),
            },
            Plan::Append(append) => self.append(append),
            Plan::Insert(insert) => self.insert(insert),
        }
    }

    /// Evaluates `&&` or `||`. If one operand determines the result, an error in the other operand is ignored.
    fn logical(&mut self, terms: &'e [Plan; 2], decides: bool) -> Evaluated<'a> {
        let mut failure = None;
        for term in terms {
            match self.eval(term) {
                Ok(Value::Bool(value)) if value == decides => return Ok(Value::Bool(decides)),
                Ok(Value::Bool(_)) => {}
                Ok(_) => failure = failure.or_else(|| Some(Failure::no_overload())),
                Err(Failure::Budget) => return Err(Failure::Budget),
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        failure.map_or(Ok(Value::Bool(!decides)), Err)
    }

    fn not_strictly_false(&mut self, arg: &'e Plan) -> Evaluated<'a> {
        let value = self.eval(arg);
        self.meter.pay(1)?;
        match value {
            Ok(Value::Bool(value)) => Ok(Value::Bool(value)),
            Err(Failure::Budget) => Err(Failure::Budget),
            _ => Ok(Value::Bool(true)),
        }
    }

    /// Evaluates an operand. Borrows a constant instead of copying it.
    fn operand(&mut self, plan: &'e Plan) -> Result<Cow<'e, Value<'a>>, Failure> {
        match plan {
            Plan::Const(value) => self.meter.work(STEP).map(|()| Cow::Borrowed(value)),
            plan => self.eval(plan).map(Cow::Owned),
        }
    }

    /// Evaluates both operands. Evaluates the second operand even if the first operand fails.
    fn sides(&mut self, sides: &'e [Plan; 2]) -> Result<[Result<Cow<'e, Value<'a>>, Failure>; 2], Failure> {
        let left = self.operand(&sides[0]);
        if is_spent(&left) {
            return Err(Failure::Budget);
        }
        let right = self.operand(&sides[1]);
        if is_spent(&right) {
            return Err(Failure::Budget);
        }
        Ok([left, right])
    }

    fn equal(&mut self, sides: &'e [Plan; 2]) -> Result<bool, Failure> {
        let [left, right] = self.sides(sides)?;
        self.meter.pay(crate::cost::equals(left.as_deref().ok(), right.as_deref().ok()))?;
        let (left, right) = (left?, right?);
        left.equals_within(&right, &mut self.meter)
    }

    fn not_equal(&mut self, sides: &'e [Plan; 2]) -> Evaluated<'a> {
        let [left, right] = self.sides(sides)?;
        self.meter.pay(crate::cost::smaller(left.as_deref().ok(), right.as_deref().ok()))?;
        let (left, right) = (left?, right?);
        match left.equals_within(&right, &mut self.meter) {
            Err(Failure::Budget) => Err(Failure::Budget),
            equal => Ok(Value::Bool(!matches!(equal, Ok(true)))),
        }
    }

    fn call(&mut self, call: &'e Call) -> Evaluated<'a> {
        // Avoid a heap allocation for the arguments, because most calls have few arguments.
        let (mut few, mut many) = ([const { Value::Null }; FEW], Vec::new());
        let args = match few.get_mut(..call.args.len()) {
            Some(args) => args,
            None => {
                many.resize(call.args.len(), Value::Null);
                many.as_mut_slice()
            }
        };
        let mut failure = None;
        for (index, plan) in call.args.iter().enumerate() {
            match self.eval(plan) {
                Ok(value) => args[index] = value,
                Err(Failure::Budget) => return Err(Failure::Budget),
                Err(error) if call.stops_early && index + 1 < call.args.len() => return Err(error),
                // A failed argument does not add to the cost of the call.
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        let result = match failure {
            Some(failure) => Err(failure),
            None => call.apply(&mut self.meter, args),
        };
        match &result {
            Err(Failure::Budget) => return result,
            // Count the length of an error message as work, because the message may contain a long value.
            Err(Failure::Error(message)) => self.meter.text(message.len())?,
            Ok(_) => {}
        }
        let cost = call.pricing.cost(args, &result, &mut self.meter)?;
        self.meter.pay(cost)?;
        result
    }

    fn matches(&mut self, planned: &'e PlannedMatch) -> Evaluated<'a> {
        let text = self.eval(&planned.text)?;
        let found = match &text {
            Value::String(text) => crate::library::regex::is_match(&mut self.meter, text, &planned.pattern),
            _ => Err(Failure::no_overload()),
        };
        if is_spent(&found) {
            return Err(Failure::Budget);
        }
        self.meter.pay(planned.length.map_or(1, |length| crate::cost::pattern(text.size(), length)))?;
        found.map(Value::Bool)
    }

    fn list(&mut self, items: &'e [PlannedItem]) -> Evaluated<'a> {
        self.meter.items(items.len())?;
        let mut values = Vec::with_capacity(items.len());
        let mut failure = None;
        for item in items {
            match self.eval(&item.value).and_then(|value| present(value, item.optional, invalid_item)) {
                Ok(value) => values.extend(value),
                Err(error) => {
                    failure = Some(error);
                    break;
                }
            }
        }
        self.finish(failure, CREATE_LIST)?;
        Ok(Value::list(values))
    }

    /// Adds the cost of a list or map literal, even if the evaluation of an item failed.
    fn finish(&mut self, failure: Option<Failure>, cost: u64) -> Result<(), Failure> {
        match &failure {
            Some(Failure::Budget) => return Err(Failure::Budget),
            Some(Failure::Error(message)) => self.meter.text(message.len().saturating_mul(4))?,
            None => {}
        }
        self.meter.pay(cost)?;
        failure.map_or(Ok(()), Err)
    }

    fn map(&mut self, planned: &'e [PlannedEntry]) -> Evaluated<'a> {
        self.meter.items(planned.len().saturating_mul(ENTRY))?;
        let mut entries = Entries::default();
        let mut failure = None;
        for entry in planned {
            if let Err(error) = self.entry(entry, &mut entries) {
                failure = Some(error);
                break;
            }
        }
        self.finish(failure, CREATE_MAP)?;
        Ok(Value::Map(entries.into()))
    }

    fn entry(&mut self, entry: &'e PlannedEntry, entries: &mut Entries<'a>) -> Result<(), Failure> {
        let key = self.eval(&entry.key)?;
        let value = self.eval(&entry.value)?;
        let value = present(value, entry.optional, |value| invalid_entry(&key, value))?;
        self.meter.hash(&key)?;
        let Some(key) = Key::of(&key) else {
            return Err(Failure::new(format!("unsupported key type: {}", key.type_of().name())));
        };
        match value {
            Some(value) => entries.set(key, value),
            None if entries.remove(&key) => self.meter.items(entries.len().saturating_mul(ENTRY))?,
            None => {}
        }
        Ok(())
    }

    fn object(&mut self, planned: &'e PlannedObject) -> Evaluated<'a> {
        self.meter.items(planned.fields.len())?;
        let mut fields = Vec::with_capacity(planned.fields.len());
        let mut failure = None;
        for (name, item) in &planned.fields {
            let key = || Value::string(name.clone());
            let value = self.eval(&item.value);
            match value.and_then(|value| present(value, item.optional, |value| invalid_entry(&key(), value))) {
                Ok(value) => fields.extend(value.map(|value| (name.clone(), value))),
                Err(error) => {
                    failure = Some(error);
                    break;
                }
            }
        }
        self.finish(failure, CREATE_OBJECT)?;
        if &*planned.name == JSON_PATCH {
            check_patch(&fields)?;
        }
        Ok(Value::Object(Object::new(planned.name.clone(), fields).into()))
    }
}

/// Returns the value of a list or map item, or `None` for an optional item that is absent.
fn present<'a>(
    value: Value<'a>,
    optional: bool,
    invalid: impl FnOnce(&Value<'a>) -> Failure,
) -> Result<Option<Value<'a>>, Failure> {
    match value {
        Value::Optional(value) if optional => Ok(value.map(|value| (*value).clone())),
        value if optional => Err(invalid(&value)),
        value => Ok(Some(value)),
    }
}

fn invalid_item(value: &Value<'_>) -> Failure {
    Failure::new(format!("cannot initialize optional list element from non-optional value {}", value.plain()))
}

fn invalid_entry(key: &Value<'_>, value: &Value<'_>) -> Failure {
    let (key, value) = (key.plain(), value.plain());
    Failure::new(format!("cannot initialize optional entry '{key}' from non-optional value {value}"))
}

fn check_patch(fields: &[(std::sync::Arc<str>, Value<'_>)]) -> Result<(), Failure> {
    for (name, value) in fields {
        if matches!(&**name, "op" | "path" | "from") && value.as_str().is_none() {
            let found = value.type_of();
            return Err(Failure::new(format!("unexpected type {found} for JSONPatchType '{name}' field")));
        }
    }
    Ok(())
}

impl Call {
    /// Calls the function. The caller must have evaluated the arguments according to `stops_early`, and must add the
    /// cost of the call.
    pub(crate) fn apply<'a>(&self, meter: &mut Meter, args: &[Value<'a>]) -> Evaluated<'a> {
        meter.work(args.iter().map(Value::weight).sum())?;
        let result = (self.function)(meter, args);
        result.unwrap_or_else(|| Err(crate::library::no_overload(&self.name, args)))
    }
}
