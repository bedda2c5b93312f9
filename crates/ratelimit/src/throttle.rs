use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc as StdArc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use crate::sync::{Arc, Mutex, thread};
use crate::{Clock, Sleep, StdClock, Timer, TokenBucket};

/// A token bucket that callers share and wait for: client-go's `flowcontrol.RateLimiter`. Clones are the same bucket.
///
/// Waiters are served in the order of their arrival, and a token is taken only at the moment it is given, so one that stops
/// waiting owes nothing. While somebody waits, [`try_accept`](Throttle::try_accept) says no. The number of waiters is not
/// bounded: each is a caller of its own.
///
/// ```
/// use pintle_ratelimit::{StdClock, Throttle, WaitError};
/// use std::time::Duration;
///
/// let throttle = Throttle::new(0.1, 1, StdClock);
/// assert!(throttle.try_accept());
/// let refused = throttle.blocking_wait(Duration::from_secs(1));
/// assert!(matches!(refused, Err(WaitError::TooLong { .. })), "the next token is 10 s away");
/// ```
pub struct Throttle<C = StdClock> {
    shared: Arc<Shared<C>>,
}

struct Shared<C> {
    /// Held for a few operations only, never while waking.
    state: Mutex<State>,
    clock: C,
    qps: f64,
}

#[derive(Debug)]
struct State {
    bucket: TokenBucket,
    /// In order of arrival. Only the first looks at the bucket; whoever leaves first place wakes the next.
    waiters: VecDeque<(u64, Waker)>,
    next_id: u64,
    stopped: bool,
}

/// Why a wait for a token ended without one. None was spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WaitError {
    /// There will never be a token: the burst is 0, or it is spent and the rate is 0.
    Never,
    /// The limiter was stopped.
    Stopped,
    /// The wait would be longer than the caller allows. Said at once, not after the time is lost.
    TooLong {
        /// How long until it would be the caller's turn.
        wait: Duration,
    },
}

impl<C: Clock> Throttle<C> {
    /// A full bucket of `burst` tokens that earns `qps` tokens a second. [`TokenBucket`] says what odd values mean.
    pub fn new(qps: f64, burst: u32, clock: C) -> Self {
        let bucket = TokenBucket::new(qps, burst, clock.now());
        let state = State { bucket, waiters: VecDeque::new(), next_id: 0, stopped: false };
        Self { shared: Arc::new(Shared { state: Mutex::new(state), clock, qps }) }
    }

    /// A limiter that always says yes.
    pub fn unlimited(clock: C) -> Self {
        Self::new(f64::INFINITY, 1, clock)
    }

    /// The rate, as configured.
    pub fn qps(&self) -> f64 {
        self.shared.qps
    }

    /// Takes a token if there is one and nobody waits for it.
    pub fn try_accept(&self) -> bool {
        let mut state = self.shared.state.lock();
        let now = self.shared.clock.now();
        !state.stopped && state.waiters.is_empty() && state.bucket.try_accept(now)
    }

    /// Ends all waits, now and later, with [`WaitError::Stopped`]. May be called any number of times.
    pub fn stop(&self) {
        let waiters = {
            let mut state = self.shared.state.lock();
            state.stopped = true;
            std::mem::take(&mut state.waiters)
        };
        for (_, waker) in waiters {
            waker.wake();
        }
    }

    /// Blocks the thread until there is a token, and takes it.
    pub fn blocking_accept(&self) -> Result<(), WaitError> {
        self.block(None)
    }

    /// Like [`blocking_accept`](Throttle::blocking_accept), but not for longer than `timeout`.
    pub fn blocking_wait(&self, timeout: Duration) -> Result<(), WaitError> {
        self.block(self.deadline(timeout))
    }

    fn block(&self, deadline: Option<Instant>) -> Result<(), WaitError> {
        let waker = Waker::from(StdArc::new(Unpark(thread::current())));
        let mut turn = Turn { shared: &self.shared, id: None, deadline };
        loop {
            match turn.poll(&waker) {
                Err(until) => self.shared.clock.park_until(until),
                Ok(result) => return result,
            }
        }
    }

    /// `None` if the timeout never ends.
    fn deadline(&self, timeout: Duration) -> Option<Instant> {
        self.shared.clock.now().checked_add(timeout)
    }
}

impl<C: Timer> Throttle<C> {
    /// Waits until there is a token, and takes it.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future takes no token and leaves no debt.
    pub fn accept(&self) -> Accept<'_, C> {
        Accept { turn: Turn { shared: &self.shared, id: None, deadline: None }, sleep: None }
    }

    /// Like [`accept`](Throttle::accept), but not for longer than `timeout`: if it is plain that there will be no token by
    /// then it fails at once.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future takes no token and leaves no debt.
    pub fn wait(&self, timeout: Duration) -> Accept<'_, C> {
        Accept { turn: Turn { shared: &self.shared, id: None, deadline: self.deadline(timeout) }, sleep: None }
    }
}

/// The future of [`Throttle::accept`] and [`Throttle::wait`].
#[must_use = "futures do nothing unless polled"]
pub struct Accept<'a, C: Timer> {
    turn: Turn<'a, C>,
    sleep: Option<(Instant, Sleep)>,
}

impl<C: Timer> Future for Accept<'_, C> {
    type Output = Result<(), WaitError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        loop {
            let until = match this.turn.poll(cx.waker()) {
                Ok(result) => return Poll::Ready(result),
                Err(None) => return Poll::Pending,
                Err(Some(until)) => until,
            };
            if this.sleep.as_ref().is_none_or(|(armed, _)| *armed != until) {
                this.sleep = Some((until, this.turn.shared.clock.sleep_until(until)));
            }
            if this.sleep.as_mut().is_some_and(|(_, sleep)| sleep.as_mut().poll(cx).is_pending()) {
                return Poll::Pending;
            }
            this.sleep = None;
        }
    }
}

/// A place among the waiters. Leaves it when dropped.
struct Turn<'a, C> {
    shared: &'a Arc<Shared<C>>,
    /// The place, once there is one.
    id: Option<u64>,
    deadline: Option<Instant>,
}

impl<C: Clock> Turn<'_, C> {
    /// The outcome, or until when there is none unless the waker is called.
    fn poll(&mut self, waker: &Waker) -> Result<Result<(), WaitError>, Option<Instant>> {
        let outcome = self.look(waker);
        if outcome.is_ok() {
            self.leave();
        }
        outcome
    }

    fn look(&mut self, waker: &Waker) -> Result<Result<(), WaitError>, Option<Instant>> {
        let now = self.shared.clock.now();
        let mut state = self.shared.state.lock();
        if state.stopped {
            return Ok(Err(WaitError::Stopped));
        }
        if self.id.is_none() && state.waiters.is_empty() && state.bucket.try_accept(now) {
            return Ok(Ok(()));
        }
        let ahead = match self.id {
            Some(id) => state.waiters.iter().position(|(waiter, _)| *waiter == id),
            None => None,
        };
        let ahead = ahead.unwrap_or_else(|| {
            state.next_id += 1;
            let id = state.next_id;
            state.waiters.push_back((id, waker.clone()));
            self.id = Some(id);
            state.waiters.len() - 1
        });
        let old = std::mem::replace(&mut state.waiters[ahead].1, waker.clone());
        let tokens = u32::try_from(ahead + 1).unwrap_or(u32::MAX);
        let wait = state.bucket.wait_for(tokens, now);
        if ahead == 0 && state.bucket.try_accept(now) {
            drop(state);
            drop(old);
            return Ok(Ok(()));
        }
        drop(state);
        drop(old);
        if wait == Duration::MAX {
            return Ok(Err(WaitError::Never));
        }
        let turn = now.checked_add(wait);
        if self.deadline.is_some_and(|deadline| turn.is_none_or(|turn| turn > deadline)) {
            return Ok(Err(WaitError::TooLong { wait }));
        }
        Err(if ahead == 0 { turn } else { self.deadline })
    }
}

impl<C> Turn<'_, C> {
    fn leave(&mut self) {
        let Some(id) = self.id.take() else { return };
        let mut state = self.shared.state.lock();
        let Some(at) = state.waiters.iter().position(|(waiter, _)| *waiter == id) else { return };
        let left = state.waiters.remove(at);
        let next = if at == 0 { state.waiters.front().map(|(_, waker)| waker.clone()) } else { None };
        drop(state);
        drop(left);
        if let Some(waker) = next {
            waker.wake();
        }
    }
}

impl<C> Drop for Turn<'_, C> {
    fn drop(&mut self) {
        self.leave();
    }
}

struct Unpark(thread::Thread);

impl Wake for Unpark {
    fn wake(self: StdArc<Self>) {
        self.0.unpark();
    }
}

impl<C> Clone for Throttle<C> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<C> fmt::Debug for Throttle<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.shared.state.lock().fmt(f)
    }
}

impl fmt::Display for WaitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Never => f.write_str("the rate limiter will never have another token: its burst or its rate is 0"),
            Self::Stopped => f.write_str("the rate limiter was stopped"),
            Self::TooLong { wait } => write!(f, "the rate limiter would take {wait:?}, which is past the deadline"),
        }
    }
}

impl std::error::Error for WaitError {}
