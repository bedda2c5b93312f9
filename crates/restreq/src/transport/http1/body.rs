//! Finds the end of a response body. This module does no I/O.

use bytes::{Buf as _, Bytes, BytesMut};
use http_body::SizeHint;
use memchr::memchr;

use super::Malformed;

/// The body of a response, without the connection that receives it.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::transport) struct ResponseBody(State);

#[derive(Debug, PartialEq, Eq)]
enum State {
    /// The number of bytes until the end.
    Length(u64),
    /// The body ends when the server closes the connection.
    UntilClose,
    /// Before the line with the size of a chunk.
    Size,
    /// Within a chunk: the number of bytes until the end of the chunk.
    Chunk(u64),
    /// After the data of a chunk.
    ChunkEnd,
    /// After the last chunk.
    Trailers,
    Over,
}

/// The maximum length of a line with the size of a chunk. Such a line can contain extensions, which nobody uses.
const MAX_SIZE_LINE: usize = 4 << 10;
/// The maximum size of the trailers. hyper has the same limit.
const MAX_TRAILERS: usize = 16 << 10;
/// The maximum number of trailers.
const MAX_TRAILER_COUNT: usize = 100;

impl ResponseBody {
    pub(super) const EMPTY: Self = Self(State::Over);

    pub(super) fn of_length(length: u64) -> Self {
        Self(if length == 0 { State::Over } else { State::Length(length) })
    }

    pub(super) fn chunked() -> Self {
        Self(State::Size)
    }

    pub(super) fn until_close() -> Self {
        Self(State::UntilClose)
    }

    pub(super) fn is_until_close(&self) -> bool {
        self.0 == State::UntilClose
    }

    /// Returns whether the whole body was read.
    pub(in crate::transport) fn is_over(&self) -> bool {
        self.0 == State::Over
    }

    pub(in crate::transport) fn size_hint(&self) -> SizeHint {
        match self.0 {
            State::Length(left) => SizeHint::with_exact(left),
            State::Over => SizeHint::with_exact(0),
            _ => SizeHint::default(),
        }
    }

    /// Removes the next piece of the body from the buffer. Returns `None` if the body is over or if the buffer does not
    /// contain more of the body.
    pub(super) fn take(&mut self, buf: &mut BytesMut) -> Result<Option<Bytes>, Malformed> {
        loop {
            match &mut self.0 {
                State::Over => return Ok(None),
                State::Length(_) | State::Chunk(_) | State::UntilClose if buf.is_empty() => return Ok(None),
                State::UntilClose => return Ok(Some(buf.split().freeze())),
                State::Length(left) => {
                    let data = split_to(buf, left);
                    if *left == 0 {
                        self.0 = State::Over;
                    }
                    return Ok(Some(data));
                }
                State::Chunk(left) => {
                    let data = split_to(buf, left);
                    if *left == 0 {
                        self.0 = State::ChunkEnd;
                    }
                    return Ok(Some(data));
                }
                State::Size => {
                    let Some(size) = take_size(buf)? else { return Ok(None) };
                    self.0 = if size == 0 { State::Trailers } else { State::Chunk(size) };
                }
                State::ChunkEnd if buf.len() < 2 => return Ok(None),
                State::ChunkEnd => {
                    if !buf.starts_with(b"\r\n") {
                        return Err(Malformed::Chunk("its data is longer than its size"));
                    }
                    buf.advance(2);
                    self.0 = State::Size;
                }
                State::Trailers => {
                    if !take_trailers(buf)? {
                        return Ok(None);
                    }
                    self.0 = State::Over;
                }
            }
        }
    }

    /// Checks whether the body is complete when the server has closed the connection.
    pub(super) fn end(&mut self) -> Result<(), Malformed> {
        match self.0 {
            State::Over => Ok(()),
            State::UntilClose => {
                self.0 = State::Over;
                Ok(())
            }
            _ => Err(Malformed::Truncated),
        }
    }
}

/// Removes at most `left` bytes from the buffer.
fn split_to(buf: &mut BytesMut, left: &mut u64) -> Bytes {
    let length = usize::try_from(*left).unwrap_or(usize::MAX).min(buf.len());
    *left -= length as u64;
    buf.split_to(length).freeze()
}

/// Removes the line with the size of a chunk. Returns `None` if the line is incomplete.
fn take_size(buf: &mut BytesMut) -> Result<Option<u64>, Malformed> {
    let Some(line_feed) = memchr(b'\n', &buf[..buf.len().min(MAX_SIZE_LINE)]) else {
        return if buf.len() < MAX_SIZE_LINE { Ok(None) } else { Err(Malformed::Chunk("its first line is too long")) };
    };
    let line = buf.split_to(line_feed + 1);
    let line = line.strip_suffix(b"\r\n").ok_or(Malformed::Chunk("a line does not end with CR and LF"))?;
    if line.contains(&b'\r') {
        return Err(Malformed::Chunk("a line contains CR"));
    }
    let text = line.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii_end();
    let is_size = (1..=16).contains(&text.len()) && text.iter().all(u8::is_ascii_hexdigit);
    let size = std::str::from_utf8(text).ok().filter(|_| is_size);
    let size = size.and_then(|text| u64::from_str_radix(text, 16).ok());
    size.map(Some).ok_or(Malformed::Chunk("its size is not a hexadecimal number"))
}

/// Removes the trailers, including the empty line at the end. Returns whether the trailers were complete. kube-apiserver
/// sends no trailers, so the client only checks that they are valid.
fn take_trailers(buf: &mut BytesMut) -> Result<bool, Malformed> {
    let mut slots = [httparse::EMPTY_HEADER; MAX_TRAILER_COUNT];
    match httparse::parse_headers(buf, &mut slots).map_err(Malformed::Syntax)? {
        httparse::Status::Complete((length, _)) if length <= MAX_TRAILERS => {
            buf.advance(length);
            Ok(true)
        }
        httparse::Status::Partial if buf.len() < MAX_TRAILERS => Ok(false),
        _ => Err(Malformed::Chunk("the trailers are too large")),
    }
}
