//! Workloads of the `rest` benchmark. `go/rest` runs the same workloads with client-go, and `kube` runs them with
//! kube-rs.
//!
//! All client libraries use the same server ([`serve`]) on the same CPUs. The CPU time of the server is not counted. A
//! GET workload warms up for one second and is then measured for three seconds. For watches, the measurement starts two
//! seconds after all watches are open.

mod crates;
mod get;
mod hyper;
mod list;
mod server;
mod watches;

use std::process::ExitCode;
use std::time::Duration;

use pintle::prelude::ClientConfig;
use pintle_restreq::{Http2Config, RestClient, RestClientConfig};
use tokio::runtime::Runtime;

use crate::answer::{self, Setting};
use crate::meter::Sample;

pub use server::{Listeners, serve};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    Plain,
    Tls,
    Http2,
}

/// A workload, which runs on a runtime with one thread per CPU.
type Work = fn(&Setting, &Runtime) -> Sample;

/// The workloads by name. All programs and `cargo xtask bench` use the same names. Workloads with `hyper` in their name
/// do not use a client library.
const WORKS: &[(&str, Work)] = &[
    ("get-1", |setting, runtime| get::get(setting, runtime, 1, Protocol::Plain)),
    ("get-1-raw", |setting, runtime| get::get_raw(setting, runtime, 1, Protocol::Plain)),
    ("get-16", |setting, runtime| get::get(setting, runtime, 16, Protocol::Plain)),
    ("get-16-tls", |setting, runtime| get::get(setting, runtime, 16, Protocol::Tls)),
    ("get-64", |setting, runtime| get::get(setting, runtime, 64, Protocol::Plain)),
    ("get-64-tls", |setting, runtime| get::get(setting, runtime, 64, Protocol::Tls)),
    ("get-64-http2", |setting, runtime| get::get(setting, runtime, 64, Protocol::Http2)),
    ("hyper-get-1", |setting, runtime| hyper::get(setting, runtime, 1, Protocol::Plain)),
    ("hyper-get-16", |setting, runtime| hyper::get(setting, runtime, 16, Protocol::Plain)),
    ("hyper-get-16-tls", |setting, runtime| hyper::get(setting, runtime, 16, Protocol::Tls)),
    ("hyper-get-64", |setting, runtime| hyper::get(setting, runtime, 64, Protocol::Plain)),
    ("hyper-get-64-tls", |setting, runtime| hyper::get(setting, runtime, 64, Protocol::Tls)),
    ("hyper-get-64-http2", |setting, runtime| hyper::get(setting, runtime, 64, Protocol::Http2)),
    ("watches", watches::watches),
    ("list", list::list),
    ("crates", |_, _| crates::crates(&["pintle-restreq", "pintle-kubeconfig"])),
];

/// Runs the workload named on the command line.
pub fn main() -> ExitCode {
    answer::main("rest WORK --server KUBECONFIG [--quick]", WORKS, |work, setting| {
        let runtime = Runtime::new().expect("cannot create a runtime");
        let _in_runtime = runtime.enter();
        Some(work(setting, &runtime))
    })
}

impl Protocol {
    fn client(self, setting: &Setting) -> RestClient {
        let http2 = Http2Config { enabled: self == Self::Http2, ..Http2Config::default() };
        let config = RestClientConfig { http2, ..self.config(setting).into() };
        RestClient::new(config).expect("cannot create a client")
    }

    fn config(self, setting: &Setting) -> ClientConfig {
        setting.client_config(Some(if self == Self::Plain { "plain" } else { "tls" }))
    }
}

impl Setting {
    fn span(&self, full: Duration) -> Duration {
        if self.quick { full / 4 } else { full }
    }
}
