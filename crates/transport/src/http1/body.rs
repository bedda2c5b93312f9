//! Finds the end of an HTTP/1.1 response body. This module does no I/O.

use bytes::{Buf as _, Bytes, BytesMut};
use http_body::SizeHint;
use memchr::memchr;

use crate::malformed::Malformed;

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ResponseBody(State);

#[derive(Debug, PartialEq, Eq)]
enum State {
    /// A body with a fixed length, of which this number of bytes remain.
    Length(u64),
    UntilClose,
    /// The next bytes are the line with the size of a chunk.
    Size,
    /// The next bytes belong to a chunk, of which this number of bytes remain.
    Chunk(u64),
    /// The next bytes are the line break after the data of a chunk.
    ChunkEnd,
    Trailers,
    Over,
}

/// The maximum length in bytes of the line with the size of a chunk. The size line may also contain extensions.
const MAX_SIZE_LINE: usize = 4 << 10;
/// The maximum size of the trailers in bytes, as in hyper.
const MAX_TRAILERS: usize = 16 << 10;
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

    pub(crate) fn is_over(&self) -> bool {
        self.0 == State::Over
    }

    pub(crate) fn size_hint(&self) -> SizeHint {
        match self.0 {
            State::Length(left) => SizeHint::with_exact(left),
            State::Over => SizeHint::with_exact(0),
            _ => SizeHint::default(),
        }
    }

    /// Removes the next data of the body from the buffer. Returns `None` if the buffer contains no body data, or if the
    /// body has ended.
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

    /// Checks whether the body is complete. Call this method after the server has closed the connection.
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

/// Removes the trailers and the empty line after them. Returns `true` if the trailers are complete. The trailers are
/// validated and then discarded, because kube-apiserver sends none.
fn take_trailers(buf: &mut BytesMut) -> Result<bool, Malformed> {
    let mut slots = [httparse::EMPTY_HEADER; MAX_TRAILER_COUNT];
    match httparse::parse_headers(buf, &mut slots).map_err(Malformed::Syntax)? {
        httparse::Status::Complete((length, _)) if !is_in_crlf_lines(&buf[..length]) => {
            Err(Malformed::Chunk("a trailer does not end with CR and LF"))
        }
        httparse::Status::Complete((length, _)) if length <= MAX_TRAILERS => {
            buf.advance(length);
            Ok(true)
        }
        httparse::Status::Partial if buf.len() < MAX_TRAILERS => Ok(false),
        _ => Err(Malformed::Chunk("the trailers are too large")),
    }
}

/// Returns `true` if each LF follows a CR, because httparse also accepts LF alone.
fn is_in_crlf_lines(lines: &[u8]) -> bool {
    memchr::memchr_iter(b'\n', lines).all(|at| at.checked_sub(1).is_some_and(|before| lines[before] == b'\r'))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a body from a server that sends `text` in chunks of `step` bytes and then closes the connection. Returns
    /// the body data, the result at the end of the body, and the number of bytes after it.
    fn read(mut body: ResponseBody, text: &[u8], step: usize) -> (String, Result<(), String>, usize) {
        let (mut buf, mut data, mut left) = (BytesMut::new(), Vec::new(), text.len());
        for piece in text.chunks(step) {
            if body.is_over() {
                break;
            }
            buf.extend_from_slice(piece);
            left -= piece.len();
            loop {
                match body.take(&mut buf) {
                    Ok(Some(piece)) => data.extend_from_slice(&piece),
                    Ok(None) => break,
                    Err(error) => return (String::from_utf8(data).unwrap(), Err(error.to_string()), 0),
                }
            }
        }
        let end = body.end().map_err(|error| error.to_string());
        (String::from_utf8(data).unwrap(), end, left + buf.len())
    }

    #[test]
    fn chunks_are_decoded_at_any_boundary() {
        for (text, data, rest) in [
            ("2\r\n{}\r\n0\r\n\r\n", "{}", 0),
            ("1\r\na\r\nA;x=\"y\"\r\n0123456789\r\n000\r\n\r\nHTTP", "a0123456789", 4),
            ("1 \r\na\r\n0\r\nTrailer: x\r\nb: c\r\n\r\n", "a", 0),
            ("0\r\n\r\n", "", 0),
        ] {
            for step in 1..text.len() {
                assert_eq!(
                    read(ResponseBody::chunked(), text.as_bytes(), step),
                    (data.into(), Ok(()), rest),
                    "{text:?}"
                );
            }
        }
    }

    #[test]
    fn invalid_chunks_are_rejected() {
        let error = |text: &str, step| read(ResponseBody::chunked(), text.as_bytes(), step).1.unwrap_err();
        for (text, expected) in [
            ("x\r\n", "its size is not a hexadecimal number"),
            ("\r\n", "its size is not a hexadecimal number"),
            ("+1\r\na\r\n", "its size is not a hexadecimal number"),
            ("-1\r\na\r\n", "its size is not a hexadecimal number"),
            ("0x1\r\na\r\n", "its size is not a hexadecimal number"),
            (" 1\r\na\r\n", "its size is not a hexadecimal number"),
            ("10000000000000000\r\n", "its size is not a hexadecimal number"),
            ("1\na\n", "a line does not end with CR and LF"),
            ("1;a\rb\r\na", "a line contains CR"),
            ("1\r\nab\r\n", "its data is longer than its size"),
            ("1\r\na\n\n0\r\n\r\n", "its data is longer than its size"),
        ] {
            for step in [1, text.len()] {
                assert_eq!(error(text, step), format!("a chunk of the response is invalid: {expected}"), "{text:?}");
            }
        }
        for text in ["", "1", "1\r\n", "5\r\nab", "1\r\na", "1\r\na\r\n", "0\r\n", "0\r\na: b\r\n"] {
            assert_eq!(error(text, 1), "the server closed the connection before the end of the response", "{text:?}");
        }
        let (line, trailers) = (format!("1;{}", "x".repeat(MAX_SIZE_LINE)), "a: b\r\n".repeat(200));
        assert!(error(&line, 1000).contains("its first line is too long"));
        assert!(error(&format!("0\r\n{trailers}\r\n"), 1000).contains("too many headers"));
        assert!(error(&format!("0\r\na: {}", "x".repeat(MAX_TRAILERS)), 1000).contains("the trailers are too large"));
        for trailers in ["\n", "a: b\n\r\n", "a: b\r\n\n"] {
            assert!(error(&format!("0\r\n{trailers}"), 1000).contains("does not end with CR and LF"), "{trailers:?}");
        }
        assert!(error("0\r\na b\r\n\r\n", 1000).contains("invalid header name"));
    }

    #[test]
    fn body_ends_at_its_length_or_with_the_connection() {
        let of_length = || ResponseBody::of_length(3);
        assert_eq!(read(of_length(), b"abcHTTP", 7), ("abc".into(), Ok(()), 4));
        assert_eq!(read(of_length(), b"abc", 1), ("abc".into(), Ok(()), 0));
        assert!(read(of_length(), b"ab", 1).1.is_err());
        assert_eq!(read(ResponseBody::until_close(), b"ab", 1), ("ab".into(), Ok(()), 0));
    }
}
