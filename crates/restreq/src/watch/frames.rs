//! Splits a stream of bytes into the frames of a watch.

use std::collections::VecDeque;
use std::ops::Range;

use bytes::Bytes;
use pintle_meta::{Oversized, RawObject, WatchEvent, WatchEventType};
use thiserror::Error;

use crate::json::{Container, Json, Token};
use crate::oversized::BoundedBuffer;

/// Splits a stream of bytes into JSON values. In a watch, each of these values is a frame.
///
/// A frame is a JSON object or array. White space between frames is ignored. Chunks can start and end at any byte.
/// Frames that arrive in a single chunk are not copied.
///
/// If a frame is not valid JSON, it ends at the first invalid byte. Decoding such a frame returns an error. A
/// `FrameSplitter` does no I/O.
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
    /// The chunks that have not been processed yet. The queue stays short, because the caller takes all complete frames
    /// before it pushes another chunk.
    chunks: VecDeque<Bytes>,
    frame: BoundedBuffer,
    json: Json,
    /// The number of bytes of the current frame that were in previous chunks.
    before: usize,
    members: Members,
}

const MEMBER: usize = 1;

/// The error for a frame that exceeds the size limit. The frame was skipped.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("a frame is too large: {object}")]
pub struct FrameTooLarge {
    /// The event type. `None` if the frame contained no event type or was not valid JSON.
    pub event_type: Option<WatchEventType>,
    /// The data that was extracted from the object before it was skipped.
    pub object: Oversized,
}

impl FrameSplitter {
    /// Creates a `FrameSplitter` that skips frames larger than `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self {
            chunks: VecDeque::new(),
            frame: BoundedBuffer::frames(limit),
            json: Json::new(MEMBER),
            before: 0,
            members: Members::default(),
        }
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
    /// Returns an error if the next frame exceeds the size limit. The next call returns the frame that follows.
    pub fn next_frame(&mut self) -> Option<Result<Bytes, FrameTooLarge>> {
        Some(self.next_marked()?.map(|(frame, _)| frame))
    }

    /// Returns the next frame. If the frame is an event in the usual form, also returns its type and the position of
    /// its object.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`next_frame`](Self::next_frame).
    pub(crate) fn next_marked(&mut self) -> Option<Result<(Bytes, Option<Mark>), FrameTooLarge>> {
        while let Some(mut chunk) = self.chunks.pop_front() {
            if self.frame.is_empty() {
                let start = chunk.iter().position(|byte| !byte.is_ascii_whitespace()).unwrap_or(chunk.len());
                let _ = chunk.split_to(start);
            }
            let Some((end, is_json)) = self.end_of_frame(&chunk) else {
                self.before += chunk.len();
                self.frame.push(&chunk);
                continue;
            };
            let last = chunk.split_to(end);
            if !chunk.is_empty() {
                self.chunks.push_front(chunk);
            }
            self.json = Json::new(MEMBER);
            self.before = 0;
            let mark = std::mem::take(&mut self.members).mark().filter(|_| is_json);
            return Some(match self.frame.finish(last) {
                Ok(whole) => Ok((whole, mark)),
                Err(found) => {
                    let event_type = found.event_type.filter(|_| is_json);
                    Err(FrameTooLarge { event_type, object: found.object })
                }
            });
        }
        None
    }

    /// Returns `true` if no incomplete frame is buffered. A stream may only end between two frames.
    pub fn is_between_frames(&self) -> bool {
        self.frame.is_empty() && self.chunks.iter().all(|chunk| chunk.iter().all(u8::is_ascii_whitespace))
    }

    fn end_of_frame(&mut self, chunk: &[u8]) -> Option<(usize, bool)> {
        let mut at = 0;
        loop {
            match self.json.next(&chunk[at..], MEMBER) {
                Ok(None) => return None,
                Ok(Some((taken, token))) => {
                    at += taken;
                    if self.json.depth() == 0 {
                        return Some((at, true));
                    }
                    self.members.record(token, &self.json, self.before + at);
                }
                Err(fault) => return Some((at + fault + 1, false)),
            }
        }
    }
}

/// The type of an event and the position of its object in the frame.
#[derive(Debug, PartialEq)]
pub(crate) struct Mark {
    event_type: WatchEventType,
    object: Range<usize>,
}

impl Mark {
    /// Returns the event that the frame contains. Returns `None` for bookmark and error events, because they do not
    /// contain an object of the resource.
    pub(crate) fn event(self, frame: &Bytes) -> Option<WatchEvent<RawObject>> {
        let event = match self.event_type {
            WatchEventType::Added => WatchEvent::Added,
            WatchEventType::Modified => WatchEvent::Modified,
            WatchEventType::Deleted => WatchEvent::Deleted,
            WatchEventType::Bookmark | WatchEventType::Error => return None,
        };
        Some(event(frame.slice(self.object).into()))
    }
}

#[derive(Default)]
struct Members {
    present: Member,
    event_type: Option<WatchEventType>,
    object_begins: usize,
    object: Option<Range<usize>>,
    /// Whether the frame deviates from the usual form of an event. An unusual frame may still be valid.
    is_odd: bool,
}

#[derive(Default, PartialEq)]
enum Member {
    Type,
    Object,
    #[default]
    Other,
}

impl Members {
    /// Records a token, which ends at `end`. The caller must skip tokens that are nested more deeply than the fields of
    /// the frame.
    fn record(&mut self, token: Token, json: &Json, end: usize) {
        match (token, &self.present) {
            (Token::Name, _) => {
                let name = json.text().unwrap_or_default();
                self.is_odd |= name.contains(&b'\\');
                self.present = match name {
                    b"type" => Member::Type,
                    b"object" => Member::Object,
                    _ => Member::Other,
                };
            }
            (_, Member::Other) => {}
            (Token::Text, Member::Type) if self.event_type.is_none() => {
                let text = json.text().and_then(|text| str::from_utf8(text).ok());
                self.event_type = text.and_then(|text| text.parse().ok());
                self.is_odd |= self.event_type.is_none();
            }
            (Token::Open(Container::Object), Member::Object) if self.object.is_none() => self.object_begins = end - 1,
            (Token::Close, Member::Object) => self.object = Some(self.object_begins..end),
            _ => self.is_odd = true,
        }
    }

    fn mark(self) -> Option<Mark> {
        let (event_type, object) = self.event_type.zip(self.object).filter(|_| !self.is_odd)?;
        Some(Mark { event_type, object })
    }
}

// Omits the buffered data, because it contains objects.
pintle_meta::debug_struct!(FrameSplitter { .. });

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::sample::{Index, select};

    use super::*;

    /// Splits a frame that arrives in chunks of `step` bytes. Returns the event, or `None` if it must be decoded by the
    /// JSON parser.
    fn marked(frame: &[u8], step: usize) -> Option<(Bytes, WatchEvent<RawObject>)> {
        let mut splitter = FrameSplitter::new(1_000);
        frame.chunks(step).for_each(|chunk| splitter.push(Bytes::copy_from_slice(chunk)));
        let (frame, mark) = splitter.next_marked()?.ok()?;
        Some((frame.clone(), mark?.event(&frame)?))
    }

    #[test]
    fn event_is_found_while_its_frame_is_split() {
        let object = || RawObject::Json(r#"{"a":["}",{"type":"x"}]}"#.into());
        for (frame, expected) in [
            (r#"{"type":"ADDED","object":{"a":["}",{"type":"x"}]}}"#, Some(WatchEvent::Added(object()))),
            (
                r#" { "object" : {"a":["}",{"type":"x"}]} , "x":[], "type" : "DELETED" } "#,
                Some(WatchEvent::Deleted(object())),
            ),
            (r#"{"type":"MODI\u0046IED","object":{}}"#, None),
            (r#"{"typ\u0065":"ADDED","type":"ADDED","object":{}}"#, None),
            (r#"{"type":"ADDED","object":{},"object":{}}"#, None),
            (r#"{"type":"ADDED","type":"ADDED","object":{}}"#, None),
            (r#"{"type":"ADDED","object":[]}"#, None),
            (r#"{"type":{},"object":{}}"#, None),
            (r#"{"type":"BOOKMARK","object":{}}"#, None),
            (r#"["type","ADDED","object",{}]"#, None),
            (r#"{"type":"ADDED","object":{}]"#, None),
            (r#"{"type":"ADDED"}"#, None),
        ] {
            for step in 1..=frame.len() {
                let event = marked(frame.as_bytes(), step).map(|(_, event)| event);
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
            let mut frame = br#"{"type":"ADDED","object":{"a":["}",{"type":"x"}],"object":"\u00e4"},"b":{"type":1}}"#.to_vec();
            for (place, byte, puts_in) in edits {
                let at = place.index(frame.len());
                if puts_in { frame.insert(at, byte) } else { frame[at] = byte }
            }
            if let Some((frame, event)) = marked(&frame, step) {
                prop_assert_eq!(WatchEvent::parse(&frame).ok(), Some(event), "{:?}", frame);
            }
        }
    }
}
