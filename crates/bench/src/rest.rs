//! The workloads of the benchmark area `rest`. `go/rest` runs the same workloads on client-go, and `kube` runs them on
//! kube-rs.
//!
//! All client libraries send their requests to the same server ([`serve`]). The clients run on the same processors as the server. The CPU
//! time of the server is not counted. A workload of GET requests runs for one second without measurement, and then for three measured
//! seconds. The measurement of a workload with watches starts two seconds after all watches are open.

mod crates;
mod get;
mod hyper;
mod list;
mod server;
mod watches;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use pintle::prelude::ClientConfig;
use pintle_kubeconfig::{Environment, Overrides};
use pintle_restreq::{Http2Config, RestClient, RestClientConfig};
use tokio::runtime::Runtime;

use crate::answer::answer;
use crate::meter::Sample;

pub use server::{Listeners, serve};

/// The options of a workload.
#[derive(Clone, Debug)]
struct Setting {
    /// The kubeconfig of the server. For the workload `list`, this field is the URL of the load server.
    server: String,
    /// Whether the workload runs for a shorter time. A shorter time is enough to check that the workload works.
    quick: bool,
}

/// The protocol between the client and the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    /// HTTP/1.1 without TLS.
    Plain,
    /// HTTP/1.1 over TLS.
    Tls,
    /// HTTP/2 over TLS.
    Http2,
}

/// A function that runs a workload once. The runtime has one thread per processor.
type Work = fn(&Setting, &Runtime) -> Sample;

/// The workloads by name. The programs for all libraries and `cargo xtask bench` use the same names. The workloads whose names contain
/// `hyper` do not use a client library.
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

/// Runs the workload that the command line names.
pub fn main() -> ExitCode {
    answer(run(), "rest WORK --server KUBECONFIG [--quick]", WORKS.iter().map(|(work, _)| *work))
}

/// Returns `None` if the workload does not exist.
fn run() -> Option<Sample> {
    let mut args = std::env::args().skip(1);
    let name = args.next()?;
    let (_, work) = WORKS.iter().find(|(work, _)| *work == name)?;
    let (mut server, mut quick) = (String::new(), false);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--server" => server = args.next()?,
            "--quick" => quick = true,
            _ => return None,
        }
    }
    let runtime = Runtime::new().expect("cannot create a runtime");
    let _in_runtime = runtime.enter();
    Some(work(&Setting { server, quick }, &runtime))
}

impl Setting {
    fn client(&self, protocol: Protocol) -> RestClient {
        let http2 = Http2Config { enabled: protocol == Protocol::Http2, ..Http2Config::default() };
        let config = RestClientConfig { http2, ..self.config(protocol).into() };
        RestClient::new(config).expect("cannot create a client")
    }

    fn config(&self, protocol: Protocol) -> ClientConfig {
        let context = if protocol == Protocol::Plain { "plain" } else { "tls" };
        let overrides = Overrides { context: Some(context.into()), ..Overrides::default() };
        let config = pintle_kubeconfig::infer(Some(PathBuf::from(&self.server)), &overrides, &Environment::default());
        config.expect("a valid kubeconfig")
    }

    /// Returns `full`, or a quarter of `full` in a quick run.
    fn span(&self, full: Duration) -> Duration {
        if self.quick { full / 4 } else { full }
    }
}
