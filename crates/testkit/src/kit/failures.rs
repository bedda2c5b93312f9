//! Checks that reconciliations succeed in a run without disturbances and after the last disturbance.

use std::collections::{BTreeMap, BTreeSet};
use std::mem::replace;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::journal::Journal;
use crate::violation::Violation;

const SHOWN: usize = 15;

/// The time for which reconciliations of a key may fail after the last disturbance. `LONGEST_FAILURE` exceeds the
/// longest delay of the default rate limiter, which is 1,000 s.
const LONGEST_FAILURE: Duration = Duration::from_secs(1800);
const POLL: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(super) struct Failures {
    /// The errors of the keys that were failing at the last call of `observe`, by controller and key.
    failing: BTreeMap<(String, String), String>,
    /// The errors of keys that kept failing until their object was deleted.
    until_deletion: Vec<String>,
}

impl Failures {
    /// Records the keys that are currently failing. Must be called while the operator is idle.
    pub(super) fn observe(&mut self, journal: &Journal, may_fail: &BTreeSet<String>) {
        let calls = journal.failed_calls().into_iter().filter(|(_, call)| !may_fail.contains(&call.key));
        let now: BTreeMap<_, _> =
            calls.map(|(process, call)| ((call.controller, call.key), format!("{process}: {}", call.text))).collect();
        for (call, error) in replace(&mut self.failing, now) {
            if !self.failing.contains_key(&call) && journal.was_deleted(&call.0, &call.1) {
                self.until_deletion.push(error);
            }
        }
    }

    /// Waits until no key fails. If a key failed during the disturbances, its next retry may have a long delay. Returns
    /// an error if keys still fail after [`LONGEST_FAILURE`] on the paused clock.
    pub(super) async fn wait_for_none(journal: &Journal, may_fail: &BTreeSet<String>) -> Result<(), Violation> {
        let start = Instant::now();
        loop {
            let mut failures = Self::default();
            failures.observe(journal, may_fail);
            if failures.failing.is_empty() || start.elapsed() > LONGEST_FAILURE {
                return failures.check();
            }
            sleep(POLL).await;
        }
    }

    pub(super) fn into_errors(self) -> Vec<String> {
        self.failing.into_values().chain(self.until_deletion).take(SHOWN).collect()
    }

    pub(super) fn check(self) -> Result<(), Violation> {
        let errors = self.into_errors();
        if errors.is_empty() {
            Ok(())
        } else {
            Err(Violation::FailedCalls { what: "without a disturbance".into(), errors })
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use pintle_cluster::Cluster;
    use pintle_meta::{ObjectMeta, resource};
    use pintle_operator::{Action, Context, Controller, Manager, ReconcileError};
    use serde::{Deserialize, Serialize};

    use super::*;
    use crate::Kit;

    #[derive(Clone, Debug, Deserialize, Serialize)]
    struct ConfigMap {
        metadata: ObjectMeta,
    }
    resource!(ConfigMap, "v1", "ConfigMap", "configmaps", Namespaced);

    type CallResult = Result<(), &'static str>;

    /// Runs two processes, which reconcile the same keys. The second process starts when the first process is idle. The
    /// calls of the second process take 5 s on the paused clock.
    fn wait(first: CallResult, second: CallResult) -> Result<(), Violation> {
        let starts = AtomicUsize::new(0);
        let operator = move |cluster: Cluster| {
            let is_first = starts.fetch_add(1, Ordering::Relaxed) == 0;
            let (result, takes) = if is_first { (first, Duration::ZERO) } else { (second, Duration::from_secs(5)) };
            let reconcile = move |_: Arc<ConfigMap>, _: Context<ConfigMap>| async move {
                sleep(takes).await;
                result.map(|()| Action::await_change()).map_err(ReconcileError::terminal)
            };
            Manager::new("test", cluster).controller(Controller::<ConfigMap>::new().reconcile(reconcile))
        };
        Kit::new(operator).run(async |lab| {
            lab.create(&ConfigMap { metadata: ObjectMeta::new("default", "blog") }).await?;
            lab.steady().await?;
            lab.start()?;
            lab.steady().await?;
            Failures::wait_for_none(&lab.journal, &BTreeSet::new()).await
        })
    }

    #[test]
    fn last_call_decides_although_it_takes_longer() {
        let failed = wait(Ok(()), Err("no zone"));
        assert!(
            matches!(&failed, Err(Violation::FailedCalls { errors, .. }) if errors[0].contains("no zone")),
            "{failed:?}"
        );
        wait(Err("no zone"), Ok(())).unwrap();
    }
}
