//! Streams response bodies.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use futures_core::Stream;
use http_body::Body;
use pintle_meta::{ApiError, ErrorKind, RequestLine};
use pintle_transport::ResponseBody;
use tokio::time::{Instant, Sleep};

use crate::error::{Phase, broken_body, failed, late};

/// A stream of the chunks of a response body. Chunks can start and end at any byte.
///
/// At the end of the response, the stream returns `None`. The stream returns an error if the connection is lost, or if
/// no data arrives within the idle timeout. Dropping the stream cancels the request.
///
/// # Examples
///
/// ```
/// use std::io::Write;
/// use pintle_restreq::RestClient;
///
/// async fn follow(client: &RestClient) -> Result<(), Box<dyn std::error::Error>> {
///     let log = client.get().abs_path(["/api/v1"]).namespace("team-a").resource("pods").name("web").subresource(["log"]);
///     let mut log = log.param("follow", "true").stream().await?;
///     while let Some(chunk) = log.next().await {
///         std::io::stdout().write_all(&chunk?)?;
///     }
///     Ok(())
/// }
/// ```
pub struct ByteStream {
    body: ResponseBody,
    line: Arc<RequestLine>,
    idle: Option<(Duration, Pin<Box<Sleep>>)>,
    /// The total timeout, which appears in the error, and its timer.
    deadline: Option<(Duration, Pin<Box<Sleep>>)>,
    done: bool,
}

impl ByteStream {
    pub(crate) fn new(body: ResponseBody, line: Arc<RequestLine>, idle: Option<Duration>) -> Self {
        let idle = idle.map(|idle| (idle, Box::pin(tokio::time::sleep(idle))));
        Self { body, line, idle, deadline: None, done: false }
    }

    /// Sets a deadline for the entire stream. The duration in `deadline` appears in the timeout error.
    pub(crate) fn with_deadline(mut self, deadline: Option<(Instant, Duration)>) -> Self {
        self.deadline = deadline.map(|(at, after)| (after, Box::pin(tokio::time::sleep_until(at))));
        self
    }

    /// Returns the method and the URL of the request for this stream.
    pub fn request(&self) -> &Arc<RequestLine> {
        &self.line
    }

    /// Returns the next chunk of the body, or `None` at the end of the body.
    ///
    /// # Errors
    ///
    /// Returns an error if the connection is lost, or if no data arrives within the idle timeout. After an error, the stream returns
    /// `None`.
    ///
    /// # Cancel safety
    ///
    /// This method is cancel safe: no chunk is lost if the future is dropped.
    pub async fn next(&mut self) -> Option<Result<Bytes, ApiError>> {
        std::future::poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }

    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, ErrorKind>>> {
        // Check the clock here, because the timer is only polled when the connection has no data available.
        if let Some((after, sleep)) = &self.deadline
            && Instant::now() >= sleep.deadline()
        {
            return Poll::Ready(Some(Err(late(Phase::Total, *after))));
        }
        loop {
            let Poll::Ready(next) = Pin::new(&mut self.body).poll_frame(cx) else { break };
            if let Some((idle, sleep)) = &mut self.idle
                && let Some(at) = Instant::now().checked_add(*idle)
            {
                sleep.as_mut().reset(at);
            }
            match next {
                None => return Poll::Ready(None),
                Some(Err(error)) => return Poll::Ready(Some(Err(broken_body(error)))),
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => return Poll::Ready(Some(Ok(data))),
                    Err(_trailers) => continue,
                },
            }
        }
        if let Some((after, sleep)) = &mut self.deadline
            && sleep.as_mut().poll(cx).is_ready()
        {
            return Poll::Ready(Some(Err(late(Phase::Total, *after))));
        }
        let Some((idle, sleep)) = &mut self.idle else { return Poll::Pending };
        ready!(sleep.as_mut().poll(cx));
        Poll::Ready(Some(Err(late(Phase::Idle, *idle))))
    }
}

impl Stream for ByteStream {
    type Item = Result<Bytes, ApiError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.done {
            return Poll::Ready(None);
        }
        let next = ready!(self.poll_chunk(cx));
        self.done = !matches!(next, Some(Ok(_)));
        Poll::Ready(next.map(|chunk| chunk.map_err(|kind| failed(&self.line, kind))))
    }
}

#[cfg(feature = "tower")]
impl Body for ByteStream {
    type Data = Bytes;
    type Error = ApiError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, ApiError>>> {
        self.poll_next(cx).map(|next| next.map(|chunk| chunk.map(http_body::Frame::data)))
    }
}

pintle_meta::debug_struct!(ByteStream |self| { request = format_args!("{}", self.line), .. });
