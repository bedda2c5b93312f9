//! Determines the event that a watch sends for a change.

use std::sync::Arc;

use pintle_meta::WatchEventType;
use pintle_storage::{Change, ChangeKind, Stored};

use crate::registry::{Selection, Served};

pub(crate) struct WatchEvent {
    pub(crate) kind: WatchEventType,
    pub(crate) object: Served,
}

impl WatchEvent {
    /// Returns the event for a change, or `None` if the watch sends no event. If the object did not match the selectors
    /// before the change but matches now, the event is ADDED. If the object no longer matches the selectors, the event
    /// is DELETED, with the previous content and the new revision.
    pub(crate) fn of(change: &Change, selection: &Selection) -> Option<Self> {
        if !change.key.starts_with(selection.range().prefix()) {
            return None;
        }
        let kind = &selection.kind;
        let matches = change.kind != ChangeKind::Deleted && selection.matches(&change.new);
        let matched = change.old.as_ref().is_some_and(|old| selection.matches(old));
        let event = |event, stored: &Arc<Stored>| Some(Self { kind: event, object: Served::stored(kind, stored) });
        match (matched, matches) {
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
