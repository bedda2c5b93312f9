//! Cuts a stream of bytes into JSON values.

use std::collections::VecDeque;
use std::fmt;

use bytes::{Bytes, BytesMut};

/// Cuts a stream of bytes into JSON values: the frames of a watch.
///
/// Values are objects or arrays, one after the other, with any white space between them; chunk borders may fall anywhere. It
/// holds at most one unfinished frame, no larger than its limit: a larger one is skipped and told, and the next one is found
/// again. A frame that lies within one chunk is not copied.
///
/// It only tells where a value ends; whether it is a value is for the decoder to say. Stepped: it does no I/O.
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
#[derive(Debug)]
pub struct FrameSplitter {
    limit: usize,
    /// What was pushed and not yet looked at. As many chunks as were pushed: the caller pushes when it is out of frames.
    chunks: VecDeque<Bytes>,
    /// The beginning of the present frame, from chunks that ended within it.
    partial: BytesMut,
    /// How long the present frame is so far, whether kept or skipped.
    length: usize,
    scan: Scan,
}

/// Where in a value the splitter stands.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Scan {
    /// Open braces and brackets; 0 between values.
    depth: usize,
    in_text: bool,
    /// After a backslash within a text.
    escaped: bool,
    /// Within a value that is neither an object nor an array, such as `null`: it ends at white space.
    scalar: bool,
}

/// A frame was larger than the limit, and was skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameTooLarge {
    /// How large it was, in bytes.
    pub size: usize,
    /// What would have been allowed.
    pub limit: usize,
}

impl fmt::Display for FrameTooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a frame of {} bytes exceeds the limit of {}", self.size, self.limit)
    }
}

impl std::error::Error for FrameTooLarge {}

impl FrameSplitter {
    /// A splitter for frames of at most `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self { limit, chunks: VecDeque::new(), partial: BytesMut::new(), length: 0, scan: Scan::default() }
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
            if self.length == 0 {
                let start = chunk.iter().position(|byte| !byte.is_ascii_whitespace()).unwrap_or(chunk.len());
                let _ = chunk.split_to(start);
            }
            match self.scan.end_of_value(&chunk) {
                Some(end) => {
                    let frame = chunk.split_to(end);
                    if !chunk.is_empty() {
                        self.chunks.push_front(chunk);
                    }
                    return Some(self.complete(frame));
                }
                None => self.keep(&chunk),
            }
        }
        None
    }

    /// Whether the stream may end here: no frame has begun that has not ended.
    pub fn is_between_frames(&self) -> bool {
        self.length == 0 && self.chunks.iter().all(|chunk| chunk.iter().all(u8::is_ascii_whitespace))
    }

    fn keep(&mut self, chunk: &[u8]) {
        self.length += chunk.len();
        if self.length <= self.limit {
            self.partial.extend_from_slice(chunk);
        } else {
            self.partial = BytesMut::new();
        }
    }

    fn complete(&mut self, last: Bytes) -> Result<Bytes, FrameTooLarge> {
        let size = std::mem::take(&mut self.length) + last.len();
        self.scan = Scan::default();
        let partial = std::mem::take(&mut self.partial);
        if size > self.limit {
            return Err(FrameTooLarge { size, limit: self.limit });
        }
        if partial.is_empty() {
            return Ok(last);
        }
        let mut whole = partial;
        whole.extend_from_slice(&last);
        Ok(whole.freeze())
    }
}

impl Scan {
    /// Goes on over `bytes`, and says where the present value ends, one past its last byte.
    pub(crate) fn end_of_value(&mut self, bytes: &[u8]) -> Option<usize> {
        for (at, byte) in bytes.iter().enumerate() {
            if self.in_text {
                match (self.escaped, byte) {
                    (true, _) => self.escaped = false,
                    (false, b'\\') => self.escaped = true,
                    (false, b'"') => {
                        self.in_text = false;
                        if self.depth == 0 {
                            return Some(at + 1);
                        }
                    }
                    _ => {}
                }
                continue;
            }
            match byte {
                // A scalar ends where something else begins.
                b'{' | b'[' | b'"' | b' ' | b'\n' | b'\r' | b'\t' | b',' | b']' | b'}' if self.scalar => {
                    return Some(at);
                }
                b'"' => self.in_text = true,
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => {
                    self.depth = self.depth.saturating_sub(1);
                    if self.depth == 0 {
                        return Some(at + 1);
                    }
                }
                _ if self.depth == 0 => self.scalar = true,
                _ => {}
            }
        }
        None
    }
}
