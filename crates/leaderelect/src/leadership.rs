//! Leadership: the right to act as the leader, and the ways in which it ends.

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

use crate::{Clocks, Deadline, EndReason, Term, Token};

/// The right to act as the leader until a deadline. Clones share the same right.
///
/// Work runs *inside* a leadership: [`Leadership::run`] drops the work at the deadline, or as soon as the term ends
/// early. Work in other threads or programs needs a [`Permit`] for each action. While a permit exists, the lock is not
/// released to another contender before the permit's deadline.
///
/// A request cannot be recalled after it has been sent. If a process is frozen between checking its leadership and
/// sending a request, it sends the request even if the term has ended. Only a resource that compares [fencing
/// tokens](Leadership::token) can reject such requests.
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
    /// Whether a check has already failed because the deadline of the leadership term has passed. After such a failure,
    /// the leadership term counts as expired, even if a clock is set back.
    expired: AtomicBool,
    /// Whether to release the lock after the work has ended, regardless of why it ended.
    gives_up: AtomicBool,
}

/// The state of a leadership term, as the elector publishes it.
#[derive(Clone, Debug)]
struct TermState {
    deadline: Deadline,
    /// The reason why the work was asked to end. `None` if the work was not asked to end.
    draining: Option<EndReason>,
    /// The reason why the leadership term ended. `None` while the work runs. After the leadership term has ended, no
    /// permit is issued or extended.
    closed: Option<EndReason>,
    lost: Option<EndReason>,
}

impl Leadership {
    /// Returns the remaining time of the leadership term. The result does not guarantee that the elector keeps the lock
    /// during that time. A [permit](Leadership::permit) guarantees that.
    ///
    /// # Errors
    ///
    /// [`LeadershipLost`] if the deadline has passed or the term has ended. After one error, all further calls fail.
    pub fn check(&self) -> Result<Duration, LeadershipLost> {
        self.left(&self.state())
    }

    /// Issues a permit: the right to perform one action. No other contender can lead before the permit is dropped or
    /// has expired.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`Leadership::check`]. The method also fails after the work of the leadership term has ended.
    pub fn permit(&self) -> Result<Permit, LeadershipLost> {
        // Count the permit before checking the leadership. Therefore, an elector that closes the term waits for every
        // permit that it has issued.
        let count = self.shared.permits.token();
        let state = self.state();
        self.left(&state)?;
        match &state.closed {
            Some(reason) => Err(self.loss(reason.clone())),
            None => Ok(Permit { leadership: self.clone(), _count: count }),
        }
    }

    /// Runs `work` under a [permit](Leadership::permit) while the term lasts. The leadership is checked before each
    /// poll, so the work does not continue if a timer fires late or the machine was suspended.
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
        // The pinned work is declared after the permit, so it is dropped before the permit.
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

    /// Waits until the work should end. The work is asked to end when the elector is asked to stop, and when the term
    /// is over. Concurrent work is also asked to end when the work of the callback has ended.
    ///
    /// After a request to stop, the elector continues to renew the term until the work has ended.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
    pub async fn cancelled(&self) {
        let mut state = self.state.clone();
        tokio::select! {
            biased;
            _ = self.lost() => {}
            // An error means that the elector was dropped, and this also ends the term.
            _ = state.wait_for(|state| state.draining.is_some()) => {}
        }
    }

    /// Requests that the elector releases the lock after the work has ended.
    pub(crate) fn give_up(&self) {
        self.shared.gives_up.store(true, Ordering::Release);
    }

    /// Returns whether [`Leadership::cancelled`] would return immediately.
    pub fn is_cancelled(&self) -> bool {
        let state = self.state();
        state.draining.is_some() || self.left(&state).is_err()
    }

    /// Waits until the leadership term is over, and returns the reason.
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

    /// Returns the fencing token. `None` if the server's resourceVersions are not numbers.
    pub fn token(&self) -> Option<&Token> {
        self.shared.token.as_ref()
    }

    /// Returns the deadline of the leadership term. A renewal extends it. The leadership term can also end before its
    /// deadline.
    pub fn deadline(&self) -> Deadline {
        self.state.borrow().deadline
    }

    /// Returns a copy of the leadership term's state. After copying the state, callers read the clocks. The clocks are
    /// user code, so they must not run under the lock of the channel.
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
        let left = match self.shared.expired.load(Ordering::Acquire) {
            true => Duration::ZERO,
            false => state.deadline.remaining(self.shared.clocks.now()),
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

/// A permit: the right to perform one action as the leader. See [`Leadership::permit`].
///
/// While a permit exists, the elector does not release the lock and does not begin another term. After the permit's
/// [deadline](Permit::deadline) on the monotonic clock, the permit has no effect. Therefore, a timeout from
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
    /// Returns the time that is left for the action. The result is zero if the permit has expired.
    pub fn remaining(&self) -> Duration {
        self.leadership.check().unwrap_or_default()
    }

    /// Returns the moment at which the permit expires. While the work of the term runs, each renewal extends this
    /// deadline.
    pub fn deadline(&self) -> Deadline {
        self.leadership.deadline()
    }

    /// Returns the leadership that has issued the permit.
    pub fn leadership(&self) -> &Leadership {
        &self.leadership
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit").field("leadership", &self.leadership).finish_non_exhaustive()
    }
}

/// The handle with which the elector controls a [`Leadership`]. Dropping it ends the term.
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
        // Close the tracker now, because waiting for an empty tracker only ends if the tracker is closed.
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

    /// Extends the deadline, unless a caller may already have seen that the leadership term has expired.
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

    /// Returns the reason why the work was asked to end, or `None` if it was not asked to.
    pub(crate) fn drains_for(&self) -> Option<EndReason> {
        self.state.borrow().draining.clone()
    }

    pub(crate) fn lose(&self, reason: EndReason) {
        self.state.send_modify(|state| {
            state.lost.get_or_insert(reason);
        });
    }

    /// Ends the leadership term after its work has ended. After this call, no permits are issued. The method waits
    /// until all permits are returned or have expired.
    ///
    /// Permits expire by the monotonic clock, because timeouts use this clock. By another clock, the leadership term
    /// may have ended earlier, for example because the time of day was set forward. After such an early end, no new
    /// permits are issued, but existing permits keep their deadline.
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

/// The error of operations that need a leadership term when the term is over.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("no longer the leader by {lock}: {reason}")]
pub struct LeadershipLost {
    /// The lock, as `namespace/name`.
    pub lock: Arc<str>,
    /// The reason.
    pub reason: EndReason,
}
