//! The costs of function calls at evaluation time.

use crate::ast::operator;
use crate::error::Failure;
use crate::meter::Meter;
use crate::opaque::Opaque;
use crate::value::Value;

type Called<'a> = Result<Value<'a>, Failure>;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Pricing {
    Fixed(u64),
    /// The cost is the product of this factor and the length of the first argument.
    FirstText(u64),
    /// The cost depends on the length of the first argument, which is measured as in cel-go.
    StandardText,
    Join,
    Selector,
    /// The cost depends on the number of characters and items in the first argument, including nested values.
    Traversal,
    /// The cost depends on the lengths of the string and the pattern. The content of an optional value is included, as
    /// in cel-go but unlike in the Kubernetes libraries.
    Pattern,
    Contains,
    Concatenation,
    Smaller,
    ContainsIp {
        text: bool,
    },
    ContainsCidr {
        text: bool,
    },
    Validate,
    InList,
    Output,
    Flatten,
    /// The cost depends on the square of the length of the argument with this index.
    SelfCompare(usize),
    Sets(f64),
}

/// Returns the cost rule for a call of `function`. `overload` is the ID of the matching signature, or `None` if several
/// signatures match.
pub(crate) fn pricing(function: &str, overload: Option<&str>) -> Pricing {
    let overload = overload.unwrap_or_default();
    if let Some(pricing) = of_extension(overload) {
        return pricing;
    }
    if let Some(pricing) = of_library(function, overload) {
        return pricing;
    }
    match overload {
        "starts_with_string" | "ends_with_string" | "string_to_bytes" | "bytes_to_string" | "strings_quote"
        | "string_format" => Pricing::StandardText,
        "in_list" => Pricing::InList,
        "add_string" | "add_bytes" => Pricing::Concatenation,
        "matches_string" => Pricing::Pattern,
        "contains_string" => Pricing::Contains,
        _ if is_text_order(overload) => Pricing::Smaller,
        _ => Pricing::Fixed(1),
    }
}

pub(crate) fn is_text_order(overload: &str) -> bool {
    let kind = overload.strip_suffix("_string").or_else(|| overload.strip_suffix("_bytes"));
    matches!(kind, Some("less" | "less_equals" | "greater" | "greater_equals"))
}

fn of_extension(overload: &str) -> Option<Pricing> {
    Some(match overload {
        "list_slice" | "lists_range" | "list_reverse" => Pricing::Output,
        "list_flatten" | "list_flatten_int" => Pricing::Flatten,
        "list_distinct" => Pricing::SelfCompare(0),
        "list_sets_contains_list" | "list_sets_intersects_list" => Pricing::Sets(1.0),
        "list_sets_equivalent_list" => Pricing::Sets(2.0),
        _ if overload.starts_with("list_") && overload.ends_with("_sort") => Pricing::SelfCompare(0),
        _ if overload.ends_with("_sortByAssociatedKeys") => Pricing::SelfCompare(1),
        _ => return None,
    })
}

fn of_library(function: &str, overload: &str) -> Option<Pricing> {
    Some(match function {
        "check" => Pricing::Fixed(350_000),
        "serviceAccount" | "path" | "group" | "resource" | "subresource" | "namespace" | "name" | "allowed"
        | "reason" | "error" | "errored" => Pricing::Fixed(1),
        "fieldSelector" | "labelSelector" => Pricing::Selector,
        "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" => Pricing::Traversal,
        "url"
        | "lowerAscii"
        | "upperAscii"
        | "substring"
        | "trim"
        | "jsonpatch.escapeKey"
        | "cidr"
        | "isIP"
        | "isCIDR"
        | "quantity"
        | "isQuantity"
        | "semver"
        | "isSemver" => Pricing::FirstText(1),
        "replace" | "split" | "ip.isCanonical" => Pricing::FirstText(2),
        "join" => Pricing::Join,
        "find" | "findAll" => Pricing::Pattern,
        "ip" if overload == "cidr_ip" => Pricing::Fixed(1),
        "ip" => Pricing::FirstText(1),
        "containsIP" => Pricing::ContainsIp { text: overload == "cidr_contains_ip_string" },
        "containsCIDR" => Pricing::ContainsCidr { text: overload == "cidr_contains_cidr_string" },
        "validate" => Pricing::Validate,
        operator::EQUALS => return None,
        _ => return None,
    })
}

fn text(size: u64) -> u64 {
    scaled(size, 0.1)
}

/// Converts a floating-point number to an integer like Go on amd64. As in Go, a negative number wraps around to a large
/// number, and a number that is too large becomes 2⁶³.
fn go_u64(number: f64) -> u64 {
    match number {
        _ if number < 0.0 => number as i64 as u64,
        _ if number < 18_446_744_073_709_551_616.0 => number as u64,
        _ => 1 << 63,
    }
}

pub(crate) fn scaled(size: u64, factor: f64) -> u64 {
    (size as f64 * factor).ceil() as u64
}

impl Pricing {
    pub(crate) fn cost<'a>(self, args: &[Value<'a>], result: &Called<'a>, meter: &mut Meter) -> Result<u64, Failure> {
        let size = |index: usize| args.get(index).map_or(1, Value::size);
        let plain = |index: usize| args.get(index).map_or(1, Value::library_size);
        Ok(match self {
            Self::Fixed(cost) => cost,
            Self::FirstText(times) => text(times.saturating_mul(plain(0))),
            Self::StandardText => text(size(0)),
            Self::Join => text(result.as_ref().map_or(1, Value::library_size).saturating_mul(2)),
            Self::Selector => selector(plain(1)),
            Self::Traversal => args.first().map_or(Ok(0), |first| traversal(first, meter, 64))?,
            Self::Pattern => pattern(size(0), size(1)),
            Self::Contains => text(size(0)).saturating_mul(text(size(1))),
            Self::Concatenation => text(size(0).saturating_add(size(1))),
            Self::Smaller => smaller(args.first(), args.get(1)),
            Self::ContainsIp { text: as_text } => text(2 * plain(0)) + if as_text { text(plain(1)) } else { 0 },
            Self::ContainsCidr { text: as_text } => {
                text(2 * plain(0)) + text(plain(0)) + 1 + if as_text { text(plain(1)) } else { 0 }
            }
            Self::Validate => match args.first() {
                Some(Value::Opaque(Opaque::Format(format))) => pattern(plain(1), format.regex_size),
                _ => 1,
            },
            Self::InList => size(1),
            Self::Output => 11_u64.saturating_add(result.as_ref().map_or(1, Value::library_size)),
            Self::Flatten => {
                let depth = match args.get(1) {
                    Some(Value::Int(depth)) => *depth as f64,
                    _ => 1.0,
                };
                11_u64.wrapping_add(go_u64(plain(0) as f64 * depth))
            }
            Self::SelfCompare(index) => self_compare(args.get(index), meter)?,
            Self::Sets(factor) => 1_u64.saturating_add((plain(0).saturating_mul(plain(1)) as f64 * factor) as u64),
        })
    }
}

pub(crate) fn pattern(text_size: u64, pattern_size: u64) -> u64 {
    let text = ((1.0 + text_size as f64) * 0.1).ceil() as u64;
    text.saturating_mul(scaled(pattern_size, 0.25))
}

pub(crate) fn selector(length: u64) -> u64 {
    10 + text(length) + scaled(scaled(length, 0.5), 50.0)
}

fn self_compare(list: Option<&Value<'_>>, meter: &mut Meter) -> Result<u64, Failure> {
    let Some(Value::List(list)) = list else { return Ok(12) };
    let texts = match list.get(0, meter) {
        Some(Err(Failure::Budget)) => return Err(Failure::Budget),
        first => matches!(first, Some(Ok(Value::String(_) | Value::Bytes(_)))),
    };
    let factor = if texts { 2.1 } else { 2.0 };
    let size = list.len() as u64;
    Ok(11_u64.saturating_add((size.saturating_mul(size) as f64 * factor) as u64))
}

/// Returns the total number of characters and items in a value, including nested values.
fn traversal(value: &Value<'_>, meter: &mut Meter, depth: usize) -> Result<u64, Failure> {
    meter.work(1)?;
    let Some(depth) = depth.checked_sub(1) else { return Ok(1) };
    match value {
        Value::String(text) => Ok((text.len() as f64 * 0.1) as u64),
        Value::Bytes(bytes) => Ok((bytes.len() as f64 * 0.1) as u64),
        Value::List(list) => {
            let mut sum = 0_u64;
            let mut items = list.reader();
            while let Some(item) = items.next(meter) {
                sum = sum.saturating_add(match item {
                    Ok(item) => traversal(&item, meter, depth)?,
                    Err(Failure::Budget) => return Err(Failure::Budget),
                    Err(_) => 1,
                });
            }
            Ok(sum)
        }
        Value::Map(map) => {
            let mut sum = 0_u64;
            for key in map.keys() {
                let key = key.value();
                let value = match map.get(&key, meter) {
                    Err(Failure::Budget) => return Err(Failure::Budget),
                    value => value.ok().flatten().unwrap_or(Value::Null),
                };
                sum =
                    sum.saturating_add(traversal(&key, meter, depth)?).saturating_add(traversal(&value, meter, depth)?);
            }
            Ok(sum)
        }
        _ => Ok(1),
    }
}

/// Returns the cost of `==`. An operand whose evaluation failed counts as having a size of 1.
pub(crate) fn equals(left: Option<&Value<'_>>, right: Option<&Value<'_>>) -> u64 {
    match left {
        Some(Value::Opaque(_)) => 1,
        _ => smaller(left, right),
    }
}

pub(crate) fn smaller(left: Option<&Value<'_>>, right: Option<&Value<'_>>) -> u64 {
    let limit = |value: Option<&Value<'_>>| value.map_or(1, Value::size_limit);
    let size = |value: Option<&Value<'_>>| value.map_or(1, Value::size);
    let (short, long) = if limit(left) <= limit(right) { (left, right) } else { (right, left) };
    // Do not count the characters of a text that is at least as long as the other value, because the cost of the
    // operator does not include them.
    let smaller = size(short);
    text(if limit(long) / 4 >= smaller { smaller } else { smaller.min(size(long)) })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn cost_of_a_comparison_depends_on_the_smaller_size(left in "[aé€😀]{0,90}", right in "[aé€😀]{0,90}", number: i64) {
            let values = [Value::from(&*left), Value::some(Value::from(&*right)), Value::Int(number), Value::NONE];
            for (left, right) in values.iter().flat_map(|left| values.iter().map(move |right| (left, right))) {
                prop_assert_eq!(smaller(Some(left), Some(right)), text(left.size().min(right.size())));
            }
            prop_assert_eq!(smaller(None, values.first()), text(values[0].size().min(1)));
        }
    }
}
