//! `cargo xtask bench AREA`: our crates beside their peers, in one run.
//!
//! An *area* ([`Area`]) is a list of *works* ([`Work`]), declared by value in one file an area ([`queue`]); this module and
//! its neighbours do the rest. A work is done by one program a side:
//!
//! * ours, and peers written in Rust, are binaries of `crates/bench` ([`Program::Rust`]), built with `--release`;
//! * peers written in Go are `main` packages of the module `crates/bench/go/AREA` ([`Program::Go`]), whose `go.sum` pins
//!   their versions, built into `target/bench/AREA/`.
//!
//! Each program does the work it is told by its arguments **once**, and prints one line of JSON, as its last line:
//!
//! ```json
//! {"wall_ns": 1200000, "cpu_ns": 1100000, "allocations": 12, "peak_bytes": 4096, "operations": 1000000}
//! ```
//!
//! all over the measured part alone (not the program's start, nor making its input): wall time, CPU time of all threads,
//! heap allocations, the peak of the live heap above what stood before the measured part, and how many operations it did.
//! A figure that a side cannot tell is left out, and the rows that need it stay empty.
//!
//! The frame runs every side of a work in turn (ours, peer, ours, peer, …), at least five times, so that a busy moment of the
//! machine hits all sides alike, takes the median of each, and makes one row a [`Measure`] that the work asks for.
//! The *ratio* says how many times better ours is than the best peer: 2.0 is half the cost, 0.5 is double the cost.
//! A peer whose tool is missing (no `go`), or that does not build, is named, and its column stays empty.

mod build;
mod plot;
mod queue;
mod rows;
mod sample;

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, bail};
use xshell::Shell;

use crate::flags::Bench;

/// All that can be measured; one file beside this one each.
const AREAS: &[&Area] = &[&queue::AREA];

/// Works that are measured in one run and shown in one table.
pub(crate) struct Area {
    /// What the command line calls it; also the folder of the Go module and the name of the written documents.
    pub(crate) name: &'static str,
    /// One sentence over the table.
    pub(crate) about: &'static str,
    /// In the order of the table.
    pub(crate) works: &'static [Work],
}

/// One thing that all sides do.
pub(crate) struct Work {
    /// Unique in its area, and plain enough for a table's first column.
    pub(crate) name: &'static str,
    /// How our side does it.
    pub(crate) ours: Run,
    /// Who else does it, and how. May be empty: then the row stands by itself.
    pub(crate) peers: &'static [(&'static str, Run)],
    /// One row each, with what we want to reach.
    pub(crate) rows: &'static [(Measure, Goal)],
}

/// A command that does a work once and prints its [`Sample`](sample::Sample).
#[derive(Clone, Copy)]
pub(crate) struct Run {
    pub(crate) program: Program,
    pub(crate) args: &'static [&'static str],
}

/// Where a command comes from.
#[derive(Clone, Copy, PartialEq, Eq)]
#[allow(dead_code, reason = "an area need not have every kind of peer")]
pub(crate) enum Program {
    /// The binary of this name in `crates/bench`.
    Rust(&'static str),
    /// The `main` package of this name in `crates/bench/go/AREA`.
    Go(&'static str),
}

/// What a row tells, from the figures of one side.
#[derive(Clone, Copy, PartialEq, Eq)]
#[allow(dead_code, reason = "an area need not use every measure")]
pub(crate) enum Measure {
    /// Wall time by operation.
    WallPerOp,
    /// CPU time of all threads by operation.
    CpuPerOp,
    /// Heap allocations by operation.
    AllocationsPerOp,
    /// Peak of the live heap by operation.
    BytesPerOp,
    /// Peak of the live heap.
    PeakBytes,
    /// Operations by second of wall time.
    OpsPerSecond,
}

/// When a row counts as reached.
#[derive(Clone, Copy, PartialEq)]
#[allow(dead_code, reason = "an area need not use every kind of goal")]
pub(crate) enum Goal {
    /// At least so many times better than the best peer.
    Times(f64),
    /// Ours at most this, whatever the peers need.
    AtMost(f64),
    /// Told for information.
    None,
}

pub(crate) fn run(sh: &Shell, flags: &Bench) -> anyhow::Result<ExitCode> {
    if flags.list {
        for area in AREAS {
            println!("{:12} {} works: {}", area.name, area.works.len(), area.about);
        }
        return Ok(ExitCode::SUCCESS);
    }
    let names = || AREAS.iter().map(|area| area.name).collect::<Vec<_>>().join(", ");
    let Some(name) = &flags.area else { bail!("which area? One of: {}", names()) };
    let area = AREAS.iter().find(|area| area.name == name);
    let area = area.with_context(|| format!("no area {name:?}; there are: {}", names()))?;
    let runs = flags.runs.unwrap_or(5);
    if runs < 5 {
        bail!("--runs {runs}: a median of fewer than 5 runs tells nothing");
    }
    let works: Vec<&Work> =
        area.works.iter().filter(|work| flags.only.as_ref().is_none_or(|only| work.name.contains(only))).collect();
    if works.is_empty() {
        bail!("area {name:?} has no such work; its works are: {}", {
            area.works.iter().map(|work| work.name).collect::<Vec<_>>().join(", ")
        });
    }

    let built = build::build(sh, area, &works)?;
    let rows = sample::measure(sh, area, &works, &built, runs)?;
    print!("{}", rows::text_table(&rows));
    for (peer, why) in &built.missing {
        println!("column {peer} is empty: {why}");
    }
    if let Some(file) = &flags.json {
        write(file, &(serde_json::to_string_pretty(&rows)? + "\n"))?;
    }
    if flags.docs {
        let folder = sh.current_dir().join("docs/bench");
        write(&folder.join(format!("{}.svg", area.name)), &plot::svg(area, &rows))?;
        let page = rows::page(area, &rows, &build::machine(sh), runs);
        write(&folder.join(format!("{}.md", area.name)), &page)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn write(file: &Path, text: &str) -> anyhow::Result<()> {
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    }
    std::fs::write(file, text).with_context(|| format!("writing {}", file.display()))?;
    println!("wrote {}", file.display());
    Ok(())
}
