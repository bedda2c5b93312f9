//! Runs an operator through the scenarios in docs/OPERATORS.md: `operators [--only SCENARIO] COMMAND [ARGUMENT]…`.

use std::process::ExitCode;

fn main() -> ExitCode {
    pintle_bench::operators::main()
}
