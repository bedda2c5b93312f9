//! The area `controller` compares an operator's controller with controller-runtime and kube-rs.

use super::Goal::{Times, TimesOf};
use super::Measure::{AllocationsPerOp, CpuPerOp, Figure, PeakBytes, WallPerOp};
use super::{Area, Around, Goal, Program, Row, Rows, Run, Variant, Workload};

pub(crate) const AREA: Area = Area {
    name: "controller",
    about: "The Manager and the Controller of pintle-operator with their defaults, compared with controller-runtime (without its request \
            limit) and with kube-rs. The objects are ConfigMaps of about a kilobyte. One embedded API server serves them over TLS, on the \
            same processors. In the no-op rows, each object is reconciled from the cache. In the write rows, the first reconciliation of \
            an object sets an annotation with a merge patch. The object is done when a later reconciliation sees the annotation. The wall \
            time starts with the process and ends when the last object is done. CPU time and peak memory are measured for the whole \
            process. The CPU time of the server affects only the wall time",
    workloads: &[
        Workload {
            name: "20 k objects, no-op, 1 worker",
            ours: &[ours(&["noop", "--objects", "20000", "--workers", "1"], NOOP)],
            peers: &peers(&["noop", "--objects", "20000", "--workers", "1"]),
            around: Around::Maps(20_000),
            runs: 5,
        },
        Workload {
            name: "20 k objects, no-op, 8 workers",
            ours: &[ours(&["noop", "--objects", "20000", "--workers", "8"], NOOP)],
            peers: &peers(&["noop", "--objects", "20000", "--workers", "8"]),
            around: Around::Maps(20_000),
            runs: 5,
        },
        Workload {
            name: "20 k objects, no-op, 1 worker: counted",
            ours: &[counted(&["noop", "--objects", "20000", "--workers", "1"])],
            peers: &peers_counted(&["noop", "--objects", "20000", "--workers", "1"]),
            around: Around::Maps(20_000),
            runs: 1,
        },
        Workload {
            name: "100 k objects, no-op, 1 worker",
            ours: &[ours(&["noop", "--objects", "100000", "--workers", "1"], NOOP)],
            peers: &peers(&["noop", "--objects", "100000", "--workers", "1"]),
            around: Around::Maps(100_000),
            runs: 3,
        },
        Workload {
            name: "100 k objects, no-op, 8 workers",
            ours: &[ours(&["noop", "--objects", "100000", "--workers", "8"], NOOP)],
            peers: &peers(&["noop", "--objects", "100000", "--workers", "8"]),
            around: Around::Maps(100_000),
            runs: 3,
        },
        Workload {
            name: "20 k objects, one write each, 1 worker",
            ours: &[ours(&["write", "--objects", "20000", "--workers", "1"], WRITE)],
            peers: &peers(&["write", "--objects", "20000", "--workers", "1"]),
            around: Around::Maps(20_000),
            runs: 3,
        },
        Workload {
            name: "20 k objects, one write each, 8 workers",
            ours: &[ours(&["write", "--objects", "20000", "--workers", "8"], WRITE)],
            peers: &peers(&["write", "--objects", "20000", "--workers", "8"]),
            around: Around::Maps(20_000),
            runs: 3,
        },
        Workload {
            name: "20 k objects, one write each, 1 worker: counted",
            ours: &[counted(&["write", "--objects", "20000", "--workers", "1"])],
            peers: &peers_counted(&["write", "--objects", "20000", "--workers", "1"]),
            around: Around::Maps(20_000),
            runs: 1,
        },
        Workload {
            name: "100 k objects, one write each, 1 worker",
            ours: &[ours(&["write", "--objects", "100000", "--workers", "1"], WRITE)],
            peers: &peers(&["write", "--objects", "100000", "--workers", "1"]),
            around: Around::Maps(100_000),
            runs: 1,
        },
        Workload {
            name: "100 k objects, one write each, 8 workers",
            ours: &[ours(&["write", "--objects", "100000", "--workers", "8"], WRITE)],
            peers: &peers(&["write", "--objects", "100000", "--workers", "8"]),
            around: Around::Maps(100_000),
            runs: 1,
        },
    ],
};

const NOOP: Rows = &[(WallPerOp, NOOP_GOALS), (CpuPerOp, NOOP_GOALS), MEMORY, FIRST];
const WRITE: Rows = &[(WallPerOp, WRITE_GOALS), (CpuPerOp, WRITE_GOALS), MEMORY, FIRST];
const NOOP_GOALS: &[Goal] = &[TimesOf("controller-runtime", 4.0), TimesOf("kube-rs", 1.5)];
const WRITE_GOALS: &[Goal] = &[TimesOf("controller-runtime", 2.0), TimesOf("kube-rs", 1.5)];
const MEMORY: Row = (PeakBytes, &[Times(1.0)]);
const FIRST: Row = (Figure("s until the first reconcile"), &[]);

const fn ours(args: &'static [&'static str], rows: Rows) -> Variant {
    Variant { name: "", run: Run { program: Program::Rust("controller"), args }, rows }
}

const fn counted(args: &'static [&'static str]) -> Variant {
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

/// Runs controller-runtime. Go always counts allocations, so this program has no separate variant for counting.
const fn controller_runtime(args: &'static [&'static str]) -> (&'static str, Run) {
    ("controller-runtime", Run { program: Program::Go("controller"), args })
}
