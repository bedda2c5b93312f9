//! The area `queue` compares workqueue and ratelimit to client-go and to controller-runtime's queue.

use super::Goal::{AtMost, Times};
use super::Measure::{AllocationsPerOp, BytesPerOp, CpuPerOp, Figure, OpsPerSecond, PeakBytes, WallPerOp};
use super::{Area, Around, Goal, Program, RUNS, Rows, Run, Variant, Workload};

pub(crate) const AREA: Area = Area {
    name: "queue",
    about: "pintle-workqueue and pintle-ratelimit, compared with client-go and with the priority queue of controller-runtime. Our side \
            uses threads, keys of the type `Arc<str>` and no metrics, unless the row says otherwise. The peers always use goroutines. CPU \
            time includes all work that the calls cause, even if the work ends after the calls. Memory is the peak of the resident memory \
            minus the resident memory at the start. It does not include the memory of the keys",
    workloads: &[
        Workload {
            name: "1 M keys added, then drained by 1 worker",
            ours: &[
                ours("", &["add-drain-1"], DRAIN),
                ours(STATIC, &["add-drain-1", "--keys", "static"], COST),
                ours(STRING, &["add-drain-1", "--keys", "string"], COST),
                ours(NEXT, &["add-drain-1", "--next"], COST),
            ],
            peers: &[client_go(&["add-drain-1"])],
            around: Around::Nothing,
            runs: RUNS,
        },
        Workload {
            name: "1 M keys added, then drained by 8 workers",
            ours: &[ours("", &["add-drain-8"], DRAIN), ours(NEXT, &["add-drain-8", "--next"], COST)],
            peers: &[client_go(&["add-drain-8"])],
            around: Around::Nothing,
            runs: RUNS,
        },
        Workload {
            name: "8 producers, 8 workers, 100 k hot keys",
            ours: &[
                ours(
                    "",
                    &["hot"],
                    &[(OpsPerSecond, &[Times(3.0)]), (Figure("adds/s"), &[Times(3.0)]), (CpuPerOp, &[])],
                ),
                ours(STATIC, &["hot", "--keys", "static"], RATE),
                ours(STRING, &["hot", "--keys", "string"], RATE),
                ours(NEXT, &["hot", "--next"], RATE),
                ours(TASKS, &["hot", "--tasks"], RATE),
            ],
            peers: &[client_go(&["hot"])],
            around: Around::Nothing,
            runs: RUNS,
        },
        Workload {
            name: "8 producers, 8 workers, 100 k hot keys, metrics",
            ours: &[
                ours(
                    "",
                    &["hot", "--metrics"],
                    &[(OpsPerSecond, &[Times(2.5)]), (Figure("adds/s"), &[Times(2.5)]), (CpuPerOp, &[])],
                ),
                ours(TASKS, &["hot", "--tasks", "--metrics"], RATE),
            ],
            peers: &[client_go(&["hot", "--metrics"])],
            around: Around::Nothing,
            runs: RUNS,
        },
        Workload {
            name: "one key of 1 M at a time: add, get, done",
            ours: &[
                ours("", &["cycle"], CYCLE),
                ours(STATIC, &["cycle", "--keys", "static"], COST),
                ours(STRING, &["cycle", "--keys", "string"], COST),
            ],
            peers: &[client_go(&["cycle"])],
            around: Around::Nothing,
            runs: RUNS,
        },
        Workload {
            name: "one key of 1 M at a time, metrics: add, get, done",
            ours: &[ours("", &["cycle", "--metrics"], COST)],
            peers: &[client_go(&["cycle", "--metrics"])],
            around: Around::Nothing,
            runs: RUNS,
        },
        Workload {
            name: "always the same key: add, get, done",
            ours: &[
                ours("", &["same"], CYCLE),
                ours(STATIC, &["same", "--keys", "static"], COST),
                ours(STRING, &["same", "--keys", "string"], COST),
            ],
            peers: &[client_go(&["same"])],
            around: Around::Nothing,
            runs: RUNS,
        },
        Workload {
            name: "100 keys: a new queue, add, get, done",
            ours: &[ours("", &["fresh"], &[(WallPerOp, &[]), (CpuPerOp, &[]), (AllocationsPerOp, &[])])],
            peers: &[client_go(&["fresh"])],
            around: Around::Nothing,
            runs: RUNS,
        },
        Workload {
            name: "1 M keys added after 0 to 1 s, a worker waiting",
            ours: &[
                ours(
                    "",
                    &["add-after"],
                    &[
                        (Figure("ns/call"), &[Times(5.0)]),
                        (CpuPerOp, &[Times(4.0)]),
                        (PeakBytes, &[Times(2.0)]),
                        (AllocationsPerOp, &[]),
                        (WallPerOp, &[]),
                    ],
                ),
                ours(STRING, &["add-after", "--keys", "string"], CALL),
                ours(METRICS, &["add-after", "--metrics"], CALL),
            ],
            peers: &[client_go(&["add-after"])],
            around: Around::Nothing,
            runs: RUNS,
        },
        Workload {
            name: "1 M keys added rate-limited, a worker waiting",
            ours: &[
                ours("", &["rate-limited"], RATE_LIMITED),
                ours(STRING, &["rate-limited", "--keys", "string"], CALL),
                ours(METRICS, &["rate-limited", "--metrics"], CALL),
            ],
            peers: &[client_go(&["rate-limited"])],
            around: Around::Nothing,
            runs: RUNS,
        },
        Workload {
            name: "1 M keys added by the default limiter, until 100 are done",
            ours: &[ours("", &["rate-limited-default"], RATE_LIMITED)],
            peers: &[client_go(&["rate-limited-default"])],
            around: Around::Nothing,
            runs: RUNS,
        },
        Workload {
            name: "item limiter behind a lock, when and forget",
            ours: &[ours("", &["item-limiter"], &[(WallPerOp, &[Times(1.5)]), (CpuPerOp, &[])])],
            peers: &[client_go(&["item-limiter"])],
            around: Around::Nothing,
            runs: RUNS,
        },
        Workload {
            name: "16 producers, 16 workers, 100 k hot keys",
            ours: &[
                ours(
                    "",
                    &["storm"],
                    &[
                        (Figure("us, p50 of add"), &[]),
                        (Figure("us, p99.9 of add"), &[AtMost(100.0), Times(1.0)]),
                        (Figure("us, p50 of done"), &[]),
                        (Figure("us, p99.9 of done"), &[AtMost(100.0), Times(1.0)]),
                    ],
                ),
                ours(TASKS, &["storm", "--tasks"], TAILS),
                ours(METRICS, &["storm", "--metrics"], TAILS),
            ],
            peers: &[client_go(&["storm"])],
            around: Around::Nothing,
            runs: RUNS,
        },
        Workload {
            name: "counts() beside two threads that work without a pause",
            ours: &[ours(
                "",
                &["counts"],
                &[(Figure("us, p50 of counts()"), &[AtMost(5.0)]), (Figure("us, p99 of counts()"), &[AtMost(1000.0)])],
            )],
            peers: &[client_go(&["counts"])],
            around: Around::Nothing,
            runs: RUNS,
        },
        Workload {
            name: "16 producers, 16 workers, 54.4 k keys/s, half a CPU",
            ours: &[
                ours("", &["hand-off-half"], THREADS_SHORT),
                ours(TASKS, &["hand-off-half", "--tasks"], TASKS_SHORT),
            ],
            peers: &[client_go(&["hand-off-half"])],
            around: Around::Quota(0.5),
            runs: RUNS,
        },
        Workload {
            name: "16 producers, 16 workers, 22.4 k keys/s, a fifth of a CPU",
            ours: &[
                ours("", &["hand-off-fifth"], THREADS_SHORT),
                ours(TASKS, &["hand-off-fifth", "--tasks"], TASKS_SHORT),
            ],
            peers: &[client_go(&["hand-off-fifth"])],
            around: Around::Quota(0.2),
            runs: RUNS,
        },
        Workload {
            name: "8 workers, of which one adds 100 keys and computes for 5 ms",
            ours: &[ours("", &["busy-100"], COMPUTES), ours(TASKS, &["busy-100", "--tasks"], COMPUTES)],
            peers: &[client_go(&["busy-100"])],
            around: Around::Nothing,
            runs: RUNS,
        },
        Workload {
            name: "8 workers, of which one adds a key and computes for 5 ms",
            ours: &[ours("", &["busy-1"], COMPUTES), ours(TASKS, &["busy-1", "--tasks"], COMPUTES)],
            peers: &[client_go(&["busy-1"])],
            around: Around::Nothing,
            runs: RUNS,
        },
        Workload {
            name: "1 M keys due at once, then taken and done",
            ours: &[ours(
                "",
                &["due"],
                &[
                    (Figure("CPU us, longest get"), SECTION),
                    (Figure("CPU us, longest done"), SECTION),
                    (Figure("us, longest done beside"), &[]),
                ],
            )],
            peers: &[client_go(&["due"])],
            around: Around::Nothing,
            runs: RUNS,
        },
        Workload {
            name: "1 M keys due at once, then counted",
            ours: &[ours(
                "",
                &["due-counts"],
                &[(Figure("CPU us, counts()"), &[]), (Figure("us, longest done beside"), &[])],
            )],
            peers: &[],
            around: Around::Nothing,
            runs: RUNS,
        },
        Workload {
            name: "grows to 10 M keys, then is emptied",
            ours: &[ours(
                "",
                &["grow"],
                &[
                    (Figure("CPU us, longest add"), SECTION),
                    (Figure("CPU us, longest get"), &[]),
                    (Figure("CPU us, longest done"), &[]),
                    (Figure("us, longest done beside"), &[]),
                    (BytesPerOp, &[]),
                    (Figure("bytes left when it is empty"), &[]),
                ],
            )],
            peers: &[client_go(&["grow"])],
            around: Around::Nothing,
            runs: RUNS,
        },
        Workload {
            name: "1,000 tasks, 100 k keys whose priorities change",
            ours: &[
                ours("", &["priority", "--tasks"], &[(OpsPerSecond, &[Times(2.0)]), (CpuPerOp, &[])]),
                ours("threads", &["priority"], &[(OpsPerSecond, &[]), (CpuPerOp, &[])]),
            ],
            peers: &[controller_runtime(&["priority"])],
            around: Around::Nothing,
            runs: RUNS,
        },
        Workload {
            name: "1,000 tasks, 100 k keys whose priorities change, metrics",
            ours: &[
                ours("", &["priority", "--tasks", "--metrics"], &[(OpsPerSecond, &[Times(2.0)]), (CpuPerOp, &[])]),
                ours("threads", &["priority", "--metrics"], &[(OpsPerSecond, &[]), (CpuPerOp, &[])]),
            ],
            peers: &[controller_runtime(&["priority", "--metrics"])],
            around: Around::Nothing,
            runs: RUNS,
        },
        Workload {
            name: "1 M keys through 64 tasks that wait in get, metrics",
            ours: &[
                ours("", &["through-64", "--tasks", "--metrics"], &[(WallPerOp, &[Times(3.0)]), (CpuPerOp, &[])]),
                ours(NEXT, &["through-64", "--tasks", "--metrics", "--next"], COST),
                ours("threads", &["through-64", "--metrics"], COST),
            ],
            peers: &[client_go(&["through-64", "--metrics"])],
            around: Around::Nothing,
            runs: RUNS,
        },
    ],
};

const COST: Rows = &[(WallPerOp, &[]), (CpuPerOp, &[])];
const RATE: Rows = &[(OpsPerSecond, &[]), (Figure("adds/s"), &[]), (CpuPerOp, &[])];
const CALL: Rows = &[(Figure("ns/call"), &[]), (CpuPerOp, &[])];
const DRAIN: Rows = &[
    (WallPerOp, &[Times(4.0)]),
    (CpuPerOp, &[]),
    (PeakBytes, &[]),
    (Figure("adding, ns/key"), &[]),
    (Figure("draining, ns/key"), &[]),
];
const CYCLE: Rows = &[(WallPerOp, &[Times(1.5)]), (CpuPerOp, &[]), (AllocationsPerOp, &[AtMost(0.0)])];
const RATE_LIMITED: Rows = &[(Figure("ns/call"), &[Times(4.0)]), (CpuPerOp, &[Times(4.0)]), (PeakBytes, &[])];
const TAILS: Rows = &[
    (Figure("us, p50 of add"), &[]),
    (Figure("us, p99.9 of add"), &[]),
    (Figure("us, p50 of done"), &[]),
    (Figure("us, p99.9 of done"), &[]),
];
/// The goal is a hand-off latency of at most twice client-go's. For workloads with threads, the goal for CPU time is
/// also at most twice client-go's.
const THREADS_SHORT: Rows =
    &[(Figure("us, p50 of hand-off"), &[]), (Figure("us, p99 of hand-off"), &[Times(0.5)]), (CpuPerOp, &[Times(0.5)])];
const TASKS_SHORT: Rows =
    &[(Figure("us, p50 of hand-off"), &[]), (Figure("us, p99 of hand-off"), &[Times(0.5)]), (CpuPerOp, &[Times(1.0)])];
/// The goal is a delay of at most 2000 microseconds. pintle-workqueue guarantees at most one millisecond, and tokio's
/// timer adds up to one millisecond.
const COMPUTES: Rows = &[
    (Figure("us, p50 of hand-out while one worker computes"), &[]),
    (Figure("us, p99 of hand-out while one worker computes"), &[AtMost(2000.0)]),
];
/// The goal for the CPU time of a critical section, in microseconds.
const SECTION: &[Goal] = &[AtMost(50.0)];

const STATIC: &str = "keys `&'static str`";
const STRING: &str = "keys `String`";
const TASKS: &str = "tasks";
const NEXT: &str = "done and get in one";
const METRICS: &str = "metrics on our side";

const fn ours(name: &'static str, args: &'static [&'static str], rows: Rows) -> Variant {
    Variant { name, run: Run { program: Program::Rust("queue"), args }, rows }
}

const fn client_go(args: &'static [&'static str]) -> (&'static str, Run) {
    ("client-go", Run { program: Program::Go("queue"), args })
}

const fn controller_runtime(args: &'static [&'static str]) -> (&'static str, Run) {
    ("controller-runtime", Run { program: Program::Go("priority"), args })
}
