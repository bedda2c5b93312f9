//! `cargo xtask ci`: all checks of the project, one line of output for each step.
//!
//! All steps run, even after a failure, so one run reports all problems. A failing step prints the output of its command, and a command
//! line that runs only this step. `target/ci/STEP.log` keeps the output of each step.

mod checked;
mod command;
mod front_page;
mod project;
mod steps;
mod tally;
mod tools;

use std::fmt;
use std::io::Write as _;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::bail;
use xshell::Shell;

pub(crate) use self::checked::compile;
use self::steps::STEPS;
use self::tally::Tally;
use crate::flags::Ci;

/// One check.
struct Step {
    name: &'static str,
    about: &'static str,
    run: fn(&Shell) -> anyhow::Result<Done>,
}

/// The result of a successful step.
#[derive(Default)]
struct Done {
    /// A note that is printed after the time.
    note: String,
    /// The tests that the step ran.
    tests: Tally,
}

impl Done {
    fn noting(note: impl Into<String>) -> Self {
        Self { note: note.into(), ..Self::default() }
    }
}

/// The error of a step with failed tests. It contains the numbers of tests.
#[derive(Debug)]
struct TestsFailed {
    tests: Tally,
    output: String,
}

impl fmt::Display for TestsFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.output)
    }
}

impl std::error::Error for TestsFailed {}

pub(crate) fn run(sh: &Shell, flags: &Ci) -> anyhow::Result<ExitCode> {
    if flags.list {
        STEPS.iter().for_each(|step| println!("{:12} {}", step.name, step.about));
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(unknown) = flags.only.iter().find(|only| !STEPS.iter().any(|step| step.name == only.as_str())) {
        let names: Vec<&str> = STEPS.iter().map(|step| step.name).collect();
        bail!("no step {unknown:?}; there are: {}", names.join(", "));
    }
    let started = Instant::now();
    if flags.only.is_empty() {
        tools::install_ahead(sh);
    }
    let mut tests = Tally::default();
    let mut failed = Vec::new();
    for step in STEPS.iter().filter(|step| flags.only.is_empty() || flags.only.iter().any(|only| only == step.name)) {
        print!("{:12} ", step.name);
        std::io::stdout().flush()?;
        let began = Instant::now();
        let outcome = (step.run)(sh);
        let took = began.elapsed().as_secs_f64();
        match outcome {
            Ok(done) => {
                println!("ok     {took:6.1} s  {}", done.note);
                tests.add(done.tests);
            }
            Err(error) => {
                println!("FAILED {took:6.1} s");
                println!("{error:#}");
                println!("{} failed; alone: cargo xtask ci --only {}\n", step.name, step.name);
                match error.downcast::<TestsFailed>() {
                    Ok(error) if error.tests.failed > 0 => tests.add(error.tests),
                    // The step has failed, but no test has failed. Count one failure.
                    _ => tests.failed += 1,
                }
                failed.push(step.name);
            }
        }
    }
    let took = started.elapsed().as_secs_f64();
    println!("{:12} {:6} {took:6.1} s", "all", if failed.is_empty() { "ok" } else { "FAILED" });
    tests.closing_lines.iter().for_each(|line| println!("{line}"));
    if !failed.is_empty() {
        println!("failed steps: {}", failed.join(", "));
    }
    println!("{} passed, {} failed", tests.passed, tests.failed);
    Ok(if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
