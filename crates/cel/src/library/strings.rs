//! Functions for strings, which count positions in code points.

use super::{Function, Returned, first_is, format, lists, one_text, two_texts};
use crate::error::Failure;
use crate::go_text::quoted_with;
use crate::meter::{ITEM, Meter};
use crate::value::Value;

pub(super) fn function(name: &str) -> Option<Function> {
    Some(match name {
        "contains" => |_, args| two_texts(args).map(|(text, part)| Ok(Value::Bool(text.contains(part)))),
        "endsWith" => |_, args| two_texts(args).map(|(text, part)| Ok(Value::Bool(text.ends_with(part)))),
        "startsWith" => |_, args| two_texts(args).map(|(text, part)| Ok(Value::Bool(text.starts_with(part)))),
        "charAt" => char_at,
        "indexOf" => index_of,
        "lastIndexOf" => last_index_of,
        "lowerAscii" => |_, args| one_text(args).map(|text| Ok(text.to_ascii_lowercase().into())),
        "upperAscii" => |_, args| one_text(args).map(|text| Ok(text.to_ascii_uppercase().into())),
        "replace" => replace,
        "split" => split,
        "substring" => substring,
        "trim" => |_, args| one_text(args).map(|text| Ok(Value::string(text.trim_matches(is_space)))),
        "format" => format::format,
        "strings.quote" => |_, args| one_text(args).map(|text| Ok(quoted_with(text, String::push).into())),
        "join" => join,
        "jsonpatch.escapeKey" => {
            |_, args| one_text(args).map(|key| Ok(key.replace('~', "~0").replace('/', "~1").into()))
        }
        _ => return None,
    })
}

/// Returns `true` if `strings.TrimSpace` in Go removes the character.
fn is_space(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\u{b}' | '\u{c}' | '\r' | ' ' | '\u{85}' | '\u{a0}')
        || !c.is_ascii() && c.is_whitespace()
}

fn out_of_range<T>(index: i64) -> Result<T, Failure> {
    Err(Failure::new(format!("index out of range: {index}")))
}

/// Returns the byte offset of the code point with this index. An index directly after the last code point is
/// also valid.
fn offset(text: &str, index: i64) -> Option<usize> {
    let index = usize::try_from(index).ok()?;
    if text.is_ascii() {
        return (index <= text.len()).then_some(index);
    }
    let offsets = text.char_indices().map(|(offset, _)| offset).chain([text.len()]);
    offsets.into_iter().nth(index)
}

fn char_at<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Returned<'a> {
    let [Value::String(text), Value::Int(index)] = args else { return None };
    if let Err(failure) = meter.text(text.len()) {
        return Some(Err(failure));
    }
    Some(match offset(text, *index) {
        Some(offset) => Ok(text[offset..].chars().next().map(String::from).unwrap_or_default().into()),
        None => out_of_range(*index),
    })
}

fn index_of<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Returned<'a> {
    match args {
        [Value::List(list), value] => Some(lists::position(meter, list, value, false)),
        [Value::String(text), Value::String(part)] => Some(find(text, part, 0).map(Value::Int)),
        [Value::String(text), Value::String(part), Value::Int(from)] => Some(find(text, part, *from).map(Value::Int)),
        _ => None,
    }
}

fn last_index_of<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Returned<'a> {
    match args {
        [Value::List(list), value] => Some(lists::position(meter, list, value, true)),
        [Value::String(text), Value::String(part)] => Some(find_last(text, part, None).map(Value::Int)),
        [Value::String(text), Value::String(part), Value::Int(from)] => {
            Some(find_last(text, part, Some(*from)).map(Value::Int))
        }
        _ => None,
    }
}

/// Returns the position of the first occurrence of `part` at or after `from`, or -1 if there is none.
fn find(text: &str, part: &str, from: i64) -> Result<i64, Failure> {
    if part.is_empty() {
        return Ok(from);
    }
    if from < 0 {
        return out_of_range(from);
    }
    let Some(start) = offset(text, from) else { return Ok(-1) };
    Ok(text[start..].find(part).map_or(-1, |found| count(&text[..start + found])))
}

/// Returns the position of the last occurrence of `part` at or before `from`, or -1 if there is none.
fn find_last(text: &str, part: &str, from: Option<i64>) -> Result<i64, Failure> {
    let Some(from) = from else {
        return match part {
            "" => Ok(count(text)),
            _ => Ok(text.rfind(part).map_or(-1, |found| count(&text[..found]))),
        };
    };
    if part.is_empty() {
        return Ok(from);
    }
    if from < 0 {
        return out_of_range(from);
    }
    let Some(start) = offset(text, from).filter(|start| *start < text.len()) else { return Ok(-1) };
    // Search up to `part.len()` bytes beyond `from`, because an occurrence of `part` may begin at `from`.
    let end = (start + part.len()).min(text.len());
    let end = (end..=text.len()).find(|end| text.is_char_boundary(*end)).unwrap_or(text.len());
    let found = text[..end].rmatch_indices(part).map(|(found, _)| found).find(|found| *found <= start);
    Ok(found.map_or(-1, |found| count(&text[..found])))
}

fn count(text: &str) -> i64 {
    i64::try_from(text.chars().count()).unwrap_or(i64::MAX)
}

fn substring<'a>(_: &mut Meter, args: &[Value<'a>]) -> Returned<'a> {
    let (text, start, end) = match args {
        [Value::String(text), Value::Int(start)] => (text, *start, None),
        [Value::String(text), Value::Int(start), Value::Int(end)] => (text, *start, Some(*end)),
        _ => return None,
    };
    if let Some(end) = end
        && start > end
    {
        return Some(Err(Failure::new(format!("invalid substring range. start: {start}, end: {end}"))));
    }
    let Some(from) = offset(text, start) else { return Some(out_of_range(start)) };
    let to = match end {
        None => text.len(),
        Some(end) => match offset(text, end) {
            Some(to) => to,
            None => return Some(out_of_range(end)),
        },
    };
    Some(Ok(Value::string(&text[from..to])))
}

fn replace<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Returned<'a> {
    let (text, old, new, limit) = match args {
        [Value::String(text), Value::String(old), Value::String(new)] => (text, old, new, -1),
        [Value::String(text), Value::String(old), Value::String(new), Value::Int(limit)] => (text, old, new, *limit),
        _ => return None,
    };
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let count = text.matches(&**old).take(limit).count();
    let length = text.len().saturating_add(count.saturating_mul(new.len()));
    Some(meter.text(length).map(|()| text.replacen(&**old, new, limit).into()))
}

fn split<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Returned<'a> {
    let (text, separator, limit) = match args {
        [Value::String(text), Value::String(separator)] => (text, separator, -1),
        [Value::String(text), Value::String(separator), Value::Int(limit)] => (text, separator, *limit),
        _ => return None,
    };
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    // Split the text into characters if the separator is empty.
    let parts = if separator.is_empty() { text.len() } else { text.matches(&**separator).count() + 1 };
    if let Err(failure) = meter.text(text.len().saturating_add(parts.min(limit).saturating_mul(ITEM))) {
        return Some(Err(failure));
    }
    let parts: Vec<String> = match (limit, separator.is_empty()) {
        (0, _) => Vec::new(),
        (_, false) => text.splitn(limit, &**separator).map(String::from).collect(),
        (_, true) => characters(text, limit),
    };
    Some(Ok(Value::strings(parts)))
}

/// Splits a text into its characters. If there are more than `limit` characters, the last item contains all
/// remaining characters.
fn characters(text: &str, limit: usize) -> Vec<String> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if parts.len() + 1 == limit {
            parts.push(rest.into());
            break;
        }
        parts.push(c.into());
        rest = &rest[c.len_utf8()..];
    }
    parts
}

fn join<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Returned<'a> {
    let (list, separator) = match args {
        [Value::List(list)] => (list, ""),
        [Value::List(list), Value::String(separator)] => (list, &**separator),
        _ => return None,
    };
    if !first_is(meter, args, |first| first.as_str().is_some()) {
        return None;
    }
    let (mut text, mut items, mut is_first) = (String::new(), list.reader(), true);
    while let Some(item) = items.next(meter) {
        let item = match item {
            Ok(item) => item,
            Err(failure) => return Some(Err(failure)),
        };
        let Value::String(part) = &item else {
            return Some(Err(Failure::new(format!("join: invalid input: {}", item.plain()))));
        };
        let separator = if std::mem::take(&mut is_first) { "" } else { separator };
        if let Err(failure) = meter.text(separator.len() + part.len() + 1) {
            return Some(Err(failure));
        }
        text.push_str(separator);
        text.push_str(part);
        if text.len() > MAX_JOINED {
            return Some(Err(Failure::Budget));
        }
    }
    Some(Ok(text.into()))
}

/// The maximum length of the result of `join`. `join` fails with any budget if its result would be longer.
const MAX_JOINED: usize = 16 << 20;
