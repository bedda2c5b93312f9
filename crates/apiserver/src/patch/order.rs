//! The order of a list that a strategic merge patch has changed.

use serde_json::Value;

/// The items of `merged`, which are those of the patch (or of its `$setElementOrder`), in its order, and those of the live list
/// alone, in the live order, made one: a live item goes first only if both heads were live and it came first there.
pub(super) fn arrange(merged: Vec<Value>, order: &[Value], live: &[Value], key: Option<&str>) -> Vec<Value> {
    let place = |list: &[Value], item: &Value| list.iter().position(|other| same(other, item, key));
    let (mut named, mut others): (Vec<_>, Vec<_>) = merged.into_iter().partition(|item| place(order, item).is_some());
    named.sort_by_key(|item| place(order, item));
    others.sort_by_key(|item| place(live, item).unwrap_or(usize::MAX));
    let mut out = Vec::with_capacity(named.len() + others.len());
    let (mut named, mut others) = (named.into_iter().peekable(), others.into_iter().peekable());
    loop {
        let other_first = match (others.peek(), named.peek()) {
            (None, None) => return out,
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (Some(other), Some(named)) => match (place(live, other), place(live, named)) {
                (Some(other), Some(named)) => other < named,
                _ => false,
            },
        };
        out.extend(if other_first { others.next() } else { named.next() });
    }
}

/// Whether two items are one: by their key, or by their value where there is none.
pub(super) fn same(a: &Value, b: &Value, key: Option<&str>) -> bool {
    match key {
        Some(key) => a.get(key).is_some_and(|value| b.get(key).is_some_and(|other| go_equal(value, other))),
        None => a == b,
    }
}

/// Go compares the keys as it prints them.
fn go_equal(a: &Value, b: &Value) -> bool {
    super::go_text(a) == super::go_text(b)
}
