//! The parts of HTTP/1.1 that the load server supports: requests without a body, and chunked responses.

use std::io::{self, BufRead as _, BufReader, IoSlice, Write as _};
use std::net::TcpStream;
use std::time::Duration;

pub(super) const JSON: &str = "application/json";
pub(super) const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

pub(super) struct Connection {
    stream: BufReader<TcpStream>,
    is_last: bool,
}

pub(super) struct Request {
    pub(super) path: String,
    query: String,
    /// Whether the client accepts protobuf.
    pub(super) wants_protobuf: bool,
}

/// A chunked response whose headers were sent.
pub(super) struct Answer<'a>(&'a TcpStream);

impl Connection {
    pub(super) fn new(stream: TcpStream) -> Self {
        Self { stream: BufReader::new(stream), is_last: false }
    }

    /// Reads the next request, or returns `None` if the client has closed the connection.
    pub(super) fn request(&mut self) -> io::Result<Option<Request>> {
        if self.is_last {
            return Ok(None);
        }
        let (mut target, mut line, mut wants_protobuf) = (None, String::new(), false);
        loop {
            line.clear();
            if self.stream.read_line(&mut line)? == 0 {
                return Ok(None);
            }
            match (line.trim_end(), &target) {
                ("", Some(_)) => break,
                (line, None) => target = line.split(' ').nth(1).map(str::to_owned),
                (line, Some(_)) => {
                    let line = line.to_ascii_lowercase();
                    self.is_last |= line == "connection: close";
                    wants_protobuf |= line.starts_with("accept:") && line.contains(PROTOBUF);
                }
            }
        }
        let target = target.unwrap_or_default();
        let (path, query) = target.split_once('?').unwrap_or((&target, ""));
        Ok(Some(Request { path: path.to_owned(), query: query.to_owned(), wants_protobuf }))
    }

    pub(super) fn answer(&self, status: u16, media: &str) -> io::Result<Answer<'_>> {
        let mut stream = self.stream.get_ref();
        let head = format!("HTTP/1.1 {status} -\r\nContent-Type: {media}\r\nTransfer-Encoding: chunked\r\n\r\n");
        stream.write_all(head.as_bytes())?;
        Ok(Answer(stream))
    }
}

impl Request {
    pub(super) fn value(&self, name: &str) -> Option<&str> {
        let mut pairs = self.query.split('&').filter_map(|pair| pair.split_once('='));
        pairs.find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    pub(super) fn number(&self, name: &str) -> Option<usize> {
        self.value(name)?.parse().ok()
    }
}

impl Answer<'_> {
    pub(super) fn piece(&mut self, bytes: &[u8]) -> io::Result<()> {
        if bytes.is_empty() {
            return Ok(()); // an empty chunk would end the response
        }
        let head = format!("{:x}\r\n", bytes.len());
        let mut slices = &mut [IoSlice::new(head.as_bytes()), IoSlice::new(bytes), IoSlice::new(b"\r\n")][..];
        while !slices.is_empty() {
            match self.0.write_vectored(slices) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => IoSlice::advance_slices(&mut slices, written),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    pub(super) fn end(&mut self) -> io::Result<()> {
        self.0.write_all(b"0\r\n\r\n")
    }

    pub(super) fn whole(mut self, bytes: &[u8]) -> io::Result<()> {
        self.piece(bytes)?;
        self.end()
    }

    /// Returns `true` if the client has closed the connection or sent more data. A client that reads a watch
    /// sends no data.
    pub(super) fn has_no_reader(&self) -> bool {
        let looked = self.0.set_read_timeout(Some(Duration::from_millis(1))).and_then(|()| self.0.peek(&mut [0]));
        let is_there = matches!(&looked, Err(error) if error.kind() == io::ErrorKind::WouldBlock);
        // Remove the timeout, because a connection has no timeout between requests.
        self.0.set_read_timeout(None).is_err() || !is_there
    }
}
