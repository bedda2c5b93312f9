//! Collects a manager run's errors.

use std::time::Duration;

use pintle_meta::__private::Mutex;

use crate::error::ManagerError;
use crate::panic::catch;

#[derive(Debug, Default)]
pub(super) struct Ending(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    failure: Option<ManagerError>,
    left: Vec<String>,
}

impl Ending {
    /// Logs and records a failure. The first failure becomes the manager run's result.
    pub(super) fn fail(&self, error: ManagerError) {
        let text =
            catch(|| error.to_string()).unwrap_or_else(|panic| format!("an error whose Display panicked: {panic}"));
        tracing::error!(error = %text, "a part failed; stopping the manager");
        let mut state = self.0.lock();
        let later = match &state.failure {
            None => state.failure.replace(error),
            Some(_) => Some(error),
        };
        drop(state);
        if let Err(panic) = catch(|| drop(later)) {
            tracing::error!(panic, "an error panicked when it was dropped");
        }
    }

    pub(super) fn add_leftovers(&self, left: impl IntoIterator<Item = String>) {
        self.0.lock().left.extend(left);
    }

    pub(super) fn has_leftover(&self, start: &str) -> bool {
        self.0.lock().left.iter().any(|part| part.starts_with(start))
    }

    pub(super) fn result(&self, after: Duration) -> Result<(), ManagerError> {
        let State { failure, left } = std::mem::take(&mut *self.0.lock());
        if !left.is_empty() {
            let error = ManagerError::StopTimedOut { left, after };
            match failure {
                None => return Err(error),
                Some(_) => tracing::error!(%error, "the stop was not complete"),
            }
        }
        failure.map_or(Ok(()), Err)
    }
}
