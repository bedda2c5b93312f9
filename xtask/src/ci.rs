//! `cargo xtask ci` runs all checks of the project and prints one line per step.
//!
//! All steps run even if one of them fails, so that a single run reports all problems. If a step fails, the output
//! contains its log, and a command that runs only this step. The full output of each step is in
//! `target/ci/STEP.log`.

mod checked;
mod command;
mod front_page;
mod project;
mod published;
mod steps;
mod tally;
mod targets;
mod tools;
mod versions;

use std::fmt;
use std::io::Write as _;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::bail;
use xshell::Shell;

pub(crate) use self::checked::compile;
use self::steps::STEPS;
use self::tally::Tally;
pub(crate) use self::targets::compile_nothing;
use crate::flags::Ci;

struct Step {
    name: &'static str,
    about: &'static str,
    /// Whether the step runs in parallel with later steps.
    is_parallel: bool,
    only_in_full: bool,
    run: fn(&Shell) -> anyhow::Result<Done>,
}

impl Step {
    const fn new(name: &'static str, about: &'static str, run: fn(&Shell) -> anyhow::Result<Done>) -> Self {
        Self { name, about, is_parallel: false, only_in_full: false, run }
    }

    const fn in_parallel(mut self) -> Self {
        self.is_parallel = true;
        self
    }

    const fn only_in_full(mut self) -> Self {
        self.only_in_full = true;
        self
    }

    fn is_chosen(&self, flags: &Ci) -> bool {
        match &flags.only[..] {
            [] => flags.full || !self.only_in_full,
            only => only.iter().any(|only| only == self.name),
        }
    }

    fn run(&self, sh: &Shell) -> Outcome {
        let began = Instant::now();
        let result = (self.run)(sh);
        Outcome { step: self.name, took: began.elapsed(), result }
    }
}

struct Outcome {
    step: &'static str,
    took: Duration,
    result: anyhow::Result<Done>,
}

#[derive(Default)]
struct Done {
    note: String,
    tests: Tally,
}

impl Done {
    fn noting(note: impl Into<String>) -> Self {
        Self { note: note.into(), ..Self::default() }
    }
}

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
        for step in STEPS {
            let when = if step.only_in_full { " (only with --full)" } else { "" };
            println!("{:12} {}{when}", step.name, step.about);
        }
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(unknown) = flags.only.iter().find(|only| !STEPS.iter().any(|step| step.name == only.as_str())) {
        let names: Vec<&str> = STEPS.iter().map(|step| step.name).collect();
        bail!("no step {unknown:?}; there are: {}", names.join(", "));
    }
    let started = Instant::now();
    let mut report = Report::default();
    let chosen = STEPS.iter().filter(|step| step.is_chosen(flags));
    thread::scope(|scope| {
        let mut parallel = Vec::new();
        for step in chosen {
            if step.is_parallel {
                let own = sh.clone();
                parallel.push(scope.spawn(move || step.run(&own)));
            } else {
                // Print the name of the running step. The line of a parallel step is printed when it ends, so that
                // the line does not interrupt another line.
                print!("{:12} ", step.name);
                std::io::stdout().flush().ok();
                report.add(step.run(sh));
            }
        }
        for step in parallel {
            let outcome = step.join().expect("a step returns its errors");
            print!("{:12} ", outcome.step);
            report.add(outcome);
        }
    });
    Ok(report.close(started.elapsed()))
}

#[derive(Default)]
struct Report {
    tests: Tally,
    failed: Vec<&'static str>,
}

impl Report {
    fn add(&mut self, Outcome { step, took, result }: Outcome) {
        let took = took.as_secs_f64();
        match result {
            Ok(done) => {
                println!("ok     {took:6.1} s  {}", done.note);
                self.tests.add(done.tests);
            }
            Err(error) => {
                println!("FAILED {took:6.1} s\n{error:#}");
                println!("{step} failed; alone: cargo xtask ci --only {step}\n");
                match error.downcast::<TestsFailed>() {
                    Ok(error) if error.tests.failed > 0 => self.tests.add(error.tests),
                    // If a step failed for another reason than a test, count one failure.
                    _ => self.tests.failed += 1,
                }
                self.failed.push(step);
            }
        }
    }

    fn close(self, took: Duration) -> ExitCode {
        let Self { tests, failed } = self;
        println!("{:12} {:6} {:6.1} s", "all", if failed.is_empty() { "ok" } else { "FAILED" }, took.as_secs_f64());
        tests.closing_lines.iter().for_each(|line| println!("{line}"));
        if !failed.is_empty() {
            tests.panics.iter().for_each(|line| println!("{line}"));
            println!("failed steps: {}", failed.join(", "));
        }
        println!("{} passed, {} failed", tests.passed, tests.failed);
        if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}
