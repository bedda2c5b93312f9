//! Matches the elements of a changed list with the elements of the original list.

use std::collections::HashMap;

use serde_json::Value;

/// The fields by which Kubernetes identifies list elements. The first field that identifies all elements is used.
const IDENTITIES: [&str; 7] = ["name", "key", "type", "mountPath", "containerPort", "ip", "uid"];

/// Returns the positions in `sent` and `before` of each element of `after`. A new element has no positions.
pub(crate) fn origins(sent: &[Value], before: &[Value], after: &[Value]) -> Vec<Option<(usize, usize)>> {
    let identity =
        IDENTITIES.iter().find_map(|field| Some((field, identities(before, field)?, identities(after, field)?)));
    let mut sent_at: Vec<_> = (0..before.len()).collect();
    let mut origins = match identity {
        Some((field, before, after)) => {
            // The order of `sent` and `before` differs if decoding sorts the list.
            let sent = places(identities(sent, field).unwrap_or_default());
            sent_at = before.iter().enumerate().map(|(at, one)| sent.get(one).copied().unwrap_or(at)).collect();
            let before = places(before);
            after.iter().map(|one| before.get(one).copied()).collect()
        }
        None => equal_elements(before, after),
    };
    match_positions(&mut origins, before.len());
    origins.into_iter().map(|origin| origin.map(|at| (sent_at[at], at))).collect()
}

fn places(identities: Vec<String>) -> HashMap<String, usize> {
    identities.into_iter().enumerate().map(|(at, identity)| (identity, at)).collect()
}

/// Returns the value of `field` for each element. Returns `None` if two elements have the same value, or if a value is
/// not a string or number.
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

/// Matches each element of `after` with an equal element of `before` that is not matched yet. If the lengths are equal,
/// elements that have not moved are matched first.
fn equal_elements(before: &[Value], after: &[Value]) -> Vec<Option<usize>> {
    let is_in_place = |at: usize| before.len() == after.len() && before[at] == after[at];
    let mut places = HashMap::<String, Vec<usize>>::new();
    for (at, element) in before.iter().enumerate().rev().filter(|(at, _)| !is_in_place(*at)) {
        places.entry(element.to_string()).or_default().push(at);
    }
    let origin = |(at, element): (usize, &Value)| match is_in_place(at) {
        true => Some(at),
        false => places.get_mut(&element.to_string())?.pop(),
    };
    after.iter().enumerate().map(origin).collect()
}

/// Matches the elements that have no origin by position if the lengths of the lists are equal. An element of the
/// original list has at most one match.
fn match_positions(origins: &mut [Option<usize>], before: usize) {
    if origins.len() != before {
        return;
    }
    let mut is_free = vec![true; before];
    origins.iter().flatten().for_each(|at| is_free[*at] = false);
    for (at, origin) in origins.iter_mut().enumerate().filter(|(at, _)| is_free[*at]) {
        origin.get_or_insert(at);
    }
}
