//! The right to act as the leader, and its loss.

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

/// The right to act as the leader, until a deadline. Clones are the same right.
///
/// Work runs *inside* it: [`Leadership::run`] drops the work at the deadline, or as soon as anything contradicts the term.
/// Work that was handed to other threads or programs takes a [`Permit`] for each effect: as long as that is held, the lock is not
/// given to anyone else before the deadline.
///
/// A request that was sent cannot be called back, and a process that is frozen between the check and the send does not
/// notice: only a resource that compares [fencing tokens](Leadership::token) stops those.
///
/// # Examples
///
/// ```
/// use pintle_leaderelect::{Leadership, LeadershipLost};
/// use std::time::Duration;
///
/// // What an elector runs for each term.
/// async fn work(leadership: Leadership) -> Result<(), LeadershipLost> {
///     while !leadership.is_cancelled() {
///         // What was handed to another thread is not dropped with this work, so it has a permit.
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
    /// Somebody was told that the deadline has passed. From then on it has, whatever the clocks say later.
    expired: AtomicBool,
    /// The lock is to be given up once the work has ended, whatever that ended for.
    gives_up: AtomicBool,
}

/// What the elector tells the holders of one term.
#[derive(Clone, Debug)]
struct TermState {
    deadline: Deadline,
    /// The work was asked to end, for that reason.
    draining: Option<EndReason>,
    /// The work has ended so: no more permits, and no more time for those that are out.
    closed: Option<EndReason>,
    lost: Option<EndReason>,
}

impl Leadership {
    /// What is left of the term. It is no promise that the lock stays: that is a [permit](Leadership::permit).
    ///
    /// # Errors
    ///
    /// [`LeadershipLost`] at the deadline and after, and once the term has ended. After one error each further call fails.
    pub fn check(&self) -> Result<Duration, LeadershipLost> {
        self.left(&self.state())
    }

    /// The right to do one thing. Before anyone else can lead, the permit has been dropped or its time is over.
    ///
    /// # Errors
    ///
    /// As [`Leadership::check`], and once the work of the term has ended.
    pub fn permit(&self) -> Result<Permit, LeadershipLost> {
        // Counted before it is looked at, so that an elector that has closed the term sees each one that was given.
        let count = self.shared.permits.token();
        let state = self.state();
        self.left(&state)?;
        match &state.closed {
            Some(reason) => Err(self.loss(reason.clone())),
            None => Ok(Permit { leadership: self.clone(), _count: count }),
        }
    }

    /// Runs `work` while the term lasts, with a [permit](Leadership::permit). The term is checked before each poll, so that the
    /// work does not go on after a timer that fired late or a machine that slept.
    ///
    /// # Errors
    ///
    /// [`LeadershipLost`] if the term ended first. The work has been dropped then.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the work.
    pub async fn run<F: Future>(&self, work: F) -> Result<F::Output, LeadershipLost> {
        let _permit = self.permit()?;
        // Dropped before the permit is.
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

    /// Waits until the work should end: because the elector was asked to stop, because the work of the elector has ended and this
    /// is work beside it, or because the term is over.
    ///
    /// After a request to stop, the term goes on, and is renewed, until the work has ended.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost.
    pub async fn cancelled(&self) {
        let mut state = self.state.clone();
        tokio::select! {
            biased;
            _ = self.lost() => {}
            // An error means that the elector is gone, which ends the term too.
            _ = state.wait_for(|state| state.draining.is_some()) => {}
        }
    }

    /// Has the lock given up once the work has ended.
    pub(crate) fn give_up(&self) {
        self.shared.gives_up.store(true, Ordering::Release);
    }

    /// Whether [`Leadership::cancelled`] would return at once.
    pub fn is_cancelled(&self) -> bool {
        let state = self.state();
        state.draining.is_some() || self.left(&state).is_err()
    }

    /// Waits until the term is over.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost.
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

    /// The term.
    pub fn term(&self) -> &Term {
        &self.shared.term
    }

    /// The fencing token: none if the server's resourceVersions are no numbers.
    pub fn token(&self) -> Option<&Token> {
        self.shared.token.as_ref()
    }

    /// The moment until which the term holds, unless it is renewed or ends before.
    pub fn deadline(&self) -> Deadline {
        self.state.borrow().deadline
    }

    /// A copy, since the clocks are a user's, and are not read under a lock.
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

/// The right to do one thing as the leader, counted: see [`Leadership::permit`].
///
/// The elector neither releases the lock nor begins another term while a permit is held, but for the
/// [deadline](Permit::deadline) on the monotonic clock: a permit that is held longer is worth nothing. So a timeout that was measured by
/// [`Permit::remaining`] is kept, even if the time of day is set forward and ends the term early. Once the work of the term has
/// ended, its permits are not prolonged any more.
///
/// # Examples
///
/// ```
/// use pintle_leaderelect::{Leadership, LeadershipLost};
///
/// fn pay(leadership: &Leadership) -> Result<(), LeadershipLost> {
///     let permit = leadership.permit()?;
///     transfer(permit.remaining()); // within that time, or not at all
///     Ok(())
/// }
/// # fn transfer(timeout: std::time::Duration) {}
/// ```
#[must_use = "a permit counts for as long as it is held"]
pub struct Permit {
    leadership: Leadership,
    _count: TaskTrackerToken,
}

impl Permit {
    /// The time that is left for what the permit is for; zero when it is worth nothing any more.
    pub fn remaining(&self) -> Duration {
        self.leadership.check().unwrap_or_default()
    }

    /// The moment until which it holds. A renewal moves it, as long as the work of the term goes on.
    pub fn deadline(&self) -> Deadline {
        self.leadership.deadline()
    }

    /// The term that it belongs to.
    pub fn leadership(&self) -> &Leadership {
        &self.leadership
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit").field("leadership", &self.leadership).finish_non_exhaustive()
    }
}

/// The elector's side of a [`Leadership`]. The term is over when the last one is dropped.
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
        // Only so that its emptiness can be waited for.
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

    /// Gives the term more time, unless somebody may have been told that it is over.
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

    /// Why the work was asked to end.
    pub(crate) fn drains_for(&self) -> Option<EndReason> {
        self.state.borrow().draining.clone()
    }

    pub(crate) fn lose(&self, reason: EndReason) {
        self.state.send_modify(|state| {
            state.lost.get_or_insert(reason);
        });
    }

    /// The work has ended: gives no more permits, and waits until those that are out are back, or can do no more harm.
    ///
    /// That is by the monotonic clock, on which timeouts run. The term may have ended before by another one, as when the time of day was
    /// set forward; then a permit is worth nothing any more, but what was begun under it has the time that it was promised.
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

/// The error of everything that needs a term when the term is over.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("no longer the leader by {lock}: {reason}")]
pub struct LeadershipLost {
    /// The lock, as `namespace/name`.
    pub lock: Arc<str>,
    /// Why.
    pub reason: EndReason,
}
