//! Functions for lists.

use std::cmp::Ordering;

use super::{Function, Returned, arithmetic, first_is};
use crate::ast::operator;
use crate::error::Failure;
use crate::meter::Meter;
use crate::value::{List, Value};

pub(super) fn function(name: &str) -> Option<Function> {
    Some(match name {
        "isSorted" => is_sorted,
        "sum" => sum_of(None),
        "max" => |meter, args| extreme(meter, args, "max", Ordering::Less),
        "min" => |meter, args| extreme(meter, args, "min", Ordering::Greater),
        "slice" => slice,
        "flatten" => flatten,
        "sort" => sort,
        "@sortByAssociatedKeys" => sort_by_keys,
        "lists.range" => range,
        "reverse" => reverse,
        "distinct" => distinct,
        "first" => |meter, args| one(args).map(|list| optional_item(meter, list, Some(0))),
        "last" => |meter, args| one(args).map(|list| optional_item(meter, list, list.len().checked_sub(1))),
        _ => return None,
    })
}

fn one<'v, 'a>(args: &'v [Value<'a>]) -> Option<&'v List<'a>> {
    match args {
        [Value::List(list)] => Some(list),
        _ => None,
    }
}

fn optional_item<'a>(meter: &mut Meter, list: &List<'a>, index: Option<usize>) -> Result<Value<'a>, Failure> {
    let item = index.and_then(|index| list.get(index, meter));
    item.map_or(Ok(Value::NONE), |item| item.map(Value::some))
}

fn items<'a>(meter: &mut Meter, list: &List<'a>) -> Result<Vec<Value<'a>>, Failure> {
    meter.items(list.len())?;
    list.to_vec(meter)
}

fn with_items<'a>(
    meter: &mut Meter,
    args: &[Value<'a>],
    apply: impl FnOnce(Vec<Value<'a>>, &mut Meter) -> Result<Value<'a>, Failure>,
) -> Returned<'a> {
    let list = one(args)?;
    Some(items(meter, list).and_then(|items| apply(items, meter)))
}

fn is_sorted<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Returned<'a> {
    if !first_is(meter, args, is_ordered) {
        return None;
    }
    with_items(meter, args, |items, _| {
        for pair in items.windows(2) {
            if comparison(&pair[0], &pair[1])? == Some(Ordering::Greater) {
                return Ok(Value::Bool(false));
            }
        }
        Ok(Value::Bool(true))
    })
}

fn is_ordered(value: &Value<'_>) -> bool {
    arithmetic::supports(operator::LESS, value)
}

/// Compares two list items. As in kube-apiserver, returns `None` for items without an order, for example if one of them
/// is NaN.
fn comparison(left: &Value<'_>, right: &Value<'_>) -> Result<Option<Ordering>, Failure> {
    if is_ordered(left) { Ok(left.compare(right).ok()) } else { Err(Failure::no_overload()) }
}

/// Returns the implementation of `sum` for the signature `overload`. The signature determines whether the sum of an
/// empty list is an integer, a floating-point number or a duration.
pub(super) fn sum_of(overload: Option<&str>) -> Function {
    match overload {
        Some("list_uint_sum_uint") => |meter, args| sum(meter, args, Value::Uint(0)),
        Some("list_double_sum_double") => |meter, args| sum(meter, args, Value::Double(0.0)),
        Some("list_duration_sum_duration") => |meter, args| sum(meter, args, Value::Duration(0)),
        _ => |meter, args| sum(meter, args, Value::Int(0)),
    }
}

fn sum<'a>(meter: &mut Meter, args: &[Value<'a>], empty: Value<'a>) -> Returned<'a> {
    let add = arithmetic::function(operator::ADD)?;
    let is_summand =
        |first: &Value<'_>| matches!(first, Value::Int(_) | Value::Uint(_) | Value::Double(_) | Value::Duration(_));
    if !first_is(meter, args, is_summand) {
        return None;
    }
    with_items(meter, args, |items, meter| {
        let mut total = match items.first() {
            Some(Value::Uint(_)) => Value::Uint(0),
            Some(Value::Double(_)) => Value::Double(0.0),
            Some(Value::Duration(_)) => Value::Duration(0),
            Some(_) => Value::Int(0),
            None => empty,
        };
        for item in items {
            total = add(meter, &[total, item]).unwrap_or_else(|| Err(Failure::no_overload()))?;
        }
        Ok(total)
    })
}

fn extreme<'a>(meter: &mut Meter, args: &[Value<'a>], name: &str, replaced: Ordering) -> Returned<'a> {
    if !first_is(meter, args, is_ordered) {
        return None;
    }
    with_items(meter, args, |items, _| {
        let mut items = items.into_iter();
        let Some(mut found) = items.next() else {
            return Err(Failure::new(format!("{name} called on empty list")));
        };
        for item in items {
            if comparison(&found, &item)? == Some(replaced) {
                found = item;
            }
        }
        Ok(found)
    })
}

/// Returns the index of the first or the last item that equals `value`, or -1 if no item equals `value`.
pub(super) fn position<'a>(
    meter: &mut Meter,
    list: &List<'a>,
    value: &Value<'a>,
    last: bool,
) -> Result<Value<'a>, Failure> {
    let mut found = -1;
    for (index, item) in (0_i64..).zip(items(meter, list)?) {
        match item.equals_within(value, meter) {
            Ok(true) => found = index,
            Err(Failure::Budget) => return Err(Failure::Budget),
            _ => {}
        }
        if found >= 0 && !last {
            break;
        }
    }
    Ok(Value::Int(found))
}

fn slice<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Returned<'a> {
    let [Value::List(list), Value::Int(start), Value::Int(end)] = args else { return None };
    let refused = |reason: String| Some(Err(Failure::new(format!("cannot slice({start}, {end}), {reason}"))));
    let (Ok(from), Ok(to)) = (usize::try_from(*start), usize::try_from(*end)) else {
        return refused("negative indexes not supported".into());
    };
    if from > to {
        return refused("start index must be less than or equal to end index".into());
    }
    if list.len() < to {
        return refused(format!("list is length {}", list.len()));
    }
    if let Err(failure) = meter.items(list.len()) {
        return Some(Err(failure));
    }
    let mut reader = list.reader();
    let items = std::iter::from_fn(|| reader.next(meter));
    Some(items.skip(from).take(to - from).collect::<Result<_, _>>().map(Value::list))
}

fn flatten<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Returned<'a> {
    let (list, depth) = match args {
        [Value::List(list)] => (list, 1),
        [Value::List(list), Value::Int(depth)] => (list, *depth),
        _ => return None,
    };
    if depth < 0 {
        return Some(Err(Failure::new("level must be non-negative")));
    }
    Some(flattened(meter, list, depth).map(Value::list))
}

/// Flattens a list without recursion, because data can be deeply nested.
fn flattened<'a>(meter: &mut Meter, list: &List<'a>, depth: i64) -> Result<Vec<Value<'a>>, Failure> {
    let mut flat = Vec::new();
    let mut pending = vec![items(meter, list)?.into_iter()];
    while let Some(level) = pending.last_mut() {
        match level.next() {
            None => drop(pending.pop()),
            Some(Value::List(inner)) if pending.len() as i64 <= depth => {
                meter.work(8)?;
                pending.push(items(meter, &inner)?.into_iter());
            }
            Some(item) => flat.push(item),
        }
    }
    Ok(flat)
}

fn sort<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Returned<'a> {
    with_items(meter, args, |items, meter| sorted(meter, items.clone(), items))
}

fn sort_by_keys<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Returned<'a> {
    let [Value::List(list), Value::List(keys)] = args else { return None };
    if list.len() != keys.len() {
        let (list, keys) = (list.len(), keys.len());
        return Some(Err(Failure::new(format!(
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys list, but got {list} and \
             {keys} elements respectively"
        ))));
    }
    let list = items(meter, list);
    Some(list.and_then(|list| Ok((list, items(meter, keys)?))).and_then(|(list, keys)| sorted(meter, list, keys)))
}

/// Sorts a list by the keys in another list. All keys must have the same type.
fn sorted<'a>(meter: &mut Meter, list: Vec<Value<'a>>, keys: Vec<Value<'a>>) -> Result<Value<'a>, Failure> {
    let Some(first) = keys.first() else { return Ok(Value::list(list)) };
    if !arithmetic::supports(operator::LESS, first) {
        return Err(Failure::new("list elements must be comparable"));
    }
    let kind = std::mem::discriminant(first);
    if keys.iter().any(|key| std::mem::discriminant(key) != kind) {
        return Err(Failure::new("list elements must have the same type"));
    }
    let weight: u64 = keys.iter().map(Value::weight).sum();
    meter.work(weight.saturating_mul(u64::from(keys.len().ilog2()) + 1))?;
    let mut pairs: Vec<_> = keys.into_iter().zip(list).collect();
    pairs.sort_by(|left, right| total_order(&left.0, &right.0));
    Ok(Value::list(pairs.into_iter().map(|(_, item)| item).collect()))
}

/// Compares two values of the same type, with NaN last. The order must be total, because sorting with an inconsistent
/// order could panic.
fn total_order(left: &Value<'_>, right: &Value<'_>) -> Ordering {
    let is_nan = |value: &Value<'_>| matches!(value, Value::Double(number) if number.is_nan());
    left.compare(right).unwrap_or_else(|_| is_nan(left).cmp(&is_nan(right)))
}

fn range<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Returned<'a> {
    let [Value::Int(count)] = args else { return None };
    let count = (*count).max(0);
    // Each item of the new list costs one unit. Fail before creating a list that exceeds the budget.
    if count.unsigned_abs() > meter.left() {
        return Some(Err(Failure::Budget));
    }
    let length = usize::try_from(count).unwrap_or(usize::MAX);
    Some(meter.items(length).map(|()| Value::list((0..count).map(Value::Int).collect())))
}

fn reverse<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Returned<'a> {
    with_items(meter, args, |mut items, _| {
        items.reverse();
        Ok(Value::list(items))
    })
}

fn distinct<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Returned<'a> {
    with_items(meter, args, |items, meter| {
        // The cost of the call is twice the square of the length. Fail early if the square alone exceeds the budget.
        if (items.len() as u64).saturating_pow(2) > meter.left() {
            return Err(Failure::Budget);
        }
        let mut known: Vec<Value<'a>> = Vec::new();
        for item in items {
            let mut seen = false;
            for other in &known {
                match item.equals_within(other, meter) {
                    Ok(true) => seen = true,
                    Err(Failure::Budget) => return Err(Failure::Budget),
                    _ => {}
                }
                if seen {
                    break;
                }
            }
            if !seen {
                known.push(item);
            }
        }
        Ok(Value::list(known))
    })
}
