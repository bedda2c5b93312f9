//! Checks that an idle operator does not send any writes.

use std::time::Duration;

use tokio::time::sleep;

use super::failures::Failures;
use super::steps::Progress;
use super::{Kit, runs};
use crate::lab::Lab;
use crate::request::SentRequest;
use crate::violation::Violation;
use crate::world::World;

impl<W: World> Kit<W> {
    /// Checks that a second operator process does not change any object. The check runs the first process until it is
    /// idle, stops it, and then starts the second process. The second process may write Leases and Events, and may send
    /// writes that do not change their object.
    ///
    /// # Errors
    ///
    /// Returns the requests with which the second process changed objects, including the changed fields. Returns
    /// [`Violation::NoEffect`] if the kit has steps and the first process changes nothing. Returns
    /// [`Violation::FailedCalls`] if reconciliations fail.
    ///
    /// # Panics
    ///
    /// Panics if a step of the user panics.
    pub fn second_run_writes_nothing(&self) -> Result<(), Violation> {
        runs::one(&self.settings, async |journal| {
            let lab = self.lab(0, journal).await?;
            let [first, second] = self.run_twice(&lab).await?;
            let what = format!("{second} changed objects, although {first} had finished its work");
            no_requests(&what, &lab, 0, |request| request.process == second && !request.changes.is_empty())
        })
    }

    /// Checks that an idle operator sends no write requests for the time `during`, measured with the paused clock. The
    /// check also fails for writes that do not change an object, but it allows writes of Leases and Events.
    ///
    /// # Errors
    ///
    /// Returns the write requests that the operator sent while it was idle. Returns [`Violation::FailedCalls`] if
    /// reconciliations fail before the operator is idle, or still fail at the end of the check. Returns
    /// [`Violation::Ended`] if the operator ends during the check.
    ///
    /// # Panics
    ///
    /// Panics if a step of the user panics.
    pub fn stays_silent(&self, during: Duration) -> Result<(), Violation> {
        runs::one(&self.settings, async |journal| {
            let lab = self.lab(0, journal).await?;
            lab.start()?;
            self.perform(&lab).await?.check()?;
            let before = lab.journal.len();
            sleep(during).await;
            lab.check_ended()?;
            self.check_calls(&lab)?;
            let what = format!("the operator sent writes within {} s, although it was idle", during.as_secs());
            no_requests(&what, &lab, before, SentRequest::is_write)
        })
    }

    /// Performs all steps of the user with one process, stops this process gracefully, and runs a second process until
    /// it is idle. Returns the names of both processes.
    pub(super) async fn run_twice(&self, lab: &Lab<W>) -> Result<[String; 2], Violation> {
        let first = lab.start()?;
        let failures = self.perform(lab).await?;
        self.check_effect(lab, failures)?;
        lab.stop(&first).await?;
        let second = lab.start()?;
        lab.steady().await?;
        self.check_calls(lab)?;
        Ok([first, second])
    }

    fn check_calls(&self, lab: &Lab<W>) -> Result<(), Violation> {
        let mut failures = Failures::default();
        failures.observe(&lab.journal, &self.settings.may_fail);
        failures.check()
    }

    /// Performs all steps of the user. Waits before the first step and after each step until the operator is idle.
    /// Returns the failed calls.
    pub(super) async fn perform(&self, lab: &Lab<W>) -> Result<Failures, Violation> {
        self.perform_from(lab, 0, || {}).await
    }

    /// Performs all steps of the user. Waits until the operator is idle for the first time after step `first`, and then
    /// after each further step. Calls `idle` after each wait. Returns the failed calls.
    pub(super) async fn perform_from(
        &self,
        lab: &Lab<W>,
        first: usize,
        mut idle: impl FnMut(),
    ) -> Result<Failures, Violation> {
        let mut failures = Failures::default();
        let progress = Progress::new();
        let drive = async {
            for step in first.min(self.steps.len())..=self.steps.len() {
                progress.allow(step);
                progress.done(step).await;
                lab.steady().await?;
                lab.observe_world();
                failures.observe(&lab.journal, &self.settings.may_fail);
                idle();
            }
            Ok(())
        };
        tokio::try_join!(progress.perform(lab, &self.steps), drive)?;
        Ok(failures)
    }
}

fn no_requests<W: World>(
    what: &str,
    lab: &Lab<W>,
    from: usize,
    is_wrong: impl Fn(&SentRequest) -> bool,
) -> Result<(), Violation> {
    let mut requests = lab.requests();
    requests.drain(..from);
    requests.retain(|request| !request.is_housekeeping() && is_wrong(request));
    if requests.is_empty() { Ok(()) } else { Err(Violation::Wrote { what: what.into(), requests }) }
}
