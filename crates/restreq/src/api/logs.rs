//! Reads container logs.

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_core::Stream;
use http::Method;
use http::header::ACCEPT;
use pintle_meta::{ApiError, InvalidKey, ObjectKey, Time};

use super::Api;
use crate::error::InvalidRequest;
use crate::request::Request;
use crate::stream::ByteStream;

/// Options for [`Api::logs`] and [`Api::log_lines`], like Kubernetes' `PodLogOptions`. By default, the server sends the
/// entire log of the default container.
///
/// # Examples
///
/// ```
/// use pintle_restreq::LogOptions;
///
/// let crash = LogOptions { previous: true, tail_lines: Some(20), ..LogOptions::default() };
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LogOptions {
    /// The container's name. If the name is empty, the server uses the container in the annotation
    /// `kubectl.kubernetes.io/default-container`, or the only container of the pod.
    pub container: String,
    /// Whether to follow the log until the container terminates. Only [`Api::log_lines`] supports this option.
    pub follow: bool,
    /// Whether to read the log of the container's previous instance, from before the last restart.
    pub previous: bool,
    /// The maximum age of a log line, rounded up to whole seconds. This field cannot be combined with `since_time`.
    pub since: Option<Duration>,
    /// The earliest time of the lines that the server sends.
    pub since_time: Option<Time>,
    /// Whether each line begins with an RFC 3339 timestamp.
    pub timestamps: bool,
    /// The number of lines to send from the end of the log.
    pub tail_lines: Option<u64>,
    /// The approximate maximum size of the log in bytes, at least 1.
    pub limit_bytes: Option<u64>,
    /// The output stream to read, or `None` for both stdout and stderr. A value other than `None` requires Kubernetes
    /// 1.32 with the feature gate `PodLogsQuerySplitStreams`, and cannot be combined with `tail_lines`.
    pub stream: Option<LogSource>,
}

/// A container's output stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogSource {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

impl LogOptions {
    fn apply(&self, request: Request) -> Request {
        let request = match (self.since, self.since_time) {
            (Some(_), Some(_)) => request
                .keep(InvalidRequest::Mismatch("since and since_time exclude each other; set one of them".into())),
            _ => request,
        };
        let number = |number: Option<u64>| number.map(|number| number.to_string());
        let seconds = |span: Duration| (span.as_secs() + u64::from(span.subsec_nanos() > 0)).max(1);
        let true_text = |flag: bool| flag.then(|| "true".to_owned());
        let source = |source| match source {
            LogSource::Stdout => "Stdout".to_owned(),
            LogSource::Stderr => "Stderr".to_owned(),
        };
        let params = [
            ("container", Some(self.container.clone()).filter(|container| !container.is_empty())),
            ("follow", true_text(self.follow)),
            ("previous", true_text(self.previous)),
            ("sinceSeconds", number(self.since.map(seconds))),
            ("sinceTime", self.since_time.map(|time| time.to_string())),
            ("timestamps", true_text(self.timestamps)),
            ("tailLines", number(self.tail_lines)),
            ("limitBytes", number(self.limit_bytes)),
            ("stream", self.stream.map(source)),
        ];
        let given = params.into_iter().filter_map(|(name, value)| Some((name, value?)));
        given.fold(request, |request, (name, value)| request.param(name, value))
    }
}

impl<T> Api<T> {
    /// Returns the log of a container as one string. Each invalid UTF-8 sequence becomes U+FFFD.
    /// [`max_body`](crate::RestClientConfig::max_body) limits the size of the log.
    ///
    /// # Errors
    ///
    /// Returns one of these errors:
    ///
    /// - `NotFound` if the pod does not exist.
    /// - `BadRequest` if the container does not exist or has not started.
    /// - An error if this `Api` is not for pods, or if [`follow`](LogOptions::follow) is set.
    /// - Another error if the request fails.
    ///
    /// # Examples
    ///
    /// ```
    /// use pintle_meta::{ApiError, DynamicObject};
    /// use pintle_restreq::{Api, LogOptions};
    ///
    /// async fn last_words(pods: &Api<DynamicObject>) -> Result<String, ApiError> {
    ///     let options = LogOptions { previous: true, tail_lines: Some(20), ..LogOptions::default() };
    ///     pods.logs("web-1", &options).await
    /// }
    /// ```
    pub async fn logs(
        &self,
        key: impl TryInto<ObjectKey, Error: Into<InvalidKey>>,
        options: &LogOptions,
    ) -> Result<String, ApiError> {
        let mut request = self.log_request(key, options);
        if options.follow {
            let why = "a followed log has no end; use log_lines, or set follow to false";
            request = request.keep(InvalidRequest::Mismatch(why.into()));
        }
        Ok(text(&request.raw().await?))
    }

    /// Returns the log of a container as a stream of lines. Each line is returned as soon as it arrives. The
    /// documentation of [`LogLines`] describes the guarantees of the stream.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`logs`](Self::logs), but allows [`follow`](LogOptions::follow).
    ///
    /// # Examples
    ///
    /// ```
    /// use pintle_meta::{ApiError, DynamicObject};
    /// use pintle_restreq::{Api, LogOptions};
    ///
    /// async fn follow(pods: &Api<DynamicObject>) -> Result<(), ApiError> {
    ///     let mut lines = pods.log_lines("web-1", &LogOptions { follow: true, ..LogOptions::default() }).await?;
    ///     while let Some(line) = lines.next().await {
    ///         println!("{}", line?);
    ///     }
    ///     Ok(())
    /// }
    /// ```
    pub async fn log_lines(
        &self,
        key: impl TryInto<ObjectKey, Error: Into<InvalidKey>>,
        options: &LogOptions,
    ) -> Result<LogLines, ApiError> {
        let log = self.log_request(key, options).stream().await?;
        Ok(LogLines { log, splitter: LineSplitter::default(), is_over: false })
    }

    fn log_request(&self, key: impl TryInto<ObjectKey, Error: Into<InvalidKey>>, options: &LogOptions) -> Request {
        let request = self.on_object_of("", &["pods"], self.client.verb(Method::GET), key).subresource(["log"]);
        options.apply(request).header(ACCEPT.as_str(), "*/*")
    }
}

/// A stream of log lines without line ends, returned by [`Api::log_lines`].
///
/// Lines longer than 1 MiB are split into several items. Each invalid UTF-8 sequence becomes U+FFFD. The stream ends at
/// the end of the log. If [`follow`](LogOptions::follow) is set, the stream ends when the container terminates or the
/// server closes the connection.
///
/// The stream does not reconnect. To resume a log after the connection is lost, set
/// [`timestamps`](LogOptions::timestamps) for the first stream. Then open the log again, with the last timestamp as
/// [`since_time`](LogOptions::since_time). The new stream repeats all lines from the same second as this timestamp.
#[must_use = "a log is not read until it is polled"]
pub struct LogLines {
    log: ByteStream,
    splitter: LineSplitter,
    is_over: bool,
}

impl LogLines {
    /// Returns the next line, or `None` at the end of the log.
    ///
    /// # Errors
    ///
    /// Returns an error if the connection is lost. After an error, the stream ends.
    ///
    /// # Cancel safety
    ///
    /// This method is cancel safe: no line is lost if the future is dropped.
    pub async fn next(&mut self) -> Option<Result<String, ApiError>> {
        poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }
}

impl Stream for LogLines {
    type Item = Result<String, ApiError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(line) = self.splitter.next_line() {
                return Poll::Ready(Some(Ok(text(&line))));
            }
            if self.is_over {
                return Poll::Ready(self.splitter.rest().map(|line| Ok(text(&line))));
            }
            match ready!(Pin::new(&mut self.log).poll_next(cx)) {
                Some(Ok(chunk)) => self.splitter.push(&chunk),
                Some(Err(error)) => {
                    self.is_over = true;
                    self.splitter = LineSplitter::default();
                    return Poll::Ready(Some(Err(error)));
                }
                None => self.is_over = true,
            }
        }
    }
}

impl fmt::Debug for LogLines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LogLines").field(&self.log).finish()
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[derive(Default)]
struct LineSplitter {
    buffer: BytesMut,
    /// The buffer contains no line ending before this offset.
    searched: usize,
}

const MAX_LINE: usize = 1 << 20;

impl LineSplitter {
    fn push(&mut self, chunk: &[u8]) {
        self.buffer.extend_from_slice(chunk);
    }

    fn next_line(&mut self) -> Option<Bytes> {
        let window = &self.buffer[self.searched..];
        if let Some(at) = memchr::memchr(b'\n', window) {
            let end = self.searched + at;
            if end <= MAX_LINE {
                self.searched = 0;
                let mut line = self.buffer.split_to(end + 1).freeze();
                line.truncate(end);
                return Some(line);
            }
        }
        self.searched = self.buffer.len().min(MAX_LINE);
        if self.buffer.len() > MAX_LINE {
            self.searched = 0;
            return Some(self.buffer.split_to(MAX_LINE).freeze());
        }
        None
    }

    /// Returns the bytes after the last line ending, or `None` if there are none.
    fn rest(&mut self) -> Option<Bytes> {
        self.searched = 0;
        Some(self.buffer.split().freeze()).filter(|line| !line.is_empty())
    }
}

/// Splits a log that arrives in chunks of `step` bytes into lines.
#[cfg(any(test, fuzzing))]
pub(crate) fn lines(text: &[u8], step: usize) -> Vec<Bytes> {
    let mut splitter = LineSplitter::default();
    let mut lines = Vec::new();
    for chunk in text.chunks(step) {
        splitter.push(chunk);
        lines.extend(std::iter::from_fn(|| splitter.next_line()));
    }
    lines.extend(splitter.rest());
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_do_not_depend_on_chunks() {
        let long = [vec![b'x'; MAX_LINE + 10], b"\n".to_vec(), vec![b'y'; MAX_LINE], b"\nend".to_vec()].concat();
        for text in [&b""[..], b"\n", b"a\n\nb\r\nc", b"a\n", &long] {
            let whole = lines(text, text.len().max(1));
            let steps: &[usize] = if text.len() > 100 { &[4096, 100_003] } else { &[1, 2, 3] };
            for step in steps {
                assert_eq!(lines(text, *step), whole, "chunks of {step} bytes");
            }
        }
        assert_eq!(lines(b"a\n\nb\r\nc", 7), ["a", "", "b\r", "c"]);
        let sizes: Vec<usize> = lines(&long, 1 << 16).iter().map(Bytes::len).collect();
        assert_eq!(sizes, [MAX_LINE, 10, MAX_LINE, 3]);
    }
}
