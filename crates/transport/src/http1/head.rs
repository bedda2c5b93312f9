//! Parses HTTP/1.1 response headers. This module does no I/O.

use std::mem::MaybeUninit;

use bytes::{Bytes, BytesMut};
use http::header::{CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, Version};
use httparse::{ParserConfig, Status};
use memchr::memchr_iter;

use super::body::ResponseBody;
use crate::malformed::Malformed;

const MAX_HEAD: usize = 64 << 10;
/// The maximum number of response headers, as in hyper.
const MAX_HEADERS: usize = 100;

#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    /// Whether the method is HEAD, which means that the response has no body.
    pub(super) is_head: bool,
    pub(super) upgrades: bool,
}

#[derive(Debug)]
pub(super) struct Head {
    pub(super) response: Response<()>,
    pub(super) body: ResponseBody,
    pub(super) keeps_alive: bool,
}

/// Removes the response headers from the buffer. Interim responses, such as `100 Continue`, are skipped. Returns `None`
/// if the headers are incomplete.
pub(super) fn take(buf: &mut BytesMut, asked: Asked) -> Result<Option<Head>, Malformed> {
    while let Some(length) = length(buf)? {
        if let Some(head) = parse(buf.split_to(length).freeze(), asked)? {
            return Ok(Some(head));
        }
    }
    Ok(None)
}

/// Returns the length of the headers, including the empty line after them. Line breaks without CR are rejected, because
/// a proxy and the client could interpret such headers differently.
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

/// The headers that determine the end of a response (RFC 9112, section 6.3).
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
            // Close the connection after a response with both `Content-Length` and `Transfer-Encoding`, because a proxy
            // and the client could see different ends of the response.
            self.closes |= self.length.is_some();
            return Ok(ResponseBody::chunked());
        }
        Ok(self.length.map_or_else(ResponseBody::until_close, ResponseBody::of_length))
    }
}

fn decimal(text: &[u8]) -> Option<u64> {
    let is_number = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(text).ok().filter(|_| is_number)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GET: Asked = Asked { is_head: false, upgrades: false };

    /// Parses the headers, and returns the result as a string. The string contains the error, or else the status, the
    /// body and whether the connection stays open.
    fn taken(text: &str, asked: Asked) -> String {
        let mut buf = BytesMut::from(text);
        match take(&mut buf, asked) {
            Ok(None) => "incomplete".into(),
            Ok(Some(head)) => {
                let alive = if head.keeps_alive { "open" } else { "closed" };
                format!("{} {:?} {alive} {buf:?}", head.response.status().as_u16(), head.body)
            }
            Err(error) => error.to_string().replace("the headers of the response are invalid: ", ""),
        }
    }

    #[test]
    fn end_of_the_body_follows_from_the_headers() {
        for (text, expected) in [
            ("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}", r#"200 ResponseBody(Length(2)) open b"{}""#),
            ("HTTP/1.1 200 OK\r\nContent-Length: 7, 7\r\n\r\n", r#"200 ResponseBody(Length(7)) open b"""#),
            ("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", r#"200 ResponseBody(Over) open b"""#),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked \r\n\r\n", r#"200 ResponseBody(Size) open b"""#),
            ("HTTP/1.1 200 OK\r\n\r\nx", r#"200 ResponseBody(UntilClose) closed b"x""#),
            ("HTTP/1.1 204 No Content\r\ncontent-length: 5\r\n\r\n", r#"204 ResponseBody(Over) open b"""#),
            ("HTTP/1.1 304 Not Modified\r\n\r\n", r#"304 ResponseBody(Over) open b"""#),
            ("HTTP/1.0 200 OK\r\ncontent-length: 1\r\n\r\n", r#"200 ResponseBody(Length(1)) closed b"""#),
            (
                "HTTP/1.0 200 OK\r\ncontent-length: 1\r\nconnection: Keep-Alive\r\n\r\n",
                r#"200 ResponseBody(Length(1)) open b"""#,
            ),
            (
                "HTTP/1.1 200 OK\r\ncontent-length: 1\r\nconnection: te, Close\r\n\r\n",
                r#"200 ResponseBody(Length(1)) closed b"""#,
            ),
            (
                "HTTP/1.1 200 OK\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n",
                r#"200 ResponseBody(Size) closed b"""#,
            ),
            ("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 \r\n\r\n", r#"204 ResponseBody(Over) open b"""#),
            ("HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n", "incomplete"),
            ("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n", "incomplete"),
            ("", "incomplete"),
        ] {
            assert_eq!(taken(text, GET), expected, "{text:?}");
        }
        let head = Asked { is_head: true, upgrades: false };
        let text = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n";
        assert_eq!(taken(text, head), r#"200 ResponseBody(Over) open b"""#);
    }

    /// Because implementations interpret these headers differently, a proxy and the client could see different
    /// responses.
    #[test]
    fn ambiguous_headers_are_rejected() {
        for (headers, expected) in [
            ("content-length: 1\r\ncontent-length: 2", "there are different values of Content-Length"),
            ("content-length: 1, 2", "there are different values of Content-Length"),
            ("content-length: +1", "Content-Length is not a number"),
            ("content-length: 1 1", "Content-Length is not a number"),
            ("content-length: 0x1", "Content-Length is not a number"),
            ("content-length:", "Content-Length is not a number"),
            ("content-length: 18446744073709551616", "Content-Length is not a number"),
            ("transfer-encoding: gzip, chunked", "Transfer-Encoding is not \"chunked\""),
            ("transfer-encoding: identity", "Transfer-Encoding is not \"chunked\""),
            ("transfer-encoding: chunked\r\ntransfer-encoding: chunked", "Transfer-Encoding is not \"chunked\""),
            ("a: b\r\n c: d", "invalid header name"),
            ("a : b", "invalid header name"),
            (": b", "invalid header name"),
            ("a: \u{1}", "invalid header value"),
            ("a: b\nc: d", "a line does not end with CR and LF"),
            ("a: b\rc: d", "invalid header value"),
        ] {
            let text = format!("HTTP/1.1 200 OK\r\n{headers}\r\n\r\n");
            assert_eq!(taken(&text, GET), expected, "{headers:?}");
        }
        for (text, expected) in [
            ("HTTP/1.0 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", "HTTP/1.0 has no Transfer-Encoding"),
            ("HTTP/1.1 200 OK\n\n", "a line does not end with CR and LF"),
            ("\r\n\r\n", "the status line is missing"),
            ("HTTP/2.0 200 OK\r\n\r\n", "invalid HTTP version"),
            ("HTTP/1.1 20 OK\r\n\r\n", "invalid response status"),
            ("HTTP/1.1 099 OK\r\n\r\n", "the status is not a number from 100 to 999"),
            ("HTTP/1.1 101 Switching\r\n\r\n", "the client did not ask for another protocol"),
            ("SSH-2.0-OpenSSH_9\r\n\r\n", "invalid HTTP version"),
        ] {
            assert_eq!(taken(text, GET), expected, "{text:?}");
        }
    }

    #[test]
    fn accepted_upgrade_ends_the_http_connection() {
        let asked = Asked { is_head: false, upgrades: true };
        let text = "HTTP/1.1 101 Switching\r\nupgrade: websocket\r\n\r\n\u{1}";
        assert_eq!(taken(text, asked), r#"101 ResponseBody(Over) closed b"\x01""#);
    }

    #[test]
    fn size_and_number_of_headers_are_limited() {
        let line = |count: usize| format!("HTTP/1.1 204 \r\n{}\r\n", "a: b\r\n".repeat(count));
        assert_eq!(taken(&line(MAX_HEADERS), GET), r#"204 ResponseBody(Over) open b"""#);
        assert_eq!(taken(&line(MAX_HEADERS + 1), GET), "too many headers");
        let long = format!("HTTP/1.1 204 \r\na: {}", "b".repeat(MAX_HEAD));
        assert_eq!(taken(&long, GET), "the headers of the response are larger than 65536 bytes");
    }
}
