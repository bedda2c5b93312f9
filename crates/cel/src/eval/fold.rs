//! Comprehensions.

use super::{CREATE_LIST, ENTRY, Evaluated, Evaluator, is_spent};
use crate::error::Failure;
use crate::plan::{Append, Insert, PlannedFold};
use crate::value::{Key, Value};

impl<'a, 'e> Evaluator<'a, 'e> {
    /// Returns the value of a comprehension variable. The initial value of an accumulator is computed on first access.
    pub(super) fn local(&mut self, slot: usize) -> Evaluated<'a> {
        if let Some(value) = &self.slots[slot] {
            return value.clone();
        }
        let Some(init) = self.inits[slot] else {
            return Err(Failure::new("a comprehension read a variable without a value"));
        };
        let value = self.eval(init);
        if !is_spent(&value) {
            self.slots[slot] = Some(value.clone());
        }
        value
    }

    pub(super) fn fold(&mut self, fold: &'e PlannedFold) -> Evaluated<'a> {
        let range = self.eval(&fold.range)?;
        let slot = fold.slot;
        // Save the content and the initial value of the slot. Another comprehension can use the same slot, and contain
        // this comprehension in its initial value.
        let before = (self.slots[slot].take(), self.inits[slot].replace(&fold.init));
        let iterated = self.iterate(fold, &range);
        let result = iterated.and_then(|()| self.eval(&fold.result));
        (self.slots[slot], self.inits[slot]) = before;
        result
    }

    fn iterate(&mut self, fold: &'e PlannedFold, range: &Value<'a>) -> Result<(), Failure> {
        match range {
            Value::List(list) => {
                let (mut items, mut index) = (list.reader(), 0);
                while let Some(item) = items.next(&mut self.meter) {
                    let (first, second) = if fold.two_vars {
                        index += 1;
                        (Ok(Value::Int(index - 1)), Some(item))
                    } else {
                        (item, None)
                    };
                    if !self.round(fold, first, second)? {
                        break;
                    }
                }
                Ok(())
            }
            Value::Map(map) => {
                self.meter.work(map.len() as u64 * 20)?;
                for key in map.keys() {
                    let key = key.value();
                    let value = if fold.two_vars {
                        self.meter.hash(&key)?;
                        Some(
                            map.get(&key, &mut self.meter)
                                .and_then(|value| value.ok_or_else(|| Failure::no_key(key.plain()))),
                        )
                    } else {
                        None
                    };
                    if !self.round(fold, Ok(key), value)? {
                        break;
                    }
                }
                Ok(())
            }
            other if fold.two_vars => {
                Err(Failure::new(format!("unsupported comprehension range type: {}", other.go_type())))
            }
            other => Err(Failure::new(format!("got '{}', expected iterable type", other.go_type()))),
        }
    }

    /// Evaluates the loop condition and the loop step for one item. Returns `true` if the loop must continue with the
    /// next item.
    fn round(
        &mut self,
        fold: &'e PlannedFold,
        first: Evaluated<'a>,
        second: Option<Evaluated<'a>>,
    ) -> Result<bool, Failure> {
        if is_spent(&first) || second.as_ref().is_some_and(is_spent) {
            return Err(Failure::Budget);
        }
        // Count work for each iteration, because an iteration may have no cost.
        self.meter.work(50)?;
        self.slots[fold.slot + 1] = Some(first);
        if let Some(second) = second {
            self.slots[fold.slot + 2] = Some(second);
        }
        match self.eval(&fold.condition) {
            Ok(Value::Bool(false)) => return Ok(false),
            Err(Failure::Budget) => return Err(Failure::Budget),
            _ => {}
        }
        let value = self.eval(&fold.step);
        if is_spent(&value) {
            return Err(Failure::Budget);
        }
        self.slots[fold.slot] = Some(value);
        Ok(true)
    }

    /// Evaluates `@result + [item]` by appending to the accumulated list in place.
    pub(super) fn append(&mut self, append: &'e Append) -> Evaluated<'a> {
        let list = self.local(append.slot);
        self.meter.pay(1)?;
        let item = self.eval(&append.item);
        if is_spent(&item) {
            return item;
        }
        self.meter.pay(if append.constant { 1 } else { 1 + CREATE_LIST })?;
        match (list, item) {
            (Ok(Value::List(mut list)), Ok(item)) => {
                // Remove the list from its slot, because a second reference would force a copy. The caller puts the
                // resulting list back into the slot.
                self.slots[append.slot] = None;
                list.push(item);
                Ok(Value::List(list))
            }
            (Err(failure), _) | (_, Err(failure)) => Err(failure),
            _ => Err(Failure::no_overload()),
        }
    }

    /// Evaluates `cel.@mapInsert(@result, …)` by inserting into the accumulated map in place.
    pub(super) fn insert(&mut self, insert: &'e Insert) -> Evaluated<'a> {
        let map = self.local(insert.slot);
        self.meter.pay(1)?;
        let map = map?;
        let key = insert.key.as_ref().map(|key| self.eval(key)).transpose()?;
        let value = self.eval(&insert.value);
        if is_spent(&value) {
            return value;
        }
        self.meter.pay(1)?;
        let value = value?;
        let Value::Map(mut map) = map else { return Err(Failure::no_overload()) };
        self.slots[insert.slot] = None;
        let entries = match (key, value) {
            (Some(key), value) => vec![(key, value)],
            (None, Value::Map(more)) => {
                let keys = more.keys().into_iter().map(|key| key.value());
                let entry = |key: Value<'a>| {
                    let value = more.get(&key, &mut self.meter)?.unwrap_or(Value::Null);
                    Ok((key, value))
                };
                keys.map(entry).collect::<Result<_, Failure>>()?
            }
            (None, _) => return Err(Failure::no_overload()),
        };
        self.meter.items(entries.len().saturating_mul(ENTRY))?;
        for (key, value) in entries {
            self.meter.hash(&key)?;
            let Some(known) = Key::of(&key) else {
                return Err(Failure::new(format!("unsupported key type: {}", key.type_of().name())));
            };
            if !map.insert(known, value, &mut self.meter)? {
                return Err(Failure::new(format!("insert failed: key {} already exists", key.plain())));
            }
        }
        Ok(Value::Map(map))
    }
}
