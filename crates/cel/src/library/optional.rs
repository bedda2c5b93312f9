//! Optional values.

use super::{Function, Returned, first_is};
use crate::ast::operator;
use crate::error::Failure;
use crate::meter::Meter;
use crate::value::{Key, Value};

pub(super) fn function(name: &str) -> Option<Function> {
    Some(match name {
        "optional.of" => of,
        "optional.ofNonZeroValue" => of_non_zero,
        "optional.none" => |_, _| Some(Ok(Value::NONE)),
        "value" => value,
        "hasValue" => has_value,
        "optional.unwrap" | "unwrapOpt" => unwrap,
        operator::MAP_INSERT => insert,
        _ => return None,
    })
}

fn of<'a>(_: &mut Meter, args: &[Value<'a>]) -> Returned<'a> {
    args.first().map(|value| Ok(Value::some(value.clone())))
}

fn of_non_zero<'a>(_: &mut Meter, args: &[Value<'a>]) -> Returned<'a> {
    args.first().map(|value| Ok(if value.is_zero() { Value::NONE } else { Value::some(value.clone()) }))
}

fn value<'a>(_: &mut Meter, args: &[Value<'a>]) -> Returned<'a> {
    match args {
        [Value::Optional(Some(value))] => Some(Ok((**value).clone())),
        [Value::Optional(None)] => Some(Err(Failure::new("optional.none() dereference"))),
        _ => None,
    }
}

fn has_value<'a>(_: &mut Meter, args: &[Value<'a>]) -> Returned<'a> {
    match args {
        [Value::Optional(value)] => Some(Ok(Value::Bool(value.is_some()))),
        _ => None,
    }
}

fn unwrap<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Returned<'a> {
    let [Value::List(list)] = args else { return None };
    if !first_is(meter, args, |first| matches!(first, Value::Optional(_))) {
        return None;
    }
    if let Err(failure) = meter.items(list.len()) {
        return Some(Err(failure));
    }
    let mut values = Vec::new();
    let mut items = list.reader();
    while let Some(item) = items.next(meter) {
        match item {
            Ok(Value::Optional(value)) => values.extend(value.map(|value| (*value).clone())),
            Ok(other) => return Some(Err(Failure::new(format!("value {} is not optional", other.plain())))),
            Err(failure) => return Some(Err(failure)),
        }
    }
    Some(Ok(Value::list(values)))
}

/// Adds an entry to a copy of a map. Not used for accumulators, because the evaluator inserts their entries in place.
fn insert<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Returned<'a> {
    let [Value::Map(map), key, value] = args else { return None };
    let mut map = map.clone();
    let inserted = map.insert(Key::of(key)?, value.clone(), meter);
    Some(match inserted {
        Ok(true) => Ok(Value::Map(map)),
        Ok(false) => Err(Failure::new(format!("insert failed: key {} already exists", key.plain()))),
        Err(failure) => Err(failure),
    })
}
