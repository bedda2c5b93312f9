//! The right to act as the leader, and its loss.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
use tokio::sync::watch;

use crate::{Clocks, Deadline, LossReason, Term, Version};

/// The right to act as the leader, until a deadline.
///
/// Work runs *inside* it: [`Leadership::run`] drops the work at the deadline, or as soon as anything contradicts the term.
/// Work that was handed to other tasks, threads or programs has to call [`Leadership::check`] before each effect, and to give
/// each request no more time than `check` returns.
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
///         // What was handed to another thread is not dropped with this work, so it asks by itself.
///         let handle = leadership.clone();
///         std::thread::spawn(move || {
///             let left = handle.check()?;
///             send_a_request(left.min(Duration::from_secs(5)));
///             Ok::<(), LeadershipLost>(())
///         });
///         tokio::time::sleep(Duration::from_secs(60)).await;
///     }
///     Ok(())
/// }
/// # fn send_a_request(timeout: Duration) {}
/// ```
#[derive(Clone)]
pub struct Leadership {
    lock: Arc<str>,
    term: Arc<Term>,
    clocks: Arc<dyn Clocks>,
    state: watch::Receiver<TermState>,
}

/// What the elector tells the holders of one term.
#[derive(Clone, Debug)]
pub(crate) struct TermState {
    pub(crate) deadline: Deadline,
    pub(crate) draining: bool,
    pub(crate) lost: Option<LossReason>,
}

impl Leadership {
    pub(crate) fn new(
        lock: Arc<str>,
        term: Term,
        clocks: Arc<dyn Clocks>,
        deadline: Deadline,
    ) -> (watch::Sender<TermState>, Self) {
        let (sender, state) = watch::channel(TermState { deadline, draining: false, lost: None });
        (sender, Self { lock, term: Arc::new(term), clocks, state })
    }

    /// Reads the clocks, and returns the time that is left of the term.
    ///
    /// # Errors
    ///
    /// [`LeadershipLost`] at the deadline and after, and once the term has ended. After one error each further call fails.
    pub fn check(&self) -> Result<Duration, LeadershipLost> {
        let state = self.state.borrow();
        if let Some(reason) = &state.lost {
            return Err(self.loss(reason.clone()));
        }
        if self.state.has_changed().is_err() {
            return Err(self.loss(LossReason::Abandoned));
        }
        match state.deadline.remaining(self.clocks.now()) {
            Duration::ZERO => Err(self.loss(LossReason::Deadline)),
            left => Ok(left),
        }
    }

    /// Runs `work` while the term lasts. The term is checked before each poll, so that the work does not go on after a timer that
    /// fired late or a machine that slept.
    ///
    /// # Errors
    ///
    /// [`LeadershipLost`] if the term ended first. The work has been dropped then.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the work.
    pub async fn run<F: Future>(&self, work: F) -> Result<F::Output, LeadershipLost> {
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

    /// Waits until the work should end: because the elector was asked to stop, or because the term is over.
    ///
    /// After a request to stop, the term goes on, and is renewed, until the work has ended.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost.
    pub async fn cancelled(&self) {
        let mut state = self.state.clone();
        tokio::select! {
            // An error means that the elector is gone, which ends the term too.
            _ = state.wait_for(|state| state.draining) => {}
            _ = self.lost() => {}
        }
    }

    /// Whether [`Leadership::cancelled`] would return at once.
    pub fn is_cancelled(&self) -> bool {
        self.state.borrow().draining || self.check().is_err()
    }

    /// Waits until the term is over.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost.
    pub async fn lost(&self) -> LeadershipLost {
        let mut state = self.state.clone();
        loop {
            state.mark_unchanged();
            let left = match self.check() {
                Ok(left) => left,
                Err(lost) => return lost,
            };
            tokio::select! {
                _ = state.changed() => {}
                () = tokio::time::sleep(left) => {}
            }
        }
    }

    /// The term.
    pub fn term(&self) -> &Term {
        &self.term
    }

    /// The fencing token: the version of the lock by which the term began. Within one uid, later terms have greater
    /// resourceVersions.
    pub fn token(&self) -> &Version {
        &self.term.token
    }

    /// The moment until which the term holds, unless it is renewed or ends before.
    pub fn deadline(&self) -> Deadline {
        self.state.borrow().deadline
    }

    fn loss(&self, reason: LossReason) -> LeadershipLost {
        LeadershipLost { lock: self.lock.clone(), reason }
    }
}

impl fmt::Debug for Leadership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leadership").field("lock", &self.lock).field("state", &*self.state.borrow()).finish()
    }
}

/// The error of everything that needs a term when the term is over.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("no longer the leader by {lock}: {reason}")]
pub struct LeadershipLost {
    /// The lock, as `namespace/name`.
    pub lock: Arc<str>,
    /// Why.
    pub reason: LossReason,
}
