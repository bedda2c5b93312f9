//! The area `election`: leaderelect, compared with client-go's leader election.

use super::Goal::{AtLeast, AtMost, Times};
use super::Measure::Figure;
use super::{Area, Around, Program, Rows, Run, Variant, Workload};

pub(crate) const AREA: Area = Area {
    name: "election",
    about: "pintle-leaderelect beside client-go's leader election, both with its durations of 15, 10 and 2 s and with release, on one \
            embedded API server over TLS, and without Events. Each contender has a client of its own, as a process has; the hundred leases \
            of one process share one on both sides. Hand-overs are of several leases beside each other. A leader that dies is one whose \
            requests end. Tasks are goroutines on their side; on ours, the one in which the workload is done is not counted, nor are the two of \
            each connection. The simulated fleets are those of the tests, four electors each on machines that are suspended, behind a \
            network that loses, delays and repeats; on client-go's side, they are a model of its elector, \
            without release, which counts as leading only while its machine is awake. Effects with a permit that slept with their \
            machine are no overlaps: no lock stops them, and a row of their own tells how many went on while another one led; the model has none",
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
