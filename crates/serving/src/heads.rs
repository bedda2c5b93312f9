//! A memory budget for the request heads of all connections.

use std::sync::Arc;

use http::Request;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The maximum size of a request head that does not need permits, in bytes. 16,384 connections with such heads use 256
/// MiB.
const SMALL_HEAD: usize = 16 << 10;
/// The maximum total size of all heads that need permits, in bytes. A single head has at most 1 MiB.
const LARGE: usize = 64 << 20;
/// The approximate memory overhead of a header, not including its name and value, in bytes.
pub const HEADER: usize = 64;

/// The memory budget for request heads, which all connections share.
#[derive(Clone, Debug)]
pub struct Heads(Arc<Semaphore>);

/// The memory of a request head, which may be incomplete. Dropping a `RequestHead` returns its permits to the budget.
#[derive(Debug)]
pub struct RequestHead {
    heads: Heads,
    bytes: usize,
    permit: Option<OwnedSemaphorePermit>,
}

/// The error for a request head that exceeds the memory budget. The server then rejects the request or closes the
/// connection.
#[derive(Debug, thiserror::Error)]
#[error("too many requests: header buffer limit reached")]
pub struct HeadBudgetExceeded;

impl Default for Heads {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(LARGE)))
    }
}

impl Heads {
    /// Returns the [`RequestHead`] for a request of which no bytes have arrived yet.
    pub fn begin(&self) -> RequestHead {
        RequestHead { heads: self.clone(), bytes: 0, permit: None }
    }

    /// Acquires permits for the head of a parsed request, and returns a [`RequestHead`] with these permits.
    pub fn of<B>(&self, request: &Request<B>) -> Result<RequestHead, HeadBudgetExceeded> {
        let uri = request.uri().path_and_query().map_or(0, |path| path.as_str().len());
        let headers = request.headers().iter();
        let headers: usize = headers.map(|(name, value)| name.as_str().len() + value.len() + HEADER).sum();
        let mut head = self.begin();
        head.grow(uri + headers)?;
        Ok(head)
    }
}

impl RequestHead {
    /// Sets the size of the request head in bytes.
    pub fn set(&mut self, bytes: usize) -> Result<(), HeadBudgetExceeded> {
        if bytes < self.bytes {
            *self = self.heads.begin();
        }
        self.grow(bytes - self.bytes)
    }

    /// Adds `bytes` to the size of the request head.
    pub fn grow(&mut self, bytes: usize) -> Result<(), HeadBudgetExceeded> {
        let before = self.bytes.saturating_sub(SMALL_HEAD);
        self.bytes += bytes;
        let excess = self.bytes.saturating_sub(SMALL_HEAD) - before;
        if excess == 0 {
            return Ok(());
        }
        let excess = u32::try_from(excess).map_err(|_| HeadBudgetExceeded)?;
        let permit = self.heads.0.clone().try_acquire_many_owned(excess).map_err(|_| HeadBudgetExceeded)?;
        match &mut self.permit {
            Some(all) => all.merge(permit),
            None => self.permit = Some(permit),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_large_heads_count_against_the_budget() {
        let heads = Heads::default();
        let large = |bytes: usize| {
            let mut head = heads.begin();
            head.grow(SMALL_HEAD).and_then(|()| head.grow(bytes)).map(|()| head)
        };
        let (first, second) = (large(LARGE / 2).expect("a permit"), large(LARGE / 2).expect("a permit"));
        assert!(large(1).is_err() && large(0).is_ok());
        drop(first);
        assert!(large(LARGE / 2).is_ok() && large(LARGE / 2 + 1).is_err());
        let request = |length: usize| Request::get("/a").header("a", "x".repeat(length)).body(()).expect("a request");
        let _third = large(LARGE / 2).expect("a permit");
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
