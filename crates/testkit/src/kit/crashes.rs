//! Crashes the operator at each of its requests.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use pintle_apiserver::RequestVerb;
use pintle_meta::__private::Mutex;
use tokio::time::timeout;

use super::failures::Failures;
use super::steps::Progress;
use super::{Kit, runs};
use crate::journal::Journal;
use crate::lab::Lab;
use crate::request::SentRequest;
use crate::state::State;
use crate::violation::Violation;
use crate::wire::{CrashPoint, Cut};
use crate::world::World;

/// The maximum downtime of the operator during a step.
const DOWNTIME: Duration = Duration::from_secs(20);

const SHOWN: usize = 15;

/// The maximum number of runs for each crash. The kit repeats a run if the operator did not send the request of the
/// planned crash.
const ATTEMPTS: u64 = 8;
/// The number of runs in which the crashing request must have the same object name. In further runs, the name may
/// differ, because generated names differ in each run.
const EXACT_ATTEMPTS: u64 = 4;

pub(super) struct Undisturbed {
    /// The expected states after each step. Without steps, the list contains only the state after the start.
    states: Vec<State>,
    /// The operator's requests from its start until it was idle, and from each step until it was idle again.
    pub(super) requests: Vec<SentRequest>,
    occurrences: Vec<[usize; 2]>,
    pub(super) tasks: usize,
    /// The number of replicas in disturbed runs, which is two with leader election and one without.
    pub(super) replicas: usize,
}

impl Undisturbed {
    pub(super) fn final_state(&self) -> &State {
        self.states.last().expect("a state after the start")
    }

    pub(super) fn views(&self) -> Vec<String> {
        let watches = self.requests.iter().filter(|request| request.verb == Some(RequestVerb::Watch));
        let resources: BTreeSet<&String> =
            watches.filter(|request| !request.is_housekeeping()).map(|request| &request.resource).collect();
        resources.into_iter().cloned().collect()
    }
}

struct Job<'a> {
    request: &'a SentRequest,
    /// The position of the request among the requests of its process. The first of the two positions counts only
    /// requests with the same verb and target. The second position also counts requests for objects with other names.
    occurrences: [usize; 2],
    cut: Cut,
    is_down: bool,
}

/// The report of [`Kit::survives_crashes`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CrashReport {
    /// The requests at which the operator crashed. For each request, there were runs with a crash before the request took
    /// effect, and runs with a crash afterwards.
    pub requests: Vec<SentRequest>,
    /// The number of runs with a crash.
    pub runs: usize,
}

impl<W: World> Kit<W> {
    /// Crashes the operator at each of its requests, and checks that it reaches the same states as without a crash, after
    /// the crash and after each later step.
    ///
    /// A first run without a crash records the requests. For each recorded request, other runs cut the connection and
    /// kill the process, either before or after the request takes effect. The process is restarted immediately or after
    /// the user's next step. The check does not crash an idle operator when it renews its Lease.
    ///
    /// Because requests can have a different order in each run, a crash is planned for the nth request with the same
    /// verb, resource, subresource, namespace and name. If the operator does not send this request, the run is repeated
    /// with different seeds. In the last repetitions, the object name of the request may differ. A run without its
    /// planned crash does not pass. Operators repeatedly read API discovery and CustomResourceDefinitions until the
    /// server serves a new resource. If no repetition of a run sends such a read again, the report omits the read.
    ///
    /// A state consists of all objects and the [`World`], without uids, versions, generations, times, Leases and
    /// Events. For each `observedGeneration` in the status and its conditions, the check compares only whether it is
    /// current. At deeper levels of the status, the check ignores `observedGeneration`, because it can be the
    /// generation of another object. The check also ignores the fields that [`Kit::ignore`](Self::ignore) names. When the
    /// check compares a state, the last reconciliation of each key must have succeeded.
    ///
    /// # Duration
    ///
    /// The check makes two runs for each recorded request, or four runs if the kit has several steps. Each run executes
    /// all steps, so with twice as many steps, the check takes about four times as long. A small kit takes seconds, and a
    /// kit with ten steps can take several minutes, especially without optimizations. Before and during the runs, the
    /// check logs its progress at the level `info`. To see only these lines, install a `tracing` subscriber with the
    /// filter `pintle_testkit=info` before the check. Split a long list of steps into several kits, which test different
    /// scenarios.
    ///
    /// # Errors
    ///
    /// Returns the first crash after which a run did not reach an expected state, and the differences to that state. Returns
    /// [`Violation::NoEffect`] if the kit has steps and the operator changes nothing in the run without a crash. Returns
    /// [`Violation::FailedCalls`] if reconciliations fail in the run without a crash, or if reconciliations of a key still fail half an
    /// hour after a crash. Returns [`Violation::NoCrash`] if the operator does not send the request for a planned crash in any of eight
    /// runs.
    ///
    /// # Panics
    ///
    /// Panics if one of the kit's steps panics.
    pub fn survives_crashes(&self) -> Result<CrashReport, Violation> {
        let undisturbed = self.undisturbed()?;
        let downtimes: &[bool] = if self.steps.len() > 1 { &[false, true] } else { &[false] };
        let mut jobs = Vec::new();
        for (request, occurrences) in undisturbed.requests.iter().zip(&undisturbed.occurrences) {
            for cut in [Cut::Before, Cut::After] {
                let job = |&is_down| Job { request, occurrences: *occurrences, cut, is_down };
                jobs.extend(downtimes.iter().map(job));
            }
        }
        let crashed = Mutex::new(Vec::new());
        runs::all("survives_crashes", &jobs, |job| {
            if self.repeat_until_crash(job, &undisturbed.states)? {
                crashed.lock().push(job.request.number);
            }
            Ok(())
        })?;
        let crashed = crashed.into_inner();
        let mut requests = undisturbed.requests;
        requests.retain(|request| crashed.contains(&request.number));
        Ok(CrashReport { runs: crashed.len(), requests })
    }

    /// Runs the operator without disturbances. Returns an error if the operator changes nothing after the steps, or if
    /// reconciliations fail.
    pub(super) fn undisturbed(&self) -> Result<Undisturbed, Violation> {
        runs::one(&self.settings, async |journal| {
            let lab = self.lab(0, journal).await?;
            lab.start()?;
            let (mut requests, mut states) = (Vec::new(), Vec::new());
            let mut begin = 0;
            let failures = self
                .perform_from(&lab, 1, || {
                    let all = lab.requests();
                    let phase = &all[begin..];
                    let busy = phase.iter().rposition(|request| !request.is_housekeeping()).map_or(0, |last| last + 1);
                    requests.extend_from_slice(&phase[..busy]);
                    begin = all.len();
                    states.push(lab.state());
                })
                .await?;
            let tasks = tokio::runtime::Handle::current().metrics().num_alive_tasks();
            let replicas = if lab.journal.leases().is_empty() { 1 } else { 2 };
            self.check_effect(&lab, failures)?;
            let all = lab.requests();
            let occurrences = requests.iter().map(|request| occurrences(request, &all)).collect();
            Ok(Undisturbed { states, requests, occurrences, tasks, replicas })
        })
    }

    /// Returns an error if reconciliations failed, or if the steps of the user had no effect on the operator. An effect
    /// is a change to an object or to the world, or a recorded Event.
    pub(super) fn check_effect(&self, lab: &Lab<W>, failures: Failures) -> Result<(), Violation> {
        let has_effect = lab.requests().iter().any(SentRequest::is_effect) || lab.has_changed_world();
        if self.steps.is_empty() || has_effect {
            return failures.check();
        }
        let mut errors = failures.into_errors();
        errors.extend(lab.journal.errors());
        errors.sort();
        errors.dedup();
        let mut requests = lab.requests();
        requests.retain(|request| !request.is_housekeeping());
        requests.drain(..requests.len().saturating_sub(SHOWN));
        Err(Violation::NoEffect { requests, errors })
    }

    /// Repeats a run until the operator crashes. Returns an error if the operator does not send the request of the
    /// planned crash in any run. For API discovery requests, returns `false` instead, because their number depends on
    /// the server's speed.
    fn repeat_until_crash(&self, job: &Job<'_>, expected: &[State]) -> Result<bool, Violation> {
        let mut requests = Vec::new();
        for attempt in 0..ATTEMPTS {
            let crashed = async |journal| self.crashed(job, attempt, expected, journal).await;
            let crashed = runs::block_on(&self.settings, crashed);
            match crashed.map_err(|violation| violation.with_disturbance(&job.to_string()))? {
                None => return Ok(true),
                Some(sent) => requests = sent,
            }
        }
        if job.request.is_discovery() {
            return Ok(false);
        }
        Err(Violation::NoCrash { what: job.to_string(), runs: ATTEMPTS, requests })
    }

    /// Executes a run with a planned crash. If the operator did not crash, returns its last requests.
    async fn crashed(
        &self,
        job: &Job<'_>,
        attempt: u64,
        expected: &[State],
        journal: Arc<Journal>,
    ) -> Result<Option<Vec<SentRequest>>, Violation> {
        let lab = self.lab(attempt, journal).await?;
        let with_name = attempt < EXACT_ATTEMPTS;
        let occurrence = job.occurrences[usize::from(!with_name)];
        let crash = CrashPoint { request: job.request.clone(), with_name, occurrence, cut: job.cut };
        let process = lab.start_with(Some(crash), None)?;
        let progress = Progress::new();
        let drive = self.drive(&lab, &process, job, expected, &progress);
        let user = progress.perform(&lab, &self.steps);
        let (_, is_crashed) = tokio::try_join!(user, drive)?;
        if !is_crashed {
            return Ok(Some(lab.journal.tail(SHOWN)));
        }
        lab.check_ended()?;
        Ok(None)
    }

    /// Waits until the operator is idle in the expected state and no key fails. `what` describes the disturbance.
    pub(super) async fn settle(&self, lab: &Lab<W>, expected: &State, what: &str) -> Result<(), Violation> {
        // Check the state first, because a report about a wrong state is more useful than a report about failing keys.
        lab.converge(expected, what).await?;
        Failures::wait_for_none(&lab.journal, &self.settings.may_fail).await?;
        // Check the state again, because the last retry of a key may have changed the state.
        lab.converge(expected, what).await
    }

    /// Allows the steps one by one, and restarts the operator after the crash. From the crash on, waits for the
    /// expected state after each step. Returns `true` if the operator has crashed.
    async fn drive(
        &self,
        lab: &Lab<W>,
        process: &str,
        job: &Job<'_>,
        expected: &[State],
        progress: &Progress,
    ) -> Result<bool, Violation> {
        let death = lab.death(process);
        let last = self.steps.len();
        let mut is_crashed = false;
        let mut step = 0;
        loop {
            step = (step + 1).min(last);
            progress.allow(step);
            let settled = async {
                progress.done(step).await;
                lab.steady().await
            };
            tokio::select! {
                biased;
                () = death.cancelled(), if !is_crashed => {
                    is_crashed = true;
                    lab.kill(process).await;
                    if job.is_down {
                        step = (step + 1).min(last);
                        progress.allow(step);
                        // The step may depend on the operator, for example to install a CustomResourceDefinition.
                        // Therefore, restart the operator after the maximum downtime.
                        let _ = timeout(DOWNTIME, progress.done(step)).await;
                    }
                    lab.start()?;
                    progress.done(step).await;
                    lab.steady().await?;
                }
                settled = settled => settled?,
            }
            if is_crashed {
                let done = step.checked_sub(1).and_then(|at| self.steps.get(at));
                let after = done.map(|step| format!(", after the user's step {:?}", step.name)).unwrap_or_default();
                let (expected, what) = (&expected[step.saturating_sub(1)], format!("{job}{after}"));
                // If the state is already the expected state, do not wait until the operator is idle, because it may
                // act again after a longer time.
                if step == last || !lab.state().differences(expected).is_empty() {
                    self.settle(lab, expected, &what).await?;
                } else {
                    Failures::wait_for_none(&lab.journal, &self.settings.may_fail).await?;
                }
            }
            if step == last {
                return Ok(is_crashed);
            }
        }
    }
}

fn occurrences(request: &SentRequest, all: &[SentRequest]) -> [usize; 2] {
    let earlier = || all.iter().filter(|other| other.process == request.process && other.number <= request.number);
    [true, false].map(|with_name| earlier().filter(|other| request.is_same(other, with_name)).count())
}

impl fmt::Display for Job<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let effect = if self.cut == Cut::Before { "before" } else { "after" };
        let down = if self.is_down { "after the next step of the user" } else { "at once" };
        let mut request = self.request.clone();
        request.changes.clear();
        write!(f, "killed {effect} the effect of {request}, started again {down}")
    }
}

impl fmt::Display for CrashReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} runs converged after a crash at one of {} requests", self.runs, self.requests.len())
    }
}
