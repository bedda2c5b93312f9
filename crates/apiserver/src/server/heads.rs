//! The room for the heads of requests: how much of them is kept at once, on all connections together.

use std::sync::Arc;

use http::Request;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A head is small up to here, and then nobody asks for room: 16,384 connections keep 256 MiB of such.
const SMALL_HEAD: usize = 16 << 10;
/// So many bytes of larger ones are kept, of which each has at most 1 MiB.
const LARGE: usize = 64 << 20;
/// What a header takes besides its texts, about.
pub(super) const HEADER: usize = 64;

/// The room that connections share.
#[derive(Clone, Debug)]
pub(super) struct Heads(Arc<Semaphore>);

/// The head of one request, that comes or has come. Dropping it gives its room back.
#[derive(Debug)]
pub(super) struct RequestHead {
    heads: Heads,
    bytes: usize,
    room: Option<OwnedSemaphorePermit>,
}

/// There is no more room. Whoever comes then is turned away.
#[derive(Debug, thiserror::Error)]
#[error("there is no room for the head of another request")]
pub(super) struct NoRoom;

impl Heads {
    pub(super) fn new() -> Self {
        Self(Arc::new(Semaphore::new(LARGE)))
    }

    /// One of which nothing has come yet.
    pub(super) fn begin(&self) -> RequestHead {
        RequestHead { heads: self.clone(), bytes: 0, room: None }
    }

    /// One that has come.
    pub(super) fn of<B>(&self, request: &Request<B>) -> Result<RequestHead, NoRoom> {
        let uri = request.uri().path_and_query().map_or(0, |path| path.as_str().len());
        let headers = request.headers().iter();
        let headers: usize = headers.map(|(name, value)| name.as_str().len() + value.len() + HEADER).sum();
        let mut head = self.begin();
        head.grow(uri + headers)?;
        Ok(head)
    }
}

impl RequestHead {
    /// So much of it is kept now.
    pub(super) fn set(&mut self, bytes: usize) -> Result<(), NoRoom> {
        if bytes < self.bytes {
            *self = self.heads.begin();
        }
        self.grow(bytes - self.bytes)
    }

    /// More of it has come.
    pub(super) fn grow(&mut self, bytes: usize) -> Result<(), NoRoom> {
        let before = self.bytes.saturating_sub(SMALL_HEAD);
        self.bytes += bytes;
        let more = self.bytes.saturating_sub(SMALL_HEAD) - before;
        if more == 0 {
            return Ok(());
        }
        let more = u32::try_from(more).map_err(|_| NoRoom)?;
        let room = self.heads.0.clone().try_acquire_many_owned(more).map_err(|_| NoRoom)?;
        match &mut self.room {
            Some(all) => all.merge(room),
            None => self.room = Some(room),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_ones_need_no_room_and_large_ones_give_theirs_back() {
        let heads = Heads::new();
        let large = |bytes: usize| {
            let mut head = heads.begin();
            head.grow(SMALL_HEAD).and_then(|()| head.grow(bytes)).map(|()| head)
        };
        let (first, second) = (large(LARGE / 2).expect("room"), large(LARGE / 2).expect("room"));
        assert!(large(1).is_err() && large(0).is_ok());
        drop(first);
        assert!(large(LARGE / 2).is_ok() && large(LARGE / 2 + 1).is_err());
        let request = |length: usize| Request::get("/a").header("a", "x".repeat(length)).body(()).expect("a request");
        let _third = large(LARGE / 2).expect("room");
        assert!(heads.of(&request(SMALL_HEAD)).is_err() && heads.of(&request(SMALL_HEAD / 2)).is_ok());
        drop(second);
        assert!(heads.of(&request(SMALL_HEAD)).is_ok());
        let mut changing = heads.begin();
        for (bytes, fits) in [(LARGE / 4, true), (0, true), (LARGE / 2 + SMALL_HEAD, true), (LARGE, false), (1, true)] {
            assert_eq!(changing.set(bytes).is_ok(), fits, "{bytes}");
        }
        assert!(large(LARGE / 2).is_ok());
    }
}
