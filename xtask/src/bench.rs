//! `cargo xtask bench AREA`: our crates beside their peers, in one run.
//!
//! An *area* ([`Area`]) is a list of *works* ([`Work`]), declared by value in one file an area ([`queue`]); this module and
//! its neighbours do the rest. A work is done by one program a side:
//!
//! * ours are binaries of `crates/bench` ([`Program::Rust`]), built with `--release`, or an example of another crate that shares its
//!   tests' code ([`Program::Example`]);
//! * kube-rs's are binaries of `crates/bench/kube` ([`Program::Kube`]), a workspace of its own, whose `Cargo.lock` pins their
//!   versions apart from ours, built in the same way into `target/bench/kube/`;
//! * peers written in Go are `main` packages below `crates/bench/go/AREA` ([`Program::Go`]), in a module whose `go.sum` pins
//!   their versions, built into `target/bench/AREA/`.
//!
//! Each program does the work it is told by its arguments **once**, and prints one line of JSON, as its last line:
//!
//! ```json
//! {"wall_ns": 1200000, "cpu_ns": 1100000, "allocations": 12, "peak_bytes": 4096, "operations": 1000, "adds": 1000, "gets": 1000,
//!  "figures": {"us, p99 of hand-off": 17.5}}
//! ```
//!
//! all over the measured part alone (not the program's start, nor making its input): wall time, CPU time of all threads,
//! heap allocations, the peak of the resident memory above what was resident when the measured part began, how many operations it
//! did, and how many keys it added and got. `figures` is whatever else the work tells, by the unit that it stands under
//! ([`Measure::Told`]). What a side cannot tell is left out, and the rows that need it stay empty.
//!
//! What is fed by a server gets it as `--server URL`: one of ours, beside all sides of a work alike ([`Around::Pods`]); a whole API
//! server as `--server KUBECONFIG` ([`Around::Cluster`]), and so one that answers fast ([`Around::Rest`]). Where servers are what is
//! compared, each side has its own, and is told its processes, too: `--processes ID,ID` ([`Around::Servers`]).
//!
//! The frame runs all sides of a work in turn (ours, peer, ours, peer, …), for what is to be kept at least as often as the work says
//! ([`Work::runs`]), so that a busy moment of the machine hits all sides alike, takes the median of each, and makes one row a
//! [`Measure`] that the work asks for.
//! The *ratio* says how many times better ours is than the best peer: 2.0 is half the cost, 0.5 is double the cost.
//! A peer whose tool is missing (no `go`), or that does not build, is named, and its column stays empty.
//!
//! Figures are published with the commit that they are of: `--docs` wants a clean tree that nobody changes meanwhile, and an idle
//! machine.

mod apiserver;
mod build;
mod cache;
mod conditions;
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

/// All that can be measured; one file beside this one each.
const AREAS: &[&Area] = &[&queue::AREA, &cache::AREA, &election::AREA, &rest::AREA, &apiserver::AREA];

/// Works that are measured in one run and shown in one table.
pub(crate) struct Area {
    /// What the command line calls it; also the folder of its Go programs and the name of the written documents.
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
    /// How our side does it: the first is as the name says, and the others stand beside it.
    pub(crate) ours: &'static [Variant],
    /// Who else does it, and how. May be empty: then the rows stand by themselves.
    pub(crate) peers: &'static [(&'static str, Run)],
    pub(crate) around: Around,
    /// How often each side does it for what is to be kept: [`RUNS`], but where that would take hours.
    pub(crate) runs: usize,
}

/// What there is around all sides of a work.
#[derive(Clone, Copy)]
pub(crate) enum Around {
    Nothing,
    /// A control group that holds them to so many CPUs, which is less than there are.
    Quota(f64),
    /// A load server with so many pods, which runs for as long as the work is measured.
    Pods(usize),
    /// An embedded API server, anew for the work.
    Cluster,
    /// Each side has an API server of its own, anew each time: ours an embedded one, and the peer [`REAL`] a real one.
    Servers,
    /// A server with little to say, and nothing to think of.
    Rest,
}

/// The peer whose programs are the same as ours, and whose server is a real kube-apiserver with etcd.
pub(crate) const REAL: &str = "kube-apiserver";

/// One way in which our side does a work.
pub(crate) struct Variant {
    /// What is different. Empty for the first.
    pub(crate) name: &'static str,
    pub(crate) run: Run,
    pub(crate) rows: Rows,
}

pub(crate) type Rows = &'static [Row];

/// What a row tells, with what we want to reach: all of it. Nothing: told for information.
pub(crate) type Row = (Measure, &'static [Goal]);

/// A command that does a work once and prints its [`Sample`](sample::Sample).
#[derive(Clone, Copy)]
pub(crate) struct Run {
    pub(crate) program: Program,
    pub(crate) args: &'static [&'static str],
}

/// Where a command comes from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Program {
    /// The binary of this name in `crates/bench`.
    Rust(&'static str),
    /// The example of this name of this package.
    Example(&'static str, &'static str),
    /// The binary of this name in `crates/bench/kube`.
    Kube(&'static str),
    /// The `main` package of this name in `crates/bench/go/AREA`.
    Go(&'static str),
}

/// What a row tells, from the figures of one side.
#[derive(Clone, Copy, PartialEq, Eq)]
#[allow(dead_code, reason = "an area need not use every measure")]
pub(crate) enum Measure {
    /// Wall time by operation.
    WallPerOp,
    /// CPU time of all threads.
    Cpu,
    /// CPU time of all threads by operation.
    CpuPerOp,
    /// Heap allocations by operation.
    AllocationsPerOp,
    /// Peak of the resident memory by operation.
    BytesPerOp,
    /// Peak of the resident memory.
    PeakBytes,
    /// Operations by second of wall time.
    OpsPerSecond,
    /// What the work tells under this unit. More is better if it ends with `/s`, and worse otherwise.
    Told(&'static str),
}

/// When a row counts as reached.
#[derive(Clone, Copy, PartialEq)]
#[allow(dead_code, reason = "an area need not use every kind of goal")]
pub(crate) enum Goal {
    /// At least so many times better than the best peer. 1: no worse; 0.5: at most twice the cost.
    Times(f64),
    /// At least so many times better than this peer.
    TimesOf(&'static str, f64),
    /// Ours at most this, whatever the peers need.
    AtMost(f64),
    /// Ours at least this.
    AtLeast(f64),
}

/// How often works are done that are short, whose figures scatter most.
pub(crate) const RUNS: usize = 9;

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
    let runs = |work: &Work| flags.runs.unwrap_or(if flags.quick { 1 } else { work.runs });
    let keep = flags.docs || flags.json.is_some();
    let works: Vec<&Work> =
        area.works.iter().filter(|work| flags.only.as_ref().is_none_or(|only| work.name.contains(only))).collect();
    if works.is_empty() {
        bail!("area {name:?} has no such work; its works are: {}", {
            area.works.iter().map(|work| work.name).collect::<Vec<_>>().join(", ")
        });
    }
    let too_few = works.iter().find(|work| runs(work) == 0 || keep && (flags.quick || runs(work) < work.runs));
    if let Some(Work { name, runs, .. }) = too_few {
        bail!("--json and --docs are for works of the full size, and {name:?} is one of at least {runs} runs");
    }
    if flags.docs && flags.only.is_some() {
        bail!("--docs is for all works of an area: its page would lose those that are not measured");
    }
    let commit = conditions::commit(sh)?;
    if flags.docs && commit.changed {
        bail!("what is published is of a commit, and the tree has changes since: commit them first");
    }

    let built = build::build(sh, area, &works)?;
    let conditions = conditions::Conditions::now(sh, &commit);
    println!("{conditions}");
    if flags.docs && conditions.others_are_at_work() {
        bail!("what is published is measured on a machine that is idle otherwise");
    }
    let rows = sample::measure(sh, area, &works, &built, flags.quick, runs, &conditions)?;
    print!("{}{}", rows::text_table(&rows), rows::text_counts(&rows).unwrap_or_default());
    for (peer, why) in &built.missing {
        println!("column {peer} is empty: {why}");
    }
    if keep && conditions::commit(sh)? != commit {
        bail!("the tree has changed while it was measured: nothing is written");
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
        std::fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    }
    std::fs::write(file, text).with_context(|| format!("writing {}", file.display()))?;
    println!("wrote {}", file.display());
    Ok(())
}
