//! The area `apiserver` compares the embedded server to a real kube-apiserver with etcd, using the same client
//! programs.

use super::Goal::{AtLeast, AtMost, Times};
use super::Measure::{Figure, OpsPerSecond};
use super::{Area, Around, Program, REAL, Rows, Run, Variant, Workload};

pub(crate) const AREA: Area = Area {
    name: "apiserver",
    about: "The embedded API server, compared with a real kube-apiserver and its etcd, whose binaries are in the folder that the \
            environment variable `KUBEBUILDER_ASSETS` names. The same client program sends requests to both servers, and shares the \
            processors with the server. Each run starts a new server. Both servers use TLS, except in the row `start`. The memory of a \
            server is the resident memory of its processes, including etcd. In the rows `client-go's load`, a program with client-go and \
            16 workers sends creates, GETs and LISTs of 5,000 objects. 100 watchers receive 500 changes each. In the rows `our own \
            client`, our client keeps 64 requests in flight on HTTP/2",
    workloads: &[
        Workload {
            name: "client-go's load",
            ours: &[ours(
                LOAD,
                &[
                    (Figure("creates/s"), &[Times(8.0)]),
                    (Figure("GETs/s"), &[Times(6.0)]),
                    (Figure("ms a LIST"), &[Times(1.5)]),
                    (Figure("watch events/s"), &[Times(2.0)]),
                    (Figure("MB of the server after the load"), &[Times(15.0)]),
                    (Figure("MB of the server after three of them"), &[Times(15.0)]),
                ],
            )],
            peers: &[(REAL, LOAD)],
            around: Around::Servers,
            runs: 3,
        },
        Workload {
            name: "client-go's load in protobuf",
            ours: &[ours(
                Run { program: Program::Go("apiserver"), args: &["load-protobuf"] },
                &[
                    (Figure("creates/s"), &[]),
                    (Figure("GETs/s"), &[]),
                    (Figure("ms a LIST"), &[]),
                    (Figure("watch events/s"), &[]),
                    (Figure("MB of the server after the load"), &[]),
                    (Figure("MB of the server after three of them"), &[]),
                ],
            )],
            peers: &[(REAL, Run { program: Program::Go("apiserver"), args: &["load-protobuf"] })],
            around: Around::Servers,
            runs: 1,
        },
        Workload {
            name: "start",
            ours: &[ours(
                rust(&["start"]),
                &[
                    (Figure("ms to the first answer"), &[AtMost(10.0)]),
                    (Figure("MB at the first answer"), &[AtMost(12.0)]),
                ],
            )],
            peers: &[],
            around: Around::Nothing,
            runs: 3,
        },
        Workload {
            name: "our own client, HTTP/2: writes",
            ours: &[ours(rust(&["writes"]), &[(OpsPerSecond, &[AtLeast(20_000.0)])])],
            peers: &[(REAL, rust(&["writes"]))],
            around: Around::Servers,
            runs: 3,
        },
        Workload {
            name: "our own client, HTTP/2: reads",
            ours: &[ours(rust(&["reads"]), &[(OpsPerSecond, &[AtLeast(50_000.0)])])],
            peers: &[(REAL, rust(&["reads"]))],
            around: Around::Servers,
            runs: 3,
        },
        Workload {
            name: "in process: writes",
            ours: &[ours(rust(&["in-process-writes"]), &[(OpsPerSecond, &[])])],
            peers: &[],
            around: Around::Nothing,
            runs: 3,
        },
        Workload {
            name: "in process: reads",
            ours: &[ours(rust(&["in-process-reads"]), &[(OpsPerSecond, &[])])],
            peers: &[],
            around: Around::Nothing,
            runs: 3,
        },
        Workload {
            name: "100 k pods of 7.9 KB",
            ours: &[ours(
                rust(&["many-pods"]),
                &[
                    (OpsPerSecond, &[]),
                    (Figure("bytes of the server by byte of JSON, once made"), &[AtMost(1.5)]),
                    (Figure("bytes of the server by byte of JSON, once listed"), &[AtMost(1.5)]),
                    (Figure("ms to the first byte of a LIST"), &[AtMost(5.0)]),
                    (Figure("ms, p99 of a write alone"), &[]),
                    (Figure("ms, p99 of a write beside LISTs"), &[]),
                    (Figure("times the p99 alone"), &[AtMost(2.0)]),
                ],
            )],
            peers: &[],
            around: Around::Servers,
            runs: 1,
        },
        Workload {
            name: "10 k pods of 7.9 KB",
            ours: &[ours(
                rust(&["pods"]),
                &[
                    (OpsPerSecond, &[]),
                    (Figure("bytes of the server by byte of JSON, once made"), &[]),
                    (Figure("bytes of the server by byte of JSON, once listed"), &[]),
                    (Figure("ms to the first byte of a LIST"), &[]),
                    (Figure("ms, p99 of a write alone"), &[]),
                    (Figure("ms, p99 of a write beside LISTs"), &[]),
                    (Figure("times the p99 alone"), &[]),
                ],
            )],
            peers: &[(REAL, rust(&["pods"]))],
            around: Around::Servers,
            runs: 1,
        },
        Workload {
            name: "1,000 watchers of 1,000 changes",
            ours: &[ours(
                rust(&["watchers"]),
                &[
                    (Figure("events lost"), &[AtMost(0.0)]),
                    (Figure("KB of the server by watcher at rest"), &[]),
                    (Figure("KB of the server by watcher after the changes"), &[]),
                    (Figure("KB of the server more by watcher that reads nothing"), &[]),
                    (Figure("s"), &[]),
                ],
            )],
            peers: &[(REAL, rust(&["watchers"]))],
            around: Around::Servers,
            runs: 3,
        },
        Workload {
            name: "writes beside idle watchers of other namespaces",
            ours: &[ours(
                rust(&["idle"]),
                &[
                    (Figure("us a write beside none"), &[]),
                    (Figure("us a write beside 100"), &[]),
                    (Figure("us a write beside 1,000"), &[]),
                    (Figure("times the cost beside none"), &[AtMost(1.1)]),
                ],
            )],
            peers: &[(REAL, rust(&["idle"]))],
            around: Around::Servers,
            runs: 1,
        },
    ],
};

const LOAD: Run = Run { program: Program::Go("apiserver"), args: &["load"] };

const fn rust(args: &'static [&'static str]) -> Run {
    Run { program: Program::Rust("apiserver"), args }
}

const fn ours(run: Run, rows: Rows) -> Variant {
    Variant { name: "", run, rows }
}
