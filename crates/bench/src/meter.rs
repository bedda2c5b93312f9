//! Measures the CPU time, the memory and the allocations of one run of a workload.

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;
use stats_alloc::{INSTRUMENTED_SYSTEM, Stats};

/// The result of a measurement. Each program prints its result as one line of JSON.
#[derive(Clone, Debug, Serialize)]
pub struct Sample {
    /// The elapsed wall time.
    pub wall_ns: f64,
    /// The CPU time that all threads of the process used.
    pub cpu_ns: f64,
    /// The number of heap allocations. A reallocation counts as one allocation. `None` means that the program does not count
    /// allocations, because counting them takes time.
    pub allocations: Option<f64>,
    /// The peak of resident memory during the measurement, minus the resident memory at the start of the measurement.
    pub peak_bytes: f64,
    /// The number of operations.
    pub operations: f64,
    /// The number of keys that were added to the queue. This number includes adds that the queue merged with an earlier
    /// add.
    pub adds: f64,
    /// The number of keys that the queue gave to workers.
    pub gets: f64,
    /// Other results of the workload. The key of each entry is the unit of its value.
    pub figures: BTreeMap<&'static str, f64>,
}

/// Counts the operations in one measured run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tally {
    /// The number of operations.
    pub(crate) operations: usize,
    /// The number of keys that were added to the queue.
    pub(crate) adds: usize,
    /// The number of keys that the queue gave to workers.
    pub(crate) gets: usize,
}

impl Tally {
    /// Returns the counts of a workload without a queue.
    pub(crate) fn operations(operations: usize) -> Self {
        Self { operations, adds: 0, gets: 0 }
    }

    /// Returns the counts of a workload that adds and takes each of `n` keys once. An add and the get of the same key
    /// together count as one operation.
    pub(crate) fn keys(n: usize) -> Self {
        Self { operations: n, adds: n, gets: n }
    }

    /// Returns the counts of a workload in which each add is one operation, and each get together with its `done` is
    /// one operation.
    pub(crate) fn calls(adds: usize, gets: usize) -> Self {
        Self { operations: adds + gets, adds, gets }
    }
}

impl Sample {
    /// Adds a figure. A NaN becomes an empty cell in the table of results.
    pub(crate) fn with(mut self, unit: &'static str, value: f64) -> Self {
        self.figures.insert(unit, value);
        self
    }
}

/// Runs `work` and measures it. The measurement does not include the work of the caller before this call.
pub(crate) fn measure(work: impl FnOnce() -> Tally) -> Sample {
    // Resets the peak of resident memory that the kernel stores. If the kernel does not allow the reset, the peak
    // includes the preparation of the workload.
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

/// Returns the resident memory of this process, in bytes.
pub(crate) fn resident() -> f64 {
    resident_of("self")
}

/// Returns the resident memory of the process with this id, in bytes.
pub(crate) fn resident_of(process: &str) -> f64 {
    status(process, "VmRSS:")
}

/// Returns the peak of resident memory since [`measure`] started, in bytes.
pub(crate) fn peak() -> f64 {
    status("self", "VmHWM:")
}

/// Returns the number of sockets that this process has open.
pub(crate) fn sockets() -> f64 {
    let open = fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let links = open.filter_map(|entry| fs::read_link(entry.path()).ok());
    links.filter(|link| link.to_string_lossy().starts_with("socket:")).count() as f64
}

/// Returns the number of bytes that were allocated so far. Returns NaN in a program that does not count allocations.
pub(crate) fn live() -> f64 {
    counted().map_or(f64::NAN, |stats| stats.bytes_allocated as f64 - stats.bytes_deallocated as f64)
}

/// Returns the number of heap allocations since the process started. Returns `None` in a program that does not count
/// allocations.
pub(crate) fn allocations() -> Option<f64> {
    counted().as_ref().map(total)
}

fn total(stats: &Stats) -> f64 {
    (stats.allocations + stats.reallocations) as f64
}

/// Returns the allocation statistics. Returns `None` if the global allocator does not count allocations.
fn counted() -> Option<Stats> {
    Some(INSTRUMENTED_SYSTEM.stats()).filter(|stats| stats.allocations > 0)
}

/// Returns the CPU time that the calling thread has used.
pub(crate) fn thread_cpu() -> Duration {
    cpu(ClockId::ThreadCPUTime)
}

/// Returns the CPU time that all threads have used since the process started.
pub(crate) fn process_cpu() -> Duration {
    cpu(ClockId::ProcessCPUTime)
}

fn cpu(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    Duration::from_secs(time.tv_sec as u64) + Duration::from_nanos(time.tv_nsec as u64)
}

/// Reads a value from `/proc/PROCESS/status` and returns it in bytes. Returns 0 if the file cannot be read.
fn status(process: &str, field: &str) -> f64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<f64>().ok()).unwrap_or(0.0) * 1024.0
}
