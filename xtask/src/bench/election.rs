//! The area `election` compares leaderelect to client-go's leader election.

use super::Goal::{AtLeast, AtMost, Times};
use super::Measure::Figure;
use super::{Area, Around, Program, Rows, Run, Variant, Workload};

pub(crate) const AREA: Area = Area {
    name: "election",
    about: "pintle-leaderelect, compared with the leader election of client-go. Both use the default durations of client-go (15 s, 10 s \
            and 2 s), release the lease, and send no Events. They share one embedded API server over TLS. Each contender has a separate \
            client, as if it were a separate process. The hundred leases of one process share one client. For the hand-over times, \
            several leases change hands at the same time. In the rows `the leader dies`, the requests of the dead leader fail. For \
            client-go, each goroutine counts as a task. For our side, the task of the workload and the two tasks of each connection are \
            not counted. The simulated fleets are the same as in the tests. A fleet has four electors. The simulation suspends their \
            machines, and loses, delays and repeats their messages. For client-go, a model of its elector runs in the simulation. The \
            model does not release the lease, and it counts as the leader only while its machine is awake. In our fleets, an effect can \
            get its permit, sleep together with its machine, and continue while another elector leads. This is not an overlap, because no \
            lock can prevent it. A separate row counts these effects. The model has no such effects",
    workloads: &[
        Workload {
            name: "3 contenders: the leader stops",
            ours: &[
                ours(
                    &["release"],
                    &[
                        (Figure("ms, p50 of the hand-over"), &[AtMost(20.0)]),
                        (Figure("ms, p99 of the hand-over"), &[AtMost(100.0)]),
                    ],
                ),
                polling(
                    &["release", "--polling"],
                    &[(Figure("ms, p50 of the hand-over"), &[]), (Figure("ms, p99 of the hand-over"), &[])],
                ),
            ],
            peers: &[client_go(&["release"])],
            around: Around::Cluster,
            runs: 1,
        },
        Workload {
            name: "3 contenders: the leader dies",
            ours: &[
                ours(
                    &["crash"],
                    &[(Figure("s, mean until the next leads"), &[]), (Figure("s, longest"), &[AtMost(15.3)])],
                ),
                polling(
                    &["crash", "--polling"],
                    &[(Figure("s, mean until the next leads"), &[]), (Figure("s, longest"), &[])],
                ),
            ],
            peers: &[client_go(&["crash"])],
            around: Around::Cluster,
            runs: 1,
        },
        Workload {
            name: "100 standbys",
            ours: &[
                ours(&["standbys"], &[(Figure("requests a second"), &[AtMost(0.1)])]),
                polling(&["standbys", "--polling"], &[(Figure("requests a second"), &[])]),
            ],
            peers: &[client_go(&["standbys"])],
            around: Around::Cluster,
            runs: 1,
        },
        Workload {
            name: "100 leases led by one process",
            ours: &[ours(
                &["many"],
                &[
                    (Figure("tasks beside those of connections"), &[AtMost(1.0)]),
                    (Figure("connections"), &[AtMost(1.0)]),
                    (Figure("requests a renewal"), &[AtMost(1.05)]),
                    (Figure("CPU us a renewal"), &[Times(10.0)]),
                ],
            )],
            peers: &[client_go(&["many"])],
            around: Around::Cluster,
            runs: 3,
        },
        Workload {
            name: "8 shards shared by 3 replicas and a 4th that comes",
            ours: &[ours(
                &["shards"],
                &[
                    (Figure("s that a shard is nobody's, p99, a replica lost"), &[AtMost(15.5)]),
                    (Figure("ms that a shard is nobody's, p99, a replica added"), &[AtMost(100.0)]),
                    (Figure("% of the keys move, a replica added"), &[AtMost(25.0)]),
                    (Figure("shards that move between others"), &[AtMost(0.0)]),
                    (Figure("shards without an owner at the end"), &[AtMost(0.0)]),
                ],
            )],
            peers: &[],
            around: Around::Cluster,
            runs: 1,
        },
        Workload {
            name: "10,000 simulated fleets through partitions and suspends",
            ours: &[Variant {
                name: "",
                run: worlds(&["--worlds", "10000"]),
                rows: &[
                    (Figure("overlaps of permitted work"), &[AtMost(0.0)]),
                    (Figure("partitions and suspends"), &[AtLeast(10_000.0)]),
                    (Figure("effects that slept and met another leader"), &[]),
                ],
            }],
            peers: &[("client-go", worlds(&["--worlds", "10000", "--client-go"]))],
            around: Around::Nothing,
            runs: 1,
        },
    ],
};

const fn worlds(args: &'static [&'static str]) -> Run {
    Run { program: Program::Example { package: "pintle-leaderelect", name: "worlds" }, args }
}

const fn ours(args: &'static [&'static str], rows: Rows) -> Variant {
    Variant { name: "", run: Run { program: Program::Rust("election"), args }, rows }
}

const fn polling(args: &'static [&'static str], rows: Rows) -> Variant {
    Variant { name: "where watches are forbidden", run: Run { program: Program::Rust("election"), args }, rows }
}

const fn client_go(args: &'static [&'static str]) -> (&'static str, Run) {
    ("client-go", Run { program: Program::Go("election"), args })
}
