//! The area `cache` compares informers, stores and FIFOs to client-go and kube-rs.

use super::Goal::{AtLeast, AtMost, Times, TimesOf};
use super::Measure::{AllocationsPerOp, Cpu, CpuPerOp, Figure, PeakBytes, WallPerOp};
use super::{Area, Around, Goal, Measure, Program, Row, Rows, Run, Variant, Workload};

pub(crate) const AREA: Area = Area {
    name: "cache",
    about: "pintle-informer and pintle-delta-fifo, compared with client-go and with kube-rs. A pod has about 8 KB. A stripped pod has no \
            managedFields and no annotations. One server sends the objects to all sides over plain HTTP, on the same processors. CPU time \
            includes all work that the calls cause, even if the work ends after the calls. Peak bytes are the peak of the resident memory \
            minus the resident memory at the start. On all sides, handlers receive every event. Allocations and live memory come from \
            separate runs, because counting allocations makes Rust programs slower",
    workloads: &[
        Workload {
            name: "100 k pods whole: first list",
            ours: &[informer(
                "",
                &["sync"],
                &[(SYNCED, &[over_go(5.0), over_kube(3.5)]), (Cpu, &[]), (PeakBytes, &[])],
            )],
            peers: &[client_go(&["sync"]), kube_rs(&["sync"])],
            around: Around::Pods(100_000),
            runs: 3,
        },
        Workload {
            name: "100 k pods whole: first list as a stream",
            ours: &[informer("", &["sync-streaming"], SYNC)],
            peers: &[client_go(&["sync-streaming"]), kube_rs(&["sync-streaming"])],
            around: Around::Pods(100_000),
            runs: 1,
        },
        Workload {
            name: "100 k pods stripped: first list",
            ours: &[informer(
                "",
                &["sync-stripped"],
                &[(SYNCED, &[over_go(9.0), over_kube(4.5)]), (Cpu, &[]), (PeakBytes, &[])],
            )],
            peers: &[client_go(&["sync-stripped"]), kube_rs(&["sync-stripped"])],
            around: Around::Pods(100_000),
            runs: 3,
        },
        Workload {
            name: "20 k pods whole: first list",
            ours: &[
                informer("", &["sync"], &[(SYNCED, &[over_go(5.0), over_kube(2.5)]), (Cpu, &[]), (PeakBytes, &[])]),
                informer(BY_DEFAULT, &["sync-default"], SYNC),
                informer(COMPRESSED, &["sync-compact"], SYNC),
            ],
            peers: &[client_go(&["sync"]), kube_rs(&["sync"])],
            around: Around::Pods(20_000),
            runs: 3,
        },
        Workload {
            name: "100 k pods whole: list anew, 1 % changed",
            ours: &[informer(
                "",
                &["relist"],
                &[
                    (Figure("s from list to handler"), &[Times(15.0)]),
                    (Figure("peak over steady, nothing reclaimed"), &[AtMost(1.2)]),
                    (Figure("bytes steady, nothing reclaimed"), &[]),
                    (Cpu, &[]),
                ],
            )],
            peers: &[client_go(&["relist"]), kube_rs(&["relist"])],
            around: Around::Pods(100_000),
            runs: 1,
        },
        Workload {
            name: "200 k updates of 20 k pods whole",
            ours: &[
                informer(
                    "",
                    &["events"],
                    &[
                        (Figure("events/s"), &[over_go(8.0), over_kube(3.0)]),
                        (CpuPerOp, &[AtMost(25_000.0)]),
                        (PeakBytes, &[]),
                        DELIVERED,
                    ],
                ),
                informer(BY_DEFAULT, &["events-default"], EVENTS),
                informer(COMPRESSED, &["events-compact"], EVENTS),
            ],
            peers: &[client_go(&["events"]), kube_rs(&["events"])],
            around: Around::Pods(20_000),
            runs: 1,
        },
        Workload {
            name: "200 k updates of 20 k pods stripped",
            ours: &[informer(
                "",
                &["events-stripped"],
                &[
                    (Figure("events/s"), &[over_go(8.0), over_kube(3.0)]),
                    (CpuPerOp, &[AtMost(15_000.0)]),
                    (PeakBytes, &[]),
                    DELIVERED,
                ],
            )],
            peers: &[client_go(&["events-stripped"]), kube_rs(&["events-stripped"])],
            around: Around::Pods(20_000),
            runs: 1,
        },
        Workload {
            name: "200 k updates of 20 k pods whole to 8 handlers",
            ours: &[informer(
                "",
                &["events-8"],
                &[(TIMES, &[AtMost(1.3)]), DELIVERED, (Figure("events/s"), &[]), (CpuPerOp, &[]), (PeakBytes, &[])],
            )],
            peers: &[client_go(&["events-8"]), kube_rs(&["events-8"])],
            around: Around::Pods(20_000),
            runs: 1,
        },
        Workload {
            name: "200 k updates of 20 k pods whole to 64 handlers",
            ours: &[informer(
                "",
                &["events-64"],
                &[(TIMES, &[AtMost(2.5)]), DELIVERED, (Figure("events/s"), &[]), (CpuPerOp, &[]), (PeakBytes, &[])],
            )],
            peers: &[client_go(&["events-64"]), kube_rs(&["events-64"])],
            around: Around::Pods(20_000),
            runs: 1,
        },
        Workload {
            name: "100 k pods held",
            ours: &[counted("", &["held"], HELD)],
            peers: &[client_go(&["held"]), ("kube-rs", Run { program: Program::Kube("counted"), args: &["held"] })],
            around: Around::Pods(100_000),
            runs: 1,
        },
        // The peers do not have a counterpart to these variants.
        Workload {
            name: "100 k pods held, less than whole",
            ours: &[
                counted(BY_DEFAULT, &["held-default"], &[(RESIDENT, &[AtMost(2.8e9)]), PEAK, LIVE, ALLOCATIONS, CPU]),
                counted("a slim struct", &["held-slim"], &[(RESIDENT, &[AtMost(80e6)]), PEAK, LIVE, ALLOCATIONS, CPU]),
                counted(COMPRESSED, &["held-compact"], &[(RESIDENT, &[AtMost(150e6)]), PEAK, LIVE, ALLOCATIONS, CPU]),
            ],
            peers: &[],
            around: Around::Pods(100_000),
            runs: 3,
        },
        Workload {
            name: "100 k pods held compressed: each got by its key and read once, at random",
            ours: &[informer("", &["read-compact"], &[(WallPerOp, &[AtMost(40_000.0)]), (CpuPerOp, &[])])],
            peers: &[],
            around: Around::Pods(100_000),
            runs: 3,
        },
        Workload {
            name: "one who subscribes at 100 k",
            ours: &[informer(
                "",
                &["subscribe"],
                &[(Figure("ms, the call"), &[AtMost(1.0)]), (WallPerOp, &[]), (CpuPerOp, &[]), (PeakBytes, &[])],
            )],
            peers: &[client_go(&["subscribe"])],
            around: Around::Pods(100_000),
            runs: 3,
        },
        Workload {
            name: "20 k pods whole: first list in a runtime of one thread, to a handler",
            ours: &[informer(
                "",
                &["stall"],
                &[(Figure("ms, longest stall"), &[AtMost(5.0)]), (Figure("CPU ms, longest stall"), &[]), (Cpu, &[])],
            )],
            peers: &[],
            around: Around::Pods(20_000),
            runs: 5,
        },
        Workload {
            name: "1 M objects into the in-order queue, then out",
            ours: &[fifo(&["fifo"], &[(WallPerOp, &[Times(4.0)]), ADDING, POPPING, (CpuPerOp, &[]), (PeakBytes, &[])])],
            peers: &[client_go(&["fifo"])],
            around: Around::Nothing,
            runs: 3,
        },
        Workload {
            name: "1 M objects in and out of the in-order queue, one by one",
            ours: &[fifo(&["fifo-cycle"], COST)],
            peers: &[client_go(&["fifo-cycle"])],
            around: Around::Nothing,
            runs: 3,
        },
        Workload {
            name: "1 M objects into the delta queue, then out",
            ours: &[fifo(
                &["delta-fifo"],
                &[(WallPerOp, &[Times(4.0)]), ADDING, POPPING, (CpuPerOp, &[]), (PeakBytes, &[])],
            )],
            peers: &[client_go(&["delta-fifo"])],
            around: Around::Nothing,
            runs: 3,
        },
        Workload {
            name: "1 M objects in and out of the delta queue, one by one",
            ours: &[fifo(&["delta-fifo-cycle"], COST)],
            peers: &[client_go(&["delta-fifo-cycle"])],
            around: Around::Nothing,
            runs: 3,
        },
        Workload {
            name: "1 M objects through the batched queue into an informer's store",
            ours: &[fifo(&["fifo-store"], &[(WallPerOp, &[Times(3.0)]), (CpuPerOp, &[]), (PeakBytes, &[])])],
            peers: &[client_go(&["fifo-store"])],
            around: Around::Nothing,
            runs: 3,
        },
        Workload {
            name: "1 M updates through the batched queue into an informer's store",
            ours: &[fifo(&["fifo-store-update"], COST)],
            peers: &[client_go(&["fifo-store-update"])],
            around: Around::Nothing,
            runs: 3,
        },
        Workload {
            name: "store: 100 k objects put in, two indexes",
            ours: &[store("", &["store-add"], &[(WallPerOp, &[Times(2.0)]), (CpuPerOp, &[]), (PeakBytes, &[])])],
            peers: &[client_go(&["store-add"])],
            around: Around::Nothing,
            runs: 5,
        },
        Workload {
            name: "store: one of 100 k by its key, at random",
            ours: &[store("", &["store-get"], &[(WallPerOp, &[Times(1.2)]), (CpuPerOp, &[])])],
            peers: &[client_go(&["store-get"])],
            around: Around::Nothing,
            runs: 5,
        },
        Workload {
            name: "store: one of 100 k by its key, at random, and read",
            ours: &[store("", &["store-get-read"], COST)],
            peers: &[client_go(&["store-get-read"])],
            around: Around::Nothing,
            runs: 5,
        },
        Workload {
            name: "store: 100 of 100 k by an index",
            ours: &[store("", &["store-by-index"], &[(WallPerOp, &[Times(2.0)]), (CpuPerOp, &[])])],
            peers: &[client_go(&["store-by-index"])],
            around: Around::Nothing,
            runs: 5,
        },
        Workload {
            name: "store: all 100 k as a list",
            ours: &[
                store("", &["store-list"], &[(WallPerOp, &[Times(3.0)]), (CpuPerOp, &[])]),
                store("each looked at in a snapshot", &["store-for-each"], COST),
                store("each read in a snapshot", &["store-for-each-read"], COST),
            ],
            peers: &[client_go(&["store-list"])],
            around: Around::Nothing,
            runs: 5,
        },
        Workload {
            name: "store: an update in random order, same node",
            ours: &[store("", &["store-update-same"], COST)],
            peers: &[client_go(&["store-update-same"])],
            around: Around::Nothing,
            runs: 5,
        },
        Workload {
            name: "store: an update in random order, another node",
            ours: &[store("", &["store-update-node"], COST)],
            peers: &[client_go(&["store-update-node"])],
            around: Around::Nothing,
            runs: 5,
        },
        Workload {
            name: "store: 2 readers and 1 writer",
            ours: &[store(
                "",
                &["store-2r1w"],
                &[(Figure("reads/s"), &[Times(4.0)]), (Figure("writes/s"), &[Times(3.0)]), (CpuPerOp, &[])],
            )],
            peers: &[client_go(&["store-2r1w"])],
            around: Around::Nothing,
            runs: 5,
        },
        Workload {
            name: "store: writes beside one who reads snapshots of 100 k",
            ours: &[store(
                "",
                &["store-write-beside-snapshots"],
                &[
                    (Figure("of the rate without"), &[AtLeast(0.9)]),
                    (Figure("writes/s"), &[]),
                    (Figure("scans/s"), &[]),
                    (CpuPerOp, &[]),
                ],
            )],
            peers: &[],
            around: Around::Nothing,
            runs: 5,
        },
        Workload {
            name: "store: a snapshot of 100 k taken",
            ours: &[store("", &["store-snapshot"], COST)],
            peers: &[],
            around: Around::Nothing,
            runs: 5,
        },
    ],
};

const BY_DEFAULT: &str = "ours without managedFields, as by default";
/// The variant that decodes objects lazily. The handler in this workload never reads an object.
const COMPRESSED: &str = "ours compressed, not read";
const SYNCED: Measure = Figure("s until synced");
const TIMES: Measure = Figure("times the CPU of one");
const RESIDENT: Measure = Figure("bytes resident, nothing reclaimed");
const LIVE: Row = (Figure("bytes live"), &[]);
const PEAK: Row = (PeakBytes, &[]);
const ALLOCATIONS: Row = (AllocationsPerOp, &[]);
const CPU: Row = (Cpu, &[]);
const ADDING: Row = (Figure("adding, ns/object"), &[]);
const POPPING: Row = (Figure("popping, ns/object"), &[]);
/// The fraction of events that the slowest handler received, which is 1 if no events were merged.
const DELIVERED: Row = (Figure("of the events told"), &[]);
const COST: Rows = &[(WallPerOp, &[]), (CpuPerOp, &[])];
const SYNC: Rows = &[(SYNCED, &[]), (Cpu, &[]), (PeakBytes, &[])];
const EVENTS: Rows = &[(Figure("events/s"), &[]), (CpuPerOp, &[]), (PeakBytes, &[]), DELIVERED];
const HELD: Rows = &[(RESIDENT, &[]), PEAK, LIVE, ALLOCATIONS, CPU];

const fn over_go(times: f64) -> Goal {
    TimesOf("client-go", times)
}

const fn over_kube(times: f64) -> Goal {
    TimesOf("kube-rs", times)
}

const fn informer(name: &'static str, args: &'static [&'static str], rows: Rows) -> Variant {
    Variant { name, run: Run { program: Program::Rust("cache"), args }, rows }
}

const fn counted(name: &'static str, args: &'static [&'static str], rows: Rows) -> Variant {
    Variant { name, run: Run { program: Program::Rust("cache_counted"), args }, rows }
}

const fn store(name: &'static str, args: &'static [&'static str], rows: Rows) -> Variant {
    Variant { name, run: Run { program: Program::Rust("cache_micro"), args }, rows }
}

const fn fifo(args: &'static [&'static str], rows: Rows) -> Variant {
    Variant { name: "", run: Run { program: Program::Rust("cache_fifo"), args }, rows }
}

const fn client_go(args: &'static [&'static str]) -> (&'static str, Run) {
    ("client-go", Run { program: Program::Go("cache"), args })
}

const fn kube_rs(args: &'static [&'static str]) -> (&'static str, Run) {
    ("kube-rs", Run { program: Program::Kube("cache"), args })
}
