//! Regular expressions.

use super::{Function, Returned};
use crate::error::Failure;
use crate::meter::{ITEM, Meter};
use crate::re2::Pattern;
use crate::value::Value;

pub(super) fn function(name: &str) -> Option<Function> {
    Some(match name {
        "matches" => matches,
        "find" => find,
        "findAll" => find_all,
        _ => return None,
    })
}

fn matches<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Returned<'a> {
    let (text, pattern) = super::two_texts(args)?;
    let pattern = match meter.pattern(pattern, "") {
        Ok(pattern) => pattern,
        Err(failure) => return Some(Err(failure)),
    };
    Some(is_match(meter, text, &pattern).map(Value::Bool))
}

pub(crate) fn is_match(meter: &mut Meter, text: &str, pattern: &Pattern) -> Result<bool, Failure> {
    meter.search(text.len(), pattern)?;
    let found = pattern.search(text, meter.steps_left()).map_err(Failure::new)?.ok_or(Failure::Budget)?;
    meter.steps(found.steps)?;
    Ok(found.is_match)
}

fn find<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Returned<'a> {
    let (text, pattern) = super::two_texts(args)?;
    let found = meter.pattern(pattern, "Illegal regex: ").and_then(|pattern| {
        meter.search(text.len(), &pattern)?;
        let regex = pattern.automaton().map_err(Failure::new)?;
        Ok(Value::string(regex.find(text).map_or("", |found| found.as_str())))
    });
    Some(found)
}

fn find_all<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Returned<'a> {
    let (texts, limit) = match args {
        [text, pattern] => ([text, pattern], usize::MAX),
        [text, pattern, Value::Int(limit)] => ([text, pattern], usize::try_from(*limit).unwrap_or(usize::MAX)),
        _ => return None,
    };
    let [Value::String(text), Value::String(pattern)] = texts else { return None };
    Some(all(meter, text, pattern, limit).map(Value::strings))
}

fn all(meter: &mut Meter, text: &str, pattern: &str, limit: usize) -> Result<Vec<String>, Failure> {
    let pattern = meter.pattern(pattern, "Illegal regex: ")?;
    let regex = pattern.automaton().map_err(Failure::new)?;
    meter.search(text.len(), &pattern)?;
    let mut found = Vec::new();
    for part in regex.find_iter(text).take(limit) {
        meter.text(part.len().saturating_add(ITEM))?;
        // Count the work of searching the whole remaining text for the next match.
        meter.search(text.len() - part.end(), &pattern)?;
        found.push(part.as_str().to_string());
    }
    Ok(found)
}
