//! How a run of a manager ends.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::ManagerError;
use crate::panic::catch;

/// What went wrong until now.
#[derive(Debug, Default)]
pub(super) struct Ending(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    failure: Option<ManagerError>,
    left: Vec<String>,
}

impl Ending {
    /// Something failed. The run ends with the first such error; all are logged.
    pub(super) fn fail(&self, error: ManagerError) {
        let told = catch(|| error.to_string()).unwrap_or_else(|panic| format!("an error that panicked: {panic}"));
        tracing::error!(error = %told, "something failed, so the manager stops");
        let mut state = self.lock();
        let later = match &state.failure {
            None => state.failure.replace(error),
            Some(_) => Some(error),
        };
        drop(state);
        if let Err(panic) = catch(|| drop(later)) {
            tracing::error!(panic, "an error panicked when it was dropped");
        }
    }

    /// These did not end in their time.
    pub(super) fn leave(&self, left: impl IntoIterator<Item = String>) {
        self.lock().left.extend(left);
    }

    /// How the run ended, if its stop could take as long as that.
    pub(super) fn result(&self, after: Duration) -> Result<(), ManagerError> {
        let State { failure, left } = std::mem::take(&mut *self.lock());
        if !left.is_empty() {
            let error = ManagerError::StopTimedOut { left, after };
            match failure {
                None => return Err(error),
                Some(_) => tracing::error!(%error, "the stop was not complete"),
            }
        }
        failure.map_or(Ok(()), Err)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No step under the lock can panic half-way.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
