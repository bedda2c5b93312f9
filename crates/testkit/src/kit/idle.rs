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
        runs::one(self.settings.stall_limit, async |journal| {
            let lab = self.lab(0, journal).await?;
            let process = lab.start()?;
            let failures = self.perform(&lab).await?;
            self.check_effect(&lab, failures)?;
            lab.stop(&process).await?;
            let second = lab.start()?;
            lab.steady().await?;
            self.check_calls(&lab)?;
            let what = format!("{second} changed objects, although {process} had finished its work");
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
        runs::one(self.settings.stall_limit, async |journal| {
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

    pub(super) fn check_calls(&self, lab: &Lab<W>) -> Result<(), Violation> {
        let mut failures = Failures::default();
        failures.observe(&lab.journal, &self.settings.may_fail);
        failures.check()
    }

    /// Performs all steps of the user. Waits after each step until the operator is idle. Returns the failed calls.
    pub(super) async fn perform(&self, lab: &Lab<W>) -> Result<Failures, Violation> {
        let mut failures = Failures::default();
        let progress = Progress::new();
        let drive = async {
            for step in 0..=self.steps.len() {
                progress.allow(step);
                progress.done(step).await;
                lab.steady().await?;
                lab.observe_world();
                failures.observe(&lab.journal, &self.settings.may_fail);
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
