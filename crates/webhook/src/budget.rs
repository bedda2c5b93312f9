//! The memory budget of bodies. When the budget is exhausted, request bodies wait for memory in order, and the server
//! drops bodies that arrive slowly.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, Bytes};
use pintle_meta::__private::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// The memory budget of all bodies. A request waits while its body would exceed this limit.
const BYTES: usize = 256 << 20;
/// The maximum size in bytes of a small body, which includes most reviews. An eighth of the budget is reserved for
/// bodies that announce at most this length, so that they do not wait for large ones.
const SMALL: usize = 64 << 10;
/// The total time, from the first byte on, for which the server waits for the data of a request body. Afterwards, other
/// bodies may take its memory.
const SLOW: Duration = Duration::from_secs(1);

/// The memory budget of bodies. Only the memory for received bytes counts, even if a request announces a longer body.
///
/// A body that does not fit into the budget waits for memory. A wait for other incomplete bodies lasts at most [`SLOW`],
/// so slow clients cannot block others.
#[derive(Clone)]
pub(crate) struct Budget {
    small: Arc<Pool>,
    large: Arc<Pool>,
}

struct Pool {
    state: Mutex<State>,
    /// The body with this lock receives the next free memory. Other bodies wait for the lock in order.
    turn: tokio::sync::Mutex<()>,
    /// Notifies the body with the turn that it can try again.
    changed: Notify,
}

struct State {
    size: usize,
    /// The free memory, which is negative if responses exceed the budget.
    left: isize,
    next: u64,
    /// The incomplete bodies with at least one byte, oldest first.
    incomplete: BTreeMap<u64, Incomplete>,
}

struct Incomplete {
    bytes: Vec<u8>,
    /// The total time of earlier waits for the client.
    earlier: Duration,
    /// The start of the current wait for the client, or `None` while the body waits for memory.
    since: Option<Instant>,
    dropped: Arc<Notify>,
}

/// A body that the server is receiving. Dropping it returns its memory to the budget.
pub(crate) struct ArrivingBody {
    pool: Arc<Pool>,
    /// The body's key in `incomplete` after its first byte.
    number: Option<u64>,
    len: usize,
    /// The expected maximum length.
    most: usize,
    dropped: Arc<Notify>,
}

/// The bytes of a complete request body or of a response body. Dropping them returns their memory to the budget.
pub(crate) struct Charged {
    pool: Arc<Pool>,
    bytes: Vec<u8>,
}

/// The server dropped a body to free memory for other bodies.
#[derive(Debug)]
pub(crate) struct Dropped;

impl Budget {
    pub(crate) fn new() -> Self {
        Self::with_bytes(BYTES)
    }

    fn with_bytes(bytes: usize) -> Self {
        Self { small: Pool::new(bytes / 8), large: Pool::new(bytes - bytes / 8) }
    }

    /// Starts a request body of at most `limit` bytes. `announced` is the length of the body if the client sent it.
    pub(crate) fn begin(&self, announced: Option<u64>, limit: usize) -> ArrivingBody {
        let most = announced.map_or(limit, |length| length.min(limit as u64) as usize);
        ArrivingBody { pool: self.pool(most).clone(), number: None, len: 0, most, dropped: Arc::default() }
    }

    /// Takes memory for a response body, even if this exceeds the budget. The response already exists, so a wait would
    /// save no memory. Until the memory is returned, request bodies wait.
    pub(crate) fn charge(&self, mut bytes: Vec<u8>) -> Charged {
        bytes.shrink_to_fit();
        let pool = self.pool(bytes.len()).clone();
        pool.state.lock().left -= bytes.capacity() as isize;
        Charged { pool, bytes }
    }

    fn pool(&self, len: usize) -> &Arc<Pool> {
        if len <= SMALL { &self.small } else { &self.large }
    }

    #[cfg(test)]
    pub(crate) fn used(&self) -> isize {
        let used = |pool: &Pool| {
            let state = pool.state.lock();
            state.size as isize - state.left
        };
        used(&self.small) + used(&self.large)
    }
}

impl Pool {
    fn new(size: usize) -> Arc<Self> {
        let state = State { size, left: size as isize, next: 0, incomplete: BTreeMap::new() };
        Arc::new(Self { state: Mutex::new(state), turn: tokio::sync::Mutex::default(), changed: Notify::new() })
    }
}

impl State {
    /// Makes room for `bytes` more bytes of the body `own`. Drops other bodies only if this frees enough memory. Returns
    /// the time of the next attempt if there is no room.
    fn make_room(&mut self, own: Option<u64>, bytes: usize, now: Instant) -> Result<(), Instant> {
        let (mut room, needed) = (self.left, bytes as isize);
        if bytes == 0 || room >= needed {
            return Ok(());
        }
        let others = self.incomplete.iter().filter(|(number, _)| Some(**number) != own);
        let slow = others.clone().filter(|(_, body)| body.is_slow(now));
        // If all memory belongs to bodies that wait for more memory, the newest one gives way.
        let is_stuck = self.is_stuck(now);
        let is_waiting = |number, body: &Incomplete| Some(number) == own || !body.is_slow(now);
        let waiting = self.incomplete.iter().rev().filter(|(number, body)| is_stuck && is_waiting(**number, body));
        let mut victims = Vec::new();
        for (number, body) in slow.chain(waiting) {
            if room >= needed {
                break;
            }
            if Some(*number) == own {
                victims = vec![*number];
                room = needed;
                break;
            }
            room += body.bytes.capacity() as isize;
            victims.push(*number);
        }
        if room < needed {
            let not_slow = others.filter(|(_, body)| !body.is_slow(now));
            return Err(not_slow.filter_map(|(_, body)| body.slow_at()).min().unwrap_or(now + SLOW));
        }
        victims.into_iter().for_each(|number| self.drop_body(number));
        Ok(())
    }

    /// Returns whether all memory belongs to bodies that are slow or wait for memory.
    fn is_stuck(&self, now: Instant) -> bool {
        let used: usize = self.incomplete.values().map(|body| body.bytes.capacity()).sum();
        self.left + used as isize == self.size as isize
            && self.incomplete.values().all(|body| body.since.is_none() || body.is_slow(now))
    }

    fn insert(&mut self, dropped: Arc<Notify>) -> u64 {
        let number = self.next;
        self.next += 1;
        self.incomplete.insert(number, Incomplete { bytes: Vec::new(), earlier: Duration::ZERO, since: None, dropped });
        number
    }

    fn drop_body(&mut self, number: u64) {
        if let Some(body) = self.incomplete.remove(&number) {
            self.left += body.bytes.capacity() as isize;
            body.dropped.notify_one();
        }
    }
}

impl Incomplete {
    fn is_slow(&self, now: Instant) -> bool {
        self.earlier + self.since.map_or(Duration::ZERO, |since| now - since) >= SLOW
    }

    /// Returns the time at which the body becomes slow, unless the body waits for memory.
    fn slow_at(&self) -> Option<Instant> {
        Some(self.since? + SLOW.saturating_sub(self.earlier))
    }
}

impl ArrivingBody {
    /// Returns the number of bytes that have arrived.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Waits until the server drops this body to free memory for other bodies.
    pub(crate) async fn is_dropped(&self) -> Dropped {
        self.dropped.notified().await;
        Dropped
    }

    /// Adds data to the body, as soon as the budget has enough memory.
    pub(crate) async fn add(&mut self, mut data: impl Buf) -> Result<(), Dropped> {
        // `Buf` can run foreign code, which must not run under the lock. This call copies nothing from `Bytes`.
        let data = data.copy_to_bytes(data.remaining());
        self.stop_clock();
        let dropped = self.dropped.clone();
        tokio::select! {
            () = dropped.notified() => Err(Dropped),
            added = self.add_in_turn(data) => added,
        }
    }

    async fn add_in_turn(&mut self, data: Bytes) -> Result<(), Dropped> {
        self.len += data.len();
        let pool = self.pool.clone();
        let _turn = match pool.turn.try_lock() {
            _ if self.len <= self.capacity() => None,
            Ok(turn) => Some(turn),
            Err(_) => {
                // The body with the turn may now be in a mutual wait with this one.
                pool.changed.notify_one();
                Some(pool.turn.lock().await)
            }
        };
        while let Err(next_attempt) = self.try_add(&data)? {
            tokio::select! {
                () = pool.changed.notified() => {}
                () = sleep_until(next_attempt) => {}
            }
        }
        Ok(())
    }

    /// Returns the memory that this body has already taken from the budget.
    fn capacity(&self) -> usize {
        let state = self.pool.state.lock();
        self.number.and_then(|number| state.incomplete.get(&number)).map_or(0, |body| body.bytes.capacity())
    }

    fn stop_clock(&self) {
        let mut state = self.pool.state.lock();
        if let Some(body) = self.number.and_then(|number| state.incomplete.get_mut(&number)) {
            body.earlier += body.since.take().map_or(Duration::ZERO, |since| since.elapsed());
        }
    }

    /// Returns the time of the next attempt if the budget has not enough memory.
    fn try_add(&mut self, data: &Bytes) -> Result<Result<(), Instant>, Dropped> {
        let now = Instant::now();
        let state = &mut *self.pool.state.lock();
        let old = match self.number {
            Some(number) => state.incomplete.get(&number).ok_or(Dropped)?.bytes.capacity(),
            None => 0,
        };
        let new = if self.len > old { self.len.max(self.most.min(2 * old)) } else { old };
        if let Err(next_attempt) = state.make_room(self.number, new - old, now) {
            return Ok(Err(next_attempt));
        }
        let number = *self.number.get_or_insert_with(|| state.insert(self.dropped.clone()));
        let body = state.incomplete.get_mut(&number).ok_or(Dropped)?;
        body.bytes.reserve_exact(new - body.bytes.len());
        body.bytes.extend_from_slice(data);
        body.since = Some(now);
        state.left -= (body.bytes.capacity() - old) as isize;
        Ok(Ok(()))
    }

    /// Ends the body. The server no longer drops it.
    pub(crate) fn end(mut self) -> Result<Charged, Dropped> {
        let bytes = match self.number.take() {
            Some(number) => self.pool.state.lock().incomplete.remove(&number).ok_or(Dropped)?.bytes,
            None => Vec::new(),
        };
        Ok(Charged { pool: self.pool.clone(), bytes })
    }
}

impl Drop for ArrivingBody {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            self.pool.state.lock().drop_body(number);
            self.pool.changed.notify_one();
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
        self.pool.state.lock().left += self.bytes.capacity() as isize;
        self.pool.changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

    use futures_util::FutureExt;
    use tokio::time::advance;

    use super::*;

    /// Most tests use a budget of 8 parts, of which one is reserved for small bodies.
    const PART: usize = 2 * SMALL;

    fn budget() -> Budget {
        Budget::with_bytes(8 * PART)
    }

    fn parts(count: usize) -> &'static [u8] {
        &[0; 8 * PART][..count * PART]
    }

    fn begin(budget: &Budget) -> ArrivingBody {
        budget.begin(Some(PART as u64), 8 * PART)
    }

    async fn arriving(budget: &Budget, count: usize) -> ArrivingBody {
        let mut body = begin(budget);
        body.add(parts(count)).await.unwrap();
        body
    }

    #[tokio::test(start_paused = true)]
    async fn large_body_waits_for_a_complete_one() {
        let budget = budget();
        let complete = arriving(&budget, 7).await.end().unwrap();
        let mut large = begin(&budget);
        let mut added = Box::pin(large.add(&parts(1)[..SMALL]));
        assert!((&mut added).now_or_never().is_none(), "the first bytes use no reserved memory");
        let small = budget.begin(Some(SMALL as u64), PART).add(&parts(1)[..SMALL]).now_or_never();
        assert!(matches!(small, Some(Ok(()))), "small bodies do not wait");
        drop(complete);
        added.now_or_never().unwrap().unwrap();
        assert_eq!(large.end().unwrap().len(), SMALL);
        assert_eq!(budget.used(), 0, "all memory is free again");
    }

    #[tokio::test(start_paused = true)]
    async fn newest_body_breaks_a_mutual_wait() {
        let budget = budget();
        let (mut first, mut second) = (arriving(&budget, 4).await, arriving(&budget, 3).await);
        let start = Instant::now();
        let (old, new) = tokio::join!(first.add(parts(1)), second.add(parts(1)));
        assert!(old.is_ok() && new.is_err());
        assert_eq!(start.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn slow_and_waiting_bodies_break_a_mutual_wait_together() {
        let budget = budget();
        let slow = arriving(&budget, 2).await;
        advance(SLOW).await;
        let (mut waiting, mut large) = (arriving(&budget, 4).await, begin(&budget));
        let (large, waiting) = tokio::join!(large.add(parts(6)), waiting.add(parts(1)));
        assert!(waiting.is_err() && large.is_ok() && slow.end().is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn bodies_that_are_not_slow_stay() {
        let budget = budget();
        let fast = arriving(&budget, 7).await;
        assert!(begin(&budget).add(parts(1)).now_or_never().is_none());
        assert_eq!(fast.end().unwrap().len(), 7 * PART);
    }

    #[tokio::test(start_paused = true)]
    async fn wait_for_memory_makes_no_body_slow() {
        let budget = budget();
        let mut body = arriving(&budget, 4).await;
        let complete = arriving(&budget, 3).await.end().unwrap();
        let mut added = Box::pin(body.add(parts(1)));
        assert!((&mut added).now_or_never().is_none());
        advance(5 * SLOW).await;
        drop(complete);
        added.now_or_never().unwrap().unwrap();
        assert!(begin(&budget).add(parts(3)).now_or_never().is_none());
        assert!(body.end().is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn slow_body_stays_if_its_memory_is_not_enough() {
        let budget = budget();
        let complete = arriving(&budget, 6).await.end().unwrap();
        let slow = arriving(&budget, 1).await;
        advance(SLOW).await;
        let mut large = begin(&budget);
        let waited = tokio::time::timeout(5 * SLOW, large.add(parts(2))).await;
        assert!(waited.is_err(), "the body sleeps until it can make progress");
        assert!(slow.end().is_ok());
        drop(complete);
    }

    #[tokio::test(start_paused = true)]
    async fn body_that_needs_no_memory_never_waits() {
        let budget = budget();
        let mut small = budget.begin(Some(4 * PART as u64), 8 * PART);
        small.add(parts(2)).await.unwrap();
        small.add(parts(1)).await.unwrap();
        let mut large = budget.begin(Some(4 * PART as u64), 8 * PART);
        large.add(parts(3)).await.unwrap();
        let mut waiting = Box::pin(large.add(parts(1)));
        assert!((&mut waiting).now_or_never().is_none());
        let response = budget.charge(parts(1).to_vec());
        assert!(small.add(parts(1)).now_or_never().unwrap().is_ok(), "its memory was reserved before");
        drop(small.end().unwrap());
        assert!(waiting.now_or_never().unwrap().is_ok());
        drop(response);
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_bodies_receive_memory_in_order() {
        let budget = budget();
        let (many, one) = (arriving(&budget, 6).await.end().unwrap(), arriving(&budget, 1).await.end().unwrap());
        let (mut first, mut second) = (begin(&budget), begin(&budget));
        let (mut first, mut second) = (Box::pin(first.add(parts(2))), Box::pin(second.add(parts(1))));
        assert!((&mut first).now_or_never().is_none() && (&mut second).now_or_never().is_none());
        drop(one);
        assert!((&mut second).now_or_never().is_none(), "the first body waits for two parts");
        drop(many);
        assert!(first.now_or_never().is_some() && second.now_or_never().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn oldest_slow_bodies_give_way() {
        let budget = budget();
        let mut slow = Vec::new();
        for _ in 0..7 {
            slow.push(arriving(&budget, 1).await);
        }
        let start = Instant::now();
        let large = arriving(&budget, 2).await.end().unwrap();
        assert_eq!((large.len(), start.elapsed()), (2 * PART, SLOW));
        let dropped = slow.into_iter().map(|body| body.end().is_err()).collect::<Vec<_>>();
        assert_eq!(dropped, [true, true, false, false, false, false, false]);
    }

    #[tokio::test(start_paused = true)]
    async fn capacity_counts_towards_the_budget() {
        let budget = budget();
        let mut body = budget.begin(None, 8 * PART);
        for _ in 0..3 {
            body.add(parts(1)).await.unwrap();
        }
        let body = body.end().unwrap();
        assert_eq!((body.bytes.capacity(), budget.used()), (4 * PART, 4 * PART as isize));
        let mut response = Vec::with_capacity(PART);
        response.push(0);
        let response = budget.charge(response);
        assert_eq!(budget.used(), (4 * PART + response.bytes.capacity()) as isize);
    }
}
