//! The works of the area `rest`; `go/rest` does the same ones on client-go, and `kube` on kube-rs.
//!
//! All sides ask one server ([`serve`]) and share the processors with it, which are counted for none of them. A work that asks again and
//! again does so for a second before its window, which is of three; that of the watches begins two seconds after all are open.

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

use crate::{Sample, answer};

pub use server::{Listeners, serve};

/// In which variant a work is done.
#[derive(Clone, Debug)]
struct Setting {
    /// The kubeconfig of the server; of `list` the load server's URL.
    server: String,
    /// A small part of the time, to see that all works.
    quick: bool,
}

/// How the server is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    /// HTTP/1.1 in the open.
    Plain,
    /// HTTP/1.1 over TLS.
    Tls,
    /// HTTP/2 over TLS.
    Http2,
}

/// Does a work once, in a runtime with a thread for each processor.
type Work = fn(&Setting, &Runtime) -> Sample;

/// By the names that all sides and `cargo xtask bench` have for them. Those of hyper are the peer's without a client library.
const WORKS: &[(&str, Work)] = &[
    ("get-1", |how, runtime| get::get(how, runtime, 1, Protocol::Plain)),
    ("get-1-raw", |how, runtime| get::get_raw(how, runtime, 1, Protocol::Plain)),
    ("get-16", |how, runtime| get::get(how, runtime, 16, Protocol::Plain)),
    ("get-16-tls", |how, runtime| get::get(how, runtime, 16, Protocol::Tls)),
    ("get-64", |how, runtime| get::get(how, runtime, 64, Protocol::Plain)),
    ("get-64-tls", |how, runtime| get::get(how, runtime, 64, Protocol::Tls)),
    ("get-64-http2", |how, runtime| get::get(how, runtime, 64, Protocol::Http2)),
    ("hyper-get-1", |how, runtime| hyper::get(how, runtime, 1, Protocol::Plain)),
    ("hyper-get-16", |how, runtime| hyper::get(how, runtime, 16, Protocol::Plain)),
    ("hyper-get-16-tls", |how, runtime| hyper::get(how, runtime, 16, Protocol::Tls)),
    ("hyper-get-64", |how, runtime| hyper::get(how, runtime, 64, Protocol::Plain)),
    ("hyper-get-64-tls", |how, runtime| hyper::get(how, runtime, 64, Protocol::Tls)),
    ("hyper-get-64-http2", |how, runtime| hyper::get(how, runtime, 64, Protocol::Http2)),
    ("watches", watches::watches),
    ("list", list::list),
    ("crates", |_, _| crates::crates(&["pintle-restreq", "pintle-kubeconfig"])),
];

/// Does the work that the command line names.
pub fn main() -> ExitCode {
    answer(run(), "rest WORK --server KUBECONFIG [--quick]", WORKS.iter().map(|(work, _)| *work))
}

/// `None`: there is no such work.
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
    let runtime = Runtime::new().expect("a runtime can be had");
    let _in_runtime = runtime.enter();
    Some(work(&Setting { server, quick }, &runtime))
}

impl Setting {
    fn client(&self, protocol: Protocol) -> RestClient {
        let http2 = Http2Config { enabled: protocol == Protocol::Http2, ..Http2Config::default() };
        let config = RestClientConfig { http2, ..self.config(protocol).into() };
        RestClient::new(config).expect("a client can be made")
    }

    fn config(&self, protocol: Protocol) -> ClientConfig {
        let context = if protocol == Protocol::Plain { "plain" } else { "tls" };
        let overrides = Overrides { context: Some(context.into()), ..Overrides::default() };
        let config = pintle_kubeconfig::infer(Some(PathBuf::from(&self.server)), &overrides, &Environment::default());
        config.expect("the kubeconfig of the server")
    }

    /// A quarter of it if this is to be quick.
    fn span(&self, full: Duration) -> Duration {
        if self.quick { full / 4 } else { full }
    }
}
