//! Measures the CPU time, memory and allocations of one workload run.

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;
use stats_alloc::{INSTRUMENTED_SYSTEM, Stats};

/// The result of a benchmark program, which the program prints as one line of JSON.
#[derive(Clone, Debug, Serialize)]
pub struct Sample {
    /// The elapsed wall time.
    pub wall_ns: f64,
    /// The CPU time of all threads.
    pub cpu_ns: f64,
    /// The number of heap allocations, including reallocations, or `None` if the program does not count allocations.
    /// Counting slows a program down, so only some programs count allocations.
    pub allocations: Option<f64>,
    /// The peak resident memory during the measurement, minus the resident memory at its start.
    pub peak_bytes: f64,
    /// The number of operations.
    pub operations: f64,
    /// The number of keys added to the queue, including adds that the queue merged.
    pub adds: f64,
    /// The number of keys that the queue gave to workers.
    pub gets: f64,
    /// Further results of the workload, keyed by unit.
    pub figures: BTreeMap<&'static str, f64>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Tally {
    pub(crate) operations: usize,
    pub(crate) adds: usize,
    pub(crate) gets: usize,
}

impl Tally {
    /// Returns the counts of a workload without a queue.
    pub(crate) fn operations(operations: usize) -> Self {
        Self { operations, adds: 0, gets: 0 }
    }

    /// Returns the counts of a workload that adds and gets each of `n` keys once. An add and the get of its key count
    /// as one operation.
    pub(crate) fn keys(n: usize) -> Self {
        Self { operations: n, adds: n, gets: n }
    }

    /// Returns the counts of a workload that adds and gets keys. Each add counts as an operation, and so does each get
    /// with its `done`.
    pub(crate) fn calls(adds: usize, gets: usize) -> Self {
        Self { operations: adds + gets, adds, gets }
    }
}

impl Sample {
    /// Adds a figure to the sample, where NaN results in an empty table cell.
    pub(crate) fn with(mut self, unit: &'static str, value: f64) -> Self {
        self.figures.insert(unit, value);
        self
    }
}

pub(crate) fn measure(work: impl FnOnce() -> Tally) -> Sample {
    // Reset the peak resident memory that the kernel has recorded. If the kernel does not allow this, the peak
    // includes the workload's setup.
    let _ = fs::write("/proc/self/clear_refs", "5");
    let base = resident();
    let before = counted();
    let cpu = process_cpu();
    let start = Instant::now();
    let Tally { operations, adds, gets } = work();
    let wall = start.elapsed();
    let cpu = process_cpu() - cpu;
    let allocations = counted().zip(before).map(|(after, before)| total(&after) - total(&before));
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

pub(crate) fn resident() -> f64 {
    resident_of("self")
}

/// Returns the resident memory of process `process`, in bytes.
pub(crate) fn resident_of(process: &str) -> f64 {
    status(process, "VmRSS:")
}

/// Returns the peak resident memory since [`measure`] started, in bytes.
pub(crate) fn peak() -> f64 {
    status("self", "VmHWM:")
}

pub(crate) fn sockets() -> f64 {
    let open = fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let links = open.filter_map(|entry| fs::read_link(entry.path()).ok());
    links.filter(|link| link.to_string_lossy().starts_with("socket:")).count() as f64
}

/// Returns the number of allocated bytes, or NaN if the program does not count allocations.
pub(crate) fn live() -> f64 {
    counted().map_or(f64::NAN, |stats| stats.bytes_allocated as f64 - stats.bytes_deallocated as f64)
}

/// Returns the number of heap allocations since the start of the process, or `None` if the program does not count
/// them.
pub(crate) fn allocations() -> Option<f64> {
    counted().as_ref().map(total)
}

fn total(stats: &Stats) -> f64 {
    (stats.allocations + stats.reallocations) as f64
}

/// Returns the allocation statistics, or `None` if the global allocator does not collect them.
fn counted() -> Option<Stats> {
    Some(INSTRUMENTED_SYSTEM.stats()).filter(|stats| stats.allocations > 0)
}

pub(crate) fn thread_cpu() -> Duration {
    cpu(ClockId::ThreadCPUTime)
}

/// Returns the CPU time of all threads since the process started.
pub(crate) fn process_cpu() -> Duration {
    cpu(ClockId::ProcessCPUTime)
}

fn cpu(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    Duration::from_secs(time.tv_sec as u64) + Duration::from_nanos(time.tv_nsec as u64)
}

/// Reads a value from `/proc/PROCESS/status` in bytes, or returns 0 if the file cannot be read.
fn status(process: &str, field: &str) -> f64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<f64>().ok()).unwrap_or(0.0) * 1024.0
}
