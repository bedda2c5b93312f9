use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::{ApiError, Object, PartialObject, Status};

/// One thing that a watch tells.
#[derive(Clone, Debug, PartialEq)]
pub enum WatchEvent<T> {
    /// The object is new, or came to match the selector.
    Added(T),
    /// The object changed.
    Modified(T),
    /// The object is gone, or ceased to match the selector. This is its last state.
    Deleted(T),
    /// Nothing happened up to this revision that this watch did not tell.
    Bookmark(Bookmark),
    /// The server ends the watch, and says why.
    Error(Box<Status>),
}

/// A mark on the way: all before this revision has been told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bookmark {
    /// The revision.
    pub resource_version: String,
    /// Whether the initial events of a streaming list end here.
    pub initial_events_end: bool,
}

/// A frame as it comes over the wire, its object still undecoded: a bookmark or an error holds another type than the rest,
/// and decoding in two steps is faster than an adjacently tagged enum.
#[derive(Debug, Deserialize)]
pub struct RawFrame<'a> {
    /// `ADDED`, `MODIFIED`, `DELETED`, `BOOKMARK` or `ERROR`.
    #[serde(rename = "type")]
    pub event: &'a str,
    /// The object, the bookmark or the status.
    #[serde(borrow)]
    pub object: &'a RawValue,
}

impl RawFrame<'_> {
    /// Decodes the object within.
    ///
    /// # Errors
    ///
    /// [`ApiError::Decode`] if the object is not a `T`, or the type of the frame is unknown.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<WatchEvent<T>, ApiError> {
        Ok(match self.event {
            "ADDED" => WatchEvent::Added(self.object()?),
            "MODIFIED" => WatchEvent::Modified(self.object()?),
            "DELETED" => WatchEvent::Deleted(self.object()?),
            "BOOKMARK" => WatchEvent::Bookmark(bookmark(&self.object()?)),
            "ERROR" => WatchEvent::Error(self.object()?),
            other => {
                return Err(ApiError::Decode(format!("a watch frame of unknown type {other:?}").as_str().to_cause()));
            }
        })
    }

    fn object<U: DeserializeOwned>(&self) -> Result<U, ApiError> {
        serde_json::from_str(self.object.get()).map_err(|error| {
            ApiError::Decode(format!("a watch frame of type {}: {error}", self.event).as_str().to_cause())
        })
    }
}

fn bookmark(object: &PartialObject) -> Bookmark {
    const END: &str = "k8s.io/initial-events-end";
    Bookmark {
        resource_version: object.resource_version().into(),
        initial_events_end: object.metadata.annotations.get(END).is_some_and(|value| value == "true"),
    }
}

trait ToCause {
    fn to_cause(&self) -> crate::Cause;
}

impl ToCause for str {
    fn to_cause(&self) -> crate::Cause {
        Box::<dyn std::error::Error + Send + Sync>::from(self).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DynamicObject;

    fn decode(frame: &str) -> Result<WatchEvent<DynamicObject>, String> {
        let frame: RawFrame<'_> = serde_json::from_str(frame).map_err(|error| error.to_string())?;
        frame.decode().map_err(|error| error.to_string())
    }

    #[test]
    fn a_bookmark_tells_its_revision_and_whether_it_ends_the_initial_events() {
        let plain = r#"{"type":"BOOKMARK","object":{"kind":"Pod","metadata":{"resourceVersion":"7"}}}"#;
        let expected = Bookmark { resource_version: "7".into(), initial_events_end: false };
        assert_eq!(decode(plain), Ok(WatchEvent::Bookmark(expected.clone())));

        let end = r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"7",
            "annotations":{"k8s.io/initial-events-end":"true"}}}}"#;
        assert_eq!(decode(end), Ok(WatchEvent::Bookmark(Bookmark { initial_events_end: true, ..expected })));
    }

    #[test]
    fn an_error_frame_holds_a_status() {
        let frame = r#"{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"too old"}}"#;
        let Ok(WatchEvent::Error(status)) = decode(frame) else { panic!("not an error event") };
        assert!(ApiError::from(*status).is_expired());
    }

    #[test]
    fn an_unknown_frame_names_its_type() {
        let error = decode(r#"{"type":"NEWS","object":{}}"#).unwrap_err();
        assert!(error.contains("NEWS"), "{error}");
    }
}
