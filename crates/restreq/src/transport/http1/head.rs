//! Parses the headers of a response. This module does no I/O.

use std::mem::MaybeUninit;

use bytes::{Bytes, BytesMut};
use http::header::{CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, Version};
use httparse::{ParserConfig, Status};
use memchr::memchr_iter;

use super::Malformed;
use super::body::ResponseBody;

/// The maximum size of the headers of a response, in bytes.
const MAX_HEAD: usize = 64 << 10;
/// The maximum number of headers of a response. hyper has the same default.
const MAX_HEADERS: usize = 100;

/// The properties of a request that the format of its response depends on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    /// Whether the method is HEAD, so that the response has no body.
    pub(super) is_head: bool,
    /// Whether the request asks for another protocol.
    pub(super) upgrades: bool,
}

/// The headers of a response.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) response: Response<()>,
    pub(super) body: ResponseBody,
    /// Whether the server keeps the connection open after the response.
    pub(super) keeps_alive: bool,
}

/// Removes the headers of a response from the buffer. Skips interim responses, such as `100 Continue`. Returns `None`
/// if the headers are incomplete.
pub(super) fn take(buf: &mut BytesMut, asked: Asked) -> Result<Option<Head>, Malformed> {
    while let Some(length) = length(buf)? {
        if let Some(head) = parse(buf.split_to(length).freeze(), asked)? {
            return Ok(Some(head));
        }
    }
    Ok(None)
}

/// Returns the length of the headers, including the empty line at the end. Each line must end with CR and LF. If the
/// client accepted a line that ends with LF, a proxy could see other headers than the client.
fn length(buf: &[u8]) -> Result<Option<usize>, Malformed> {
    for line_feed in memchr_iter(b'\n', &buf[..buf.len().min(MAX_HEAD)]) {
        if line_feed == 0 || buf[line_feed - 1] != b'\r' {
            return Err(Malformed::Head("a line does not end with CR and LF"));
        }
        if buf[line_feed + 1..].starts_with(b"\r\n") {
            return Ok(Some(line_feed + 3));
        }
    }
    if buf.len() < MAX_HEAD { Ok(None) } else { Err(Malformed::HeadTooLarge(MAX_HEAD)) }
}

/// Parses complete headers. Returns `None` for an interim response.
fn parse(head: Bytes, asked: Asked) -> Result<Option<Head>, Malformed> {
    let mut slots = [const { MaybeUninit::uninit() }; MAX_HEADERS];
    let mut parsed = httparse::Response::new(&mut []);
    let parser = ParserConfig::default();
    match parser.parse_response_with_uninit_headers(&mut parsed, &head, &mut slots).map_err(Malformed::Syntax)? {
        Status::Complete(length) if length == head.len() => {}
        _ => return Err(Malformed::Head("the status line is missing")),
    }
    let status = parsed.code.and_then(|code| StatusCode::from_u16(code).ok());
    let status = status.ok_or(Malformed::Head("the status is not a number from 100 to 999"))?;
    let version = if parsed.version == Some(0) { Version::HTTP_10 } else { Version::HTTP_11 };
    let mut framing = Framing { keeps_alive: version == Version::HTTP_11, ..Framing::default() };
    let mut headers = HeaderMap::with_capacity(parsed.headers.len());
    for header in parsed.headers.iter() {
        let name = HeaderName::from_bytes(header.name.as_bytes());
        let name = name.map_err(|_| Malformed::Head("a name contains an invalid character"))?;
        let value = HeaderValue::from_maybe_shared(head.slice_ref(header.value));
        let value = value.map_err(|_| Malformed::Head("a value contains an invalid character"))?;
        framing.note(&name, &value)?;
        headers.append(name, value);
    }
    let body = match status {
        StatusCode::SWITCHING_PROTOCOLS if asked.upgrades => {
            framing.closes = true;
            ResponseBody::EMPTY
        }
        StatusCode::SWITCHING_PROTOCOLS => return Err(Malformed::Head("the client did not ask for another protocol")),
        status if status.is_informational() => return Ok(None),
        StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED => ResponseBody::EMPTY,
        _ if asked.is_head => ResponseBody::EMPTY,
        _ => framing.body(version)?,
    };
    let keeps_alive = framing.keeps_alive && !framing.closes && !body.is_until_close();
    let mut response = Response::new(());
    (*response.status_mut(), *response.version_mut(), *response.headers_mut()) = (status, version, headers);
    Ok(Some(Head { response, body, keeps_alive }))
}

/// The headers that determine where a response ends (RFC 9112, section 6.3).
#[derive(Default)]
struct Framing {
    length: Option<u64>,
    is_chunked: bool,
    keeps_alive: bool,
    closes: bool,
}

impl Framing {
    fn note(&mut self, name: &HeaderName, value: &HeaderValue) -> Result<(), Malformed> {
        match *name {
            CONTENT_LENGTH => {
                for text in value.as_bytes().split(|byte| *byte == b',') {
                    let length = decimal(text.trim_ascii()).ok_or(Malformed::Head("Content-Length is not a number"))?;
                    if self.length.replace(length).is_some_and(|other| other != length) {
                        return Err(Malformed::Head("there are different values of Content-Length"));
                    }
                }
            }
            TRANSFER_ENCODING => {
                if self.is_chunked || !value.as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked") {
                    return Err(Malformed::Head("Transfer-Encoding is not \"chunked\""));
                }
                self.is_chunked = true;
            }
            CONNECTION => {
                for option in value.as_bytes().split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
                    if option.eq_ignore_ascii_case(b"close") {
                        self.closes = true;
                    } else if option.eq_ignore_ascii_case(b"keep-alive") {
                        self.keeps_alive = true;
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn body(&mut self, version: Version) -> Result<ResponseBody, Malformed> {
        if self.is_chunked {
            if version == Version::HTTP_10 {
                return Err(Malformed::Head("HTTP/1.0 has no Transfer-Encoding"));
            }
            // If the response has both headers, a proxy could see another end of the response than the client.
            self.closes |= self.length.is_some();
            return Ok(ResponseBody::chunked());
        }
        Ok(self.length.map_or_else(ResponseBody::until_close, ResponseBody::of_length))
    }
}

/// Parses a number that consists only of digits.
fn decimal(text: &[u8]) -> Option<u64> {
    let is_number = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(text).ok().filter(|_| is_number)?.parse().ok()
}
