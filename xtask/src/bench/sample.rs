//! Runs the sides in turn and takes medians.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context;
use serde::Deserialize;
use xshell::{Shell, cmd};

use super::build::Built;
use super::rows::Row;
use super::{Area, Measure, Work};

/// The line that a program prints: what one run cost.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Sample {
    pub(crate) wall_ns: Option<f64>,
    pub(crate) cpu_ns: Option<f64>,
    pub(crate) allocations: Option<f64>,
    pub(crate) peak_bytes: Option<f64>,
    pub(crate) operations: f64,
}

impl Sample {
    pub(crate) fn value(&self, measure: Measure) -> Option<f64> {
        match measure {
            Measure::WallPerOp => Some(self.wall_ns? / self.operations),
            Measure::CpuPerOp => Some(self.cpu_ns? / self.operations),
            Measure::AllocationsPerOp => Some(self.allocations? / self.operations),
            Measure::BytesPerOp => Some(self.peak_bytes? / self.operations),
            Measure::PeakBytes => self.peak_bytes,
            Measure::OpsPerSecond => Some(self.operations / (self.wall_ns? / 1e9)),
        }
        .filter(|value| value.is_finite())
    }
}

/// Runs every side of every work `runs` times, interleaved, and returns the table.
pub(crate) fn measure(
    sh: &Shell,
    area: &Area,
    works: &[&Work],
    built: &Built,
    runs: usize,
) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::new();
    for work in works {
        println!("{}: {runs} runs a side", work.name);
        let mut ours = Vec::new();
        let mut peers: BTreeMap<&str, Vec<Sample>> = work.peers.iter().map(|(peer, _)| (*peer, Vec::new())).collect();
        for _ in 0..runs {
            if let Some(program) = built.program(work.ours.program) {
                ours.push(run_once(sh, work, "ours", &program, work.ours.args)?);
            }
            for (peer, run) in work.peers {
                if let Some(program) = built.program(run.program) {
                    let sample = run_once(sh, work, peer, &program, run.args)?;
                    peers.entry(peer).or_default().push(sample);
                }
            }
        }
        for (measure, goal) in work.rows {
            let peers = peers.iter().map(|(peer, samples)| ((*peer).to_owned(), median(samples, *measure))).collect();
            rows.push(Row::new(area.name, work.name, *measure, *goal, median(&ours, *measure), peers));
        }
    }
    Ok(rows)
}

fn run_once(sh: &Shell, work: &Work, side: &str, program: &Path, args: &[&str]) -> anyhow::Result<Sample> {
    let whose = || format!("{:?}, side {side}: {} {}", work.name, program.display(), args.join(" "));
    let text = cmd!(sh, "{program} {args...}").quiet().read().with_context(whose)?;
    let line = text.lines().last().unwrap_or_default();
    serde_json::from_str(line).with_context(|| format!("{}: its last line is no sample: {line:?}", whose()))
}

fn median(samples: &[Sample], measure: Measure) -> Option<f64> {
    let mut values = samples.iter().map(|sample| sample.value(measure)).collect::<Option<Vec<f64>>>()?;
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
        Sample { wall_ns: Some(wall_ns), cpu_ns: None, allocations: None, peak_bytes: None, operations: 10.0 }
    }

    #[test]
    fn the_median_is_by_operation_and_ignores_outliers() {
        let samples = [took(90.0), took(10_000.0), took(100.0), took(80.0), took(110.0)];
        assert_eq!(median(&samples, Measure::WallPerOp), Some(10.0));
        assert_eq!(median(&samples[..4], Measure::WallPerOp), Some(9.5));
    }

    #[test]
    fn a_figure_that_a_side_does_not_tell_stays_empty() {
        assert_eq!(median(&[took(90.0)], Measure::CpuPerOp), None);
        assert_eq!(median(&[], Measure::WallPerOp), None);
    }
}
