//! Leadership, which is the right to act as the leader, and the reasons why it ends.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use thiserror::Error;
use tokio::sync::watch;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

use crate::clocks::{Clocks, Deadline};
use crate::term::{EndReason, Term};
use crate::token::Token;

/// The right to act as the leader until a deadline. Clones share the same right.
///
/// Work runs *inside* a leadership: [`Leadership::run`] drops the work at the deadline, or earlier if the leadership
/// term ends earlier. Work in other threads or programs needs a [`Permit`] for each action. The elector does not
/// release the lock to another contender until each permit is dropped or its deadline has passed.
///
/// A request cannot be taken back after it was sent. A process can be frozen after it has checked its leadership and
/// before it sends a request. The process then sends the request even if the leadership term has ended. Only a resource
/// that compares [fencing tokens](Leadership::token) can reject such requests.
///
/// # Examples
///
/// ```
/// use pintle_leaderelect::{Leadership, LeadershipLost};
/// use std::time::Duration;
///
/// // The elector runs this for each term.
/// async fn work(leadership: Leadership) -> Result<(), LeadershipLost> {
///     while !leadership.is_cancelled() {
///         // Work on another thread is not dropped with this task, so it needs a permit.
///         let permit = leadership.permit()?;
///         std::thread::spawn(move || send_a_request(permit.remaining().min(Duration::from_secs(5))));
///         tokio::time::sleep(Duration::from_secs(60)).await;
///     }
///     Ok(())
/// }
/// # fn send_a_request(timeout: Duration) {}
/// ```
#[derive(Clone)]
pub struct Leadership {
    shared: Arc<Shared>,
    state: watch::Receiver<TermState>,
}

struct Shared {
    lock: Arc<str>,
    term: Term,
    token: Option<Token>,
    clocks: Arc<dyn Clocks>,
    permits: TaskTracker,
    /// Whether a check has already failed because the leadership term's deadline has passed. After such a failure, the
    /// leadership term stays expired, even if a clock is set back.
    expired: AtomicBool,
    /// Whether the elector releases the lock after the leader's work has ended, for any reason.
    gives_up: AtomicBool,
}

/// The published state of a leadership term. The elector updates this state.
#[derive(Clone, Debug)]
struct TermState {
    deadline: Deadline,
    /// The reason why the elector asked the work to end. The value is `None` if the elector has not asked the work to
    /// end.
    draining: Option<EndReason>,
    /// The reason why the leadership term ended. `None` while the work runs. After the leadership term has ended,
    /// permits are no longer issued or extended.
    closed: Option<EndReason>,
    lost: Option<EndReason>,
}

impl Leadership {
    /// Returns the time until the deadline of the leadership term. The elector may lose the lock before this time has
    /// passed. A [permit](Leadership::permit) guarantees that.
    ///
    /// # Errors
    ///
    /// [`LeadershipLost`] if the deadline has passed or the term has ended. After one error, all further calls fail.
    pub fn check(&self) -> Result<Duration, LeadershipLost> {
        self.left(&self.state())
    }

    /// Issues a permit: the right to perform one action. No other contender can lead before the permit is dropped or
    /// expires.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`Leadership::check`]. The method also fails after the leadership term's work has
    /// ended.
    pub fn permit(&self) -> Result<Permit, LeadershipLost> {
        // Count the permit before the leadership is checked. In this order, an elector that ends the leadership term
        // waits for every permit that it has issued.
        let count = self.shared.permits.token();
        let state = self.state();
        self.left(&state)?;
        match &state.closed {
            Some(reason) => Err(self.loss(reason.clone())),
            None => Ok(Permit { leadership: self.clone(), _count: count }),
        }
    }

    /// Runs `work` with a [permit](Leadership::permit) while the leadership term lasts. The leadership is checked
    /// before each poll, so the work does not continue if a timer fires late or the machine was suspended.
    ///
    /// # Errors
    ///
    /// [`LeadershipLost`] if the term ended before the work. The work has been dropped in this case.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the work.
    pub async fn run<F: Future>(&self, work: F) -> Result<F::Output, LeadershipLost> {
        let _permit = self.permit()?;
        // The pinned work is declared after the permit, so Rust drops the work before the permit.
        let mut work = pin!(work);
        let guarded = poll_fn(|context| match self.check() {
            Ok(_) => work.as_mut().poll(context).map(Ok),
            Err(lost) => Err(lost).into(),
        });
        tokio::select! {
            biased;
            lost = self.lost() => Err(lost),
            output = guarded => output,
        }
    }

    /// Waits until the elector asks the work to end. The elector asks the work to end when the elector is asked to
    /// stop, and when the leadership term is over. The elector also asks concurrent work to end when the work of the
    /// callback has ended.
    ///
    /// After a stop was requested, the elector continues to renew the leadership term until the work has ended.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
    pub async fn cancelled(&self) {
        let mut state = self.state.clone();
        tokio::select! {
            biased;
            _ = self.lost() => {}
            // An error means that the elector was dropped, which also ends the leadership term.
            _ = state.wait_for(|state| state.draining.is_some()) => {}
        }
    }

    /// Makes the elector release the lock after the leader's work has ended, so that another replica can lead. Use this
    /// method if this replica cannot do the work. The method does not end the work. [`Shards::run`](crate::Shards::run)
    /// describes how the method affects shards.
    pub fn give_up(&self) {
        self.shared.gives_up.store(true, Ordering::Release);
    }

    pub(crate) fn gives_up(&self) -> bool {
        self.shared.gives_up.load(Ordering::Acquire)
    }

    /// Returns whether [`Leadership::cancelled`] would return immediately.
    pub fn is_cancelled(&self) -> bool {
        let state = self.state();
        state.draining.is_some() || self.left(&state).is_err()
    }

    /// Waits until the leadership term is over, and returns the reason for its end.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
    pub async fn lost(&self) -> LeadershipLost {
        let mut state = self.state.clone();
        loop {
            let now = state.borrow_and_update().clone();
            if let Err(lost) = self.left(&now) {
                return lost;
            }
            tokio::select! {
                biased;
                _ = state.changed() => {}
                () = self.shared.clocks.sleep_until(now.deadline) => {}
            }
        }
    }

    /// Returns the term.
    pub fn term(&self) -> &Term {
        &self.shared.term
    }

    /// Returns the fencing token. Returns `None` if the server's resourceVersions are not numbers.
    pub fn token(&self) -> Option<&Token> {
        self.shared.token.as_ref()
    }

    /// Returns the deadline of the leadership term. A renewal extends it. The leadership term can also end before its
    /// deadline.
    pub fn deadline(&self) -> Deadline {
        self.state.borrow().deadline
    }

    /// Returns a copy of the state of the leadership term. Callers copy the state first and then read the clocks. The
    /// clocks are user code and must not run while the channel's lock is held.
    fn state(&self) -> TermState {
        self.state.borrow().clone()
    }

    fn left(&self, state: &TermState) -> Result<Duration, LeadershipLost> {
        if let Some(reason) = &state.lost {
            return Err(self.loss(reason.clone()));
        }
        if self.state.has_changed().is_err() {
            return Err(self.loss(EndReason::Dropped));
        }
        let left = if self.shared.expired.load(Ordering::Acquire) {
            Duration::ZERO
        } else {
            state.deadline.remaining(self.shared.clocks.now())
        };
        if left.is_zero() {
            self.shared.expired.store(true, Ordering::Release);
            return Err(self.loss(EndReason::Deadline));
        }
        Ok(left)
    }

    fn loss(&self, reason: EndReason) -> LeadershipLost {
        LeadershipLost { lock: self.shared.lock.clone(), reason }
    }
}

impl fmt::Debug for Leadership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leadership").field("lock", &self.shared.lock).field("state", &*self.state.borrow()).finish()
    }
}

/// A permit, which is the right to perform one action as the leader. See [`Leadership::permit`].
///
/// While a permit exists, the elector does not release the lock and does not begin another leadership term. A permit
/// expires when its [deadline](Permit::deadline) has passed on the monotonic clock. Therefore, a timeout from
/// [`Permit::remaining`] stays valid, even if the time of day is set forward and ends the leadership term early. After
/// the work of the leadership term has ended, its permits are no longer extended.
///
/// # Examples
///
/// ```
/// use pintle_leaderelect::{Leadership, LeadershipLost};
///
/// fn pay(leadership: &Leadership) -> Result<(), LeadershipLost> {
///     let permit = leadership.permit()?;
///     transfer(permit.remaining()); // must finish within that time
///     Ok(())
/// }
/// # fn transfer(timeout: std::time::Duration) {}
/// ```
#[must_use = "a permit is valid only while it is held"]
pub struct Permit {
    leadership: Leadership,
    _count: TaskTrackerToken,
}

impl Permit {
    /// Returns the time until the permit expires. The result is zero if the permit has expired.
    pub fn remaining(&self) -> Duration {
        self.leadership.check().unwrap_or_default()
    }

    /// Returns the time when the permit expires. While the leadership term's work runs, each renewal extends this
    /// deadline.
    pub fn deadline(&self) -> Deadline {
        self.leadership.deadline()
    }

    /// Returns the leadership that issued the permit.
    pub fn leadership(&self) -> &Leadership {
        &self.leadership
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit").field("leadership", &self.leadership).finish_non_exhaustive()
    }
}

/// The handle that the elector uses to control a [`Leadership`]. Dropping the handle ends the leadership term.
#[derive(Clone)]
pub(crate) struct TermHandle {
    shared: Arc<Shared>,
    state: watch::Sender<TermState>,
}

impl TermHandle {
    pub(crate) fn new(
        lock: Arc<str>,
        term: Term,
        token: Option<Token>,
        clocks: Arc<dyn Clocks>,
        deadline: Deadline,
    ) -> Self {
        let permits = TaskTracker::new();
        // Close the tracker of permits now, because a wait for an empty tracker ends only if the tracker is closed.
        permits.close();
        let shared = Shared {
            lock,
            term,
            token,
            clocks,
            permits,
            expired: AtomicBool::new(false),
            gives_up: AtomicBool::new(false),
        };
        let state = TermState { deadline, draining: None, closed: None, lost: None };
        Self { shared: Arc::new(shared), state: watch::Sender::new(state) }
    }

    pub(crate) fn leadership(&self) -> Leadership {
        Leadership { shared: self.shared.clone(), state: self.state.subscribe() }
    }

    /// Extends the deadline. Does nothing if a caller may already have observed that the leadership term has expired.
    pub(crate) fn extend(&self, deadline: Deadline) {
        let now = self.shared.clocks.now();
        self.state.send_modify(|state| {
            if state.deadline.has_passed(now) || state.closed.is_some() || self.shared.expired.load(Ordering::Acquire) {
                return;
            }
            state.deadline = deadline;
        });
    }

    pub(crate) fn drain(&self, reason: EndReason) {
        self.state.send_modify(|state| {
            state.draining.get_or_insert(reason);
        });
    }

    pub(crate) fn gives_up(&self) -> bool {
        self.shared.gives_up.load(Ordering::Acquire)
    }

    /// Returns the reason why the elector asked the leader's work to end, or `None` if it has not asked.
    pub(crate) fn drains_for(&self) -> Option<EndReason> {
        self.state.borrow().draining.clone()
    }

    pub(crate) fn lose(&self, reason: EndReason) {
        self.state.send_modify(|state| {
            state.lost.get_or_insert(reason);
        });
    }

    /// Ends the leadership term after its work has ended. After this call, the elector issues no permits. The method
    /// waits until all permits have been dropped or have expired.
    ///
    /// Permits expire on the monotonic clock, because timeouts use this clock. On another clock, the leadership term
    /// may have ended earlier, for example because the time of day was set forward. After such an early end, no new
    /// permits are issued, but existing permits stay valid until their deadline.
    pub(crate) async fn close(&self, reason: EndReason) {
        self.state.send_modify(|state| {
            state.draining.get_or_insert_with(|| reason.clone());
            state.closed = Some(reason);
        });
        let deadline = Deadline::monotonic(self.state.borrow().deadline.monotonic);
        tokio::select! {
            biased;
            () = self.shared.permits.wait() => {}
            () = self.shared.clocks.sleep_until(deadline) => {}
        }
    }
}

/// The error that an operation returns if its leadership term is over.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("no longer the leader by {lock}: {reason}")]
pub struct LeadershipLost {
    /// The lock, as `namespace/name`.
    pub lock: Arc<str>,
    /// The reason.
    pub reason: EndReason,
}
