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
use super::profile::{Profile, missed};
use super::quota::Quota;
use super::rows::{Counted, Row};
use super::{Area, Around, FLOOR, Goal, Measure, REAL, Run, Workload};
use crate::flags::Bench;
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

/// The rows of the measured workloads, and the profiles of the workloads that missed a goal.
#[derive(Default)]
pub(crate) struct Results {
    pub(crate) rows: Vec<Row>,
    pub(crate) profiles: Vec<Profile>,
}

/// Measures `workloads`. With [`Bench::docs`] or [`Bench::profile`], also profiles the variants that miss a goal.
pub(crate) fn measure(
    sh: &Shell,
    area: &Area,
    workloads: &[&Workload],
    built: &Built,
    flags: &Bench,
    conditions: &Conditions,
) -> anyhow::Result<Results> {
    let mut results = Results::default();
    let began = Instant::now();
    for (at, workload) in workloads.iter().enumerate() {
        let (runs, of, elapsed) = (flags.runs_of(workload), workloads.len(), began.elapsed().as_secs());
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
                let server = around.server(flags.quick).map(|(name, args)| LoadServer::start(built, name, &args));
                Ok(Surroundings { quota: None, server: server.transpose()? })
            }
        };
        let (measured, runner) = match surroundings {
            Ok(surroundings) => {
                let runner = Runner { sh, workload, built, quick: flags.quick, surroundings };
                (runner.all(runs)?, Some(runner))
            }
            Err(why) => (Measured { skipped: Some(format!("{why:#}")), ..Measured::default() }, None),
        };
        measured.skipped.iter().for_each(|why| println!("skipped: {why}"));
        for (index, variant) in workload.ours.iter().enumerate() {
            let mut rows = measured.rows(area, workload, index);
            for row in &mut rows {
                conditions.commit.clone_into(&mut row.commit);
                row.runs = runs;
            }
            if let Some(runner) = runner.iter().find(|_| (flags.docs || flags.profile) && missed(&rows)) {
                results.profiles.push(runner.profile(&variant.run, &rows[0].workload)?);
            }
            results.rows.append(&mut rows);
        }
    }
    Ok(results)
}

#[derive(Default)]
struct Surroundings {
    quota: Option<Quota>,
    server: Option<LoadServer>,
}

enum Server {
    Program(LoadServer),
    Real(RealServer),
}

impl Server {
    fn start(sh: &Shell, built: &Built, side: &str) -> anyhow::Result<Self> {
        Ok(match side {
            REAL => Self::Real(RealServer::start(sh)?),
            FLOOR => Self::Program(LoadServer::start(built, "floor_server", &[])?),
            _ => Self::Program(LoadServer::start(built, "api_server", &[])?),
        })
    }

    fn processes(&self) -> Vec<String> {
        let processes = match self {
            Self::Program(server) => vec![server.process()],
            Self::Real(real) => real.process_ids(),
        };
        processes.iter().map(u32::to_string).collect()
    }

    fn args(&self) -> Vec<String> {
        let kubeconfig = match self {
            Self::Program(server) => server.address().to_owned(),
            Self::Real(real) => real.kubeconfig().display().to_string(),
        };
        vec!["--server".to_owned(), kubeconfig, "--processes".to_owned(), self.processes().join(",")]
    }
}

#[derive(Default)]
struct Measured {
    ours: Vec<Vec<Sample>>,
    peers: BTreeMap<&'static str, Vec<Sample>>,
    skipped: Option<String>,
}

impl Measured {
    /// Returns the rows of the variant of our side at `index`.
    fn rows(&self, area: &Area, workload: &Workload, index: usize) -> Vec<Row> {
        let variant = &workload.ours[index];
        let ours = self.ours.get(index).map_or(&[][..], Vec::as_slice);
        let peers = workload.peers.iter().map(|(peer, _)| (*peer, self.peers.get(peer).map_or(&[][..], Vec::as_slice)));
        let sides = std::iter::once(("ours", ours)).chain(peers.clone());
        let counted: BTreeMap<_, _> =
            sides.filter_map(|(side, samples)| Some((side.to_owned(), counted(samples)?))).collect();
        let separator = if variant.name.is_empty() { "" } else { "; " };
        let name = format!("{}{separator}{}", workload.name, variant.name);
        let row = |(measure, goals): &(Measure, Vec<Goal>)| {
            let peers = peers.clone().map(|(peer, samples)| (peer.to_owned(), median(samples, *measure))).collect();
            let row = Row::new(area.name, &name, *measure, goals, median(ours, *measure), peers);
            Row { counted: counted.clone(), skipped: self.skipped.clone(), ..row }
        };
        variant.rows.iter().map(row).collect()
    }
}

/// Runs the programs of one workload.
struct Runner<'a> {
    sh: &'a Shell,
    workload: &'a Workload,
    built: &'a Built,
    quick: bool,
    surroundings: Surroundings,
}

impl Runner<'_> {
    fn all(&self, runs: usize) -> anyhow::Result<Measured> {
        let Workload { ours, peers, .. } = self.workload;
        let mut measured = Measured { ours: vec![Vec::new(); ours.len()], ..Measured::default() };
        for _ in 0..runs {
            for (variant, samples) in ours.iter().zip(&mut measured.ours) {
                samples.extend(self.once("ours", &variant.run, None)?);
            }
            for (peer, run) in peers {
                measured.peers.entry(peer).or_default().extend(self.once(peer, run, None)?);
            }
            println!();
        }
        Ok(measured)
    }

    /// Runs our side once more, and records the samples of its CPU, or of its server if it has its own.
    fn profile(&self, run: &Run, name: &str) -> anyhow::Result<Profile> {
        let file = crate::target_dir(self.sh)?.join("bench").join("perf.data");
        self.once("ours", run, Some(&file))?;
        println!(" with a profile");
        Profile::read(self.sh, name, &file)
    }

    /// Runs a program, or returns `None` if it could not be built.
    fn once(&self, side: &str, run: &Run, profile: Option<&Path>) -> anyhow::Result<Option<Sample>> {
        let program = self.built.program(run.program).filter(|_| !self.built.missing.contains_key(side));
        let Some(program) = program else { return Ok(None) };
        let has_own = matches!(self.workload.around, Around::Servers);
        let own = has_own.then(|| Server::start(self.sh, self.built, side)).transpose()?;
        let mut command = profile.map_or_else(Vec::new, |file| {
            let processes = own.as_ref().map(Server::processes).unwrap_or_default();
            Profile::recorder(file, &processes)
        });
        command.push(program.display().to_string());
        command.extend(run.args.iter().map(|&arg| arg.to_owned()));
        command.extend(own.iter().flat_map(Server::args));
        if let Some(server) = &self.surroundings.server {
            command.extend(["--server".to_owned(), server.address().to_owned()]);
        }
        command.extend(self.quick.then(|| "--quick".to_owned()));
        let began = Instant::now();
        let sample = run_once(self.sh, &command, self.surroundings.quota.as_ref())
            .with_context(|| format!("{:?}, side {side}", self.workload.name))?;
        print!("  {side} {:.1} s", began.elapsed().as_secs_f64());
        stdout().flush()?;
        Ok(Some(sample))
    }
}

fn run_once(sh: &Shell, command: &[String], quota: Option<&Quota>) -> anyhow::Result<Sample> {
    // Join the cgroup in the shell before it starts the program, so that the limit applies to the
    // whole run.
    const ENTER: &str = r#"echo $$ > "$0" && exec "$@""#;
    let whose = || command.join(" ");
    let command = match quota.map(Quota::members) {
        Some(members) => cmd!(sh, "sh -c {ENTER} {members} {command...}"),
        None => cmd!(sh, "env {command...}"),
    };
    let text = command.quiet().read().with_context(whose)?;
    let line = text.lines().last().unwrap_or_default();
    serde_json::from_str(line).with_context(|| format!("{}: the last line is not a sample: {line:?}", whose()))
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
