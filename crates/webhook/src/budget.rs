//! The memory budget of request bodies. When the budget is exhausted, the server drops request bodies that arrive
//! slowly.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Buf;
use pintle_meta::__private::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// The maximum total memory of all request bodies. A request waits while its body would exceed this limit.
const BYTES: usize = 256 << 20;
/// The maximum size in bytes of a small body, which includes most reviews. An eighth of the budget is reserved for
/// small bodies, so that they do not wait for large ones.
const SMALL: usize = 64 << 10;
/// The time after which a request body that is still arriving counts as slow. The server drops slow bodies if it needs
/// their memory. API servers send bodies without pauses.
const SLOW: Duration = Duration::from_secs(1);

/// The memory budget of request bodies. Only the received bytes count, even if a request announces a longer body.
///
/// A body that does not fit into the budget waits for memory. A wait for other incomplete bodies lasts at most [`SLOW`],
/// so slow clients cannot block others.
pub(crate) struct Budget {
    state: Mutex<State>,
    /// Notifies waiting bodies that memory was returned.
    freed: Notify,
}

struct State {
    left: isize,
    reserved: isize,
    next: u64,
    /// The incomplete bodies with at least one byte, oldest first.
    incomplete: BTreeMap<u64, Incomplete>,
}

struct Incomplete {
    bytes: Vec<u8>,
    since: Instant,
    dropped: Arc<Notify>,
}

/// A body that the server is receiving. Dropping it returns its memory to the budget.
pub(crate) struct ArrivingBody {
    budget: Arc<Budget>,
    /// The body's key in `incomplete` after its first byte.
    number: Option<u64>,
    len: usize,
    dropped: Arc<Notify>,
}

/// The bytes of a complete request body or of a response body. Dropping them returns their memory to the budget.
pub(crate) struct Charged {
    budget: Arc<Budget>,
    bytes: Vec<u8>,
}

/// The server dropped a body that arrived too slowly.
#[derive(Debug)]
pub(crate) struct TooSlow;

impl Budget {
    pub(crate) fn new() -> Self {
        Self::with_bytes(BYTES)
    }

    fn with_bytes(bytes: usize) -> Self {
        let bytes = bytes as isize;
        let state = State { left: bytes, reserved: bytes / 8, next: 0, incomplete: BTreeMap::new() };
        Self { state: Mutex::new(state), freed: Notify::new() }
    }

    pub(crate) fn begin(self: &Arc<Self>) -> ArrivingBody {
        ArrivingBody { budget: self.clone(), number: None, len: 0, dropped: Arc::default() }
    }

    /// Takes memory for a response body, even if this exceeds the budget. The response already exists, so a wait would
    /// save no memory. Until the memory is returned, request bodies wait.
    pub(crate) fn charge(self: &Arc<Self>, bytes: Vec<u8>) -> Charged {
        self.state.lock().left -= bytes.len() as isize;
        Charged { budget: self.clone(), bytes }
    }
}

#[cfg(test)]
impl Budget {
    pub(crate) fn used(&self) -> usize {
        BYTES - self.state.lock().left as usize
    }
}

impl State {
    /// Takes memory for `bytes` more bytes of a body, and drops slow bodies to free it, oldest first. `len` is the body's
    /// new size. Returns the time of the next attempt if the memory is not free and no other body is slow.
    fn take(&mut self, number: Option<u64>, bytes: usize, len: usize, now: Instant) -> Result<(), Instant> {
        let needed = bytes as isize + if len <= SMALL { 0 } else { self.reserved };
        while self.left < needed {
            let others = self.incomplete.iter().filter(|(other, _)| Some(**other) != number);
            let Some((other, slow_at)) = others.map(|(other, body)| (*other, body.since + SLOW)).next() else {
                return Err(now + SLOW);
            };
            if slow_at > now {
                return Err(slow_at);
            }
            self.drop_body(other);
        }
        self.left -= bytes as isize;
        Ok(())
    }

    fn insert(&mut self, body: Incomplete) -> u64 {
        let number = self.next;
        self.next += 1;
        self.incomplete.insert(number, body);
        number
    }

    fn drop_body(&mut self, number: u64) {
        if let Some(body) = self.incomplete.remove(&number) {
            self.left += body.bytes.len() as isize;
            body.dropped.notify_one();
        }
    }
}

impl ArrivingBody {
    /// Returns the number of bytes that have arrived.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Waits until the server drops this body to free memory for other bodies.
    pub(crate) async fn is_dropped(&self) -> TooSlow {
        self.dropped.notified().await;
        TooSlow
    }

    /// Adds data to the body, as soon as the budget has enough memory.
    pub(crate) async fn add(&mut self, mut data: impl Buf) -> Result<(), TooSlow> {
        let budget = self.budget.clone();
        self.len += data.remaining();
        loop {
            let mut freed = pin!(budget.freed.notified());
            freed.as_mut().enable();
            let Some(next_attempt) = self.try_add(&mut data)? else { return Ok(()) };
            tokio::select! {
                () = freed => {}
                () = sleep_until(next_attempt) => {}
                dropped = self.is_dropped() => return Err(dropped),
            }
        }
    }

    /// Returns the time of the next attempt if the budget has not enough memory.
    fn try_add(&mut self, data: &mut impl Buf) -> Result<Option<Instant>, TooSlow> {
        let mut state = self.budget.state.lock();
        if self.number.is_some_and(|number| !state.incomplete.contains_key(&number)) {
            return Err(TooSlow);
        }
        let now = Instant::now();
        if let Err(next_attempt) = state.take(self.number, data.remaining(), self.len, now) {
            return Ok(Some(next_attempt));
        }
        let number = *self.number.get_or_insert_with(|| {
            state.insert(Incomplete { bytes: Vec::new(), since: now, dropped: self.dropped.clone() })
        });
        let body = state.incomplete.get_mut(&number).ok_or(TooSlow)?;
        while data.has_remaining() {
            let chunk = data.chunk();
            body.bytes.extend_from_slice(chunk);
            let read = chunk.len();
            data.advance(read);
        }
        Ok(None)
    }

    /// Ends the body. The server no longer drops it.
    pub(crate) fn end(mut self) -> Result<Charged, TooSlow> {
        let bytes = match self.number.take() {
            Some(number) => self.budget.state.lock().incomplete.remove(&number).ok_or(TooSlow)?.bytes,
            None => Vec::new(),
        };
        Ok(Charged { budget: self.budget.clone(), bytes })
    }
}

impl Drop for ArrivingBody {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            self.budget.state.lock().drop_body(number);
            self.budget.freed.notify_waiters();
        }
    }
}

impl Deref for Charged {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl AsRef<[u8]> for Charged {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Drop for Charged {
    fn drop(&mut self) {
        self.budget.state.lock().left += self.bytes.len() as isize;
        self.budget.freed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

    use futures_util::FutureExt;

    use super::*;

    /// A budget with a size of 8 parts, of which one is reserved for small bodies.
    const PART: usize = 2 * SMALL;

    fn part() -> &'static [u8] {
        &[0; PART]
    }

    async fn arriving(budget: &Arc<Budget>, parts: usize) -> ArrivingBody {
        let mut body = budget.begin();
        for _ in 0..parts {
            body.add(part()).await.unwrap();
        }
        body
    }

    #[tokio::test(start_paused = true)]
    async fn large_body_waits_for_a_complete_one() {
        let budget = Arc::new(Budget::with_bytes(8 * PART));
        let complete = arriving(&budget, 7).await.end().unwrap();
        let mut large = budget.begin();
        let mut added = Box::pin(large.add(part()));
        assert!((&mut added).now_or_never().is_none());
        let small = budget.begin().add(&[0; SMALL][..]).now_or_never();
        assert!(matches!(small, Some(Ok(()))), "small bodies do not wait");
        drop(complete);
        added.now_or_never().unwrap().unwrap();
        assert_eq!(large.end().unwrap().len(), PART);
        assert_eq!(budget.state.lock().left, 8 * PART as isize, "all memory is free again");
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_bodies_do_not_block_each_other() {
        let budget = Arc::new(Budget::with_bytes(8 * PART));
        let (mut first, mut second) = (arriving(&budget, 4).await, arriving(&budget, 3).await);
        let start = Instant::now();
        let (old, new) = tokio::join!(first.add(part()), second.add(part()));
        assert!(old.is_ok() != new.is_ok(), "one of the bodies is dropped");
        assert_eq!(start.elapsed(), SLOW);
    }

    #[tokio::test(start_paused = true)]
    async fn bodies_that_are_not_slow_stay() {
        let budget = Arc::new(Budget::with_bytes(8 * PART));
        let fast = arriving(&budget, 7).await;
        let mut other = budget.begin();
        assert!(other.add(part()).now_or_never().is_none());
        assert_eq!(fast.end().unwrap().len(), 7 * PART);
    }

    #[tokio::test(start_paused = true)]
    async fn slow_small_bodies_give_way_to_a_large_one() {
        let budget = Arc::new(Budget::with_bytes(8 * PART));
        let mut small = Vec::new();
        for _ in 0..16 {
            let mut body = budget.begin();
            body.add(&[0; SMALL][..]).await.unwrap();
            small.push(body);
        }
        let start = Instant::now();
        let large = arriving(&budget, 1).await.end().unwrap();
        assert_eq!((large.len(), start.elapsed()), (PART, SLOW));
        let dropped = small.into_iter().map(|body| body.end().is_err()).collect::<Vec<_>>();
        assert_eq!(dropped, [[true; 4], [false; 4], [false; 4], [false; 4]].concat(), "the oldest bodies give way");
    }
}
