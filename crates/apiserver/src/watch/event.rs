//! What a change means for one watch.

use pintle_meta::WatchEventType;
use serde_json::Value;

use crate::object::metadata_mut;
use crate::registry::{Selection, Served};
use crate::store::{Change, ChangeKind};

/// An event as one watch sees it.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) kind: WatchEventType,
    pub(crate) object: Served,
    /// The object is the change's new one, as it is stored.
    pub(crate) is_new: bool,
}

impl Event {
    /// An object that comes to be selected is added; one that ceases to be is deleted, and shown as it was.
    pub(crate) fn of(change: &Change, selection: &Selection) -> Option<Self> {
        if !change.key.starts_with(selection.range().prefix()) {
            return None;
        }
        let kind = &selection.kind;
        let new = Served::stored(kind, &change.new);
        let matches = |shown: &Value| selection.is_everything() || selection.matches(shown);
        let is_in = change.kind != ChangeKind::Deleted && matches(&new.value);
        let was_in = change.old.as_ref().is_some_and(|old| matches(&kind.shown_stored(old)));
        let event = |event, object, is_new| Some(Self { kind: event, object, is_new });
        match (was_in, is_in) {
            (false, false) => None,
            (false, true) => event(WatchEventType::Added, new, true),
            (true, true) => event(WatchEventType::Modified, new, true),
            (true, false) if change.kind == ChangeKind::Deleted => event(WatchEventType::Deleted, new, true),
            (true, false) => {
                let mut old = Value::clone(&kind.shown_stored(change.old.as_ref()?));
                metadata_mut(&mut old).insert("resourceVersion".into(), change.revision.to_string().into());
                event(WatchEventType::Deleted, Served::value(kind, old), false)
            }
        }
    }
}
