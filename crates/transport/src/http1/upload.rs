//! Writes an HTTP/1.1 request.

use std::io::{self, IoSlice};
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, Bytes};
use http::Request;
use http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use http_body::Body as _;
use tokio::io::AsyncWrite;

use crate::error::BoxError;
use crate::exchange::has_body;
use crate::request_body::RequestBody;

#[derive(Default)]
pub(super) struct Upload {
    /// The bytes before `data`: the headers of the request, or the lines around a chunk.
    framing: Vec<u8>,
    written: usize,
    data: Bytes,
    /// Whether `data` is a chunk, which must be followed by a line break.
    is_chunk: bool,
    stream: Option<BodyStream>,
    needs_flush: bool,
    has_failed: bool,
    /// Whether writing has failed because of the request body instead of the socket.
    has_body_failed: bool,
}

struct BodyStream {
    body: RequestBody,
    /// The number of body bytes that remain to be written, or `None` if the body is chunked.
    left: Option<u64>,
}

impl Upload {
    /// Starts to write a request, and takes the body out of `request`.
    pub(super) fn start(&mut self, request: &mut Request<RequestBody>) {
        let mut body = mem::take(request.body_mut());
        let framing = mem::take(&mut self.framing);
        *self = Self { framing, ..Self::default() };
        let (whole, length) = (body.take_whole(), announced(request, &body));
        let out = &mut self.framing;
        out.clear();
        render(request, out);
        match whole {
            Some(data) => {
                if !data.is_empty() || has_body(request.method()) {
                    write_length(out, data.len() as u64);
                }
                self.data = data;
            }
            None if body.is_end_stream() => {
                if has_body(request.method()) {
                    write_length(out, 0);
                }
            }
            None => {
                match length {
                    Some(length) => write_length(out, length),
                    None => out.extend_from_slice(b"transfer-encoding: chunked\r\n"),
                }
                self.stream = Some(BodyStream { body, left: length });
            }
        }
        out.extend_from_slice(b"\r\n");
    }

    pub(super) fn is_done(&self) -> bool {
        self.is_over() && !self.has_failed
    }

    /// Returns `true` if the entire request was written, or if writing has failed.
    pub(super) fn is_over(&self) -> bool {
        self.has_failed || self.is_written() && self.stream.is_none() && !self.needs_flush
    }

    /// Returns `true` if the request body has failed. If the body has failed, the server waits for data that will
    /// never arrive.
    pub(super) fn has_body_failed(&self) -> bool {
        self.has_body_failed
    }

    pub(super) fn poll(
        &mut self,
        conn: &mut (impl AsyncWrite + Unpin),
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), BoxError>> {
        if self.is_over() {
            return Poll::Ready(Ok(()));
        }
        let result = ready!(self.poll_all(Pin::new(conn), cx));
        if result.is_err() {
            *self = Self { has_failed: true, has_body_failed: self.has_body_failed, ..Self::default() };
        }
        Poll::Ready(result)
    }

    fn poll_all<W: AsyncWrite>(&mut self, mut conn: Pin<&mut W>, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        loop {
            ready!(self.poll_write(conn.as_mut(), cx))?;
            let Some(stream) = &mut self.stream else { break };
            match stream.poll_data(cx) {
                Poll::Pending => {
                    ready!(self.poll_flush(conn.as_mut(), cx))?;
                    return Poll::Pending;
                }
                Poll::Ready(Ok(next)) => self.queue(next),
                Poll::Ready(Err(error)) => {
                    self.has_body_failed = true;
                    return Poll::Ready(Err(error));
                }
            }
        }
        self.poll_flush(conn, cx).map_err(BoxError::from)
    }

    /// Queues the next data of a streaming body. The argument `None` marks the end of the body.
    fn queue(&mut self, data: Option<Bytes>) {
        let is_chunk = self.stream.as_ref().is_some_and(|stream| stream.left.is_none());
        match data {
            Some(data) => {
                if is_chunk {
                    self.set_framing(format_args!("{:x}\r\n", data.len()));
                }
                (self.data, self.is_chunk) = (data, is_chunk);
            }
            None => {
                if is_chunk {
                    self.set_framing(format_args!("0\r\n\r\n"));
                }
                self.stream = None;
            }
        }
    }

    fn set_framing(&mut self, text: std::fmt::Arguments<'_>) {
        self.framing.clear();
        self.framing.extend_from_slice(text.to_string().as_bytes());
        self.written = 0;
    }

    fn is_written(&self) -> bool {
        self.written == self.framing.len() && self.data.is_empty()
    }

    fn poll_write<W: AsyncWrite>(&mut self, mut conn: Pin<&mut W>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            while !self.is_written() {
                let framing = &self.framing[self.written..];
                let written = if self.data.is_empty() {
                    ready!(conn.as_mut().poll_write(cx, framing))?
                } else {
                    let slices = [IoSlice::new(framing), IoSlice::new(&self.data)];
                    let slices = if framing.is_empty() { &slices[1..] } else { &slices[..] };
                    ready!(conn.as_mut().poll_write_vectored(cx, slices))?
                };
                if written == 0 {
                    return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
                }
                let of_framing = written.min(framing.len());
                self.written += of_framing;
                self.data.advance(written - of_framing);
                self.needs_flush = true;
            }
            if !mem::take(&mut self.is_chunk) {
                return Poll::Ready(Ok(()));
            }
            self.set_framing(format_args!("\r\n"));
        }
    }

    fn poll_flush<W: AsyncWrite>(&mut self, conn: Pin<&mut W>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.needs_flush {
            ready!(conn.poll_flush(cx))?;
            self.needs_flush = false;
        }
        Poll::Ready(Ok(()))
    }
}

impl BodyStream {
    /// Polls the body until it returns data that is not empty. Returns an error if the length of the body differs from
    /// the announced length.
    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, BoxError>> {
        loop {
            let data = match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                None => {
                    return Poll::Ready(match self.left {
                        None | Some(0) => Ok(None),
                        Some(left) => Err(format!("the request body ended {left} bytes before its length").into()),
                    });
                }
                Some(frame) => frame?.into_data().unwrap_or_default(),
            };
            if let Some(left) = &mut self.left {
                let rest = left.checked_sub(data.len() as u64);
                *left = rest.ok_or("the request body is longer than its length")?;
            }
            if !data.is_empty() {
                return Poll::Ready(Ok(Some(data)));
            }
        }
    }
}

/// Returns the length of a streaming body, if the body or the request's `Content-Length` contains it.
fn announced(request: &Request<RequestBody>, body: &RequestBody) -> Option<u64> {
    let content_length = || request.headers().get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok();
    body.size_hint().exact().or_else(content_length)
}

/// Writes the request line and all headers that do not depend on the length of the body.
fn render(request: &Request<RequestBody>, out: &mut Vec<u8>) {
    let uri = request.uri();
    out.extend_from_slice(request.method().as_str().as_bytes());
    out.push(b' ');
    match (uri.scheme_str(), uri.authority(), uri.path_and_query()) {
        (Some(scheme), Some(authority), target) => {
            // A request through a forwarding proxy has an absolute URI.
            let target = target.map_or("/", |target| target.as_str());
            for part in [scheme, "://", authority.as_str(), target] {
                out.extend_from_slice(part.as_bytes());
            }
        }
        (_, _, target) => out.extend_from_slice(target.map_or("/", |target| target.as_str()).as_bytes()),
    }
    out.extend_from_slice(b" HTTP/1.1\r\n");
    for (name, value) in request.headers() {
        if *name != CONTENT_LENGTH && *name != TRANSFER_ENCODING {
            out.extend_from_slice(name.as_str().as_bytes());
            out.extend_from_slice(b": ");
            out.extend_from_slice(value.as_bytes());
            out.extend_from_slice(b"\r\n");
        }
    }
}

fn write_length(out: &mut Vec<u8>, length: u64) {
    out.extend_from_slice(format!("content-length: {length}\r\n").as_bytes());
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use futures_util::stream;
    use http::Method;

    use super::*;

    fn written(
        method: Method,
        uri: &str,
        headers: &[(&'static str, &str)],
        body: RequestBody,
    ) -> Result<String, String> {
        let mut request = Request::new(body);
        (*request.method_mut(), *request.uri_mut()) = (method, uri.parse().unwrap());
        for (name, value) in headers {
            request.headers_mut().insert(*name, value.parse().unwrap());
        }
        let (mut upload, mut out) = (Upload::default(), Vec::new());
        assert!(upload.is_done());
        upload.start(&mut request);
        assert!(!upload.is_over());
        let Poll::Ready(result) = upload.poll(&mut out, &mut Context::from_waker(Waker::noop())) else {
            panic!("memory is always ready")
        };
        assert_eq!((upload.is_over(), upload.is_done()), (true, result.is_ok()));
        result.map(|()| String::from_utf8(out).unwrap()).map_err(|error| error.to_string())
    }

    fn streamed(parts: &'static [&'static str]) -> RequestBody {
        let parts = parts.iter().map(|part| Ok(Bytes::from_static(part.as_bytes())));
        RequestBody::of_stream(Box::pin(stream::iter(parts)))
    }

    #[test]
    fn request_is_written_with_its_length_or_in_chunks() {
        let (bytes, empty) = (|| RequestBody::of_bytes("{}".into()), RequestBody::default);
        for (method, uri, headers, body, expected) in [
            (
                Method::GET,
                "/a?b=c",
                &[("host", "h"), ("accept", "*/*")][..],
                empty(),
                "GET /a?b=c HTTP/1.1\r\nhost: h\r\naccept: */*\r\n\r\n",
            ),
            (Method::GET, "http://h:1/a", &[], empty(), "GET http://h:1/a HTTP/1.1\r\n\r\n"),
            (Method::POST, "/", &[], empty(), "POST / HTTP/1.1\r\ncontent-length: 0\r\n\r\n"),
            (Method::DELETE, "/", &[], empty(), "DELETE / HTTP/1.1\r\n\r\n"),
            (Method::DELETE, "/", &[], bytes(), "DELETE / HTTP/1.1\r\ncontent-length: 2\r\n\r\n{}"),
            // Replace an incorrect `Content-Length` from the caller, because the server could otherwise interpret a
            // part of the body as the next request.
            (
                Method::PUT,
                "/",
                &[("content-length", "1"), ("transfer-encoding", "chunked")],
                bytes(),
                "PUT / HTTP/1.1\r\ncontent-length: 2\r\n\r\n{}",
            ),
            (
                Method::PUT,
                "/",
                &[],
                streamed(&["a", "", "0123456789"]),
                "PUT / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\na\r\n0123456789\r\n0\r\n\r\n",
            ),
            (Method::PUT, "/", &[], streamed(&[]), "PUT / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n"),
            (
                Method::PUT,
                "/",
                &[("content-length", "3")],
                streamed(&["a", "bc"]),
                "PUT / HTTP/1.1\r\ncontent-length: 3\r\n\r\nabc",
            ),
        ] {
            assert_eq!(written(method, uri, headers, body).as_deref(), Ok(expected));
        }
    }

    #[test]
    fn stream_of_another_length_fails() {
        let put =
            |length, parts| written(Method::PUT, "/", &[("content-length", length)], streamed(parts)).unwrap_err();
        assert_eq!(put("3", &["a"]), "the request body ended 2 bytes before its length");
        assert_eq!(put("1", &["a", "b"]), "the request body is longer than its length");
    }
}
