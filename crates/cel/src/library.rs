//! The implementations of the functions that expressions can call.

mod arithmetic;
mod authorizer;
mod cidr;
mod convert;
mod format;
mod ip;
mod lists;
mod named_format;
mod optional;
mod quantity;
pub(crate) mod regex;
mod semver;
mod sets;
mod strings;
mod times;
mod url;

pub(crate) use format::{Clause, FormatError, clauses};
pub(crate) use times::is_receiver;

use crate::ast::operator;
use crate::error::Failure;
use crate::functions;
use crate::meter::Meter;
use crate::value::Value;

/// The result of a library function, or `None` if the function does not accept arguments of these types.
pub(crate) type Returned<'a> = Option<Result<Value<'a>, Failure>>;

/// The implementation of a library function. The receiver of a method is its first argument.
pub(crate) type Function = for<'a> fn(&mut Meter, &[Value<'a>]) -> Returned<'a>;

/// Returns the implementation of a function. The returned boolean is `true` if the evaluation of a call stops at the
/// first failed argument.
///
/// `resolved` is `true` if the type checker found exactly one signature for the call. The caller must handle calls with
/// a constant regular expression.
pub(crate) fn function(name: &str, args: usize, resolved: bool) -> (Function, bool) {
    let found = arithmetic::function(name)
        .or_else(|| convert::function(name))
        .or_else(|| strings::function(name))
        .or_else(|| lists::function(name))
        .or_else(|| times::function(name))
        .or_else(|| optional::function(name))
        .or_else(|| regex::function(name))
        .or_else(|| sets::function(name))
        .or_else(|| url::function(name))
        .or_else(|| ip::function(name))
        .or_else(|| cidr::function(name))
        .or_else(|| quantity::function(name))
        .or_else(|| semver::function(name))
        .or_else(|| named_format::function(name))
        .or_else(|| authorizer::function(name));
    let dispatched = !resolved && !is_single(name) && functions::overloads(name).len() > 1;
    (found.unwrap_or(unknown), args > 2 || name == "format" || dispatched)
}

pub(crate) fn sum(overload: Option<&str>) -> Function {
    lists::sum_of(overload)
}

fn unknown<'a>(_: &mut Meter, _: &[Value<'a>]) -> Returned<'a> {
    None
}

/// Returns `true` if a single function implements all signatures of `name`.
fn is_single(name: &str) -> bool {
    use operator::{
        ADD, DIVIDE, GREATER, GREATER_EQUALS, IN, LESS, LESS_EQUALS, MODULO, MULTIPLY, NEGATE, NOT, SUBTRACT,
    };
    matches!(name, ADD | SUBTRACT | MULTIPLY | DIVIDE | MODULO | NEGATE | NOT | IN)
        || matches!(name, LESS | LESS_EQUALS | GREATER | GREATER_EQUALS)
        || matches!(name, "size" | "matches" | "sort" | "@sortByAssociatedKeys" | "type" | "dyn")
}

/// Returns cel-go's error for a call without a matching signature.
pub(crate) fn no_overload(name: &str, args: &[Value<'_>]) -> Failure {
    let plain = matches!(name, "contains" | "endsWith" | "startsWith" | operator::NOT | operator::IN);
    if plain {
        return Failure::no_overload();
    }
    if is_single(name) {
        let first = args.first();
        // As in cel-go, the message omits the function name if the first argument has methods or is a valid operand.
        return if first.is_some_and(|first| is_receiver(first) || arithmetic::supports(name, first)) {
            Failure::no_overload()
        } else {
            Failure::new(format!("no such overload: {name}"))
        };
    }
    if let ("flatten", [receiver, depth @ ..]) = (name, args) {
        let depth: Vec<_> = depth.iter().map(|depth| depth.type_of().to_string()).collect();
        return Failure::new(format!("no such overload: {}.flatten({})", receiver.type_of(), depth.join(", ")));
    }
    let types: Vec<_> = args.iter().map(|arg| arg.type_of().name().to_string()).collect();
    Failure::new(format!("no such overload: {name}({})", types.join(", ")))
}

fn two_texts<'v, 'a>(args: &'v [Value<'a>]) -> Option<(&'v str, &'v str)> {
    match args {
        [Value::String(left), Value::String(right)] => Some((left, right)),
        _ => None,
    }
}

/// Returns `true` if the list is empty or if `holds` accepts its first item. cel-go uses the type of this item to
/// select the signature of a call.
fn first_is(meter: &mut Meter, args: &[Value<'_>], holds: impl FnOnce(&Value<'_>) -> bool) -> bool {
    let [Value::List(list), ..] = args else { return true };
    list.get(0, meter).is_none_or(|first| match first {
        Ok(first) => holds(&first),
        // Ignore other failures, because the function fails with the same error when it reads the list.
        Err(failure) => failure == Failure::Budget,
    })
}

fn one_text<'v, 'a>(args: &'v [Value<'a>]) -> Option<&'v str> {
    match args {
        [Value::String(text)] => Some(text),
        _ => None,
    }
}
