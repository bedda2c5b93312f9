//! Builds the benchmark programs of all sides, and prints the reason if a peer's programs cannot be built.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use xshell::{Shell, cmd};

use super::{Area, Around, FLOOR, Program, REAL, Workload};
use crate::real_server;

pub(crate) struct Built {
    rust: PathBuf,
    kube: Option<PathBuf>,
    go: Option<PathBuf>,
    /// The peers whose programs could not be built, with the reasons, and with empty columns in the tables.
    pub(crate) missing: BTreeMap<&'static str, String>,
}

impl Built {
    pub(crate) fn program(&self, program: Program) -> Option<PathBuf> {
        match program {
            Program::Rust(name) => Some(self.rust.join(name)),
            Program::Example { name, .. } => Some(self.rust.join("examples").join(name)),
            Program::Kube(name) => Some(self.kube.as_ref()?.join(name)),
            Program::Go(name) => Some(self.go.as_ref()?.join(name)),
        }
    }
}

pub(crate) fn build(sh: &Shell, area: &Area, workloads: &[&Workload]) -> anyhow::Result<Built> {
    println!("building our side");
    let cargo = crate::cargo();
    let bins = binaries(workloads);
    if !bins.is_empty() {
        cmd!(sh, "{cargo} build --quiet --locked --release {FAST...} --package pintle-bench {bins...}")
            .quiet()
            .run()?;
    }
    // Build the examples separately, because code that they share with tests enables features that other programs
    // must not have.
    for (package, name) in examples(workloads) {
        cmd!(sh, "{cargo} build --quiet --locked --release {FAST...} --package {package} --example {name}")
            .quiet()
            .run()?;
    }
    let target = crate::target_dir(sh)?;
    let mut missing = BTreeMap::new();
    let mut peers = |is_one: fn(Program) -> bool, build: &dyn Fn() -> anyhow::Result<PathBuf>| {
        let peers = workloads.iter().flat_map(|workload| &workload.peers).filter(|(_, run)| is_one(run.program));
        let peers: BTreeSet<&'static str> = peers.map(|(peer, _)| *peer).collect();
        if peers.is_empty() {
            return None;
        }
        let names = peers.iter().copied().collect::<Vec<_>>().join(", ");
        println!("building {names}");
        let built = build().inspect_err(|why| println!("{names}: skipped: {why:#}"));
        built.map_err(|why| missing.extend(peers.into_iter().map(|peer| (peer, format!("{why:#}"))))).ok()
    };
    let bench = target.join("bench");
    let go = peers(|program| matches!(program, Program::Go(_)), &|| build_go(sh, area, &bench.join(area.name)));
    let kube = peers(|program| matches!(program, Program::Kube(_)), &|| build_kube(sh, &bench.join("kube")));
    if workloads.iter().any(|workload| matches!(workload.around, Around::Servers))
        && let Err(why) = real_server::program_path("etcd").and_then(|_| real_server::program_path("kube-apiserver"))
    {
        println!("{REAL}: skipped: {why:#}");
        missing.insert(REAL, format!("{why:#}"));
    }
    Ok(Built { rust: target.join("release"), kube, go, missing })
}

/// Returns the cargo arguments that build only the programs of this area, because linking a program takes a minute.
fn binaries(workloads: &[&Workload]) -> Vec<String> {
    let around = workloads.iter().filter_map(|workload| Some(workload.around.server(false)?.0));
    let ours = programs(workloads).filter_map(|program| match program {
        Program::Rust(name) => Some(name),
        _ => None,
    });
    let peers = workloads.iter().flat_map(|workload| &workload.peers);
    let floor = peers.filter_map(|(peer, _)| (*peer == FLOOR).then_some("floor_server"));
    let names: BTreeSet<_> = around.chain(ours).chain(floor).collect();
    names.into_iter().map(|name| format!("--bin={name}")).collect()
}

fn examples(workloads: &[&Workload]) -> BTreeSet<(&'static str, &'static str)> {
    let examples = programs(workloads).filter_map(|program| match program {
        Program::Example { package, name } => Some((package, name)),
        _ => None,
    });
    examples.collect()
}

fn programs(workloads: &[&Workload]) -> impl Iterator<Item = Program> {
    let runs = |workload: &&Workload| {
        let ours = workload.ours.iter().map(|ours| &ours.run);
        ours.chain(workload.peers.iter().map(|(_, run)| run)).map(|run| run.program).collect::<Vec<_>>()
    };
    workloads.iter().flat_map(runs).collect::<Vec<_>>().into_iter()
}

/// The cargo settings for a faster program, which have no counterpart in Go.
const FAST: [&str; 4] = ["--config", "profile.release.lto='fat'", "--config", "profile.release.codegen-units=1"];

fn build_kube(sh: &Shell, into: &Path) -> anyhow::Result<PathBuf> {
    let (cargo, manifest) = (crate::cargo(), sh.current_dir().join("crates/bench/kube/Cargo.toml"));
    cmd!(sh, "{cargo} build --quiet --locked --release {FAST...} --manifest-path {manifest} --target-dir {into}")
        .quiet()
        .run()?;
    Ok(into.join("release"))
}

fn build_go(sh: &Shell, area: &Area, into: &Path) -> anyhow::Result<PathBuf> {
    if cmd!(sh, "go version").quiet().ignore_stdout().ignore_stderr().run().is_err() {
        bail!("`go` is not installed");
    }
    std::fs::create_dir_all(into).with_context(|| format!("making {}", into.display()))?;
    let (into_folder, packages) = (format!("{}/", into.display()), format!("./{}/...", area.name));
    let _module = sh.push_dir("crates/bench/go");
    // With `readonly`, the build fails if `go.sum` lacks a version that the programs need.
    cmd!(sh, "go build -mod=readonly -trimpath -o {into_folder} {packages}").quiet().run()?;
    Ok(into.to_owned())
}
