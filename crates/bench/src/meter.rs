//! What a run of a work costs.

use std::alloc::System;
use std::fs;
use std::time::Instant;

use serde::Serialize;
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

/// Counts the allocations of every binary of this crate.
#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// The line that a binary prints.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Sample {
    /// Wall time.
    pub wall_ns: f64,
    /// CPU time of all threads.
    pub cpu_ns: f64,
    /// Heap allocations, counting a reallocation as one.
    pub allocations: f64,
    /// How much more memory was resident at the highest point than at the start.
    pub peak_bytes: f64,
    /// How many operations that was.
    pub operations: f64,
}

/// Runs `work`, which says how many operations it has done, and measures it alone.
pub fn measure(work: impl FnOnce() -> usize) -> Sample {
    // From here on the peak is this work's. Where the kernel refuses, the peak includes the preparation.
    let _ = fs::write("/proc/self/clear_refs", "5");
    let base = resident("VmRSS:");
    let before = ALLOCATOR.stats();
    let cpu = cpu_ns();
    let start = Instant::now();
    let operations = work();
    let wall_ns = start.elapsed().as_nanos() as f64;
    let cpu_ns = cpu_ns() - cpu;
    let after = ALLOCATOR.stats();
    let allocations = (after.allocations + after.reallocations) - (before.allocations + before.reallocations);
    let peak_bytes = resident("VmHWM:") - base;
    Sample { wall_ns, cpu_ns, allocations: allocations as f64, peak_bytes, operations: operations as f64 }
}

/// Like [`measure`], but tells how much more memory is resident after `work` than before it, instead of the peak.
pub fn measure_left(work: impl FnOnce() -> usize) -> Sample {
    let base = resident("VmRSS:");
    let sample = measure(work);
    Sample { peak_bytes: resident("VmRSS:") - base, ..sample }
}

fn cpu_ns() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

/// A line of `/proc/self/status`, in bytes; 0 where there is no such file.
fn resident(field: &str) -> f64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<f64>().ok()).unwrap_or(0.0) * 1024.0
}
