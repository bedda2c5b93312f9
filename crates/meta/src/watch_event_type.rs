//! Watch event types.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The type of a watch event, like Kubernetes' `watch.EventType`. The string form of an event type is in upper case,
/// such as `ADDED`.
///
/// # Examples
///
/// ```
/// use pintle_meta::WatchEventType;
///
/// assert_eq!("ADDED".parse(), Ok(WatchEventType::Added));
/// assert_eq!(WatchEventType::Bookmark.as_str(), "BOOKMARK");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum WatchEventType {
    /// The object was created or has started to match the selector.
    Added,
    /// The object changed.
    Modified,
    /// The object was deleted or no longer matches the selector.
    Deleted,
    /// No object changed. The server has sent all events up to the resourceVersion of the bookmark.
    Bookmark,
    /// The server ends the watch. The event contains a `Status`, which describes the reason.
    Error,
}

impl WatchEventType {
    const ALL: [Self; 5] = [Self::Added, Self::Modified, Self::Deleted, Self::Bookmark, Self::Error];

    /// Returns the type in the form that is used in a watch frame, such as `ADDED`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
            Self::Bookmark => "BOOKMARK",
            Self::Error => "ERROR",
        }
    }
}

impl fmt::Display for WatchEventType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for WatchEventType {
    type Err = UnknownWatchEventType;

    /// Parses the value of `type` in a watch frame.
    ///
    /// # Errors
    ///
    /// Returns an error if `text` is not a known type.
    fn from_str(text: &str) -> Result<Self, UnknownWatchEventType> {
        Self::ALL
            .into_iter()
            .find(|known| known.as_str() == text)
            .ok_or_else(|| UnknownWatchEventType { text: text.into() })
    }
}

/// The error for an unknown [`WatchEventType`].
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{text:?} is not a watch event type: expected ADDED, MODIFIED, DELETED, BOOKMARK or ERROR")]
pub struct UnknownWatchEventType {
    text: Box<str>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_type_roundtrips() {
        for (event_type, text) in
            WatchEventType::ALL.into_iter().zip(["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"])
        {
            assert_eq!((event_type.as_str(), text.parse()), (text, Ok(event_type)));
            let json = format!("{text:?}");
            assert_eq!(serde_json::to_string(&event_type).unwrap(), json);
            assert_eq!(serde_json::from_str::<WatchEventType>(&json).unwrap(), event_type);
        }
        let error = "Added".parse::<WatchEventType>().unwrap_err().to_string();
        assert_eq!(error, "\"Added\" is not a watch event type: expected ADDED, MODIFIED, DELETED, BOOKMARK or ERROR");
    }
}
