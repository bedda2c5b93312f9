//! Watch events, and the parser for the frames of a watch response.

use std::borrow::Cow;

use bytes::Bytes;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::error::ApiError;
use crate::null::or_empty;
use crate::raw_object::RawObject;
use crate::redacted::DecodeError;
use crate::status::Status;
use crate::watch_event_type::WatchEventType;

/// A watch event. In a `WatchEvent<RawObject>`, the object has not been decoded yet.
///
/// # Examples
///
/// ```
/// use bytes::Bytes;
/// use pintle_meta::{ApiError, Object, PartialObject, WatchEvent};
///
/// let frame = Bytes::from(r#"{"type": "ADDED", "object": {"kind": "Pod", "metadata": {"name": "web"}}}"#);
/// match WatchEvent::parse(&frame)?.decode::<PartialObject>()? {
///     WatchEvent::Added(pod) | WatchEvent::Modified(pod) => assert_eq!(pod.name(), "web"),
///     WatchEvent::Deleted(pod) => println!("{} is gone", pod.name()),
///     WatchEvent::Bookmark(mark) => println!("all events up to {} were received", mark.resource_version),
///     WatchEvent::Error(status) => return Err(ApiError::from(*status)),
/// }
/// # Ok::<(), ApiError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum WatchEvent<T> {
    /// The object was created or has started to match the selector.
    Added(T),
    /// The object changed.
    Modified(T),
    /// The object was deleted or no longer matches the selector. The event contains the last state of the object.
    Deleted(T),
    /// A bookmark, which shows that the server has sent all events up to the bookmark's revision.
    Bookmark(Bookmark),
    /// The server ends the watch with this error.
    Error(Box<Status>),
}

/// A bookmark event, which shows that the server has sent all events up to the bookmark's revision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bookmark {
    /// The revision from which the next watch should start.
    pub resource_version: String,
    /// Whether this bookmark marks the end of the initial events in a streaming list.
    pub initial_events_end: bool,
}

impl<T> WatchEvent<T> {
    /// Returns the event type.
    pub fn event_type(&self) -> WatchEventType {
        match self {
            Self::Added(_) => WatchEventType::Added,
            Self::Modified(_) => WatchEventType::Modified,
            Self::Deleted(_) => WatchEventType::Deleted,
            Self::Bookmark(_) => WatchEventType::Bookmark,
            Self::Error(_) => WatchEventType::Error,
        }
    }

    /// Replaces the object in the event with the result of `change`.
    ///
    /// # Errors
    ///
    /// Returns the error from `change`.
    pub fn try_map<U, E>(self, change: impl FnOnce(T) -> Result<U, E>) -> Result<WatchEvent<U>, E> {
        Ok(match self {
            Self::Added(object) => WatchEvent::Added(change(object)?),
            Self::Modified(object) => WatchEvent::Modified(change(object)?),
            Self::Deleted(object) => WatchEvent::Deleted(change(object)?),
            Self::Bookmark(bookmark) => WatchEvent::Bookmark(bookmark),
            Self::Error(status) => WatchEvent::Error(status),
        })
    }

    /// Replaces the object in the event with the result of `change`.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> WatchEvent<U> {
        match self.try_map(|object| Ok::<U, std::convert::Infallible>(change(object))) {
            Ok(event) => event,
            Err(never) => match never {},
        }
    }
}

impl WatchEvent<RawObject> {
    /// Parses a watch frame of the form `{"type": …, "object": …}`. The returned event shares the memory of the frame.
    /// This function decodes only the objects in bookmark and error events.
    ///
    /// # Errors
    ///
    /// Returns an error if the frame is not JSON of this form, or if the event type is unknown. Invalid UTF-8 inside an
    /// object is not detected until the object is decoded.
    pub fn parse(frame: &Bytes) -> Result<Self, ApiError> {
        #[derive(Deserialize)]
        struct Frame<'a> {
            #[serde(borrow, rename = "type")]
            event: Cow<'a, str>,
            #[serde(borrow)]
            object: &'a RawValue,
        }
        let text = legible(frame);
        let Frame { event, object } =
            serde_json::from_str(&text).map_err(|error| unreadable("no watch frame", error))?;
        let at = object.get().as_ptr().addr() - text.as_ptr().addr();
        let json = frame.slice(at..at + object.get().len());
        let of_type = |error| unreadable(&format!("a watch frame of type {event}"), error);
        Ok(match event.parse().map_err(ApiError::decode)? {
            WatchEventType::Added => Self::Added(json.into()),
            WatchEventType::Modified => Self::Modified(json.into()),
            WatchEventType::Deleted => Self::Deleted(json.into()),
            WatchEventType::Bookmark => Self::Bookmark(serde_json::from_slice::<Mark>(&json).map_err(of_type)?.into()),
            WatchEventType::Error => Self::Error(serde_json::from_slice(&json).map_err(of_type)?),
        })
    }

    /// Decodes the object of the event.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`RawObject::decode`].
    pub fn decode<T: DeserializeOwned>(self) -> Result<WatchEvent<T>, ApiError> {
        self.try_map(|object| object.decode())
    }
}

fn unreadable(what: &str, error: serde_json::Error) -> ApiError {
    ApiError::decode(format!("{what}: {}", DecodeError::from(error)))
}

/// Returns the frame as a string of the same length, in which `?` replaces each invalid byte. The replacement does not
/// change the structure of the JSON, because invalid UTF-8 can only occur inside strings of valid JSON.
fn legible(frame: &[u8]) -> Cow<'_, str> {
    str::from_utf8(frame).map(Cow::Borrowed).unwrap_or_else(|_| {
        let mut text = String::with_capacity(frame.len());
        for chunk in frame.utf8_chunks() {
            text.push_str(chunk.valid());
            text.extend(chunk.invalid().iter().map(|_| '?'));
        }
        Cow::Owned(text)
    })
}

#[derive(Deserialize)]
struct Mark {
    metadata: MarkMeta,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct MarkMeta {
    #[serde(default, deserialize_with = "or_empty")]
    resource_version: String,
    annotations: Option<Annotations>,
}

#[derive(Deserialize)]
struct Annotations {
    #[serde(default, deserialize_with = "or_empty", rename = "k8s.io/initial-events-end")]
    end: String,
}

impl From<Mark> for Bookmark {
    fn from(Mark { metadata }: Mark) -> Self {
        let initial_events_end = metadata.annotations.is_some_and(|annotations| annotations.end == "true");
        Self { resource_version: metadata.resource_version, initial_events_end }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DynamicObject, StatusCause, StatusDetails, TypeMeta};

    fn decode(frame: &str) -> Result<WatchEvent<DynamicObject>, String> {
        let event = WatchEvent::parse(&Bytes::copy_from_slice(frame.as_bytes()));
        event.and_then(WatchEvent::decode).map_err(|error| error.to_string())
    }

    #[test]
    fn bookmark_has_revision_and_end_of_initial_events() {
        let plain = r#"{"type":"BOOKMARK","object":{"kind":"Pod","metadata":{"resourceVersion":"7"}}}"#;
        let expected = Bookmark { resource_version: "7".into(), initial_events_end: false };
        assert_eq!(decode(plain), Ok(WatchEvent::Bookmark(expected.clone())));

        let end = r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"7",
            "annotations":{"k8s.io/initial-events-end":"true"}}}}"#;
        assert_eq!(decode(end), Ok(WatchEvent::Bookmark(Bookmark { initial_events_end: true, ..expected })));
    }

    #[test]
    fn error_frame_contains_a_status() {
        let frame = r#"{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"too old"}}"#;
        let Ok(WatchEvent::Error(status)) = decode(frame) else { panic!("not an error event") };
        assert!(ApiError::from(*status).is_expired());
    }

    #[test]
    fn null_in_an_error_frame_is_the_empty_value() {
        let null = r#"{"type":"ERROR","object":{"kind":"Status","apiVersion":null,"metadata":null,"status":null,"message":null,
            "reason":null,"details":{"name":null,"group":null,"kind":null,"uid":null,"causes":[null,{"reason":null,
            "message":null,"field":null}],"retryAfterSeconds":null},"code":410}}"#;
        let Ok(WatchEvent::Error(status)) = decode(null) else { panic!("{:?}", decode(null)) };
        let details = StatusDetails { causes: vec![StatusCause::default(); 2], ..StatusDetails::default() };
        let types = TypeMeta { kind: "Status".into(), ..TypeMeta::default() };
        assert_eq!(*status, Status { types, code: 410, details: Some(details), ..Status::default() });
        assert!(ApiError::from(*status).is_expired());
        let nothing = r#"{"type":"ERROR","object":{"details":{"causes":null},"code":null,"reason":""}}"#;
        let nothing_much = Status { details: Some(StatusDetails::default()), ..Status::default() };
        assert_eq!(decode(nothing), Ok(WatchEvent::Error(nothing_much.into())));
    }

    #[test]
    fn event_type_with_json_escape_is_parsed() {
        let frame = r#"{"\u0074ype":"ADD\u0045D","object":{"metadata":{"name":"a"}}}"#;
        let Ok(WatchEvent::Added(object)) = decode(frame) else { panic!("{:?}", decode(frame)) };
        assert_eq!(object.metadata.name, "a");
    }

    #[test]
    fn debug_and_errors_do_not_show_object_contents() {
        let frame = Bytes::from_static(br#"{"type":"ADDED","object":{"data":"hush"}}"#);
        assert_eq!(format!("{:?}", WatchEvent::parse(&frame).unwrap()), "Added(Json([15 bytes]))");
        for frame in [
            r#"{"type":"ADDED","object":{"metadata":{"name":["hush"]}}}"#,
            r#"{"type":"ADDED","object":"hush"}"#,
            r#"{"type":"BOOKMARK","object":{"metadata":"hush"}}"#,
            r#"{"type":"ERROR","object":"hush"}"#,
            r#"{"type":{"hush":"hush"},"object":{}}"#,
            r#""hush""#,
        ] {
            let error = decode(frame).unwrap_err();
            assert!(!error.contains("hush") && error.contains("expected"), "{error}");
        }
    }

    #[test]
    fn unknown_frame_type_is_named_in_the_error() {
        let error = decode(r#"{"type":"NEWS","object":{}}"#).unwrap_err();
        assert!(error.contains("NEWS"), "{error}");
    }

    #[test]
    fn object_shares_the_memory_of_its_frame() {
        let frame = Bytes::from_static(br#"{"type":"ADDED","object":{"spec": 1}}"#);
        let Ok(WatchEvent::Added(RawObject::Json(object))) = WatchEvent::parse(&frame) else {
            panic!("not an added event")
        };
        assert_eq!(object, br#"{"spec": 1}"#.as_slice());
        assert!(frame.as_ptr_range().contains(&object.as_ptr()));
    }

    #[test]
    fn invalid_utf8_is_rejected_by_the_decoder() {
        let frame =
            Bytes::from_static(b"{\"type\":\"ADDED\",\"x\":\"\xe2\x82\",\"object\":{\"spec\":\"\xff\xc3\xa4\xc3\"}}");
        let Ok(WatchEvent::Added(RawObject::Json(object))) = WatchEvent::parse(&frame) else {
            panic!("not an added event")
        };
        assert_eq!(object, b"{\"spec\":\"\xff\xc3\xa4\xc3\"}".as_slice(), "the bytes are unchanged");
        let frame = |kind: &[u8]| {
            let object = b"\",\"object\":{\"metadata\":{\"resourceVersion\":\"7\xff\"}}}";
            Bytes::from([b"{\"type\":\"", kind, object].concat())
        };
        assert!(WatchEvent::parse(&frame(b"MODIFIED")).is_ok());
        assert!(WatchEvent::parse(&frame(b"BOOKMARK")).is_err(), "a watch cannot resume from an undecodable revision");
        assert!(WatchEvent::parse(&frame(b"MODI\xff")).is_err());
    }
}
