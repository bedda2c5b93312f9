//! Orders a list with a `$setElementOrder` directive.

use pintle_json::Json;

use super::check::item_key;
use super::order::Places;
use super::{PatchError, go_text};

pub(super) const PATCH: &str = "$patch";

/// Checks that `$setElementOrder` contains all items that the patch adds or changes, in the same order.
pub(super) fn check_order(patch: &[Json], order: &[Json], key: Option<&str>) -> Result<(), PatchError> {
    if order.is_empty() || patch.is_empty() {
        return Ok(());
    }
    let deleted = |item: &Json| item[PATCH].as_str() == Some("delete");
    let mut kept = patch.iter().filter(|item| key.is_none() || !deleted(item)).peekable();
    for item in order {
        while kept.next_if(|next| next.get(PATCH).is_some()).is_some() {}
        let Some(next) = kept.peek() else { return Ok(()) };
        if item_key(next, key)? == item_key(item, key)? {
            kept.next();
        }
    }
    match kept.peek() {
        None => Ok(()),
        Some(_) => Err(PatchError::Directive(format!(
            "The order in patch list:\n{}\n doesn't match $setElementOrder list:\n{}\n",
            go_text(&patch.to_vec().into()),
            go_text(&order.to_vec().into())
        ))),
    }
}

/// Returns the live list after Go has merged the patch into it. Go removes deleted items in place, and appends new
/// items to the same array. As a result, new items take the positions of deleted items.
pub(super) fn live_order(live: Vec<Json>, patch: Vec<Json>, key: &str) -> Vec<Json> {
    let (directives, new): (Vec<_>, Vec<_>) = patch.into_iter().partition(|item| item.get(PATCH).is_some());
    let (replaces, deletes): (Vec<_>, Vec<_>) =
        directives.into_iter().partition(|item| item[PATCH].as_str() == Some("replace"));
    let deleted = Places::new(&deletes, Some(key));
    let length = live.len();
    let mut rest: Vec<_> = live.into_iter().filter(|item| deleted.of(item).is_none()).collect();
    if replaces.is_empty() {
        let mut known = Places::new(&rest, Some(key));
        let added: Vec<_> =
            new.iter().filter(|item| known.insert(item, 0)).take(length - rest.len()).cloned().collect();
        rest.extend(added);
    }
    rest
}
