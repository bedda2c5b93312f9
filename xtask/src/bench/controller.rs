//! The area `controller` compares Pintle's controllers to controller-runtime and kube-rs.

use super::Goal::{Times, TimesOf};
use super::Measure::{AllocationsPerOp, CpuPerOp, Figure, PeakBytes, WallPerOp};
use super::{Area, Around, Goal, Program, Row, Rows, Run, Variant, Workload};

/// A workload that measures time and memory. The numbers of objects and workers are also passed to the programs.
macro_rules! timed {
    ($name:literal, $mode:literal, $objects:literal, $workers:literal, $rows:expr, runs: $runs:literal) => {
        Workload {
            name: $name,
            ours: &[ours(arguments!($mode, $objects, $workers), $rows)],
            peers: &peers(arguments!($mode, $objects, $workers)),
            around: Around::Maps($objects),
            runs: $runs,
        }
    };
}

/// A workload that counts allocations, in a single run.
macro_rules! counted {
    ($name:literal, $mode:literal, $objects:literal, $workers:literal) => {
        Workload {
            name: $name,
            ours: &[ours_counted(arguments!($mode, $objects, $workers))],
            peers: &peers_counted(arguments!($mode, $objects, $workers)),
            around: Around::Maps($objects),
            runs: 1,
        }
    };
}

macro_rules! arguments {
    ($mode:literal, $objects:literal, $workers:literal) => {
        &[$mode, "--objects", stringify!($objects), "--workers", stringify!($workers)]
    };
}

pub(crate) const AREA: Area = Area {
    name: "controller",
    about: "The Manager and the Controller of pintle-operator with their defaults, compared with controller-runtime (without its request \
            limit) and with kube-rs. The objects are ConfigMaps of about a kilobyte. One embedded API server serves them over TLS, on the \
            same processors. In the no-op rows, each object is reconciled from the cache. In the write rows, the first reconciliation of \
            an object sets an annotation with a merge patch. The object is done when a later reconciliation sees the annotation. The wall \
            time starts with the process and ends when the last object is done. CPU time and peak memory are measured for the whole \
            process. The CPU time of the server affects only the wall time",
    workloads: &[
        timed!("20 k objects, no-op, 1 worker", "noop", 20000, 1, NOOP, runs: 5),
        timed!("20 k objects, no-op, 8 workers", "noop", 20000, 8, NOOP, runs: 5),
        counted!("20 k objects, no-op, 1 worker: counted", "noop", 20000, 1),
        timed!("100 k objects, no-op, 1 worker", "noop", 100000, 1, NOOP, runs: 3),
        timed!("100 k objects, no-op, 8 workers", "noop", 100000, 8, NOOP, runs: 3),
        timed!("20 k objects, one write each, 1 worker", "write", 20000, 1, WRITE, runs: 3),
        timed!("20 k objects, one write each, 8 workers", "write", 20000, 8, WRITE, runs: 3),
        counted!("20 k objects, one write each, 1 worker: counted", "write", 20000, 1),
        timed!("100 k objects, one write each, 1 worker", "write", 100000, 1, WRITE, runs: 1),
        timed!("100 k objects, one write each, 8 workers", "write", 100000, 8, WRITE, runs: 1),
    ],
};

const NOOP: Rows = &[(WallPerOp, NOOP_GOALS), (CpuPerOp, NOOP_GOALS), MEMORY, FIRST_RECONCILE];
const WRITE: Rows = &[(WallPerOp, WRITE_GOALS), (CpuPerOp, WRITE_GOALS), MEMORY, FIRST_RECONCILE];
const NOOP_GOALS: &[Goal] = &[TimesOf("controller-runtime", 4.0), TimesOf("kube-rs", 1.5)];
const WRITE_GOALS: &[Goal] = &[TimesOf("controller-runtime", 2.0), TimesOf("kube-rs", 1.5)];
const MEMORY: Row = (PeakBytes, &[Times(1.0)]);
const FIRST_RECONCILE: Row = (Figure("s until the first reconcile"), &[]);

const fn ours(args: &'static [&'static str], rows: Rows) -> Variant {
    Variant { name: "", run: Run { program: Program::Rust("controller"), args }, rows }
}

const fn ours_counted(args: &'static [&'static str]) -> Variant {
    Variant {
        name: "",
        run: Run { program: Program::Rust("controller_counted"), args },
        rows: &[(AllocationsPerOp, &[])],
    }
}

const fn peers(args: &'static [&'static str]) -> [(&'static str, Run); 2] {
    [controller_runtime(args), ("kube-rs", Run { program: Program::Kube("controller"), args })]
}

const fn peers_counted(args: &'static [&'static str]) -> [(&'static str, Run); 2] {
    [controller_runtime(args), ("kube-rs", Run { program: Program::Kube("controller_counted"), args })]
}

/// Runs controller-runtime. Go always counts allocations, so there is no separate program that counts them.
const fn controller_runtime(args: &'static [&'static str]) -> (&'static str, Run) {
    ("controller-runtime", Run { program: Program::Go("controller"), args })
}
