//! Runs one workload of the `election` benchmark: `election WORK [--polling] --server KUBECONFIG [--quick]`.

use std::process::ExitCode;

use pintle_bench::election::{Setting, WORKS};
use pintle_bench::{Sample, answer};

fn main() -> ExitCode {
    answer(run(), "election WORK [--polling] --server KUBECONFIG [--quick]", WORKS.iter().map(|(work, _)| *work))
}

/// Runs the workload from the command line. Returns `None` if the workload is unknown or no server is given.
fn run() -> Option<Sample> {
    let mut args = std::env::args().skip(1);
    let name = args.next()?;
    let (mut server, mut quick, mut polling) = (None, false, false);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--server" => server = args.next(),
            "--quick" => quick = true,
            "--polling" => polling = true,
            _ => return None,
        }
    }
    let (_, work) = WORKS.iter().find(|(work, _)| *work == name)?;
    Some(work(&Setting::new(server?.as_ref(), quick, polling)))
}
