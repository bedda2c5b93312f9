//! The area `rest` compares restreq to client-go, kube-rs and plain hyper.

use super::Goal::{AtMost, Times, TimesOf};
use super::Measure::{AllocationsPerOp, CpuPerOp, Figure, OpsPerSecond, PeakBytes};
use super::{Area, Around, Goal, Program, Row, Rows, Run, Variant, Workload};

pub(crate) const AREA: Area = Area {
    name: "rest",
    about: "pintle-restreq, compared with client-go, with kube-rs, and with bare hyper. The connections of hyper are opened before the \
            measurement. One server answers all sides on the same processors. Its CPU time is not counted. A GET returns half a kilobyte, \
            and each side decodes it. With TLS, the server offers only HTTP/1.1, unless the row says otherwise. kube-rs has no HTTP/2. \
            Allocations come from separate runs, because counting allocations makes Rust programs slower",
    workloads: &[
        Workload {
            name: "GET, one at a time, HTTP/1.1",
            ours: &[ours(&["get-1"], &[(CpuPerOp, &[over_kube(2.0)]), P99])],
            peers: &[client_go(&["get-1"]), kube_rs(&["get-1"]), hyper(&["hyper-get-1"])],
            around: Around::Rest,
            runs: 5,
        },
        Workload {
            name: "GET, one at a time, HTTP/1.1: counted",
            ours: &[
                counted("", &["get-1"], &[(AllocationsPerOp, &[AtMost(25.0)])]),
                counted("not decoded", &["get-1-raw"], &[(AllocationsPerOp, &[])]),
            ],
            peers: &[
                client_go(&["get-1"]),
                ("kube-rs", Run { program: Program::Kube("rest_counted"), args: &["get-1"] }),
                ("hyper", Run { program: Program::Rust("rest_counted"), args: &["hyper-get-1"] }),
            ],
            around: Around::Rest,
            runs: 1,
        },
        Workload {
            name: "GET, 16 at once, HTTP/1.1",
            ours: &[ours(&["get-16"], MANY)],
            peers: &[client_go(&["get-16"]), kube_rs(&["get-16"]), hyper(&["hyper-get-16"])],
            around: Around::Rest,
            runs: 5,
        },
        Workload {
            name: "GET, 16 at once, HTTP/1.1 over TLS",
            ours: &[ours(&["get-16-tls"], MANY)],
            peers: &[client_go(&["get-16-tls"]), kube_rs(&["get-16-tls"]), hyper(&["hyper-get-16-tls"])],
            around: Around::Rest,
            runs: 5,
        },
        Workload {
            name: "GET, 64 at once, HTTP/1.1",
            ours: &[ours(&["get-64"], TAIL)],
            peers: &[client_go(&["get-64"]), kube_rs(&["get-64"]), hyper(&["hyper-get-64"])],
            around: Around::Rest,
            runs: 5,
        },
        Workload {
            name: "GET, 64 at once, HTTP/1.1 over TLS",
            ours: &[ours(&["get-64-tls"], TAIL)],
            peers: &[client_go(&["get-64-tls"]), kube_rs(&["get-64-tls"]), hyper(&["hyper-get-64-tls"])],
            around: Around::Rest,
            runs: 5,
        },
        Workload {
            name: "GET, 64 at once, HTTP/2 over TLS",
            ours: &[ours(
                &["get-64-http2"],
                &[(CpuPerOp, &[TimesOf("client-go", 4.0)]), (OpsPerSecond, &[TimesOf("client-go", 4.0)]), P99],
            )],
            peers: &[client_go(&["get-64-http2"]), hyper(&["hyper-get-64-http2"])],
            around: Around::Rest,
            runs: 5,
        },
        Workload {
            name: "1,000 watches over TLS, each with an event a second",
            ours: &[ours(
                &["watches"],
                &[
                    (CpuPerOp, &[Times(2.0)]),
                    (Figure("bytes resident a watch"), &[Times(2.0)]),
                    (Figure("connections"), &[Times(2.0)]),
                ],
            )],
            peers: &[client_go(&["watches"]), kube_rs(&["watches"])],
            around: Around::Rest,
            runs: 3,
        },
        Workload {
            name: "list of 20 k pods, read item by item; the peers' as a whole",
            ours: &[ours(&["list"], &[(PeakBytes, &[AtMost(2e6)]), (CpuPerOp, &[])])],
            peers: &[client_go(&["list"]), kube_rs(&["list"])],
            around: Around::Pods(20_000),
            runs: 3,
        },
        Workload {
            name: "a client with TLS and kubeconfig files",
            ours: &[ours(&["crates"], &[(Figure("crates"), &[AtMost(75.0)])])],
            peers: &[kube_rs(&["crates"])],
            around: Around::Nothing,
            runs: 1,
        },
    ],
};

const P99: Row = (Figure("us, p99"), &[]);
const MANY: Rows = &[(CpuPerOp, &[over_kube(1.18), TimesOf("hyper", 0.8)]), (OpsPerSecond, &[over_kube(1.1)]), P99];
const TAIL: Rows = &[(Figure("us, p99"), &[over_kube(1.25)]), (CpuPerOp, &[]), (OpsPerSecond, &[])];

const fn over_kube(times: f64) -> Goal {
    TimesOf("kube-rs", times)
}

const fn ours(args: &'static [&'static str], rows: Rows) -> Variant {
    Variant { name: "", run: Run { program: Program::Rust("rest"), args }, rows }
}

const fn counted(name: &'static str, args: &'static [&'static str], rows: Rows) -> Variant {
    Variant { name, run: Run { program: Program::Rust("rest_counted"), args }, rows }
}

const fn client_go(args: &'static [&'static str]) -> (&'static str, Run) {
    ("client-go", Run { program: Program::Go("rest"), args })
}

const fn kube_rs(args: &'static [&'static str]) -> (&'static str, Run) {
    ("kube-rs", Run { program: Program::Kube("rest"), args })
}

/// The peer hyper, an HTTP library without Kubernetes features.
const fn hyper(args: &'static [&'static str]) -> (&'static str, Run) {
    ("hyper", Run { program: Program::Rust("rest"), args })
}
