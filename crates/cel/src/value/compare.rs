//! Compares values for equality and order.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};

use super::{Key, List, Map, Object, Text, Value};
use crate::error::Failure;
use crate::meter::Meter;
use crate::node::{Node, Scalar};
use crate::opaque::Opaque;
use crate::schema::ListKind;

/// The maximum nesting depth for comparisons. Comparing deeper values fails with [`Failure::Budget`].
const MAX_DEPTH: usize = 256;
/// The units of work for listing a map entry.
const ENTRY: u64 = 20;

impl<'a> Value<'a> {
    /// Compares two values like the operator `==`.
    ///
    /// # Errors
    ///
    /// Returns an error if `self` is data with a schema and `other` is a value of a different kind, as in
    /// kube-apiserver.
    pub fn equals(&self, other: &Value<'a>) -> Result<bool, Failure> {
        self.equals_within(other, &mut Meter::unlimited())
    }

    /// Returns the result of the operator `==` and counts the work of the comparison.
    pub(crate) fn equals_within(&self, other: &Value<'a>, meter: &mut Meter) -> Result<bool, Failure> {
        equal(self, other, &mut Walk { depth: MAX_DEPTH, meter })
    }

    /// Compares two values for the operators `<`, `<=`, `>` and `>=`.
    ///
    /// # Errors
    ///
    /// Returns an error if the values are of different kinds, or if one of them is NaN.
    pub(crate) fn compare(&self, other: &Value<'a>) -> Result<Ordering, Failure> {
        let numbers = |value: &Value<'_>| matches!(value, Value::Double(number) if number.is_nan());
        if numbers(self) || numbers(other) {
            return Err(Failure::new("NaN values cannot be ordered"));
        }
        Ok(match (self, other) {
            (Self::Bool(left), Self::Bool(right)) => left.cmp(right),
            (Self::String(left), Self::String(right)) => (**left).cmp(&**right),
            (Self::Bytes(left), Self::Bytes(right)) => left.cmp(right),
            (Self::Duration(left), Self::Duration(right)) => left.cmp(right),
            (Self::Timestamp(left), Self::Timestamp(right)) => left.cmp(right),
            _ => return numeric(self, other).ok_or_else(Failure::no_overload),
        })
    }
}

/// Compares two numbers. Returns `None` if a value is not a number.
fn numeric(left: &Value<'_>, right: &Value<'_>) -> Option<Ordering> {
    Some(match (left, right) {
        (Value::Int(left), Value::Int(right)) => left.cmp(right),
        (Value::Uint(left), Value::Uint(right)) => left.cmp(right),
        (Value::Double(left), Value::Double(right)) => float(*left, *right),
        (Value::Int(left), Value::Uint(right)) => i128::from(*left).cmp(&i128::from(*right)),
        (Value::Uint(left), Value::Int(right)) => i128::from(*left).cmp(&i128::from(*right)),
        (Value::Double(left), Value::Int(right)) => double_int(*left, *right),
        (Value::Int(left), Value::Double(right)) => double_int(*right, *left).reverse(),
        (Value::Double(left), Value::Uint(right)) => double_uint(*left, *right),
        (Value::Uint(left), Value::Double(right)) => double_uint(*right, *left).reverse(),
        _ => return None,
    })
}

fn float(left: f64, right: f64) -> Ordering {
    left.partial_cmp(&right).unwrap_or(Ordering::Equal)
}

fn double_int(left: f64, right: i64) -> Ordering {
    match left {
        _ if left < i64::MIN as f64 => Ordering::Less,
        _ if left > i64::MAX as f64 => Ordering::Greater,
        _ => float(left, right as f64),
    }
}

fn double_uint(left: f64, right: u64) -> Ordering {
    match left {
        _ if left < 0.0 => Ordering::Less,
        _ if left > u64::MAX as f64 => Ordering::Greater,
        _ => float(left, right as f64),
    }
}

struct Walk<'m> {
    depth: usize,
    meter: &'m mut Meter,
}

fn equal<'a>(left: &Value<'a>, right: &Value<'a>, walk: &mut Walk<'_>) -> Result<bool, Failure> {
    walk.meter.work(30 + left.weight().min(right.weight()))?;
    walk.depth = walk.depth.checked_sub(1).ok_or(Failure::Budget)?;
    let equal = equal_kinds(left, right, walk);
    walk.depth += 1;
    equal
}

fn equal_kinds<'a>(left: &Value<'a>, right: &Value<'a>, walk: &mut Walk<'_>) -> Result<bool, Failure> {
    Ok(match (left, right) {
        (Value::Null, _) | (_, Value::Null) => matches!((left, right), (Value::Null, Value::Null)),
        (Value::List(left), Value::List(right)) => return equal_lists(left, right, walk),
        (Value::Map(left), Value::Map(right)) => return equal_maps(left, right, walk),
        (Value::List(list), _) if list.schema().is_some() => return Err(Failure::no_overload()),
        (Value::Map(map), _) if map.node().is_some_and(|(_, schema)| schema.is_some()) => {
            return Err(Failure::no_overload());
        }
        (Value::Bool(left), Value::Bool(right)) => left == right,
        (Value::String(left), Value::String(right)) => left == right,
        (Value::Bytes(left), Value::Bytes(right)) => left == right,
        (Value::Duration(left), Value::Duration(right)) => left == right,
        (Value::Timestamp(left), Value::Timestamp(right)) => left == right,
        (Value::Type(left), Value::Type(right)) => left.name() == right.name(),
        (Value::Optional(left), Value::Optional(right)) => match (left, right) {
            (Some(left), Some(right)) => return equal(left, right, walk),
            (left, right) => left.is_none() && right.is_none(),
        },
        (Value::Object(left), Value::Object(right)) => return equal_objects(left, right, walk),
        (Value::Opaque(left), Value::Opaque(right)) => return left.equals(right, walk.meter),
        (Value::Opaque(_), _) => return Err(Failure::no_overload()),
        (Value::Double(left), _) if left.is_nan() => false,
        (_, Value::Double(right)) if right.is_nan() => false,
        _ => numeric(left, right) == Some(Ordering::Equal),
    })
}

fn equal_lists<'a>(left: &List<'a>, right: &List<'a>, walk: &mut Walk<'_>) -> Result<bool, Failure> {
    if left.len() != right.len() {
        return Ok(false);
    }
    match left.kind() {
        ListKind::Atomic => {}
        ListKind::Set => return same_members(left, right, walk),
        ListKind::Keyed(keys) => return same_entries(left, right, keys, walk),
    }
    let strict = left.schema().is_some();
    let (mut left, mut right) = (left.reader(), right.reader());
    while let Some((left, right)) = left.next(walk.meter).zip(right.next(walk.meter)) {
        match equal(&left?, &right?, walk) {
            Ok(true) => {}
            // If the lists have no schema, items that cannot be compared are treated as equal.
            Err(Failure::Error(_)) if !strict => {}
            other => return other,
        }
    }
    Ok(true)
}

/// Compares two sets. Each item of the right list must occur in the left list.
fn same_members<'a>(left: &List<'a>, right: &List<'a>, walk: &mut Walk<'_>) -> Result<bool, Failure> {
    walk.meter.items(left.len())?;
    let known = left.to_vec(walk.meter)?;
    known.iter().try_for_each(|item| walk.meter.hash(item))?;
    let keys: Option<HashSet<_>> = known.iter().map(Key::of_plain).collect();
    let mut right = right.reader();
    while let Some(item) = right.next(walk.meter) {
        let item = item?;
        walk.meter.hash(&item)?;
        let found = match keys.as_ref().zip(Key::of_plain(&item)) {
            Some((keys, key)) => keys.contains(&key),
            None => contains(&known, &item, walk)?,
        };
        if !found {
            return Ok(false);
        }
    }
    Ok(true)
}

fn contains<'a>(known: &[Value<'a>], item: &Value<'a>, walk: &mut Walk<'_>) -> Result<bool, Failure> {
    for known in known {
        match equal(known, item, walk) {
            Ok(true) => return Ok(true),
            Err(Failure::Budget) => return Err(Failure::Budget),
            _ => {}
        }
    }
    Ok(false)
}

/// Compares two keyed lists. Each item of the right list must equal the item with the same key fields in the left list.
fn same_entries<'a>(
    left: &List<'a>,
    right: &List<'a>,
    keys: &[Box<str>],
    walk: &mut Walk<'_>,
) -> Result<bool, Failure> {
    walk.meter.items(left.len())?;
    let known = left.to_vec(walk.meter)?;
    let by_key = known.iter().map(|item| Ok((key_of(item, keys, walk.meter)?, item)));
    let by_key = by_key.collect::<Result<HashMap<_, _>, Failure>>()?;
    let mut right = right.reader();
    while let Some(item) = right.next(walk.meter) {
        let item = item?;
        match by_key.get(&key_of(&item, keys, walk.meter)?) {
            None => return Ok(false),
            Some(known) => match equal(known, &item, walk) {
                Ok(true) => {}
                other => return other,
            },
        }
    }
    Ok(true)
}

/// A key field of a list item. As in Go, numbers of different types differ.
#[derive(PartialEq, Eq, Hash)]
pub(crate) enum KeyField<'a> {
    Absent,
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    /// The bits of a floating-point number.
    Double(u64),
    String(Text<'a>),
    List,
    Map,
}

/// Returns the key fields of a list item. Counts the work of hashing and comparing them.
pub(crate) fn key_of<'a>(item: &Value<'a>, keys: &[Box<str>], meter: &mut Meter) -> Result<Vec<KeyField<'a>>, Failure> {
    let Value::Map(map) = item else { return Ok(vec![]) };
    let mut field = |name: &str| {
        let value = match map.node() {
            Some((node, _)) => node.field(name).map(raw),
            None => map.field(name, meter)?,
        };
        let Some(value) = value else { return Ok(KeyField::Absent) };
        meter.hash(&value)?;
        Ok(match value {
            Value::Null => KeyField::Null,
            Value::Bool(value) => KeyField::Bool(value),
            Value::Int(value) => KeyField::Int(value),
            Value::Uint(value) => KeyField::Uint(value),
            Value::Double(value) => KeyField::Double(value.to_bits()),
            Value::String(text) => KeyField::String(text),
            Value::List(_) => KeyField::List,
            _ => KeyField::Map,
        })
    };
    keys.iter().map(|name| field(name)).collect()
}

fn raw(node: &dyn Node) -> Value<'_> {
    match node.scalar() {
        Scalar::Uint(value) => Value::Uint(value),
        _ => Value::of(node),
    }
}

fn equal_maps<'a>(left: &Map<'a>, right: &Map<'a>, walk: &mut Walk<'_>) -> Result<bool, Failure> {
    if left.len() != right.len() {
        return Ok(false);
    }
    if let Some((node, Some(schema))) = left.node() {
        return equal_typed_maps(node, schema, right, walk);
    }
    walk.meter.work((left.len() as u64).saturating_mul(ENTRY))?;
    for key in left.keys() {
        let key = key.value();
        walk.meter.hash(&key)?;
        let (left, right) = (left.get(&key, walk.meter)?, right.get(&key, walk.meter)?);
        let (Some(left), Some(right)) = (left, right) else { return Ok(false) };
        match equal(&left, &right, walk) {
            Ok(true) | Err(Failure::Error(_)) => {}
            other => return other,
        }
    }
    Ok(true)
}

fn equal_typed_maps<'a>(
    node: &'a dyn Node,
    schema: &'a crate::schema::Schema,
    right: &Map<'a>,
    walk: &mut Walk<'_>,
) -> Result<bool, Failure> {
    for (name, field) in node.fields() {
        walk.meter.hash(&name.into())?;
        if schema.declares(name) {
            match (schema.field(node, name, walk.meter)?, right.field(name, walk.meter)?) {
                (Some(left), Some(right)) => match equal(&left, &right, walk) {
                    Ok(true) => {}
                    other => return other,
                },
                (None, None) => {}
                _ => return Ok(false),
            }
        } else {
            let Some((other, Some(_))) = right.node() else { return Err(Failure::no_overload()) };
            if let Some(other) = other.field(name)
                && !same_data(field, other, walk)?
            {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

fn same_data(left: &dyn Node, right: &dyn Node, walk: &mut Walk<'_>) -> Result<bool, Failure> {
    let (a, b) = (left.scalar(), right.scalar());
    walk.meter.work(20 + weight(a).min(weight(b)))?;
    if left.len() != right.len() || !matches!((a, b), (Scalar::List, Scalar::List) | (Scalar::Map, Scalar::Map)) {
        return Ok(a == b && left.len() == right.len());
    }
    walk.depth = walk.depth.checked_sub(1).ok_or(Failure::Budget)?;
    let mut equal = true;
    if a == Scalar::List {
        for pair in (0..left.len()).filter_map(|index| left.item(index).zip(right.item(index))) {
            equal = equal && same_data(pair.0, pair.1, walk)?;
        }
    } else {
        for (name, field) in left.fields() {
            walk.meter.hash(&name.into())?;
            equal = equal && right.field(name).map_or(Ok(false), |other| same_data(field, other, walk))?;
        }
    }
    walk.depth += 1;
    Ok(equal)
}

fn weight(scalar: Scalar<'_>) -> u64 {
    match scalar {
        Scalar::String(text) => Value::from(text).weight(),
        _ => 1,
    }
}

fn equal_objects<'a>(left: &Object<'a>, right: &Object<'a>, walk: &mut Walk<'_>) -> Result<bool, Failure> {
    if left.type_name() != right.type_name() || left.fields().count() != right.fields().count() {
        return Ok(false);
    }
    for (name, value) in left.fields() {
        let Some(other) = right.field(name) else { return Ok(false) };
        if !equal(value, other, walk)? {
            return Ok(false);
        }
    }
    Ok(true)
}

impl Opaque {
    fn equals(&self, other: &Self, meter: &mut Meter) -> Result<bool, Failure> {
        meter.work(self.weight().min(other.weight()))?;
        Ok(match (self, other) {
            (Self::Ip(left), Self::Ip(right)) => left == right,
            (Self::Cidr(left), Self::Cidr(right)) => left == right,
            (Self::Quantity(left), Self::Quantity(right)) => left.cmp(right).is_eq(),
            (Self::Semver(left), Self::Semver(right)) => left.cmp(right).is_eq(),
            (Self::Url(left), Self::Url(right)) => left.text() == right.text(),
            (Self::Format(left), Self::Format(right)) => left.name == right.name,
            _ => return Err(Failure::no_overload()),
        })
    }
}
