//! Runs benchmark programs one after another, and computes the medians of their figures.

use std::collections::BTreeMap;
use std::io::{Write as _, stdout};
use std::path::Path;
use std::time::Instant;

use anyhow::Context;
use serde::Deserialize;
use xshell::{Shell, cmd};

use super::build::Built;
use super::conditions::Conditions;
use super::load::LoadServer;
use super::quota::Quota;
use super::rows::{Counted, Row};
use super::{Area, Around, Measure, Program, REAL, Workload};
use crate::real_server::RealServer;

/// The figures of one run, as printed by the program.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Sample {
    pub(crate) wall_ns: Option<f64>,
    pub(crate) cpu_ns: Option<f64>,
    pub(crate) allocations: Option<f64>,
    pub(crate) peak_bytes: Option<f64>,
    pub(crate) operations: f64,
    pub(crate) adds: Option<f64>,
    pub(crate) gets: Option<f64>,
    #[serde(default)]
    pub(crate) figures: BTreeMap<String, Option<f64>>,
}

impl Sample {
    pub(crate) fn value(&self, measure: Measure) -> Option<f64> {
        match measure {
            Measure::WallPerOp => Some(self.wall_ns? / self.operations),
            Measure::Cpu => Some(self.cpu_ns? / 1e9),
            Measure::CpuPerOp => Some(self.cpu_ns? / self.operations),
            Measure::AllocationsPerOp => Some(self.allocations? / self.operations),
            Measure::BytesPerOp => Some(self.peak_bytes? / self.operations),
            Measure::PeakBytes => self.peak_bytes,
            Measure::OpsPerSecond => Some(self.operations / (self.wall_ns? / 1e9)),
            Measure::Figure(unit) => *self.figures.get(unit)?,
        }
        .filter(|value| value.is_finite())
    }
}

pub(crate) fn measure(
    sh: &Shell,
    area: &Area,
    workloads: &[&Workload],
    built: &Built,
    quick: bool,
    runs: impl Fn(&Workload) -> usize,
    conditions: &Conditions,
) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::new();
    let began = Instant::now();
    for (at, workload) in workloads.iter().enumerate() {
        let (runs, of, elapsed) = (runs(workload), workloads.len(), began.elapsed().as_secs());
        println!(
            "{} of {of}, after {}:{:02}: {}; runs per side: {runs}",
            at + 1,
            elapsed / 60,
            elapsed % 60,
            workload.name
        );
        let surroundings = match workload.around {
            Around::Quota(cpus) => Quota::new(cpus).map(|quota| Surroundings { quota: Some(quota), server: None }),
            // The servers of each side are started later.
            Around::Servers => Ok(Surroundings::default()),
            around => {
                let server = around.server(quick).map(|(name, args)| LoadServer::start(built, name, &args));
                Ok(Surroundings { quota: None, server: server.transpose()? })
            }
        };
        let measured = match surroundings {
            Ok(surroundings) => run(sh, workload, built, quick, runs, &surroundings)?,
            Err(why) => Measured { skipped: Some(format!("{why:#}")), ..Measured::default() },
        };
        measured.skipped.iter().for_each(|why| println!("skipped: {why}"));
        for mut row in measured.rows(area, workload) {
            conditions.commit.clone_into(&mut row.commit);
            row.runs = runs;
            rows.push(row);
        }
    }
    Ok(rows)
}

#[derive(Default)]
struct Surroundings {
    quota: Option<Quota>,
    server: Option<LoadServer>,
}

enum Server {
    Ours(LoadServer),
    Real(RealServer),
}

impl Server {
    fn start(sh: &Shell, built: &Built, side: &str) -> anyhow::Result<Self> {
        if side != REAL {
            return Ok(Self::Ours(LoadServer::start(built, "api_server", &[])?));
        }
        Ok(Self::Real(RealServer::start(sh)?))
    }

    fn args(&self) -> Vec<String> {
        let (kubeconfig, processes) = match self {
            Self::Ours(server) => (server.address().to_owned(), vec![server.process()]),
            Self::Real(real) => (real.kubeconfig().display().to_string(), real.process_ids()),
        };
        let processes: Vec<String> = processes.iter().map(u32::to_string).collect();
        vec!["--server".to_owned(), kubeconfig, "--processes".to_owned(), processes.join(",")]
    }
}

#[derive(Default)]
struct Measured {
    ours: Vec<Vec<Sample>>,
    peers: BTreeMap<&'static str, Vec<Sample>>,
    skipped: Option<String>,
}

impl Measured {
    fn rows(&self, area: &Area, workload: &Workload) -> Vec<Row> {
        let mut rows = Vec::new();
        for (index, variant) in workload.ours.iter().enumerate() {
            let ours = self.ours.get(index).map_or(&[][..], Vec::as_slice);
            let peers =
                workload.peers.iter().map(|(peer, _)| (*peer, self.peers.get(peer).map_or(&[][..], Vec::as_slice)));
            let sides = std::iter::once(("ours", ours)).chain(peers.clone());
            let counted: BTreeMap<_, _> =
                sides.filter_map(|(side, samples)| Some((side.to_owned(), counted(samples)?))).collect();
            let separator = if variant.name.is_empty() { "" } else { "; " };
            let name = format!("{}{separator}{}", workload.name, variant.name);
            for (measure, goals) in &variant.rows {
                let peers = peers.clone().map(|(peer, samples)| (peer.to_owned(), median(samples, *measure))).collect();
                let row = Row::new(area.name, &name, *measure, goals, median(ours, *measure), peers);
                rows.push(Row { counted: counted.clone(), skipped: self.skipped.clone(), ..row });
            }
        }
        rows
    }
}

fn run(
    sh: &Shell,
    workload: &Workload,
    built: &Built,
    quick: bool,
    runs: usize,
    surroundings: &Surroundings,
) -> anyhow::Result<Measured> {
    let mut measured = Measured { ours: vec![Vec::new(); workload.ours.len()], ..Measured::default() };
    let once = |side: &str, program: Program, args: &[&str]| {
        let Some(program) = built.program(program).filter(|_| !built.missing.contains_key(side)) else {
            return Ok(None);
        };
        let own = matches!(workload.around, Around::Servers).then(|| Server::start(sh, built, side)).transpose()?;
        let own_args: Vec<String> = own.iter().flat_map(Server::args).collect();
        let server = surroundings.server.iter().flat_map(|server| ["--server", server.address()]);
        let server = server.chain(own_args.iter().map(String::as_str));
        let args: Vec<&str> = args.iter().copied().chain(server).chain(quick.then_some("--quick")).collect();
        let began = Instant::now();
        let sample = run_once(sh, &program, &args, surroundings.quota.as_ref())
            .with_context(|| format!("{:?}, side {side}", workload.name))?;
        print!("  {side} {:.1} s", began.elapsed().as_secs_f64());
        stdout().flush()?;
        anyhow::Ok(Some(sample))
    };
    for _ in 0..runs {
        for (variant, samples) in workload.ours.iter().zip(&mut measured.ours) {
            samples.extend(once("ours", variant.run.program, &variant.run.args)?);
        }
        for (peer, run) in &workload.peers {
            measured.peers.entry(peer).or_default().extend(once(peer, run.program, &run.args)?);
        }
        println!();
    }
    Ok(measured)
}

fn run_once(sh: &Shell, program: &Path, args: &[&str], quota: Option<&Quota>) -> anyhow::Result<Sample> {
    // Join the cgroup in the shell before it starts the program, so that the limit applies to the
    // whole run.
    const ENTER: &str = r#"echo $$ > "$0" && exec "$@""#;
    let command = match quota.map(Quota::members) {
        Some(members) => cmd!(sh, "sh -c {ENTER} {members} {program} {args...}"),
        None => cmd!(sh, "{program} {args...}"),
    };
    let whose = format!("{} {}", program.display(), args.join(" "));
    let text = command.quiet().read().with_context(|| whose.clone())?;
    let line = text.lines().last().unwrap_or_default();
    serde_json::from_str(line).with_context(|| format!("{whose}: the last line is not a sample: {line:?}"))
}

fn counted(samples: &[Sample]) -> Option<Counted> {
    let adds = middle(samples.iter().map(|sample| sample.adds))?;
    Some(Counted { adds, gets: middle(samples.iter().map(|sample| sample.gets))? })
}

fn median(samples: &[Sample], measure: Measure) -> Option<f64> {
    middle(samples.iter().map(|sample| sample.value(measure)))
}

fn middle(values: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    let mut values = values.collect::<Option<Vec<f64>>>()?;
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(values[middle]),
        _ => Some((values[middle - 1] + values[middle]) / 2.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn took(wall_ns: f64) -> Sample {
        Sample { wall_ns: Some(wall_ns), operations: 10.0, ..Sample::default() }
    }

    #[test]
    fn median_is_per_operation_and_ignores_outliers() {
        let samples = [took(90.0), took(10_000.0), took(100.0), took(80.0), took(110.0)];
        assert_eq!(median(&samples, Measure::WallPerOp), Some(10.0));
        assert_eq!(median(&samples[..4], Measure::WallPerOp), Some(9.5));
    }

    #[test]
    fn missing_figures_stay_empty() {
        assert_eq!(median(&[took(90.0)], Measure::CpuPerOp), None);
        assert_eq!(median(&[], Measure::WallPerOp), None);
    }
}
