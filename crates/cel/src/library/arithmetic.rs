//! Operators.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::{Function, Returned};
use crate::ast::operator;
use crate::error::Failure;
use crate::meter::Meter;
use crate::schema::ListKind;
use crate::value::{Key, List, Value, key_of};

pub(super) fn function(name: &str) -> Option<Function> {
    Some(match name {
        operator::ADD => add,
        operator::SUBTRACT => subtract,
        operator::MULTIPLY => multiply,
        operator::DIVIDE => divide,
        operator::MODULO => modulo,
        operator::NEGATE => negate,
        operator::NOT => not,
        operator::LESS => less,
        operator::LESS_EQUALS => less_equals,
        operator::GREATER => greater,
        operator::GREATER_EQUALS => greater_equals,
        operator::IN => contained,
        "size" => size,
        _ => return None,
    })
}

/// Returns `true` if an operator accepts `value` as an operand.
pub(super) fn supports(name: &str, value: &Value<'_>) -> bool {
    let number = matches!(value, Value::Int(_) | Value::Uint(_) | Value::Double(_));
    let time = matches!(value, Value::Duration(_) | Value::Timestamp(_));
    let text = matches!(value, Value::String(_) | Value::Bytes(_));
    match name {
        operator::ADD => number || time || text || matches!(value, Value::List(_)),
        operator::SUBTRACT => number || time,
        operator::MULTIPLY | operator::DIVIDE => number,
        operator::MODULO => matches!(value, Value::Int(_) | Value::Uint(_)),
        operator::NEGATE => matches!(value, Value::Bool(_)),
        operator::LESS | operator::LESS_EQUALS | operator::GREATER | operator::GREATER_EQUALS => {
            number || time || text || matches!(value, Value::Bool(_))
        }
        "matches" => matches!(value, Value::String(_)),
        _ => false,
    }
}

fn overflow(what: &str) -> Failure {
    Failure::new(format!("{what} overflow"))
}

fn int<'a>(number: Option<i64>) -> Returned<'a> {
    Some(number.map(Value::Int).ok_or_else(|| overflow("integer")))
}

fn uint<'a>(number: Option<u64>) -> Returned<'a> {
    Some(number.map(Value::Uint).ok_or_else(|| overflow("unsigned integer")))
}

fn duration<'a>(nanos: Option<i64>) -> Returned<'a> {
    Some(nanos.map(Value::Duration).ok_or_else(|| overflow("integer")))
}

fn add<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Returned<'a> {
    let [left, right] = args else { return None };
    match (left, right) {
        (Value::Int(left), Value::Int(right)) => int(left.checked_add(*right)),
        (Value::Uint(left), Value::Uint(right)) => uint(left.checked_add(*right)),
        (Value::Double(left), Value::Double(right)) => Some(Ok(Value::Double(left + right))),
        (Value::String(left), Value::String(right)) => Some(joined(meter, left, right)),
        (Value::Bytes(left), Value::Bytes(right)) => Some(
            meter
                .text(left.len().saturating_add(right.len()))
                .map(|()| Value::Bytes(left.iter().chain(&**right).copied().collect())),
        ),
        (Value::Duration(left), Value::Duration(right)) => duration(left.checked_add(*right)),
        (Value::Duration(nanos), Value::Timestamp(time)) | (Value::Timestamp(time), Value::Duration(nanos)) => {
            Some(time.plus(*nanos).map(Value::Timestamp))
        }
        (Value::List(left), Value::List(right)) => Some(add_lists(meter, left, right).map(Value::List)),
        _ => None,
    }
}

fn joined<'a>(meter: &mut Meter, left: &str, right: &str) -> Result<Value<'a>, Failure> {
    meter.text(left.len() + right.len())?;
    let mut text = String::with_capacity(left.len() + right.len());
    text.push_str(left);
    text.push_str(right);
    Ok(Value::String(crate::value::Text::Owned(Arc::from(text))))
}

/// Concatenates two lists. As in server-side apply, merges lists with the list type `set` or `map` in their schema.
fn add_lists<'a>(meter: &mut Meter, left: &List<'a>, right: &List<'a>) -> Result<List<'a>, Failure> {
    let (kind, Some(schema)) = (left.kind(), left.schema()) else { return Ok(left.clone().join(right.clone())) };
    meter.items(left.len().saturating_add(right.len()))?;
    let mut items = left.to_vec(meter)?;
    let mut right_items = right.reader();
    match kind {
        ListKind::Atomic => return Ok(left.clone().join(right.clone())),
        ListKind::Set => {
            items.iter().try_for_each(|item| meter.hash(item))?;
            let mut keys: Option<HashSet<_>> = items.iter().map(Key::of_plain).collect();
            while let Some(item) = right_items.next(meter) {
                let item = item?;
                meter.hash(&item)?;
                let is_new = match (&mut keys, Key::of_plain(&item)) {
                    (Some(keys), Some(key)) => keys.insert(key),
                    _ => {
                        keys = None;
                        !has_equal(&items, &item, meter)?
                    }
                };
                items.extend(is_new.then_some(item));
            }
        }
        ListKind::Keyed(keys) => {
            let places = items.iter().enumerate().map(|(at, item)| Ok((key_of(item, keys, meter)?, at)));
            let mut places = places.collect::<Result<HashMap<_, _>, Failure>>()?;
            while let Some(item) = right_items.next(meter) {
                let item = item?;
                let key = key_of(&item, keys, meter)?;
                match places.get(&key) {
                    Some(at) => items[*at] = item,
                    None => {
                        places.insert(key, items.len());
                        items.push(item);
                    }
                }
            }
        }
    }
    Ok(List::with_schema(items, schema))
}

fn has_equal<'a>(items: &[Value<'a>], item: &Value<'a>, meter: &mut Meter) -> Result<bool, Failure> {
    for other in items {
        if other.equals_within(item, meter)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn subtract<'a>(_: &mut Meter, args: &[Value<'a>]) -> Returned<'a> {
    let [left, right] = args else { return None };
    match (left, right) {
        (Value::Int(left), Value::Int(right)) => int(left.checked_sub(*right)),
        (Value::Uint(left), Value::Uint(right)) => uint(left.checked_sub(*right)),
        (Value::Double(left), Value::Double(right)) => Some(Ok(Value::Double(left - right))),
        (Value::Duration(left), Value::Duration(right)) => duration(left.checked_sub(*right)),
        (Value::Timestamp(time), Value::Duration(nanos)) => {
            let negated = nanos.checked_neg().ok_or_else(|| overflow("integer"));
            Some(negated.and_then(|nanos| time.plus(nanos)).map(Value::Timestamp))
        }
        (Value::Timestamp(left), Value::Timestamp(right)) => Some(left.since(*right).map(Value::Duration)),
        _ => None,
    }
}

fn multiply<'a>(_: &mut Meter, args: &[Value<'a>]) -> Returned<'a> {
    let [left, right] = args else { return None };
    match (left, right) {
        (Value::Int(left), Value::Int(right)) => int(left.checked_mul(*right)),
        (Value::Uint(left), Value::Uint(right)) => uint(left.checked_mul(*right)),
        (Value::Double(left), Value::Double(right)) => Some(Ok(Value::Double(left * right))),
        _ => None,
    }
}

fn divide<'a>(_: &mut Meter, args: &[Value<'a>]) -> Returned<'a> {
    let [left, right] = args else { return None };
    match (left, right) {
        (Value::Int(_), Value::Int(0)) | (Value::Uint(_), Value::Uint(0)) => {
            Some(Err(Failure::new("division by zero")))
        }
        (Value::Int(left), Value::Int(right)) => int(left.checked_div(*right)),
        (Value::Uint(left), Value::Uint(right)) => uint(left.checked_div(*right)),
        (Value::Double(left), Value::Double(right)) => Some(Ok(Value::Double(left / right))),
        _ => None,
    }
}

fn modulo<'a>(_: &mut Meter, args: &[Value<'a>]) -> Returned<'a> {
    let [left, right] = args else { return None };
    match (left, right) {
        (Value::Int(_), Value::Int(0)) | (Value::Uint(_), Value::Uint(0)) => Some(Err(Failure::new("modulus by zero"))),
        (Value::Int(left), Value::Int(right)) => int(left.checked_rem(*right)),
        (Value::Uint(left), Value::Uint(right)) => uint(left.checked_rem(*right)),
        _ => None,
    }
}

fn negate<'a>(_: &mut Meter, args: &[Value<'a>]) -> Returned<'a> {
    match args {
        [Value::Int(number)] => int(number.checked_neg()),
        [Value::Double(number)] => Some(Ok(Value::Double(-number))),
        [Value::Duration(nanos)] => duration(nanos.checked_neg()),
        _ => None,
    }
}

fn not<'a>(_: &mut Meter, args: &[Value<'a>]) -> Returned<'a> {
    match args {
        [Value::Bool(value)] => Some(Ok(Value::Bool(!value))),
        _ => None,
    }
}

fn ordered<'a>(name: &str, args: &[Value<'a>], holds: impl FnOnce(Ordering) -> bool) -> Returned<'a> {
    let [left, right] = args else { return None };
    if supports(name, left) { Some(left.compare(right).map(|ordering| Value::Bool(holds(ordering)))) } else { None }
}

fn less<'a>(_: &mut Meter, args: &[Value<'a>]) -> Returned<'a> {
    ordered(operator::LESS, args, Ordering::is_lt)
}

fn less_equals<'a>(_: &mut Meter, args: &[Value<'a>]) -> Returned<'a> {
    ordered(operator::LESS_EQUALS, args, Ordering::is_le)
}

fn greater<'a>(_: &mut Meter, args: &[Value<'a>]) -> Returned<'a> {
    ordered(operator::GREATER, args, Ordering::is_gt)
}

fn greater_equals<'a>(_: &mut Meter, args: &[Value<'a>]) -> Returned<'a> {
    ordered(operator::GREATER_EQUALS, args, Ordering::is_ge)
}

/// Implements `in`.
fn contained<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Returned<'a> {
    match args {
        [value, Value::List(list)] => Some(contains(meter, list, value).map(Value::Bool)),
        [key, Value::Map(map)] => {
            let found = meter.hash(key).and_then(|()| map.get(key, meter));
            Some(found.map(|found| Value::Bool(found.is_some())))
        }
        _ => None,
    }
}

/// Returns `true` if an item of `list` equals `value`. If an item cannot be compared with `value`, and no other item
/// equals `value`, returns the comparison error for a list with a schema, and `false` for other lists.
pub(super) fn contains<'a>(meter: &mut Meter, list: &List<'a>, value: &Value<'a>) -> Result<bool, Failure> {
    let strict = list.schema().is_some();
    let mut failure = None;
    let mut items = list.reader();
    while let Some(item) = items.next(meter) {
        match item.and_then(|item| item.equals_within(value, meter)) {
            Ok(true) => return Ok(true),
            Ok(false) => {}
            Err(Failure::Budget) => return Err(Failure::Budget),
            Err(error) => failure = failure.or(strict.then_some(error)),
        }
    }
    failure.map_or(Ok(false), Err)
}

fn size<'a>(_: &mut Meter, args: &[Value<'a>]) -> Returned<'a> {
    match args {
        [value] => value.length().map(|length| Ok(Value::Int(i64::try_from(length).unwrap_or(i64::MAX)))),
        _ => None,
    }
}
