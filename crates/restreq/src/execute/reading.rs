//! Reads response bodies.

use std::pin::pin;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body::Body as _;
use http_body_util::BodyExt;
use pintle_meta::ErrorKind;
use pintle_transport::{ResponseBody, Timers};

use super::{from_now, within};
use crate::error::{Phase, broken_body, late, too_large};

/// The maximum capacity in bytes that is reserved before the data of a body arrives.
const MAX_RESERVED: usize = 1 << 20;
/// The maximum number of bytes to read from a body whose content is not needed. A connection can only be reused after
/// the entire body has been read.
const MAX_DRAINED: u64 = 2 << 10;
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// Reads an entire response body of at most `limit` bytes. `idle` is the timeout for each chunk of the body.
pub(super) async fn read(
    timers: &Timers,
    mut body: ResponseBody,
    limit: usize,
    idle: Option<Duration>,
) -> Result<Bytes, ErrorKind> {
    let expected = body.size_hint().exact().unwrap_or(0);
    if expected > limit as u64 {
        return Err(too_large(limit));
    }
    let mut next = async || match idle {
        None => chunk(&mut body).await,
        Some(idle) => {
            let next = timers.within(idle, pin!(chunk(&mut body))).await;
            next.unwrap_or_else(|| Err(late(Phase::Idle, idle)))
        }
    };
    let Some(first) = next().await? else { return Ok(Bytes::new()) };
    let Some(second) = next().await? else {
        return if first.len() > limit { Err(too_large(limit)) } else { Ok(first) };
    };
    let mut whole = BytesMut::with_capacity(room(first.len() + second.len(), expected));
    whole.extend_from_slice(&first);
    whole.extend_from_slice(&second);
    while whole.len() <= limit {
        match next().await? {
            Some(chunk) => whole.extend_from_slice(&chunk),
            None => return Ok(whole.freeze()),
        }
    }
    Err(too_large(limit))
}

/// Returns the capacity to reserve: the announced size, but at most `MAX_RESERVED` and at least `present`. More memory
/// is only allocated when data arrives, because a server can announce a larger body than it sends.
fn room(present: usize, announced: u64) -> usize {
    present.max(usize::try_from(announced).unwrap_or(usize::MAX).min(MAX_RESERVED))
}

/// Reads up to `limit` bytes from the start of a response body, for at most `max_wait`.
pub(super) async fn read_some(mut body: ResponseBody, limit: usize, max_wait: Duration) -> Bytes {
    let deadline = from_now(max_wait);
    let mut whole = BytesMut::new();
    while whole.len() < limit
        && let Ok(Ok(Some(chunk))) = within(deadline, chunk(&mut body)).await
    {
        whole.extend_from_slice(&chunk);
    }
    whole.truncate(limit);
    whole.freeze()
}

async fn chunk(body: &mut ResponseBody) -> Result<Option<Bytes>, ErrorKind> {
    loop {
        match body.frame().await {
            None => return Ok(None),
            Some(Err(error)) => return Err(broken_body(error)),
            Some(Ok(frame)) => match frame.into_data() {
                Ok(data) => return Ok(Some(data)),
                Err(_trailers) => continue,
            },
        }
    }
}

pub(super) async fn drain(body: ResponseBody) {
    if body.size_hint().lower() <= MAX_DRAINED {
        read_some(body, MAX_DRAINED as usize, DRAIN_TIMEOUT).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn announced_length_reserves_at_most_one_mebibyte() {
        assert_eq!((room(10, 0), room(10, 700), room(10, 1 << 30)), (10, 700, 1 << 20));
        assert_eq!((room(2 << 20, 3 << 30), room(0, u64::MAX)), (2 << 20, 1 << 20));
    }
}
