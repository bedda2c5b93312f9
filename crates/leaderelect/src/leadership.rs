use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
use tokio::sync::watch;

use crate::{Clock, Deadline, LossReason, Term, Version};

/// The right to act as the leader, until a deadline.
///
/// Work runs *inside* it: [`Leadership::run`] drops the work at the deadline, or as soon as anything contradicts the term.
/// Work that was handed to other tasks, threads or programs has to ask [`Leadership::check`] before each effect, and to give
/// each request no longer than the time that `check` says is left.
///
/// What is on the wire already cannot be called back, and a process that is frozen between the check and the send does not
/// notice: only a resource that compares [fencing tokens](Leadership::token) stops those.
#[derive(Clone)]
pub struct Leadership {
    lock: Arc<str>,
    term: Arc<Term>,
    clock: Arc<dyn Clock>,
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
        clock: Arc<dyn Clock>,
        deadline: Deadline,
    ) -> (watch::Sender<TermState>, Self) {
        let (sender, state) = watch::channel(TermState { deadline, draining: false, lost: None });
        (sender, Self { lock, term: Arc::new(term), clock, state })
    }

    /// Whether the term still stands, on a fresh look at the clocks; then the time that is left of it.
    ///
    /// # Errors
    ///
    /// [`LeadershipLost`] at the deadline and after, and once the term has ended. It never turns to good again.
    pub fn check(&self) -> Result<Duration, LeadershipLost> {
        let state = self.state.borrow();
        if let Some(reason) = &state.lost {
            return Err(self.loss(reason.clone()));
        }
        if self.state.has_changed().is_err() {
            return Err(self.loss(LossReason::Abandoned));
        }
        match state.deadline.remaining(self.clock.now()) {
            Duration::ZERO => Err(self.loss(LossReason::Deadline)),
            left => Ok(left),
        }
    }

    /// Runs `work` while the term stands. The term is checked before each poll, so that a timer that fires late, or a machine
    /// that slept, does not let the work go on.
    ///
    /// # Errors
    ///
    /// [`LeadershipLost`] when the term ended first. The work has been dropped then.
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

    /// Waits until the work should end: it was asked to, or the term is over.
    ///
    /// After a request to end, the term goes on, and is renewed, until the work has ended.
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

    /// Until when the term may be relied on, unless it is renewed or ends.
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

/// A term is over.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("no longer the leader by {lock}: {reason}")]
pub struct LeadershipLost {
    /// The lock, as `namespace/name`.
    pub lock: Arc<str>,
    /// Why.
    pub reason: LossReason,
}
