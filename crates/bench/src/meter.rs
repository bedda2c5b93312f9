//! What a run of a work costs.

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;
use stats_alloc::{INSTRUMENTED_SYSTEM, Stats};

/// The line that a binary prints.
#[derive(Clone, Debug, Serialize)]
pub struct Sample {
    /// Wall time.
    pub wall_ns: f64,
    /// CPU time of all threads.
    pub cpu_ns: f64,
    /// Heap allocations, counting a reallocation as one. `None` in a binary that does not count them, since counting takes time.
    pub allocations: Option<f64>,
    /// How much more memory was resident at the highest point than at the start.
    pub peak_bytes: f64,
    /// How many operations that was.
    pub operations: f64,
    /// How many keys were added. An add that was merged into another counts.
    pub adds: f64,
    /// How many keys were handed out.
    pub gets: f64,
    /// What else the work tells, by the unit that it stands under.
    pub figures: BTreeMap<&'static str, f64>,
}

/// What was done while it was measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tally {
    /// How many operations that was.
    pub(crate) operations: usize,
    /// How many keys were added to a queue.
    pub(crate) adds: usize,
    /// How many keys it handed out.
    pub(crate) gets: usize,
}

impl Tally {
    /// No queue was at work.
    pub(crate) fn operations(operations: usize) -> Self {
        Self { operations, adds: 0, gets: 0 }
    }

    /// Each key was added and taken once, and both together are an operation.
    pub(crate) fn keys(n: usize) -> Self {
        Self { operations: n, adds: n, gets: n }
    }

    /// Each add is an operation, and each get with its done.
    pub(crate) fn calls(adds: usize, gets: usize) -> Self {
        Self { operations: adds + gets, adds, gets }
    }
}

impl Sample {
    /// Tells one figure more. What is no number stays empty.
    pub(crate) fn with(mut self, unit: &'static str, value: f64) -> Self {
        self.figures.insert(unit, value);
        self
    }
}

/// Runs `work` and measures it alone.
pub(crate) fn measure(work: impl FnOnce() -> Tally) -> Sample {
    // From here on the peak is this work's. Where the kernel refuses, the peak includes the preparation.
    let _ = fs::write("/proc/self/clear_refs", "5");
    let base = resident();
    let before = counted();
    let cpu = process_cpu();
    let start = Instant::now();
    let Tally { operations, adds, gets } = work();
    let wall = start.elapsed();
    let cpu = process_cpu() - cpu;
    let allocations = counted().zip(before).map(|(after, before)| {
        ((after.allocations + after.reallocations) - (before.allocations + before.reallocations)) as f64
    });
    Sample {
        wall_ns: wall.as_nanos() as f64,
        cpu_ns: cpu.as_nanos() as f64,
        allocations,
        peak_bytes: peak() - base,
        operations: operations as f64,
        adds: adds as f64,
        gets: gets as f64,
        figures: BTreeMap::new(),
    }
}

/// What memory is resident now, in bytes.
pub(crate) fn resident() -> f64 {
    resident_of("self")
}

/// The same of another process, by its id.
pub(crate) fn resident_of(process: &str) -> f64 {
    status(process, "VmRSS:")
}

/// The most memory that was resident since [`measure`] began.
pub(crate) fn peak() -> f64 {
    status("self", "VmHWM:")
}

/// How many sockets this process has open.
pub(crate) fn sockets() -> f64 {
    let open = fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let links = open.filter_map(|entry| fs::read_link(entry.path()).ok());
    links.filter(|link| link.to_string_lossy().starts_with("socket:")).count() as f64
}

/// What is allocated now, in bytes; no number in a binary that does not count.
pub(crate) fn live() -> f64 {
    counted().map_or(f64::NAN, |stats| stats.bytes_allocated as f64 - stats.bytes_deallocated as f64)
}

/// All allocations so far, in a binary whose global allocator counts them.
fn counted() -> Option<Stats> {
    Some(INSTRUMENTED_SYSTEM.stats()).filter(|stats| stats.allocations > 0)
}

/// The CPU time that the calling thread has had.
pub(crate) fn thread_cpu() -> Duration {
    cpu(ClockId::ThreadCPUTime)
}

fn process_cpu() -> Duration {
    cpu(ClockId::ProcessCPUTime)
}

fn cpu(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    Duration::from_secs(time.tv_sec as u64) + Duration::from_nanos(time.tv_nsec as u64)
}

/// A line of a process's `/proc/ID/status`, in bytes; 0 where there is no such file.
fn status(process: &str, field: &str) -> f64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<f64>().ok()).unwrap_or(0.0) * 1024.0
}
