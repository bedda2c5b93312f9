//! What a change means for one watch.

use std::sync::Arc;

use pintle_meta::WatchEventType;

use crate::registry::{Selection, Served};
use crate::store::{Change, ChangeKind, Stored};

/// An event as one watch sees it.
pub(crate) struct WatchEvent {
    pub(crate) kind: WatchEventType,
    pub(crate) object: Served,
}

impl WatchEvent {
    /// An object that comes to be selected is added; one that ceases to be is deleted, and shown as it was.
    pub(crate) fn of(change: &Change, selection: &Selection) -> Option<Self> {
        if !change.key.starts_with(selection.range().prefix()) {
            return None;
        }
        let kind = &selection.kind;
        let is_in = change.kind != ChangeKind::Deleted && selection.matches(&change.new);
        let was_in = change.old.as_ref().is_some_and(|old| selection.matches(old));
        let event = |event, stored: &Arc<Stored>| Some(Self { kind: event, object: Served::stored(kind, stored) });
        match (was_in, is_in) {
            (false, false) => None,
            (false, true) => event(WatchEventType::Added, &change.new),
            (true, true) => event(WatchEventType::Modified, &change.new),
            (true, false) if change.kind == ChangeKind::Deleted => event(WatchEventType::Deleted, &change.new),
            (true, false) => event(WatchEventType::Deleted, &Arc::new(change.old.as_ref()?.at(change.revision()))),
        }
    }
}

#[cfg(test)]
assert_no_debug!(WatchEvent);
