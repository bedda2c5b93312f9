//! Waits until the operator is idle.

use tokio::time::{Duration, Instant, sleep, sleep_until};

use super::Lab;
use crate::state::State;
use crate::violation::Violation;
use crate::world::World;

pub(super) const SHOWN: usize = 15;
/// The interval between two comparisons of the current state with the expected state.
const RETRY: Duration = Duration::from_secs(60);

impl<W: World> Lab<W> {
    /// Waits until the operator is idle. The operator is idle if it has not changed any object for the duration of the
    /// [quiet time](crate::Kit::quiet), and no write has failed during this time. Writes of Leases and Events are
    /// ignored.
    ///
    /// # Errors
    ///
    /// - The operator still changes objects after the [limit](crate::Kit::limit), or it sends requests in a loop
    ///   without a delay.
    /// - A process of the operator has ended.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect on the operator.
    pub async fn steady(&self) -> Result<(), Violation> {
        self.rest().await?;
        self.check_ended()
    }

    /// Waits until the operator is idle, even if processes end during the wait.
    pub(crate) async fn rest(&self) -> Result<(), Violation> {
        let end = Instant::now() + self.settings.limit;
        // The user may have acted immediately before this call, so wait for the full quiet time.
        self.journal.touch();
        loop {
            self.server.settle().await;
            if self.journal.is_flooded() {
                let what = format!("it sends requests in a loop, {} so far", self.journal.len());
                return Err(Violation::NotSteady {
                    what,
                    requests: self.journal.tail(SHOWN),
                    errors: self.journal.errors(),
                });
            }
            let quiet = self.journal.last_activity() + self.settings.quiet;
            if Instant::now() >= quiet {
                return Ok(());
            }
            if Instant::now() >= end {
                let what = format!("it still writes after {} s", self.settings.limit.as_secs());
                let mut requests = self.requests();
                requests.retain(|request| request.is_activity());
                requests.drain(..requests.len().saturating_sub(SHOWN));
                return Err(Violation::NotSteady { what, requests, errors: self.journal.errors() });
            }
            sleep_until(quiet.min(end)).await;
        }
    }

    pub(crate) async fn converge(&self, expected: &State, what: &str) -> Result<(), Violation> {
        let end = Instant::now() + self.settings.limit;
        loop {
            self.rest().await?;
            let differences = self.state().differences(expected);
            if differences.is_empty() {
                return Ok(());
            }
            if Instant::now() >= end {
                let (requests, errors) = (self.journal.tail(SHOWN), self.journal.errors());
                return Err(Violation::NotConverged { what: what.into(), differences, requests, errors });
            }
            sleep(RETRY).await;
        }
    }
}
