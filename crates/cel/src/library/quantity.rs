//! Functions for resource quantities.

use std::cmp::Ordering;

use super::{Function, Returned, one_text};
use crate::error::Failure;
use crate::meter::Meter;
use crate::opaque::Opaque;
use crate::opaque::quantity::{Quantity, parse};
use crate::value::Value;

pub(super) fn function(name: &str) -> Option<Function> {
    Some(match name {
        "quantity" => |_, args| one_text(args).map(|text| parse(text).map(value)),
        "isQuantity" => |_, args| one_text(args).map(|text| Ok(Value::Bool(parse(text).is_ok()))),
        "sign" => |_, args| one(args).map(|amount| Ok(Value::Int(amount.nanos().signum() as i64))),
        "isGreaterThan" => |meter, args| ordered(meter, args, |ordering| Value::Bool(ordering.is_gt())),
        "isLessThan" => |meter, args| ordered(meter, args, |ordering| Value::Bool(ordering.is_lt())),
        "compareTo" => |meter, args| ordered(meter, args, |ordering| Value::Int(ordering as i64)),
        "asApproximateFloat" => |_, args| one(args).map(|amount| Ok(Value::Double(amount.float()))),
        "asInteger" => as_integer,
        "isInteger" => |_, args| one(args).map(|amount| Ok(Value::Bool(amount.integer().is_some()))),
        "add" => |_, args| two(args).map(|(left, right)| Ok(value(left.plus(right)))),
        "sub" => |_, args| two(args).map(|(left, right)| Ok(value(left.plus(right.negated())))),
        _ => return None,
    })
}

fn value<'a>(amount: Quantity) -> Value<'a> {
    Value::Opaque(Opaque::Quantity(amount.into()))
}

fn one(args: &[Value<'_>]) -> Option<Quantity> {
    match args {
        [Value::Opaque(Opaque::Quantity(amount))] => Some(**amount),
        _ => None,
    }
}

/// Returns both arguments as quantities. Also accepts an integer as the second argument.
fn two(args: &[Value<'_>]) -> Option<(Quantity, Quantity)> {
    match args {
        [Value::Opaque(Opaque::Quantity(left)), Value::Opaque(Opaque::Quantity(right))] => Some((**left, **right)),
        [Value::Opaque(Opaque::Quantity(left)), Value::Int(right)] => {
            Some((**left, Quantity::Scaled { value: *right, scale: 0 }))
        }
        _ => None,
    }
}

fn ordered<'a>(meter: &mut Meter, args: &[Value<'a>], result: impl FnOnce(Ordering) -> Value<'a>) -> Returned<'a> {
    match args {
        [Value::Opaque(Opaque::Quantity(left)), Value::Opaque(Opaque::Quantity(right))] => {
            Some(Ok(result(left.cmp(right))))
        }
        [Value::Opaque(Opaque::Semver(left)), Value::Opaque(Opaque::Semver(right))] => {
            let counted = meter.work(left.length().min(right.length()) as u64);
            Some(counted.map(|()| result(left.cmp(right))))
        }
        _ => None,
    }
}

fn as_integer<'a>(_: &mut Meter, args: &[Value<'a>]) -> Returned<'a> {
    let integer = one(args)?.integer();
    Some(integer.map(Value::Int).ok_or_else(|| Failure::new("cannot convert value to integer")))
}
