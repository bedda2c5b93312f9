//! Splits a stream of bytes into the frames of a watch.

use std::collections::VecDeque;

use bytes::Bytes;
use pintle_meta::__private::{Brackets, End, Shape};
use pintle_meta::{ApiError, Oversized, RawObject, WatchEvent, WatchEventType};
use thiserror::Error;

use crate::oversized::BoundedBuffer;

/// Splits a stream of bytes into JSON values. In a watch, each JSON value is a frame.
///
/// A frame is a JSON object or array. White space between frames is ignored. Chunks can start and end at any byte.
/// Frames that arrive in a single chunk are not copied.
///
/// A frame ends with the bracket that closes its first bracket. The content is not validated, so decode the frame to
/// find other errors. Text that cannot be a frame is returned up to the first invalid byte, and decoding this text as
/// an event returns an error. A `FrameSplitter` does no I/O.
///
/// # Examples
///
/// ```
/// use pintle_restreq::FrameSplitter;
///
/// let mut splitter = FrameSplitter::new(1024);
/// splitter.push("{\"type\":\"ADDED\"}\n{\"ty".into());
/// assert_eq!(splitter.next_frame(), Some(Ok("{\"type\":\"ADDED\"}".into())));
/// assert_eq!(splitter.next_frame(), None);
/// splitter.push("pe\":\"DELETED\"}".into());
/// assert_eq!(splitter.next_frame(), Some(Ok("{\"type\":\"DELETED\"}".into())));
/// assert!(splitter.is_between_frames());
/// ```
pub struct FrameSplitter {
    /// The chunks that have not been processed yet. The queue is short, because the caller takes all complete frames
    /// before it pushes another chunk.
    chunks: VecDeque<Bytes>,
    frame: BoundedBuffer,
    brackets: Brackets,
}

/// The error for a frame that exceeds the size limit and was skipped.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("a frame is too large: {object}")]
pub struct FrameTooLarge {
    /// The event type, or `None` if the frame contained no event type or is not valid JSON.
    pub event_type: Option<WatchEventType>,
    /// The data that was extracted from the object before it was skipped.
    pub object: Oversized,
}

impl FrameSplitter {
    /// Creates a `FrameSplitter` that skips frames larger than `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self { chunks: VecDeque::new(), frame: BoundedBuffer::frames(limit), brackets: Brackets::default() }
    }

    /// Appends a chunk of the stream.
    pub fn push(&mut self, chunk: Bytes) {
        if !chunk.is_empty() {
            self.chunks.push_back(chunk);
        }
    }

    /// Returns the next frame. Returns `None` until another complete frame has arrived.
    ///
    /// # Errors
    ///
    /// Returns an error if the next frame exceeds the size limit. After an oversized frame, the next call returns the
    /// frame that follows.
    pub fn next_frame(&mut self) -> Option<Result<Bytes, FrameTooLarge>> {
        Some(self.next_shaped()?.map(|(frame, _)| frame))
    }

    /// Returns the event in the next frame, without validating its object. Returns `None` until another complete frame
    /// has arrived.
    ///
    /// # Errors
    ///
    /// Returns an error if the next frame exceeds the size limit or does not contain an event.
    pub(crate) fn next_event(&mut self) -> Option<Result<WatchEvent<RawObject>, ApiError>> {
        Some(match self.next_shaped()? {
            Ok((frame, shape)) => match usual_event(&frame, shape) {
                Some(event) => Ok(event),
                None => WatchEvent::parse(&frame),
            },
            Err(too_large) => oversized_event(too_large).map_err(ApiError::decode),
        })
    }

    fn next_shaped(&mut self) -> Option<Result<(Bytes, Shape), FrameTooLarge>> {
        while let Some(mut chunk) = self.chunks.pop_front() {
            if self.frame.is_empty() {
                let start = chunk.iter().position(|byte| !byte.is_ascii_whitespace()).unwrap_or(chunk.len());
                let _ = chunk.split_to(start);
            }
            let Some(End { at, shape }) = self.brackets.read(&chunk) else {
                self.frame.push(&chunk);
                continue;
            };
            let last = chunk.split_to(at);
            if !chunk.is_empty() {
                self.chunks.push_front(chunk);
            }
            self.brackets = Brackets::default();
            return Some(match self.frame.finish(last) {
                Ok(whole) => Ok((whole, shape)),
                Err(found) => {
                    let event_type = found.event_type.filter(|_| shape != Shape::Invalid);
                    Err(FrameTooLarge { event_type, object: found.object })
                }
            });
        }
        None
    }

    /// Returns `true` if no incomplete frame is buffered. If a stream ends while an incomplete frame is buffered, the
    /// stream was cut off.
    pub fn is_between_frames(&self) -> bool {
        self.frame.is_empty() && self.chunks.iter().all(|chunk| chunk.iter().all(u8::is_ascii_whitespace))
    }
}

/// Returns the event of a frame that contains only a type and an object, which is the format of API servers. Returns
/// `None` for other frames, and for bookmark and error events, which do not contain an object of the resource.
fn usual_event(frame: &Bytes, shape: Shape) -> Option<WatchEvent<RawObject>> {
    // If the object is the only nested value, it ends before the last bracket of the frame.
    if shape != (Shape::Balanced { nested: 1 }) || !frame.ends_with(b"}}") {
        return None;
    }
    let rest = frame.strip_prefix(br#"{"type":""#)?;
    type MakeEvent = fn(RawObject) -> WatchEvent<RawObject>;
    let events: [(&[u8], MakeEvent); 3] =
        [(b"ADDED", WatchEvent::Added), (b"MODIFIED", WatchEvent::Modified), (b"DELETED", WatchEvent::Deleted)];
    let (event, rest) = events.iter().find_map(|(name, event)| Some((event, rest.strip_prefix(*name)?)))?;
    let object = rest.strip_prefix(br#"","object":"#)?.strip_suffix(b"}")?;
    object.starts_with(b"{").then(|| event(frame.slice_ref(object).into()))
}

/// Returns the event for a frame that exceeds the size limit. Returns an error for an oversized bookmark or error event,
/// which is useless without its content.
fn oversized_event(frame: FrameTooLarge) -> Result<WatchEvent<RawObject>, FrameTooLarge> {
    let event = match frame.event_type {
        Some(WatchEventType::Added) => WatchEvent::Added,
        Some(WatchEventType::Modified) => WatchEvent::Modified,
        Some(WatchEventType::Deleted) => WatchEvent::Deleted,
        Some(WatchEventType::Bookmark | WatchEventType::Error) | None => return Err(frame),
    };
    Ok(event(frame.object.into()))
}

// Omits the buffered data, because it contains objects.
pintle_meta::debug_struct!(FrameSplitter { .. });

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::sample::{Index, select};
    use serde::de::IgnoredAny;

    use super::*;

    /// Splits a frame that arrives in chunks of `step` bytes. Returns the frame, and its event if the frame could be
    /// split without a JSON parser.
    fn split(frame: &[u8], step: usize) -> Option<(Bytes, Option<WatchEvent<RawObject>>)> {
        let mut splitter = FrameSplitter::new(1_000);
        frame.chunks(step).for_each(|chunk| splitter.push(Bytes::copy_from_slice(chunk)));
        let (frame, shape) = splitter.next_shaped()?.unwrap();
        let event = usual_event(&frame, shape);
        Some((frame, event))
    }

    #[test]
    fn event_in_the_usual_form_is_not_parsed() {
        let object = || RawObject::Json(r#"{"a":["}",{"type":"x"}]}"#.into());
        for (frame, expected) in [
            (r#"{"type":"ADDED","object":{"a":["}",{"type":"x"}]}}"#, Some(WatchEvent::Added(object()))),
            (r#"{"type":"MODIFIED","object":{"a":["}",{"type":"x"}]}}"#, Some(WatchEvent::Modified(object()))),
            (r#" {"type":"DELETED","object":{"a":["}",{"type":"x"}]}} "#, Some(WatchEvent::Deleted(object()))),
            (r#"{"type":"ADDED","object":{"a":["}",{"type":"x"}]},"x":"}}"}"#, None),
            (r#"{"type":"ADDED","object":{},"x":{}}"#, None),
            (r#"{"type":"ADDED","object":{},"object":{}}"#, None),
            (r#"{"type":"ADDED","object":"","x":{}}"#, None),
            (r#"{"type":"ADDED" ,"object":{}}"#, None),
            (r#"{"type":"MODI\u0046IED","object":{}}"#, None),
            (r#"{"type":"ADDED","object":[]}"#, None),
            (r#"{"type":"BOOKMARK","object":{}}"#, None),
            (r#"{"type":"ERROR","object":{}}"#, None),
            (r#"{"type":"ADDED","object":{}]"#, None),
            (r#"{"type":"ADDED"}"#, None),
        ] {
            for step in 1..=frame.len() {
                let event = split(frame.as_bytes(), step).and_then(|(_, event)| event);
                assert_eq!(event, expected, "{frame} {step}");
            }
        }
    }

    proptest! {
        #[test]
        fn splitter_finds_the_same_events_as_the_parser(
            step in 1..40_usize,
            edits in prop::collection::vec((any::<Index>(), select(b"{}[]:,\"\\ 0tD\xff".to_vec()), any::<bool>()), 0..3),
        ) {
            let mut frame = br#"{"type":"ADDED","object":{"a":["}",{"type":"x"}],"object":"\u00e4","b":{"type":1}}}"#.to_vec();
            for (place, byte, puts_in) in edits {
                let at = place.index(frame.len());
                if puts_in { frame.insert(at, byte) } else { frame[at] = byte }
            }
            if let Some((frame, Some(event))) = split(&frame, step) {
                match WatchEvent::parse(&frame) {
                    Ok(parsed) => prop_assert_eq!(parsed, event, "{:?}", frame),
                    Err(_) => {
                        let (WatchEvent::Added(object) | WatchEvent::Modified(object) | WatchEvent::Deleted(object)) = event
                        else { unreachable!("only these events are found without the parser") };
                        prop_assert!(object.decode::<IgnoredAny>().is_err(), "{:?}", frame);
                    }
                }
            }
        }
    }
}
