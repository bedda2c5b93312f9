//! `cargo xtask bench AREA` compares our crates to peer libraries by measuring them in the same run.
//!
//! An *area* ([`Area`]) is a list of *workloads* ([`Workload`]) in its own file, such as `queue.txt`. Each workload has
//! several *sides*: our crates and the peers. A workload specifies a program for each side:
//!
//! * Our programs are binaries of `crates/bench` ([`Program::Rust`]) or examples of other crates ([`Program::Example`]), built
//!   with `--release`.
//! * The kube-rs programs are binaries of `crates/bench/kube` ([`Program::Kube`]), a separate workspace with its own
//!   `Cargo.lock`. The kube-rs programs are built in `target/bench/kube/`.
//! * The Go programs are `main` packages in `crates/bench/go/AREA` ([`Program::Go`]). `go.sum` pins the dependencies of the Go
//!   programs. The Go programs are built in `target/bench/AREA/`.
//!
//! A benchmark program runs the workload in its arguments **once**. The last line of its output is a JSON object with figures:
//!
//! ```json
//! {"wall_ns": 1200000, "cpu_ns": 1100000, "allocations": 12, "peak_bytes": 4096, "operations": 1000, "adds": 1000, "gets": 1000,
//!  "figures": {"us, p99 of hand-off": 17.5}}
//! ```
//!
//! All figures cover only the measured part of a run:
//!
//! * `wall_ns` is the wall time.
//! * `cpu_ns` is the CPU time of all threads.
//! * `allocations` is the number of heap allocations.
//! * `peak_bytes` is the peak resident memory minus the resident memory at the start.
//! * `operations` is the number of operations.
//! * `adds` and `gets` are the numbers of keys that were added to a queue and that the queue returned.
//! * `figures` contains other values, keyed by unit ([`Measure::Figure`]).
//!
//! A program omits a figure that it cannot measure, and then the table cell is empty.
//!
//! A program that needs a server receives the argument `--server URL` ([`Around::Pods`]) or `--server KUBECONFIG`
//! ([`Around::Cluster`], [`Around::Maps`], [`Around::Rest`]). All sides share a server, except in workloads that compare servers
//! ([`Around::Servers`]). In workloads that compare servers, each side has a separate server, and the argument `--processes
//! ID,ID` contains the process IDs of the server.
//!
//! The programs of a workload run alternately (ours, peer, ours, peer, …), so that other load on the machine affects all sides.
//! Published figures require at least [`Workload::runs`] runs of each side. The result table has one row per [`Measure`] with the
//! median of each side. The *ratio* compares our side to the best peer: 2.0 means half the cost, and 0.5 means double the cost.
//! If a tool such as `go` is missing, or a peer cannot be built, the peer's column is empty, and the reason is printed.
//!
//! All published figures on a page come from the same commit. Therefore, `--docs` requires a clean working tree that does not
//! change during the measurement. `--docs` also requires an idle machine.
//!
//! With `--docs` or `--profile`, our side of each workload that misses a goal runs once more under `perf record`. The page then
//! has a profile of each of these workloads.

mod areas;
mod build;
mod conditions;
mod load;
mod plot;
mod profile;
mod quota;
mod rows;
mod sample;

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, bail};
use xshell::Shell;

use crate::flags::Bench;

use profile::Profile;
use sample::Results;

pub(crate) struct Area {
    /// The name of the area on the command line, of its folder with Go programs, and of its published files.
    pub(crate) name: &'static str,
    /// The sentence above the table on the published page.
    pub(crate) about: String,
    pub(crate) workloads: Vec<Workload>,
}

pub(crate) struct Workload {
    /// The text in the first column of the table, which is unique within the area.
    pub(crate) name: &'static str,
    /// The variants of our side. The name of the workload refers to the first variant.
    pub(crate) ours: Vec<Variant>,
    pub(crate) peers: Vec<(&'static str, Run)>,
    pub(crate) around: Around,
    /// The number of runs per side for published figures. Short workloads need more runs, because their figures vary more.
    pub(crate) runs: usize,
}

/// The server or the CPU limit for the programs of a workload.
#[derive(Clone, Copy)]
pub(crate) enum Around {
    Nothing,
    /// A cgroup with this CPU limit.
    Quota(f64),
    /// A load server with this number of pods, shared by all sides.
    Pods(usize),
    Cluster,
    /// A new embedded API server with this number of ConfigMaps.
    Maps(usize),
    /// A new API server for each side and run: a real server for the peer [`REAL`], a server with constant
    /// responses for the peer [`FLOOR`], and an embedded server for our side.
    Servers,
    /// A server that always sends the same small responses.
    Rest,
}

impl Around {
    /// Returns the program of the server and its arguments. Clients of a load server need its URL, and clients of other servers
    /// need a kubeconfig file.
    pub(crate) fn server(self, quick: bool) -> Option<(&'static str, Vec<String>)> {
        let of_size = |option: &str, full: usize| {
            let size = if quick { full / 50 } else { full };
            vec![option.to_owned(), size.to_string()]
        };
        match self {
            Self::Nothing | Self::Quota(_) => None,
            Self::Pods(pods) => Some(("load_server", of_size("--pods", pods))),
            Self::Maps(maps) => Some(("api_server", of_size("--maps", maps))),
            Self::Cluster | Self::Servers => Some(("api_server", Vec::new())),
            Self::Rest => Some(("rest_server", Vec::new())),
        }
    }
}

/// The peer that runs our client programs on a real kube-apiserver with etcd.
pub(crate) const REAL: &str = "kube-apiserver";

/// The peer that runs client-go on a server that answers at once with constant bytes.
pub(crate) const FLOOR: &str = "floor";

/// A program of Pintle for a workload, such as an informer with or without compression.
pub(crate) struct Variant {
    /// The difference to the first variant, or an empty string for the first variant.
    pub(crate) name: &'static str,
    pub(crate) run: Run,
    /// The measures and the goals of the table rows. A row without goals is informational.
    pub(crate) rows: Vec<(Measure, Vec<Goal>)>,
}

/// A command that runs a workload once and prints its [`Sample`](sample::Sample).
pub(crate) struct Run {
    pub(crate) program: Program,
    pub(crate) args: Vec<&'static str>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Program {
    Rust(&'static str),
    Example { package: &'static str, name: &'static str },
    Kube(&'static str),
    Go(&'static str),
}

/// A value computed from the figures of one side.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Measure {
    WallPerOp,
    Cpu,
    CpuPerOp,
    AllocationsPerOp,
    BytesPerOp,
    PeakBytes,
    OpsPerSecond,
    /// A figure with this unit, such as operations per second. Larger figures are better for units that end with `/s`. Smaller
    /// figures are better for all other units.
    Figure(&'static str),
}

/// The goal of a row: a limit for our value, or for the ratio to a peer.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Goal {
    /// The minimum ratio to the best peer. 1 means "no worse", and 0.5 means "at most twice the cost".
    Times(f64),
    TimesOf(&'static str, f64),
    AtMost(f64),
    AtLeast(f64),
}

impl Bench {
    fn runs_of(&self, workload: &Workload) -> usize {
        self.runs.unwrap_or(if self.quick { 1 } else { workload.runs })
    }
}

pub(crate) fn run(sh: &Shell, flags: &Bench) -> anyhow::Result<ExitCode> {
    let areas = areas::areas()?;
    if flags.list {
        for area in &areas {
            println!("{:12} {} workloads: {}", area.name, area.workloads.len(), area.about);
        }
        return Ok(ExitCode::SUCCESS);
    }
    let names = || areas.iter().map(|area| area.name).collect::<Vec<_>>().join(", ");
    let Some(name) = &flags.area else { bail!("specify an area: one of {}", names()) };
    let area = areas.iter().find(|area| area.name == name);
    let area = area.with_context(|| format!("no area {name:?}; the areas are: {}", names()))?;
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
    let too_few = workloads.iter().find(|workload| {
        flags.runs_of(workload) == 0 || keep && (flags.quick || flags.runs_of(workload) < workload.runs)
    });
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
    if flags.docs || flags.profile {
        Profile::check(sh)?;
    }

    let built = build::build(sh, area, &workloads)?;
    let conditions = conditions::Conditions::now(sh, &commit);
    println!("{conditions}");
    if flags.docs && conditions.others_are_at_work() {
        bail!("--docs needs an idle machine");
    }
    let Results { rows, profiles } = sample::measure(sh, area, &workloads, &built, flags, &conditions)?;
    let profiles = Profile::page(&profiles);
    print!("{}{}", rows::text_table(&rows), rows::text_counts(&rows).unwrap_or_default());
    if flags.profile {
        print!("{profiles}");
    }
    for (peer, why) in &built.missing {
        println!("column {peer} is empty: {why}");
    }
    if keep && conditions::commit(sh)? != commit {
        bail!("the tree changed during the measurement, so no file is written");
    }
    let json = serde_json::to_string_pretty(&rows)? + "\n";
    if let Some(file) = &flags.json {
        write(file, &json)?;
    }
    if flags.docs {
        let folder = sh.current_dir().join("docs/bench");
        write(&folder.join(format!("{}.json", area.name)), &json)?;
        write(&folder.join(format!("{}.svg", area.name)), &plot::svg(area, &rows))?;
        write(&folder.join(format!("{}.md", area.name)), &(rows::page(area, &rows, &conditions) + &profiles))?;
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
