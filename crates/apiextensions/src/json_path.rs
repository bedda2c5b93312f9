//! Parses and evaluates the JSONPath expressions in definitions.

use pintle_json::Json;

/// A segment of a JSONPath.
#[derive(Clone, Debug, PartialEq)]
pub enum Hop {
    /// A member of an object.
    Member(String),
    /// The list item at this index. A negative index counts from the end of the list.
    Item(i64),
    /// The list items from a start index up to, but excluding, an end index. Negative indices count from the end of the
    /// list.
    Slice(Option<i64>, Option<i64>),
    /// All list items, or all values of an object.
    All,
    /// The list items whose value at a path passes a comparison with a constant, such as `[?(@.type=='Ready')]`.
    Where(Vec<Hop>, FilterOperator, Json),
    /// The list items that have a value at a path.
    Having(Vec<Hop>),
}

/// The comparison operator of a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilterOperator {
    /// The operator `==`.
    Equal,
    /// The operator `!=`.
    Unequal,
}

/// Parses a JSONPath such as `.spec.items[?(@.type=="x")].name` or
/// `.metadata.annotations['a\.b']`. As in Go's library, filters cannot be nested.
///
/// # Errors
///
/// Returns a short description of the syntax error.
pub fn parse(text: &str) -> Result<Vec<Hop>, String> {
    steps(text, false)
}

fn steps(text: &str, in_filter: bool) -> Result<Vec<Hop>, String> {
    let mut steps = Vec::new();
    let mut rest = text.strip_prefix('$').or_else(|| text.strip_prefix('@')).unwrap_or(text);
    while !rest.is_empty() {
        rest = match rest.strip_prefix('[') {
            Some(inside) => {
                let end = closing(inside).ok_or("unterminated array")?;
                steps.push(bracket(&inside[..end], in_filter)?);
                &inside[end + 1..]
            }
            None => {
                let name = rest.strip_prefix('.').unwrap_or(rest);
                let (name, after) = member_name(name);
                if name == "*" {
                    steps.push(Hop::All);
                } else if !name.is_empty() {
                    steps.push(Hop::Member(name));
                } else if after.is_empty() || after.starts_with('.') {
                    return Err(format!("empty name in {text:?}"));
                }
                after
            }
        };
    }
    Ok(steps)
}

/// Returns all values at a path.
pub fn find<'a>(steps: &[Hop], value: &'a Json) -> Vec<&'a Json> {
    let mut found = vec![value];
    for step in steps {
        found = found.into_iter().flat_map(|value| apply(step, value)).collect();
    }
    found
}

/// Returns the value at a path that consists of member names. The leading dot of the path is optional.
pub fn lookup<'a>(path: &str, value: &'a Json) -> Option<&'a Json> {
    path.trim_start_matches('.').split('.').try_fold(value, |value, name| value.get(name))
}

fn apply<'a>(step: &Hop, value: &'a Json) -> Vec<&'a Json> {
    match step {
        Hop::Member(name) => value.get(name).into_iter().collect(),
        Hop::Item(at) => {
            let Some(items) = value.as_array() else { return Vec::new() };
            let at = if *at < 0 { i64::try_from(items.len()).unwrap_or(i64::MAX) + at } else { *at };
            usize::try_from(at).ok().and_then(|at| items.get(at)).into_iter().collect()
        }
        Hop::Slice(from, to) => {
            let Some(items) = value.as_array() else { return Vec::new() };
            let length = i64::try_from(items.len()).unwrap_or(i64::MAX);
            let place = |at: i64| usize::try_from(if at < 0 { length + at } else { at }.clamp(0, length)).unwrap_or(0);
            let (from, to) = (place(from.unwrap_or(0)), place(to.unwrap_or(length)));
            items.get(from..to).into_iter().flatten().collect()
        }
        Hop::All => children(value),
        Hop::Where(path, comparison, wanted) => {
            let matches_filter = |item: &&Json| {
                let equal = find(path, item).first().is_some_and(|found| *found == wanted);
                equal == (*comparison == FilterOperator::Equal)
            };
            children(value).into_iter().filter(matches_filter).collect()
        }
        Hop::Having(path) => children(value).into_iter().filter(|item| !find(path, item).is_empty()).collect(),
    }
}

fn children(value: &Json) -> Vec<&Json> {
    match value {
        Json::Array(items) => items.iter().collect(),
        Json::Object(members) => members.values().collect(),
        _ => Vec::new(),
    }
}

/// Returns the index of the matching closing bracket. Skips nested brackets and brackets in quotes.
fn closing(text: &str) -> Option<usize> {
    let (mut depth, mut quote) = (0_u32, None);
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(c),
            (None, '[') => depth += 1,
            (None, ']') if depth == 0 => return Some(at),
            (None, ']') => depth -= 1,
            _ => {}
        }
    }
    None
}

fn bracket(inside: &str, in_filter: bool) -> Result<Hop, String> {
    let inside = inside.trim();
    if inside == "*" {
        return Ok(Hop::All);
    }
    if let Some(name) = quoted(inside) {
        return Ok(Hop::Member(name.replace("\\.", ".")));
    }
    if let Some(filter) = inside.strip_prefix("?(").and_then(|filter| filter.strip_suffix(')')) {
        return if in_filter { Err("a filter within a filter".into()) } else { parse_filter(filter.trim()) };
    }
    if let Some((from, to)) = inside.split_once(':') {
        let bound = |text: &str| match text.trim() {
            "" => Ok(None),
            text => text.parse().map(Some).map_err(|_| format!("invalid array index {inside}")),
        };
        return Ok(Hop::Slice(bound(from)?, bound(to)?));
    }
    inside.parse().map(Hop::Item).map_err(|_| format!("invalid array index {inside}"))
}

fn parse_filter(filter: &str) -> Result<Hop, String> {
    for (operator, comparison) in [("==", FilterOperator::Equal), ("!=", FilterOperator::Unequal)] {
        if let Some((path, wanted)) = filter.split_once(operator) {
            let wanted = wanted.trim();
            let wanted = match quoted(wanted) {
                Some(text) => Json::from(text),
                None => serde_json::from_str(wanted).map_err(|_| format!("cannot compare with {wanted}"))?,
            };
            return Ok(Hop::Where(steps(path.trim(), true)?, comparison, wanted));
        }
    }
    steps(filter, true).map(Hop::Having)
}

fn quoted(text: &str) -> Option<&str> {
    ['\'', '"'].iter().find_map(|quote| text.strip_prefix(*quote)?.strip_suffix(*quote))
}

/// Reads a member name up to the next dot or bracket. A backslash escapes the next character.
fn member_name(text: &str) -> (String, &str) {
    let (mut name, mut chars) = (String::new(), text.char_indices());
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => name.extend(chars.next().map(|(_, c)| c)),
            '.' | '[' => return (name, &text[at..]),
            c => name.push(c),
        }
    }
    (name, "")
}
