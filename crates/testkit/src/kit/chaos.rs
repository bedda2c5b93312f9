//! Checks with disturbances from a seed: stale reads, reordered events and chaos.

mod leaders;
mod script;

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use pintle_meta::__private::Mutex;
use tokio::time::{Instant, sleep, sleep_until};

use self::script::{Event, Kind, Script};
use super::crashes::Undisturbed;
use super::steps::Progress;
use super::{Kit, runs};
use crate::journal::Journal;
use crate::lab::Lab;
use crate::violation::Violation;
use crate::wire::Disturbances;
use crate::world::World;

/// The maximum number of additional tasks at the end of a disturbed run, compared with an undisturbed run with the same
/// number of replicas.
const TASKS: usize = 8;
const RESTART: Duration = Duration::from_secs(1);

/// Returns the seeds for a check, which are `0..default` unless the environment variable `PINTLE_SEEDS` is set. The
/// variable contains a count, such as `1000`, or a range, such as `17..18`.
///
/// # Panics
///
/// Panics if the variable is not a count or a range.
pub fn seeds(default: u64) -> Range<u64> {
    let Ok(text) = std::env::var("PINTLE_SEEDS") else { return 0..default };
    parse(&text)
        .unwrap_or_else(|| panic!("PINTLE_SEEDS is {text:?}: use a count, such as 1000, or a range, such as 17..18"))
}

fn parse(text: &str) -> Option<Range<u64>> {
    match text.split_once("..") {
        Some((first, end)) => Some(first.trim().parse().ok()?..end.trim().parse().ok()?),
        None => Some(0..text.trim().parse().ok()?),
    }
}

/// The result of a check with several seeds. Each number is the total for all runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SeedReport {
    /// The number of runs.
    pub runs: usize,
    /// The number of requests that the operator sent.
    pub requests: usize,
    /// The number of requests whose connection was cut.
    pub cuts: usize,
    /// The number of injected server faults.
    pub faults: u64,
    /// The number of started processes.
    pub processes: usize,
}

impl SeedReport {
    fn add(&mut self, other: Self) {
        self.runs += other.runs;
        self.requests += other.requests;
        self.cuts += other.cuts;
        self.faults += other.faults;
        self.processes += other.processes;
    }
}

impl fmt::Display for SeedReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { runs, requests, cuts, faults, processes } = self;
        write!(
            f,
            "{runs} runs converged: {processes} processes sent {requests} requests, {cuts} were cut, {faults} met a fault"
        )
    }
}

impl<W: World> Kit<W> {
    /// Checks that the operator reaches the same final state even if its lists and watches return stale data.
    ///
    /// The seed determines the delay of the data, which is a time or a number of versions. A real API server with a
    /// delayed watch cache returns stale data in the same way. The user does not wait for the operator to become idle.
    /// Processes are killed or stopped during the run, so a new leader can see an older state than the previous leader.
    /// An operator with leader election has two replicas.
    ///
    /// # Errors
    ///
    /// Returns the seed and the script of the first failed run. A run fails if it does not reach the final state, or if
    /// reconciliations of a key still fail half an hour after the last disturbance.
    ///
    /// # Panics
    ///
    /// Panics if a step of the user panics.
    pub fn survives_stale_views(&self, seeds: Range<u64>) -> Result<SeedReport, Violation> {
        self.survives(seeds, Kind::Stale)
    }

    /// Checks that the operator reaches the same final state even if events arrive in a different order.
    ///
    /// The seed determines the delay of each watch event, request and response. As in a real cluster, the events of one
    /// watch stay in order, but events for different resources and requests can be reordered. The user does not wait
    /// for the operator to become idle.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`survives_stale_views`](Self::survives_stale_views).
    ///
    /// # Panics
    ///
    /// Panics if a step of the user panics.
    pub fn survives_reordering(&self, seeds: Range<u64>) -> Result<SeedReport, Violation> {
        self.survives(seeds, Kind::Order)
    }

    /// Runs a script of faults for each seed, and checks that the operator reaches the same final state. An operator
    /// with leader election has two replicas.
    ///
    /// A script contains errors (500, 503, 409 and 429), cut connections, broken, expired and silent watches, slow
    /// requests, stale reads, and kills of the leader. The check verifies the following rules:
    ///
    /// - After the last fault, the operator reaches the same final state as in an undisturbed run.
    /// - A process writes only while it is the leader and its Lease has not expired. If the operator has
    ///   [shards](pintle_operator::Manager::sharded), the process must be the leader of the shard that contains the
    ///   written object. The shard of an object that is not an owner and has no controller owner is unknown. For such
    ///   an object, the process may be the leader of any shard.
    /// - A run does not end with many more tasks than an undisturbed run.
    ///
    /// # Errors
    ///
    /// Returns the seed and the script of the first run that violates a rule, or in which reconciliations of a key
    /// still fail half an hour after the last disturbance.
    ///
    /// # Panics
    ///
    /// Panics if a step of the user panics.
    pub fn survives_chaos(&self, seeds: Range<u64>) -> Result<SeedReport, Violation> {
        self.survives(seeds, Kind::Chaos)
    }

    fn survives(&self, seeds: Range<u64>, kind: Kind) -> Result<SeedReport, Violation> {
        let undisturbed = self.undisturbed()?;
        let seeds: Vec<u64> = seeds.collect();
        let total = Mutex::new(SeedReport::default());
        runs::all(kind.check(), &seeds, |seed| {
            let script = Script::new(*seed, kind, self.steps.len(), undisturbed.replicas, &undisturbed.views());
            let disturbed = async |journal| self.disturbed(*seed, &script, &undisturbed, journal).await;
            let report = runs::block_on(&self.settings, disturbed);
            let report = report.map_err(|violation| violation.with_disturbance(&script.to_string()))?;
            total.lock().add(report);
            Ok(())
        })?;
        Ok(total.into_inner())
    }

    async fn disturbed(
        &self,
        seed: u64,
        script: &Script,
        undisturbed: &Undisturbed,
        journal: Arc<Journal>,
    ) -> Result<SeedReport, Violation> {
        let what = script.to_string();
        let lab = self.lab(seed, journal).await?;
        let progress = Progress::new();
        let start = Instant::now();
        let drive = async {
            self.play(&lab, script, start, &progress).await?;
            progress.done(self.steps.len()).await;
            self.settle(&lab, undisturbed.final_state(), &what).await
        };
        let replicas = async {
            tokio::select! {
                driven = drive => driven,
                failed = keep_running(&lab, script, start) => failed,
            }
        };
        let user = progress.perform(&lab, &self.steps);
        let ended = tokio::try_join!(user, replicas);
        // Report panics first, because they may be the cause of later failures.
        if let Some((process, cause)) = lab.journal.first_panic() {
            return Err(Violation::Ended { process, cause });
        }
        ended?;
        self.judge(&lab, script, undisturbed, what)?;
        let requests = lab.requests();
        Ok(SeedReport {
            runs: 1,
            requests: requests.len(),
            cuts: requests.iter().filter(|request| !request.fault.is_empty()).count(),
            faults: lab.faults().hits(),
            processes: lab.started(),
        })
    }

    async fn play(&self, lab: &Lab<W>, script: &Script, start: Instant, progress: &Progress) -> Result<(), Violation> {
        let mut allowed = 0;
        for (at, event) in &script.events {
            sleep_until(start + *at).await;
            match event {
                Event::Step => {
                    allowed += 1;
                    progress.allow(allowed);
                }
                Event::Rule(rule) => drop(lab.faults().add(rule.clone())),
                Event::BreakWatches => lab.break_watches(),
                Event::Kill(choice) => {
                    if let Some(process) = leaders::leader_or(lab, *choice) {
                        lab.kill(&process).await;
                    }
                }
                Event::Stop(choice) => {
                    if let Some(process) = leaders::leader_or(lab, *choice) {
                        // Ignore errors, because the process may have failed due to an injected fault.
                        let _ = lab.stop(&process).await;
                    }
                }
            }
        }
        sleep_until(start + script.end).await;
        lab.faults().clear();
        lab.break_watches();
        if script.kind == Kind::Chaos {
            lab.set_disturbances(None);
        }
        Ok(())
    }

    fn judge(&self, lab: &Lab<W>, script: &Script, undisturbed: &Undisturbed, what: String) -> Result<(), Violation> {
        let writes = leaders::writes_without_leading(lab);
        if !writes.is_empty() {
            return Err(Violation::TwoLeaders { what, writes });
        }
        let found = tokio::runtime::Handle::current().metrics().num_alive_tasks();
        let expected = undisturbed.tasks * script.replicas + TASKS;
        if found > expected { Err(Violation::Leak { what, found, expected }) } else { Ok(()) }
    }
}

async fn keep_running<W: World>(lab: &Lab<W>, script: &Script, start: Instant) -> Result<(), Violation> {
    loop {
        let disturbances = Disturbances {
            cuts: script.cuts,
            delay: script.delay,
            lag: script.lag,
            // If a script contains only delays, keep them until the end of the run, because the operator can reach the
            // final state despite them.
            until: start + if script.kind == Kind::Chaos { script.end } else { Duration::from_secs(86_400) },
        };
        while lab.running().len() < script.replicas {
            lab.start_with(None, Some(disturbances))?;
        }
        sleep(RESTART).await;
    }
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn seeds_are_a_count_or_a_range() {
        assert_eq!(parse("1000"), Some(0..1000));
        assert_eq!(parse("17..18"), Some(17..18));
        assert_eq!(parse("all"), None);
    }
}
