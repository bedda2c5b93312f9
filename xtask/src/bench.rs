//! `cargo xtask bench AREA` measures our crates and their peers in the same run, and compares the figures.
//!
//! An *area* ([`Area`]) is a list of *workloads* ([`Workload`]). Each area is declared in a file of its own, such as [`queue`]. Our crates
//! and each peer perform a workload. For each of these *sides*, the workload names one program:
//!
//! * Our programs are binaries of `crates/bench` ([`Program::Rust`]), or examples of other crates ([`Program::Example`]).
//!   All of these programs are built with `--release`.
//! * The programs for kube-rs are binaries of `crates/bench/kube` ([`Program::Kube`]). This folder is a separate workspace with its
//!   own `Cargo.lock`. The workspace is built into `target/bench/kube/`.
//! * The programs in Go are `main` packages in the folders `crates/bench/go/AREA` ([`Program::Go`]). The `go.sum` of these programs
//!   pins the versions. The Go programs are built into `target/bench/AREA/`.
//!
//! The arguments of a program name a workload, and the program runs this workload **once**. The last line of the program's output is JSON:
//!
//! ```json
//! {"wall_ns": 1200000, "cpu_ns": 1100000, "allocations": 12, "peak_bytes": 4096, "operations": 1000, "adds": 1000, "gets": 1000,
//!  "figures": {"us, p99 of hand-off": 17.5}}
//! ```
//!
//! All figures describe only the part of the program that is measured:
//!
//! * `wall_ns` is the wall time.
//! * `cpu_ns` is the CPU time of all threads.
//! * `allocations` is the number of heap allocations.
//! * `peak_bytes` is the peak of the resident memory minus the resident memory at the start.
//! * `operations` is the number of operations.
//! * `adds` is the number of keys that were added to a queue, and `gets` is the number of keys that were received from it.
//! * `figures` contains other values by unit ([`Measure::Figure`]).
//!
//! A program omits a figure that it cannot measure. The rows that need this figure then have an empty cell.
//!
//! A program that needs a server receives the argument `--server URL` ([`Around::Pods`]) or `--server KUBECONFIG` ([`Around::Cluster`],
//! [`Around::Maps`], [`Around::Rest`]). All sides use the same server. If the workload compares servers ([`Around::Servers`]), each side
//! has a separate server. The argument `--processes ID,ID` contains the process ids of this server.
//!
//! The programs of a workload run alternately (ours, peer, ours, peer, …), so that other programs on the machine affect all sides. For
//! figures that are published, each side runs at least [`Workload::runs`] times. For each [`Measure`], the table has one row with the
//! median of each side. The *ratio* compares our side with the best peer. For example, 2.0 means half the cost, and 0.5 means double the
//! cost. If a tool such as `go` is missing, or if a peer cannot be built, the column of this peer is empty and the output contains the
//! reason.
//!
//! All published figures on a page belong to the same commit. Therefore, `--docs` requires a clean working tree that does
//! not change during the measurement. `--docs` also requires an idle machine.

mod apiserver;
mod build;
mod cache;
mod cel;
mod conditions;
mod controller;
mod election;
mod load;
mod plot;
mod queue;
mod quota;
mod rest;
mod rows;
mod sample;

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, bail};
use xshell::Shell;

use crate::flags::Bench;

/// All areas. Each area has its own file.
const AREAS: &[&Area] =
    &[&queue::AREA, &cache::AREA, &election::AREA, &rest::AREA, &controller::AREA, &apiserver::AREA, &cel::AREA];

/// A list of workloads that are measured together. One table shows all of them.
pub(crate) struct Area {
    /// The name of the area. The command line, the folder of the Go programs and the file names of the pages contain this name.
    pub(crate) name: &'static str,
    /// A sentence that the page shows above the table.
    pub(crate) about: &'static str,
    /// The workloads in the order of the table's rows.
    pub(crate) workloads: &'static [Workload],
}

/// A task that our program and the programs of the peers perform.
pub(crate) struct Workload {
    /// The text in the first column of the table. No other workload of the area has the same text.
    pub(crate) name: &'static str,
    /// The variants of our side. If there are several variants, the name of the workload describes the first one.
    pub(crate) ours: &'static [Variant],
    /// The peers. The list may be empty.
    pub(crate) peers: &'static [(&'static str, Run)],
    pub(crate) around: Around,
    /// The number of runs that each side needs for published figures. The number is [`RUNS`], or less for long workloads.
    pub(crate) runs: usize,
}

/// The servers that the programs of a workload use, and the limits of these programs.
#[derive(Clone, Copy)]
pub(crate) enum Around {
    Nothing,
    /// A control group. The limit is a number of CPUs.
    Quota(f64),
    /// A load server that serves this number of pods. All sides share it.
    Pods(usize),
    /// A new embedded API server for the workload.
    Cluster,
    /// A new embedded API server for the workload, which contains this number of ConfigMaps.
    Maps(usize),
    /// A new API server for each side and each run. The peer [`REAL`] uses a real server, and our side uses an embedded
    /// server.
    Servers,
    /// A server that always sends the same small responses.
    Rest,
}

/// The name of the peer in which our client programs use a real kube-apiserver with etcd.
pub(crate) const REAL: &str = "kube-apiserver";

/// One of the ways in which our side runs a workload.
pub(crate) struct Variant {
    /// The text that describes how the variant differs from the first one. The text is empty for the first variant.
    pub(crate) name: &'static str,
    pub(crate) run: Run,
    pub(crate) rows: Rows,
}

pub(crate) type Rows = &'static [Row];

/// The measure that a row of the table shows, and the goals for this measure. A row without goals is only for information.
pub(crate) type Row = (Measure, &'static [Goal]);

/// A command that runs a workload once and prints its [`Sample`](sample::Sample).
#[derive(Clone, Copy)]
pub(crate) struct Run {
    pub(crate) program: Program,
    pub(crate) args: &'static [&'static str],
}

/// Where the source of a program is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Program {
    /// The binary with this name in `crates/bench`.
    Rust(&'static str),
    /// The example with this name of a package in the workspace.
    Example { package: &'static str, name: &'static str },
    /// The binary with this name in `crates/bench/kube`.
    Kube(&'static str),
    /// The `main` package with this name in `crates/bench/go/AREA`.
    Go(&'static str),
}

/// A value that is computed from the figures of our side or of a peer.
#[derive(Clone, Copy, PartialEq, Eq)]
#[allow(dead_code, reason = "an area does not use every measure")]
pub(crate) enum Measure {
    /// Wall time per operation.
    WallPerOp,
    /// CPU time of all threads.
    Cpu,
    /// The CPU time of all threads, divided by the number of operations.
    CpuPerOp,
    /// Heap allocations per operation.
    AllocationsPerOp,
    /// The peak of the resident memory, divided by the number of operations.
    BytesPerOp,
    /// Peak of the resident memory.
    PeakBytes,
    /// The number of operations per second of wall time.
    OpsPerSecond,
    /// A figure with this unit. A larger figure is better if the unit ends with `/s`. For all other units, a smaller figure is better.
    Figure(&'static str),
}

/// A goal for a row: a limit for our value, or for the ratio to a peer.
#[derive(Clone, Copy, PartialEq)]
#[allow(dead_code, reason = "an area does not use every kind of goal")]
pub(crate) enum Goal {
    /// The ratio to the best peer must be at least this number. The value 1 means "no worse", and 0.5 means "at most twice the cost".
    Times(f64),
    /// The ratio to the peer with this name must be at least this number.
    TimesOf(&'static str, f64),
    /// Our value must be at most this number.
    AtMost(f64),
    /// Our value must be at least this number.
    AtLeast(f64),
}

/// The number of runs for short workloads. This number is large, because the figures of short workloads vary more between runs than other
/// figures.
pub(crate) const RUNS: usize = 9;

pub(crate) fn run(sh: &Shell, flags: &Bench) -> anyhow::Result<ExitCode> {
    if flags.list {
        for area in AREAS {
            println!("{:12} {} workloads: {}", area.name, area.workloads.len(), area.about);
        }
        return Ok(ExitCode::SUCCESS);
    }
    let names = || AREAS.iter().map(|area| area.name).collect::<Vec<_>>().join(", ");
    let Some(name) = &flags.area else { bail!("specify an area: one of {}", names()) };
    let area = AREAS.iter().find(|area| area.name == name);
    let area = area.with_context(|| format!("no area {name:?}; the areas are: {}", names()))?;
    let runs = |workload: &Workload| flags.runs.unwrap_or(if flags.quick { 1 } else { workload.runs });
    let keep = flags.docs || flags.json.is_some();
    let workloads: Vec<&Workload> = area
        .workloads
        .iter()
        .filter(|workload| flags.only.as_ref().is_none_or(|only| workload.name.contains(only)))
        .collect();
    if workloads.is_empty() {
        bail!("area {name:?} has no such workload; its workloads are: {}", {
            area.workloads.iter().map(|workload| workload.name).collect::<Vec<_>>().join(", ")
        });
    }
    let too_few = workloads
        .iter()
        .find(|workload| runs(workload) == 0 || keep && (flags.quick || runs(workload) < workload.runs));
    if let Some(Workload { name, runs, .. }) = too_few {
        bail!("--json and --docs need the full size: {name:?} needs at least {runs} runs");
    }
    if flags.docs && flags.only.is_some() {
        bail!("--docs needs all workloads of an area; --only would remove the other workloads from the page");
    }
    let commit = conditions::commit(sh)?;
    if flags.docs && commit.changed {
        bail!("--docs needs a clean tree: commit the changes first");
    }

    let built = build::build(sh, area, &workloads)?;
    let conditions = conditions::Conditions::now(sh, &commit);
    println!("{conditions}");
    if flags.docs && conditions.others_are_at_work() {
        bail!("--docs needs an idle machine");
    }
    let rows = sample::measure(sh, area, &workloads, &built, flags.quick, runs, &conditions)?;
    print!("{}{}", rows::text_table(&rows), rows::text_counts(&rows).unwrap_or_default());
    for (peer, why) in &built.missing {
        println!("column {peer} is empty: {why}");
    }
    if keep && conditions::commit(sh)? != commit {
        bail!("the tree changed during the measurement, so no file is written");
    }
    if let Some(file) = &flags.json {
        write(file, &(serde_json::to_string_pretty(&rows)? + "\n"))?;
    }
    if flags.docs {
        let folder = sh.current_dir().join("docs/bench");
        write(&folder.join(format!("{}.svg", area.name)), &plot::svg(area, &rows))?;
        write(&folder.join(format!("{}.md", area.name)), &rows::page(area, &rows, &conditions))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn write(file: &Path, text: &str) -> anyhow::Result<()> {
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    }
    std::fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))?;
    println!("wrote {}", file.display());
    Ok(())
}
