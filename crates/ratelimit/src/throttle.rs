//! A shared token bucket.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc as StdArc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use crate::bucket::TokenBucket;
use crate::budget::Budget;
use crate::clock::{Clock, Sleep, StdClock, Timer};
use crate::sync::{Arc, Mutex, thread};
use crate::wake::{Panic, call_all, discard, pass_on};

/// A token bucket that threads and tasks can share and wait on, like client-go's `flowcontrol.RateLimiter`. All clones
/// of a throttle share the bucket.
///
/// Waiters get tokens in FIFO order, and each waiter reserves a token. If a wait is cancelled, its token returns to the
/// bucket, and later waiters move up in the queue. A waiter whose future is not polled does not delay later waiters,
/// because their tokens are already reserved. The number of waiters is unlimited.
///
/// # Examples
///
/// ```
/// use pintle_ratelimit::{StdClock, Throttle, ThrottleError};
/// use std::time::Duration;
///
/// let throttle = Throttle::new(0.1, 1, StdClock);
/// assert!(throttle.try_accept());
/// let refused = throttle.blocking_wait(Duration::from_secs(1));
/// assert!(matches!(refused, Err(ThrottleError::TooLong { .. })), "the next token is 10 s away");
/// ```
pub struct Throttle<C = StdClock> {
    shared: Arc<Shared<C>>,
}

struct Shared<C> {
    /// Locked only for a few operations, and never while a waker is called.
    state: Mutex<State>,
    clock: C,
    qps: f64,
}

struct State {
    /// Each waiter has reserved one token of this bucket, which the bucket may not have gained yet.
    bucket: TokenBucket,
    /// The waiters in FIFO order. The first waiter has a waker, except during its poll. When the first waiter leaves
    /// the queue, it wakes the next waiter.
    line: BTreeMap<Place, Option<Waker>>,
    arrivals: u64,
    stopped: bool,
}

/// The position of a waiter in the queue, which is lower for earlier waiters.
#[derive(Clone, Copy)]
struct Place(u64);

/// The error of a wait that ends without a token. A failed wait does not consume a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ThrottleError {
    /// No token will ever become available: the burst is 0, or the burst is exhausted and the rate is 0.
    Never,
    /// The throttle was stopped.
    Stopped,
    /// The wait would exceed the caller's timeout. The throttle returns this error immediately, without waiting for the
    /// timeout.
    TooLong {
        /// The time until a token would become available.
        wait: Duration,
    },
}

impl<C: Clock> Throttle<C> {
    /// Creates a throttle with a token bucket that starts with `burst` tokens and gains `qps` tokens per second. See
    /// [`TokenBucket`] for special values of `burst` and `qps`.
    pub fn new(qps: f64, burst: u32, clock: C) -> Self {
        let bucket = TokenBucket::new(qps, burst, clock.now());
        let state = State { bucket, line: BTreeMap::new(), arrivals: 0, stopped: false };
        Self { shared: Arc::new(Shared { state: Mutex::new(state), clock, qps }) }
    }

    /// Creates a throttle that always has a token available.
    pub fn unlimited(clock: C) -> Self {
        Self::new(f64::INFINITY, 1, clock)
    }

    /// Returns the configured rate, in tokens per second.
    pub fn qps(&self) -> f64 {
        self.shared.qps
    }

    /// Takes a token and returns `true` if a token is available that no waiter has reserved.
    pub fn try_accept(&self) -> bool {
        let now = self.shared.clock.now();
        let mut state = self.shared.state.lock();
        !state.stopped && state.bucket.try_accept(now)
    }

    /// Stops the throttle. All current and future waits return [`ThrottleError::Stopped`]. Calling `stop` again has no
    /// effect.
    ///
    /// # Panics
    ///
    /// Panics if a waker panics, but only after all other waiters have been woken.
    pub fn stop(&self) {
        let line = {
            let mut state = self.shared.state.lock();
            state.stopped = true;
            std::mem::take(&mut state.line)
        };
        pass_on(call_all(line.into_values().flatten().map(|waker| || waker.wake())));
    }

    /// Blocks the thread until a token is available, and takes it.
    ///
    /// # Errors
    ///
    /// Returns [`ThrottleError::Never`] or [`ThrottleError::Stopped`].
    pub fn blocking_accept(&self) -> Result<(), ThrottleError> {
        self.block(None)
    }

    /// Blocks the thread until a token is available, but no longer than `timeout`, and takes the token. Returns an
    /// error immediately if no token will become available within `timeout`.
    ///
    /// # Errors
    ///
    /// Can return each variant of [`ThrottleError`].
    pub fn blocking_wait(&self, timeout: Duration) -> Result<(), ThrottleError> {
        self.block(self.deadline(timeout))
    }

    fn block(&self, deadline: Option<Instant>) -> Result<(), ThrottleError> {
        let waker = Waker::from(StdArc::new(Unpark(thread::current())));
        let mut turn = Turn { shared: &self.shared, deadline, place: None };
        loop {
            match turn.poll(&waker) {
                Err(until) => self.shared.clock.park_until(Some(until)),
                Ok(result) => return result,
            }
        }
    }

    fn deadline(&self, timeout: Duration) -> Option<Instant> {
        self.shared.clock.now().checked_add(timeout)
    }
}

impl<C: Timer> Throttle<C> {
    /// Waits until a token is available, and takes it. A caller joins the queue when it first polls the future.
    ///
    /// If a task always gets a token without waiting, it yields to the other tasks on its thread after at most 128
    /// tokens. With `TokioClock`, the task yields according to tokio's cooperative budget.
    ///
    /// # Errors
    ///
    /// Returns [`ThrottleError::Never`] or [`ThrottleError::Stopped`].
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, it does not take a token or delay other waiters.
    pub fn accept(&self) -> Accept<'_, C> {
        self.turn(None)
    }

    /// Waits for a token like [`accept`](Throttle::accept), but no longer than `timeout`. The first poll returns an
    /// error if no token will become available within `timeout`.
    ///
    /// # Errors
    ///
    /// Can return each variant of [`ThrottleError`].
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, it does not take a token or delay other waiters.
    pub fn wait(&self, timeout: Duration) -> Accept<'_, C> {
        self.turn(self.deadline(timeout))
    }

    fn turn(&self, deadline: Option<Instant>) -> Accept<'_, C> {
        Accept { turn: Turn { shared: &self.shared, deadline, place: None }, sleep: None, budget: Budget::default() }
    }
}

/// The future returned by [`Throttle::accept`] and [`Throttle::wait`].
#[must_use = "futures do nothing unless polled"]
pub struct Accept<'a, C: Timer> {
    turn: Turn<'a, C>,
    sleep: Option<(Instant, Sleep)>,
    budget: Budget,
}

impl<C: Timer> Future for Accept<'_, C> {
    type Output = Result<(), ThrottleError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { turn, sleep, budget } = &mut *self;
        let clock = &turn.shared.clock;
        budget.poll(clock, cx, |cx| {
            loop {
                let until = match turn.poll(cx.waker()) {
                    Ok(result) => return Poll::Ready(result),
                    Err(until) => until,
                };
                if sleep.as_ref().is_none_or(|(armed, _)| *armed != until) {
                    *sleep = Some((until, clock.sleep_until(until)));
                }
                if sleep.as_mut().is_some_and(|(_, sleep)| sleep.as_mut().poll(cx).is_pending()) {
                    return Poll::Pending;
                }
                *sleep = None;
            }
        })
    }
}

/// A waiter, which leaves the queue when its `Turn` is dropped.
struct Turn<'a, C> {
    shared: &'a Shared<C>,
    deadline: Option<Instant>,
    /// The waiter's position and the time at which its token becomes available, or `None` if it is not in the queue.
    place: Option<(Place, Instant)>,
}

impl<C: Clock> Turn<'_, C> {
    /// Returns the result of the wait. If the wait is not over, returns the time of the next poll as an error. The
    /// throttle may call the waker before this time.
    fn poll(&mut self, waker: &Waker) -> Result<Result<(), ThrottleError>, Instant> {
        let (place, latest) = match self.place {
            Some(known) => known,
            None => match self.arrive() {
                Ok(Some(new)) => *self.place.insert(new),
                Ok(None) => return Ok(Ok(())),
                Err(error) => return Ok(Err(error)),
            },
        };
        // Clone, call and drop wakers outside the lock, because these operations run executor code.
        let mut waker = Some(waker.clone());
        let now = self.shared.clock.now();
        let mut state = self.shared.state.lock();
        if state.stopped {
            return Ok(Err(ThrottleError::Stopped));
        }
        let until = state.turn_of(place, latest, now);
        if until <= now {
            let left = state.leave(place);
            drop(state);
            self.place = None;
            // If waking the next waiter panics, this waiter must still get its token.
            discard(wake_next(left));
            return Ok(Ok(()));
        }
        if let Some(old) = state.line.get_mut(&place) {
            std::mem::swap(old, &mut waker);
        }
        drop(state);
        Err(until)
    }

    /// Reserves a token, and returns `None` if it is already available. If the caller has to wait, returns the waiter's
    /// position and the time at which the token becomes available.
    fn arrive(&self) -> Result<Option<(Place, Instant)>, ThrottleError> {
        let now = self.shared.clock.now();
        let mut state = self.shared.state.lock();
        if state.stopped {
            return Err(ThrottleError::Stopped);
        }
        let earned = state.bucket.earned_at(0, now).ok_or(ThrottleError::Never)?;
        if earned > now && self.deadline.is_some_and(|deadline| earned > deadline) {
            return Err(ThrottleError::TooLong { wait: earned - now });
        }
        state.bucket.take();
        if earned <= now {
            return Ok(None);
        }
        state.arrivals += 1;
        let place = Place(state.arrivals);
        state.line.insert(place, None);
        Ok(Some((place, earned)))
    }
}

impl<C> Drop for Turn<'_, C> {
    fn drop(&mut self) {
        let Some((place, _)) = self.place else { return };
        let mut state = self.shared.state.lock();
        let left = state.leave(place);
        // A waiter that `stop` has removed has no token to return.
        if left.is_some() {
            state.bucket.give_back();
        }
        drop(state);
        pass_on(wake_next(left));
    }
}

struct Left {
    /// The removed waiter's waker, which the caller must drop outside the lock.
    _own: Option<Waker>,
    /// The waker of the new first waiter, which the caller must call.
    next: Option<Waker>,
}

impl State {
    /// Returns the time at which a waiter's reserved token becomes available. `latest` is this time as computed when
    /// the waiter joined the queue. The first waiter may get its token earlier, because other waiters may have returned
    /// tokens.
    fn turn_of(&mut self, place: Place, latest: Instant, now: Instant) -> Instant {
        if !self.is_first(place) {
            return latest;
        }
        let earned = self.bucket.earned_at(self.line.len(), now);
        earned.map_or(latest, |earned| earned.min(latest))
    }

    fn leave(&mut self, place: Place) -> Option<Left> {
        let was_first = self.is_first(place);
        let _own = self.line.remove(&place)?;
        let next = if was_first { self.line.first_entry().and_then(|next| next.into_mut().take()) } else { None };
        Some(Left { _own, next })
    }

    fn is_first(&self, place: Place) -> bool {
        self.line.first_key_value().is_some_and(|(first, _)| *first == place)
    }
}

fn wake_next(left: Option<Left>) -> Option<Panic> {
    let next = left.and_then(|left| left.next);
    call_all(next.map(|waker| || waker.wake()))
}

struct Unpark(thread::Thread);

impl Wake for Unpark {
    fn wake(self: StdArc<Self>) {
        self.0.unpark();
    }
}

impl Ord for Place {
    fn cmp(&self, other: &Self) -> Ordering {
        #[cfg(test)]
        tests::COMPARED.with(|compared| compared.set(compared.get() + 1));
        self.0.cmp(&other.0)
    }
}

impl PartialOrd for Place {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Eq for Place {}

impl PartialEq for Place {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<C> Clone for Throttle<C> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<C> fmt::Debug for Throttle<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (waiting, stopped) = {
            let state = self.shared.state.lock();
            (state.line.len(), state.stopped)
        };
        f.debug_struct("Throttle")
            .field("qps", &self.shared.qps)
            .field("waiting", &waiting)
            .field("stopped", &stopped)
            .finish_non_exhaustive()
    }
}

impl fmt::Display for ThrottleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Never => f.write_str("the throttle will never have another token: its burst or its rate is 0"),
            Self::Stopped => f.write_str("the throttle was stopped"),
            Self::TooLong { wait } => write!(f, "the throttle would take {wait:?}, which is past the deadline"),
        }
    }
}

impl std::error::Error for ThrottleError {}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::ManualClock;

    thread_local! {
        pub(super) static COMPARED: Cell<usize> = const { Cell::new(0) };
    }

    #[test]
    fn waiter_cost_is_independent_of_the_number_of_waiters() {
        const WAITERS: usize = 10_000;
        let throttle = Throttle::new(1.0, 1, ManualClock::new());
        assert!(throttle.try_accept());
        let mut waiters: Vec<_> =
            (0..WAITERS).map(|_| Turn { shared: &throttle.shared, deadline: None, place: None }).collect();
        let poll_all = |waiters: &mut Vec<Turn<'_, _>>| {
            waiters.iter_mut().for_each(|waiter| assert!(waiter.poll(Waker::noop()).is_err()));
        };
        for (name, act) in [
            ("comes", poll_all as fn(&mut Vec<Turn<'_, _>>)),
            ("waits", poll_all),
            ("goes from the front", |waiters| drop(waiters.drain(..WAITERS / 2))),
            ("goes from the end", |waiters| while waiters.pop().is_some() {}),
        ] {
            COMPARED.set(0);
            act(&mut waiters);
            let each = COMPARED.get() / (WAITERS / 2);
            assert!(each < 300, "{name}: {each} comparisons per waiter, with {WAITERS} waiters");
        }
    }
}
