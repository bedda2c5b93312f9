//! The conditions of a measurement: the commit and the machine.

use std::fmt;
use std::thread;
use std::time::Duration;

use anyhow::Context;
use xshell::{Shell, cmd};

#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Commit {
    id: String,
    /// Whether the working tree has uncommitted changes. Changes in `docs/bench` do not count, because the
    /// benchmark itself writes these files.
    pub(crate) changed: bool,
}

pub(crate) fn commit(sh: &Shell) -> anyhow::Result<Commit> {
    let id = cmd!(sh, "git rev-parse --short=12 HEAD").quiet().read().context("cannot read the current commit")?;
    let changes = cmd!(sh, "git status --porcelain -- . :(exclude)docs/bench").quiet().read()?;
    Ok(Commit { id, changed: !changes.is_empty() })
}

impl fmt::Display for Commit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.id, if self.changed { " with changes" } else { "" })
    }
}

pub(crate) struct Conditions {
    pub(crate) commit: String,
    machine: String,
    /// The CPU utilization of the machine before the measurement, or `None` if the operating system does not report
    /// it.
    busy: Option<f64>,
}

impl Conditions {
    pub(crate) fn now(sh: &Shell, commit: &Commit) -> Self {
        Self { commit: commit.to_string(), machine: machine(sh), busy: busy() }
    }

    pub(crate) fn others_are_at_work(&self) -> bool {
        self.busy.is_some_and(|busy| busy > 0.1)
    }
}

/// Formats the conditions as sentences, without the final period.
impl fmt::Display for Conditions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { commit, machine, busy } = self;
        write!(f, "Each figure is the median of all runs of a side. The sides ran alternately. ")?;
        write!(f, "Commit {commit} was measured on {machine}")?;
        match busy {
            Some(busy) => {
                let percent = busy * 100.0;
                write!(f, ". The processors were busy for {percent:.1} % of the two seconds before the measurement")
            }
            None => Ok(()),
        }
    }
}

fn machine(sh: &Shell) -> String {
    let cores = thread::available_parallelism().map_or(0, usize::from);
    let cpu = std::fs::read_to_string("/proc/cpuinfo").ok().and_then(|text| {
        let line = text.lines().find(|line| line.starts_with("model name"))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    });
    let cpu = cpu.unwrap_or_else(|| std::env::consts::ARCH.to_owned());
    let version = |program: &str, arg: &str| cmd!(sh, "{program} {arg}").quiet().ignore_stderr().read().ok();
    let rust = version("rustc", "--version").map(|rust| format!("{rust}, fat LTO and one codegen unit"));
    let tools: Vec<String> = [rust, version("go", "version")].into_iter().flatten().collect();
    format!("{cores} cores of {cpu}. Compilers: {}", tools.join("; "))
}

/// Measures the CPU utilization of the machine for two seconds.
fn busy() -> Option<f64> {
    let read = || used(&std::fs::read_to_string("/proc/stat").ok()?);
    let (used, all) = read()?;
    thread::sleep(Duration::from_secs(2));
    let (used_now, all_now) = read()?;
    Some((used_now - used) / (all_now - all))
}

/// Returns the used and the total CPU time in the first line of `/proc/stat`.
fn used(stat: &str) -> Option<(f64, f64)> {
    const IDLE: [usize; 2] = [3, 4];
    // Take only the first eight times, because they already include the guest times.
    let times = stat.lines().next()?.strip_prefix("cpu ")?.split_whitespace().take(8);
    let times: Vec<f64> = times.map(|time| time.parse().ok()).collect::<Option<_>>()?;
    let all: f64 = times.iter().sum();
    let idle: f64 = IDLE.iter().filter_map(|index| times.get(*index)).sum();
    Some((all - idle, all))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn io_wait_is_idle_and_guest_time_counts_once() {
        assert_eq!(used("cpu  10 1 2 80 5 0 1 1 7 7\ncpu0 1\n"), Some((15.0, 100.0)));
        assert_eq!(used(""), None);
    }

    #[test]
    fn changed_tree_is_reported() {
        let commit = |changed| Commit { id: "abc".to_owned(), changed }.to_string();
        assert_eq!([commit(false), commit(true)], ["abc", "abc with changes"]);
    }
}
