//! The summary table at the end of the demo.

use std::fmt;
use std::time::Duration;

#[derive(Debug)]
pub(crate) struct Summary {
    pub(crate) converged: usize,
    pub(crate) objects: usize,
    pub(crate) reconciles: u64,
    pub(crate) retries: u64,
    /// How long keys were queued until a worker took them: the median and the 99th percentile.
    pub(crate) queue_latency: Option<(Duration, Duration)>,
    /// The time between the death of the leader and the next leader's first completed reconciliation.
    pub(crate) failover: Option<Duration>,
    pub(crate) total: Duration,
}

impl Summary {
    pub(crate) fn is_success(&self) -> bool {
        self.converged == self.objects
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows = [
            ("objects converged", format!("{} of {}", self.converged, self.objects)),
            ("reconciles", self.reconciles.to_string()),
            ("retries", self.retries.to_string()),
            ("queue latency p50", or_none(self.queue_latency.map(|(p50, _)| p50))),
            ("queue latency p99", or_none(self.queue_latency.map(|(_, p99)| p99))),
            ("failover time", or_none(self.failover)),
            ("peak memory", peak_memory().unwrap_or_else(|| "unknown on this system".into())),
            ("total time", format!("{:.1?}", self.total)),
        ];
        for (name, value) in rows {
            writeln!(f, "  {name:<20} {value}")?;
        }
        Ok(())
    }
}

fn or_none(duration: Option<Duration>) -> String {
    duration.map_or_else(|| "none measured".into(), |duration| format!("{duration:.1?}"))
}

/// Returns the peak memory usage of this process. Returns `None` on systems other than Linux.
fn peak_memory() -> Option<String> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(format!("{:.1} MiB", kilobytes as f64 / 1024.0))
}
