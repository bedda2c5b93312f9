//! Cuts a stream of bytes into JSON values.

use std::collections::VecDeque;
use std::fmt;

use bytes::Bytes;
use pintle_meta::{Oversized, WatchEventType};

use crate::json::{Json, Token};
use crate::oversized::Gathering;

/// Cuts a stream of bytes into JSON values: the frames of a watch.
///
/// Values are objects or arrays, one after the other, with any white space between them; chunk borders may fall anywhere. It
/// holds at most one unfinished frame, no larger than its limit: a larger one is read over and told, and the next one is found
/// again. A frame that lies within one chunk is not copied.
///
/// What is no JSON ends with the first byte that cannot be; to refuse it is for the decoder. Stepped: it does no I/O.
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
    /// What was pushed and not yet looked at. As many chunks as were pushed: the caller pushes when it is out of frames.
    chunks: VecDeque<Bytes>,
    frame: Gathering,
    json: Json,
}

/// A frame was larger than the limit, and was read over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameTooLarge {
    /// What it told of its object; none if that was not found, or if it was no JSON.
    pub event_type: Option<WatchEventType>,
    /// What was found of its object.
    pub object: Oversized,
}

impl fmt::Display for FrameTooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a frame is too large: {}", self.object)
    }
}

impl std::error::Error for FrameTooLarge {}

impl FrameSplitter {
    /// A splitter for frames of at most `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self { chunks: VecDeque::new(), frame: Gathering::frames(limit), json: Json::new(0) }
    }

    /// Adds the next bytes of the stream.
    pub fn push(&mut self, chunk: Bytes) {
        if !chunk.is_empty() {
            self.chunks.push_back(chunk);
        }
    }

    /// The next whole frame, `None` if more bytes are needed first.
    ///
    /// # Errors
    ///
    /// The frame was larger than the limit. The frames after it are found as if it had not been there.
    pub fn next_frame(&mut self) -> Option<Result<Bytes, FrameTooLarge>> {
        while let Some(mut chunk) = self.chunks.pop_front() {
            if self.frame.is_empty() {
                let start = chunk.iter().position(|byte| !byte.is_ascii_whitespace()).unwrap_or(chunk.len());
                let _ = chunk.split_to(start);
            }
            let Some((end, is_json)) = self.end_of_frame(&chunk) else {
                self.frame.push(&chunk);
                continue;
            };
            let last = chunk.split_to(end);
            if !chunk.is_empty() {
                self.chunks.push_front(chunk);
            }
            self.json = Json::new(0);
            return Some(self.frame.finish(last).map_err(|found| FrameTooLarge {
                event_type: found.event_type.filter(|_| is_json),
                object: found.object,
            }));
        }
        None
    }

    /// Whether the stream may end here: no frame has begun that has not ended.
    pub fn is_between_frames(&self) -> bool {
        self.frame.is_empty() && self.chunks.iter().all(|chunk| chunk.iter().all(u8::is_ascii_whitespace))
    }

    /// Where the present frame ends, one past its last byte, and whether it has been JSON up to there.
    fn end_of_frame(&mut self, chunk: &[u8]) -> Option<(usize, bool)> {
        let mut at = 0;
        loop {
            match self.json.next(&chunk[at..], 0) {
                Ok(None) => return None,
                Ok(Some((taken, Token::Open(_)))) => at += taken,
                Ok(Some((taken, _))) => return Some((at + taken, true)),
                Err(fault) => return Some((at + fault + 1, false)),
            }
        }
    }
}

impl fmt::Debug for FrameSplitter {
    /// What it holds is parts of objects, and does not show.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FrameSplitter").finish_non_exhaustive()
    }
}
