//! `cargo xtask bench AREA`: compares our crates with their peers in one run.
//!
//! An *area* ([`Area`]) is a list of *workloads* ([`Workload`]), declared in one file ([`queue`], for example). Each side of a workload is one program:
//!
//! * Our programs are binaries of `crates/bench` ([`Program::Rust`]), built with `--release`, or examples of other crates
//!   ([`Program::Example`]).
//! * The programs with kube-rs are binaries of `crates/bench/kube` ([`Program::Kube`]). The folder is a separate workspace with its own
//!   `Cargo.lock`. It is built into `target/bench/kube/`.
//! * The programs in Go are `main` packages below `crates/bench/go/AREA` ([`Program::Go`]). Their `go.sum` pins the versions. They are
//!   built into `target/bench/AREA/`.
//!
//! A program runs the workload in its arguments **once**. Its last line is JSON:
//!
//! ```json
//! {"wall_ns": 1200000, "cpu_ns": 1100000, "allocations": 12, "peak_bytes": 4096, "operations": 1000, "adds": 1000, "gets": 1000,
//!  "figures": {"us, p99 of hand-off": 17.5}}
//! ```
//!
//! All figures cover only the measured section of the program:
//!
//! * `wall_ns`: the wall time.
//! * `cpu_ns`: the CPU time of all threads.
//! * `allocations`: the number of heap allocations.
//! * `peak_bytes`: the peak of the resident memory minus the resident memory at the start.
//! * `operations`: the number of operations.
//! * `adds` and `gets`: the numbers of added and received keys.
//! * `figures`: other values by unit ([`Measure::Figure`]).
//!
//! If a program cannot measure a figure, it omits the figure. The rows that need this figure are then empty.
//!
//! A program that needs a server gets the argument `--server URL` ([`Around::Pods`]) or `--server KUBECONFIG` ([`Around::Cluster`],
//! [`Around::Maps`], [`Around::Rest`]). All sides use the same server. If the workload compares servers ([`Around::Servers`]), each side
//! has a separate server. The argument `--processes ID,ID` then contains the process IDs of this server.
//!
//! The sides of a workload run in turn (ours, peer, ours, peer, …), so that other programs on the machine affect all sides. For published
//! figures, each side runs at least [`Workload::runs`] times. Each [`Measure`] produces one row of medians. The *ratio* compares our side
//! with the best peer: 2.0 means half the cost, and 0.5 means double the cost. If a tool of a peer is missing (such as `go`), or if the
//! peer cannot be built, its column is empty and the output contains the reason.
//!
//! All published figures of a page belong to one commit. Therefore, `--docs` needs a clean tree that does not change during the
//! measurement. It also needs an idle machine.

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

/// A list of workloads that are measured together and shown in one table.
pub(crate) struct Area {
    /// The name of the area. The name is used on the command line, as the folder of the Go programs, and in the file names of the pages.
    pub(crate) name: &'static str,
    /// A sentence that is above the table on the page.
    pub(crate) about: &'static str,
    /// The workloads, in the order of the table.
    pub(crate) workloads: &'static [Workload],
}

/// One task that the programs of all sides perform.
pub(crate) struct Workload {
    /// The text that the first column of the table contains. The text is unique in its area.
    pub(crate) name: &'static str,
    /// The variants of our side. If there are variants, the name of the workload describes the first variant.
    pub(crate) ours: &'static [Variant],
    /// The peers. The list may be empty.
    pub(crate) peers: &'static [(&'static str, Run)],
    pub(crate) around: Around,
    /// The number of runs of each side that published figures need: [`RUNS`], or fewer for long workloads.
    pub(crate) runs: usize,
}

/// The environment of all programs that run a workload.
#[derive(Clone, Copy)]
pub(crate) enum Around {
    Nothing,
    /// A control group whose limit is given in CPUs.
    Quota(f64),
    /// A load server that serves this number of pods. All sides share it.
    Pods(usize),
    /// A new embedded API server for the workload.
    Cluster,
    /// A new embedded API server for the workload that contains this number of ConfigMaps.
    Maps(usize),
    /// A new API server for each side and each run: a real server for the peer [`REAL`], and an embedded server for our side.
    Servers,
    /// A server whose responses are small and constant.
    Rest,
}

/// The peer that consists of our client programs and a real kube-apiserver with etcd.
pub(crate) const REAL: &str = "kube-apiserver";

/// One way in which our side runs a workload.
pub(crate) struct Variant {
    /// The difference from the first variant. The name of the first variant is empty.
    pub(crate) name: &'static str,
    pub(crate) run: Run,
    pub(crate) rows: Rows,
}

pub(crate) type Rows = &'static [Row];

/// The measure that a row shows, and the goals of the row. If a row has no goals, it is only for information.
pub(crate) type Row = (Measure, &'static [Goal]);

/// A command that runs a workload once and prints its [`Sample`](sample::Sample).
#[derive(Clone, Copy)]
pub(crate) struct Run {
    pub(crate) program: Program,
    pub(crate) args: &'static [&'static str],
}

/// The source of a program.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Program {
    /// The program is the binary of this name in `crates/bench`.
    Rust(&'static str),
    /// The program is an example of a package in the workspace.
    Example { package: &'static str, name: &'static str },
    /// The program is the binary of this name in `crates/bench/kube`.
    Kube(&'static str),
    /// The program is the `main` package of this name in `crates/bench/go/AREA`.
    Go(&'static str),
}

/// A value that is computed from the figures that one side has measured.
#[derive(Clone, Copy, PartialEq, Eq)]
#[allow(dead_code, reason = "an area does not use every measure")]
pub(crate) enum Measure {
    /// Wall time per operation.
    WallPerOp,
    /// CPU time of all threads.
    Cpu,
    /// The CPU time of all threads per operation.
    CpuPerOp,
    /// Heap allocations per operation.
    AllocationsPerOp,
    /// The peak of the resident memory per operation.
    BytesPerOp,
    /// Peak of the resident memory.
    PeakBytes,
    /// The number of operations per second of wall time.
    OpsPerSecond,
    /// A figure of the workload that has this unit. If the unit ends with `/s`, a larger figure is better. For all other units, a smaller
    /// figure is better.
    Figure(&'static str),
}

/// The condition for a row to reach its goal.
#[derive(Clone, Copy, PartialEq)]
#[allow(dead_code, reason = "an area does not use every kind of goal")]
pub(crate) enum Goal {
    /// The minimum value of the ratio to the best peer. The value 1 means "no worse", and 0.5 means "at most twice the cost".
    Times(f64),
    /// The minimum value of the ratio to the peer with this name.
    TimesOf(&'static str, f64),
    /// The maximum of our value.
    AtMost(f64),
    /// The minimum of our value.
    AtLeast(f64),
}

/// The number of runs that short workloads need. The number is large, because the figures of short workloads vary most.
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
