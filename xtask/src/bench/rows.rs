//! The rows of the result, and their tables.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;

use super::{Area, Goal, Measure};

/// One line of the table, and one object of the JSON file.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) area: String,
    pub(crate) work: String,
    pub(crate) unit: String,
    /// Median of our side.
    pub(crate) ours: Option<f64>,
    /// Median of each peer; null where it is missing.
    pub(crate) peers: BTreeMap<String, Option<f64>>,
    /// How many times better than the best peer we are; null without one.
    pub(crate) ratio: Option<f64>,
    pub(crate) goal: Option<String>,
    /// Null where there is no goal, or not enough measured to tell.
    pub(crate) met: Option<bool>,
}

impl Row {
    pub(crate) fn new(
        area: &str,
        work: &str,
        measure: Measure,
        goal: Goal,
        ours: Option<f64>,
        peers: BTreeMap<String, Option<f64>>,
    ) -> Self {
        let told = peers.values().flatten().copied();
        let best = if measure.more_is_better() { told.reduce(f64::max) } else { told.reduce(f64::min) };
        let ratio = ours.zip(best).and_then(|(ours, best)| {
            let times = if measure.more_is_better() { ours / best } else { best / ours };
            times.is_finite().then_some(times)
        });
        let met = match goal {
            Goal::None => None,
            // Nothing spent where the peer spends: infinitely better, which JSON cannot say.
            Goal::Times(_) if !measure.more_is_better() && ours == Some(0.0) && best > Some(0.0) => Some(true),
            Goal::Times(times) => ratio.map(|ratio| ratio >= times),
            Goal::AtMost(limit) => ours.map(|ours| ours <= limit),
        };
        let goal = match goal {
            Goal::None => None,
            Goal::Times(times) => Some(format!("at least {times}x")),
            Goal::AtMost(limit) => Some(format!("at most {limit} {}", measure.unit())),
        };
        let (area, work, unit) = (area.to_owned(), work.to_owned(), measure.unit().to_owned());
        Self { area, work, unit, ours, peers, ratio, goal, met }
    }
}

impl Measure {
    pub(crate) fn unit(self) -> &'static str {
        match self {
            Self::WallPerOp => "ns/op",
            Self::CpuPerOp => "CPU ns/op",
            Self::AllocationsPerOp => "allocations/op",
            Self::BytesPerOp => "bytes/op",
            Self::PeakBytes => "peak bytes",
            Self::OpsPerSecond => "ops/s",
        }
    }

    pub(crate) fn more_is_better(self) -> bool {
        self == Self::OpsPerSecond
    }
}

/// The table for the terminal.
pub(crate) fn text_table(rows: &[Row]) -> String {
    let cells = cells(rows);
    let columns = cells.first().map_or(0, Vec::len);
    let width = |column: usize| cells.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::from("\n");
    for row in &cells {
        for (column, cell) in row.iter().enumerate() {
            // Words to the left, figures to the right.
            let width = widths[column];
            let _ = if column < 2 { write!(text, "{cell:<width$}  ") } else { write!(text, "{cell:>width$}  ") };
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
    }
    let wanted = rows.iter().filter(|row| row.goal.is_some()).count();
    let met = rows.iter().filter(|row| row.met == Some(true)).count();
    let _ = writeln!(text, "{met} of {wanted} goals met");
    text
}

/// The page of the area: the plot, the table, and what it was measured on.
pub(crate) fn page(area: &Area, rows: &[Row], machine: &str, runs: usize) -> String {
    let mut text = format!("# Bench: {}\n\n{}.\n\n![plot]({}.svg)\n\n", area.name, area.about, area.name);
    for (index, row) in cells(rows).into_iter().enumerate() {
        let _ = writeln!(text, "| {} |", row.join(" | "));
        if index == 0 {
            let _ = writeln!(text, "|---|---|{}", "---:|".repeat(row.len() - 2));
        }
    }
    let _ = write!(
        text,
        "\nMedians of {runs} runs a side, interleaved, as `cargo xtask bench {} --docs` measured them on {machine}. \
         The ratio says how many times better ours is than the best peer.\n",
        area.name
    );
    text
}

fn cells(rows: &[Row]) -> Vec<Vec<String>> {
    let mut peers: Vec<&String> = rows.iter().flat_map(|row| row.peers.keys()).collect();
    peers.sort_unstable();
    peers.dedup();
    let mut head = vec!["work".to_owned(), "unit".to_owned(), "ours".to_owned()];
    head.extend(peers.iter().map(|peer| (*peer).clone()));
    head.extend(["ratio", "goal", "met"].map(str::to_owned));
    let body = rows.iter().map(|row| {
        let mut cells = vec![row.work.clone(), row.unit.clone(), figure(row.ours)];
        cells.extend(peers.iter().map(|peer| figure(row.peers.get(*peer).copied().flatten())));
        cells.push(row.ratio.map_or_else(String::new, |ratio| format!("{ratio:.2}x")));
        cells.push(row.goal.clone().unwrap_or_default());
        cells.push(row.met.map_or("", |met| if met { "yes" } else { "no" }).to_owned());
        cells
    });
    std::iter::once(head).chain(body).collect()
}

/// Three significant digits; empty for what was not measured.
pub(crate) fn figure(value: Option<f64>) -> String {
    let Some(value) = value else { return String::new() };
    match value.abs() {
        0.0 => "0".to_owned(),
        large if large >= 1e9 => format!("{:.2} G", value / 1e9),
        large if large >= 1e6 => format!("{:.2} M", value / 1e6),
        large if large >= 1e4 => format!("{:.1} k", value / 1e3),
        middle if middle >= 100.0 => format!("{value:.0}"),
        middle if middle >= 10.0 => format!("{value:.1}"),
        middle if middle >= 0.01 => format!("{value:.2}"),
        _ => format!("{value:.1e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(measure: Measure, goal: Goal, ours: Option<f64>, peer: Option<f64>) -> Row {
        Row::new("queue", "add", measure, goal, ours, BTreeMap::from([("client-go".to_owned(), peer)]))
    }

    #[test]
    fn the_ratio_says_how_many_times_better_ours_is() {
        let cost = row(Measure::WallPerOp, Goal::Times(4.0), Some(10.0), Some(50.0));
        assert_eq!((cost.ratio, cost.met), (Some(5.0), Some(true)));
        let rate = row(Measure::OpsPerSecond, Goal::Times(4.0), Some(30.0), Some(10.0));
        assert_eq!((rate.ratio, rate.met), (Some(3.0), Some(false)));
    }

    #[test]
    fn a_missing_peer_leaves_ratio_and_met_empty() {
        let row = row(Measure::WallPerOp, Goal::Times(4.0), Some(10.0), None);
        assert_eq!((row.ratio, row.met), (None, None));
        assert_eq!(row.peers["client-go"], None);
    }

    #[test]
    fn nothing_spent_reaches_any_goal() {
        let none = row(Measure::AllocationsPerOp, Goal::AtMost(0.0), Some(0.0), Some(1.0));
        assert_eq!((none.ratio, none.met), (None, Some(true)));
        let times = row(Measure::AllocationsPerOp, Goal::Times(2.0), Some(0.0), Some(1.0));
        assert_eq!(times.met, Some(true));
    }

    #[test]
    fn the_json_has_exactly_the_promised_keys() {
        let row = serde_json::to_value(row(Measure::WallPerOp, Goal::None, Some(1.0), None)).expect("a row is JSON");
        let keys: Vec<&String> = row.as_object().expect("an object").keys().collect();
        assert_eq!(keys, ["area", "goal", "met", "ours", "peers", "ratio", "unit", "work"]);
    }

    #[test]
    fn figures_keep_three_digits() {
        let figures = [0.0, 0.004, 0.25, 12.34, 123.4, 12_345.0, 4_100_000.0].map(|value| figure(Some(value)));
        assert_eq!(figures, ["0", "4.0e-3", "0.25", "12.3", "123", "12.3 k", "4.10 M"]);
    }
}
