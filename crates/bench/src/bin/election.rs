//! Does one work of the area `election`, once: `election WORK --server KUBECONFIG [--quick]`.

use std::process::ExitCode;

use pintle_bench::election::{Setting, WORKS};
use pintle_bench::{Sample, answer};

fn main() -> ExitCode {
    answer(run(), "election WORK --server KUBECONFIG [--quick]", WORKS.iter().map(|(work, _)| *work))
}

/// `None`: there is no such work, or no server.
fn run() -> Option<Sample> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (name, kubeconfig, quick) = match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [name, "--server", kubeconfig] => (name, kubeconfig, false),
        [name, "--server", kubeconfig, "--quick"] => (name, kubeconfig, true),
        _ => return None,
    };
    let (_, work) = WORKS.iter().find(|(work, _)| *work == name)?;
    Some(work(&Setting::new(kubeconfig.as_ref(), quick)))
}
