//! Functions that treat lists as sets.

use super::{Function, Returned, arithmetic};
use crate::error::Failure;
use crate::meter::Meter;
use crate::value::{List, Value};

pub(super) fn function(name: &str) -> Option<Function> {
    Some(match name {
        "sets.contains" => contains,
        "sets.equivalent" => equivalent,
        "sets.intersects" => intersects,
        _ => return None,
    })
}

fn contains_all<'a>(meter: &mut Meter, list: &List<'a>, sublist: &List<'a>) -> Result<bool, Failure> {
    let mut sublist = sublist.reader();
    while let Some(item) = sublist.next(meter) {
        if !arithmetic::contains(meter, list, &item?)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn contains<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Returned<'a> {
    let [Value::List(list), Value::List(sublist)] = args else { return None };
    Some(contains_all(meter, list, sublist).map(Value::Bool))
}

fn equivalent<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Returned<'a> {
    let [Value::List(left), Value::List(right)] = args else { return None };
    Some(match contains_all(meter, left, right) {
        Ok(true) => contains_all(meter, right, left).map(Value::Bool),
        other => other.map(Value::Bool),
    })
}

fn intersects<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Returned<'a> {
    let [Value::List(left), Value::List(right)] = args else { return None };
    let mut left = left.reader();
    while let Some(item) = left.next(meter) {
        match item.and_then(|item| arithmetic::contains(meter, right, &item)) {
            Ok(true) => return Some(Ok(Value::Bool(true))),
            Err(Failure::Budget) => return Some(Err(Failure::Budget)),
            _ => {}
        }
    }
    Some(Ok(Value::Bool(false)))
}
