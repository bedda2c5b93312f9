//! The right to act as the leader ([`Leadership`]), and permits for single actions.

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

/// The right to act as the leader until a deadline. All clones belong to the same leadership term.
///
/// Run work *inside* a leadership: [`Leadership::run`] drops the work when the term ends, which is no later than the
/// deadline. Work in other threads or processes needs a [`Permit`] for each action. The elector does not release the
/// lock until every permit has been dropped or has expired.
///
/// A process can freeze after it has checked its leadership, and then send a request after its term has ended. A
/// process cannot revoke a request after sending it. Only a resource that compares [fencing tokens](Leadership::token)
/// can reject the requests of former leaders.
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
    /// Whether a check has found that the deadline has passed. The term stays expired even if a clock is set back
    /// later.
    expired: AtomicBool,
    /// Whether the elector must release the lock when the leader's work has ended for any reason.
    gives_up: AtomicBool,
}

#[derive(Clone, Debug)]
struct TermState {
    deadline: Deadline,
    /// The reason why the elector asked the leader's work to finish, or `None` if it has not asked.
    draining: Option<EndReason>,
    /// The reason why the leader's work ended, or `None` while the work runs. After the work has ended, permits can no
    /// longer be issued or extended.
    closed: Option<EndReason>,
    lost: Option<EndReason>,
}

impl Leadership {
    /// Returns the time until the term's deadline. The elector may release the lock earlier, except while the caller
    /// holds a [permit](Leadership::permit).
    ///
    /// # Errors
    ///
    /// Returns [`LeadershipLost`] if the deadline has passed or the term has ended. Once this method has returned an
    /// error, it always returns an error.
    pub fn check(&self) -> Result<Duration, LeadershipLost> {
        self.left(&self.state())
    }

    /// Issues a permit for one action. The elector keeps the lock until the permit has been dropped or has expired.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`Leadership::check`], and an error after the leader's work has ended.
    pub fn permit(&self) -> Result<Permit, LeadershipLost> {
        // Create the permit's tracker token before checking the leadership, so that an elector that is ending the term
        // waits for this permit.
        let count = self.shared.permits.token();
        let state = self.state();
        self.left(&state)?;
        match &state.closed {
            Some(reason) => Err(self.loss(reason.clone())),
            None => Ok(Permit { leadership: self.clone(), _count: count }),
        }
    }

    /// Runs `work` under a [permit](Leadership::permit) until the term ends. The leadership is checked before each poll
    /// of `work`. `work` stops after the deadline even if a timer fires late or the machine was suspended.
    ///
    /// # Errors
    ///
    /// Returns [`LeadershipLost`] and drops `work` if the term ends before `work` completes.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops `work`.
    pub async fn run<F: Future>(&self, work: F) -> Result<F::Output, LeadershipLost> {
        let _permit = self.permit()?;
        // Declare `work` after the permit, so that `work` is dropped first.
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

    /// Waits until the elector asks the leader's work to finish. The elector asks the work to finish when it is
    /// stopped, when a preferred holder should lead, when the work of
    /// [`on_started_leading`](crate::LeaderCallbacks::on_started_leading) has ended, or when the term is over.
    ///
    /// During a graceful shutdown, the elector keeps renewing the lock until the leader's work has ended.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future stops the wait and has no other effect.
    pub async fn cancelled(&self) {
        let mut state = self.state.clone();
        tokio::select! {
            biased;
            _ = self.lost() => {}
            // An error means that the elector was dropped, which ends the term.
            _ = state.wait_for(|state| state.draining.is_some()) => {}
        }
    }

    /// Makes the elector release the lock after the leader's work has ended, so that another replica can lead. Call
    /// this method if this replica cannot do the leader's work. This method does not end the leader's work. For the
    /// effect on shards, see `Shards::run` in the crate `pintle-sharding`.
    pub fn give_up(&self) {
        self.shared.gives_up.store(true, Ordering::Release);
    }

    #[doc(hidden)]
    pub fn gives_up(&self) -> bool {
        self.shared.gives_up.load(Ordering::Acquire)
    }

    /// Returns `true` if [`Leadership::cancelled`] would return immediately.
    pub fn is_cancelled(&self) -> bool {
        let state = self.state();
        state.draining.is_some() || self.left(&state).is_err()
    }

    /// Waits until the term is over, and returns the reason.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future stops the wait and has no other effect.
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

    /// Returns the fencing token of the term, or `None` if the server's resourceVersions are not numeric.
    pub fn token(&self) -> Option<&Token> {
        self.shared.token.as_ref()
    }

    /// Returns the term's deadline. Each renewal extends the deadline. A term can also end before its deadline.
    pub fn deadline(&self) -> Deadline {
        self.state.borrow().deadline
    }

    /// Clones the state of the term from the channel. The clocks are user code, so the caller must not read them while
    /// it borrows the channel's state.
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

pintle_meta::debug_struct!(Leadership |self| { lock = self.shared.lock, state = *self.state.borrow() });

/// The right to perform one action as the leader: see [`Leadership::permit`].
///
/// Until the permit has been dropped or has expired, the elector keeps the lock and does not begin another term. A
/// permit expires on the monotonic clock, at its [deadline](Permit::deadline). Therefore, a timeout computed from
/// [`Permit::remaining`] stays valid even if the term ends early because the time of day was set forward. Permits are
/// no longer extended after the leader's work has ended.
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
    /// Returns the time until the permit expires. Returns zero if the permit has expired or if the term is over.
    pub fn remaining(&self) -> Duration {
        self.leadership.check().unwrap_or_default()
    }

    /// Returns the deadline at which this permit expires. Each renewal extends the permit while the leader's work runs.
    pub fn deadline(&self) -> Deadline {
        self.leadership.deadline()
    }

    /// Returns the leadership that issued the permit.
    pub fn leadership(&self) -> &Leadership {
        &self.leadership
    }
}

pintle_meta::debug_struct!(Permit { leadership, .. });

/// The elector's handle to a [`Leadership`], which ends the term when the last clone of the handle is dropped.
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
        // Close the tracker first, because `TaskTracker::wait` returns only after the tracker was closed.
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

    /// Extends the deadline, unless the term has expired or ended. The expiry of the term may already have been
    /// reported by a concurrent check.
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

    /// Returns the reason why the elector asked the leader's work to finish, or `None` if it has not asked.
    pub(crate) fn drains_for(&self) -> Option<EndReason> {
        self.state.borrow().draining.clone()
    }

    pub(crate) fn lose(&self, reason: EndReason) {
        self.state.send_modify(|state| {
            state.lost.get_or_insert(reason);
        });
    }

    /// Ends the term after the leader's work has ended, and issues no more permits. Waits until every permit has been
    /// dropped or has expired.
    ///
    /// Permits expire on the monotonic clock, because request timeouts also use the monotonic clock. Other clocks may
    /// end the term earlier, for example if the time of day is set forward, but existing permits stay valid until their
    /// deadline.
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

/// The error of a leadership whose term is over: this process must not act as the leader.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("no longer the leader by {lock}: {reason}")]
pub struct LeadershipLost {
    /// The lock, as `namespace/name`.
    pub lock: Arc<str>,
    /// The reason why the term ended.
    pub reason: EndReason,
}
