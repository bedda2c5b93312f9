//! Matches the elements of a changed list with the elements of the original list.

use std::collections::HashMap;

use serde_json::Value;

/// The fields by which Kubernetes identifies list elements. The first of these fields that identifies all elements of a
/// list is used.
const IDENTITIES: [&str; 7] = ["name", "key", "type", "mountPath", "containerPort", "ip", "uid"];

/// Returns the positions of each element of `after` in `sent` and `before`, or `None` for a new element.
pub(crate) fn origins(sent: &[Value], before: &[Value], after: &[Value]) -> Vec<Option<(usize, usize)>> {
    let identity =
        IDENTITIES.iter().find_map(|field| Some((*field, identities(before, field)?, identities(after, field)?)));
    let field = identity.as_ref().map(|(field, ..)| *field);
    let mut sent_at: Vec<_> = (0..before.len()).collect();
    let mut origins = match identity {
        Some((field, before, after)) => {
            // `sent` and `before` can have different orders, because decoding may sort a list.
            let sent = places(identities(sent, field).unwrap_or_default());
            sent_at = before.iter().enumerate().map(|(at, one)| sent.get(one).copied().unwrap_or(at)).collect();
            let before = places(before);
            after.iter().map(|one| before.get(one).copied()).collect()
        }
        None => equal_elements(before, after),
    };
    match_positions(&mut origins, before, after, field);
    origins.into_iter().map(|origin| origin.map(|at| (sent_at[at], at))).collect()
}

fn places(identities: Vec<String>) -> HashMap<String, usize> {
    identities.into_iter().enumerate().map(|(at, identity)| (identity, at)).collect()
}

/// Returns the value of `field` in each element, or `None` if a value is not unique or not a string or number.
fn identities(list: &[Value], field: &str) -> Option<Vec<String>> {
    let mut all = Vec::with_capacity(list.len());
    for element in list {
        match element.get(field)? {
            identity @ (Value::String(_) | Value::Number(_)) => all.push(identity.to_string()),
            _ => return None,
        }
    }
    let mut sorted = all.clone();
    sorted.sort_unstable();
    sorted.windows(2).all(|pair| pair[0] != pair[1]).then_some(all)
}

/// Matches each element of `after` with an equal element of `before` that is not matched yet. If the lists have the
/// same length, it first matches elements that have not moved.
fn equal_elements(before: &[Value], after: &[Value]) -> Vec<Option<usize>> {
    let is_in_place = |at: usize| before.len() == after.len() && before[at] == after[at];
    let mut places = HashMap::<String, Vec<usize>>::new();
    for (at, element) in before.iter().enumerate().rev().filter(|(at, _)| !is_in_place(*at)) {
        places.entry(element.to_string()).or_default().push(at);
    }
    let origin = |(at, element): (usize, &Value)| {
        if is_in_place(at) { Some(at) } else { places.get_mut(&element.to_string())?.pop() }
    };
    after.iter().enumerate().map(origin).collect()
}

/// If the lists have the same length, matches elements without an origin by their position. If `field` identifies the
/// elements, it only matches elements whose other fields are equal. Each element of the original list is matched at
/// most once.
fn match_positions(origins: &mut [Option<usize>], before: &[Value], after: &[Value], field: Option<&str>) {
    if after.len() != before.len() {
        return;
    }
    let mut is_free = vec![true; before.len()];
    origins.iter().flatten().for_each(|at| is_free[*at] = false);
    for (at, origin) in origins.iter_mut().enumerate().filter(|(at, origin)| is_free[*at] && origin.is_none()) {
        if field.is_none_or(|field| differ_only_in(field, &before[at], &after[at])) {
            *origin = Some(at);
        }
    }
}

/// Returns `true` if two objects with the field `field` are equal except for this field. Ignores the order of lists,
/// because the order of a `HashSet` can change.
fn differ_only_in(field: &str, before: &Value, after: &Value) -> bool {
    let (Value::Object(before), Value::Object(after)) = (sorted(before), sorted(after)) else { return false };
    before.len() == after.len() && before.iter().all(|(name, value)| name == field || after.get(name) == Some(value))
}

/// Sorts the elements of all lists in a value. Sorting is necessary because a `HashSet` can have a different order
/// after each decoding.
pub(crate) fn sorted(value: &Value) -> Value {
    match value {
        Value::Array(list) => {
            let mut list: Vec<_> = list.iter().map(sorted).collect();
            list.sort_by_cached_key(Value::to_string);
            list.into()
        }
        Value::Object(members) => members.iter().map(|(name, member)| (name.clone(), sorted(member))).collect(),
        scalar => scalar.clone(),
    }
}
