//! Runs one workload of the `apiserver` benchmark: `apiserver WORK [--server KUBECONFIG --processes ID,…] [--quick]`.

use std::process::ExitCode;

use pintle_bench::apiserver::{Setting, WORKS};
use pintle_bench::{Sample, answer};

fn main() -> ExitCode {
    const USAGE: &str = "apiserver WORK [--server KUBECONFIG --processes ID,…] [--quick]";
    answer(run(), USAGE, WORKS.iter().map(|(work, _)| *work))
}

/// Runs the workload from the command line. Returns `None` if the workload or an argument is unknown.
fn run() -> Option<Sample> {
    let mut args = std::env::args().skip(1);
    let name = args.next()?;
    let (_, work) = WORKS.iter().find(|(work, _)| *work == name)?;
    let mut setting = Setting::default();
    while let Some(flag) = args.next() {
        match flag.as_str() {
            "--server" => setting.kubeconfig = Some(args.next()?.into()),
            "--processes" => setting.processes = args.next()?.split(',').map(str::to_owned).collect(),
            "--quick" => setting.quick = true,
            _ => return None,
        }
    }
    Some(work(&setting))
}
