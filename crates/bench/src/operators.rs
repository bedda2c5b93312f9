//! Runs the scenarios of docs/OPERATORS.md. The operator is a separate process, and the embedded API server injects
//! faults.
//!
//! `operators COMMAND…` starts the operator once per scenario, with the environment variable `KUBECONFIG` set, and
//! prints one line per scenario.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "this module writes to the terminal")]

mod proxy;
mod scenarios;
mod website;
mod world;

use std::process::ExitCode;

use tokio::runtime::Runtime;

use world::World;

/// Runs all scenarios with the operator that the command line names. `--only NAME` runs only the scenarios whose
/// names contain `NAME`.
pub fn main() -> ExitCode {
    let mut args = std::env::args().skip(1).peekable();
    let only = args.next_if(|arg| arg == "--only").map(|_| args.next().unwrap_or_default());
    let command: Vec<String> = args.collect();
    if command.is_empty() {
        eprintln!("usage: operators [--only SCENARIO] COMMAND [ARGUMENT]…");
        return ExitCode::from(2);
    }
    let runtime = Runtime::new().expect("cannot create a runtime");
    runtime.block_on(async {
        for (name, scenario) in scenarios::ALL {
            if only.as_ref().is_none_or(|only| name.contains(only)) {
                let world = World::new(command.clone()).await;
                println!("{name}: {}", scenario(&world).await);
                world.end().await;
            }
        }
    });
    ExitCode::SUCCESS
}
