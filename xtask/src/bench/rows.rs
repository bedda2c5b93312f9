//! Computes the rows of a benchmark result, and formats them as tables.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;

use super::conditions::Conditions;
use super::{Area, Goal, Measure};

/// A row of a result table, and an object in the JSON file.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Row {
    pub(crate) area: String,
    #[serde(rename = "work")]
    pub(crate) workload: String,
    pub(crate) unit: String,
    pub(crate) ours: Option<f64>,
    pub(crate) peers: BTreeMap<String, Option<f64>>,
    /// The ratio of our value to the best peer's value, or null if there is no peer. A ratio above 1 means that our
    /// side is better.
    pub(crate) ratio: Option<f64>,
    pub(crate) goal: Option<String>,
    /// Whether the row meets its goal, or null if it has no goal or too few measurements.
    pub(crate) met: Option<bool>,
    pub(crate) skipped: Option<String>,
    /// The median numbers of added and received keys, by side. If a queue merges more adds, its workers receive fewer
    /// keys.
    pub(crate) counted: BTreeMap<String, Counted>,
    pub(crate) commit: String,
    pub(crate) runs: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Counted {
    pub(crate) adds: f64,
    pub(crate) gets: f64,
}

impl Row {
    pub(crate) fn new(
        area: &str,
        workload: &str,
        measure: Measure,
        goals: &[Goal],
        ours: Option<f64>,
        peers: BTreeMap<String, Option<f64>>,
    ) -> Self {
        let more_is_better = measure.more_is_better();
        let measured = peers.values().flatten().copied();
        let best = if more_is_better { measured.reduce(f64::max) } else { measured.reduce(f64::min) };
        let ratio = |peer: Option<f64>| {
            let (ours, peer) = ours.zip(peer)?;
            let times = if more_is_better { ours / peer } else { peer / ours };
            times.is_finite().then_some(times)
        };
        let is_better = |peer: Option<f64>, times: f64| match ratio(peer) {
            // The ratio is infinite if our value is zero, and `ratio` returns `None` because JSON has no infinite
            // numbers.
            None if !more_is_better && ours == Some(0.0) && peer > Some(0.0) => Some(true),
            ratio => ratio.map(|ratio| ratio >= times),
        };
        let met = goals.iter().map(|goal| match *goal {
            Goal::Times(times) => is_better(best, times),
            Goal::TimesOf(peer, times) => is_better(peers.get(peer).copied().flatten(), times),
            Goal::AtMost(limit) => ours.map(|ours| ours <= limit),
            Goal::AtLeast(limit) => ours.map(|ours| ours >= limit),
        });
        let met = met.reduce(|one, other| Some(one? && other?)).flatten();
        let goal: Vec<String> = goals
            .iter()
            .map(|goal| match goal {
                Goal::Times(times) => format!("at least {times}x"),
                Goal::TimesOf(peer, times) => format!("at least {times}x {peer}"),
                Goal::AtMost(limit) => format!("at most {limit}"),
                Goal::AtLeast(limit) => format!("at least {limit}"),
            })
            .collect();
        let (goal, ratio) = ((!goal.is_empty()).then(|| goal.join(", ")), ratio(best));
        let (area, workload, unit) = (area.to_owned(), workload.to_owned(), measure.unit().to_owned());
        Self { area, workload, unit, ours, peers, ratio, goal, met, ..Self::default() }
    }
}

impl Measure {
    pub(crate) fn unit(self) -> &'static str {
        match self {
            Self::WallPerOp => "ns/op",
            Self::Cpu => "CPU s",
            Self::CpuPerOp => "CPU ns/op",
            Self::AllocationsPerOp => "allocations/op",
            Self::BytesPerOp => "bytes/op",
            Self::PeakBytes => "peak bytes",
            Self::OpsPerSecond => "ops/s",
            Self::Figure(unit) => unit,
        }
    }

    pub(crate) fn of_unit(unit: &'static str) -> Self {
        let computed = [
            Self::WallPerOp,
            Self::Cpu,
            Self::CpuPerOp,
            Self::AllocationsPerOp,
            Self::BytesPerOp,
            Self::PeakBytes,
            Self::OpsPerSecond,
        ];
        computed.into_iter().find(|measure| measure.unit() == unit).unwrap_or(Self::Figure(unit))
    }

    pub(crate) fn more_is_better(self) -> bool {
        self.unit().ends_with("/s")
    }
}

pub(crate) fn text_table(rows: &[Row]) -> String {
    let wanted = rows.iter().filter(|row| row.goal.is_some()).count();
    let met = rows.iter().filter(|row| row.met == Some(true)).count();
    format!("\n{}{met} of {wanted} goals met\n", text(&cells(rows), 2))
}

/// Formats a table of added and received keys for the terminal, or returns `None` if no workload counts keys.
pub(crate) fn text_counts(rows: &[Row]) -> Option<String> {
    Some(format!("\n{}", text(&counts(rows)?, 1)))
}

pub(crate) fn page(area: &Area, rows: &[Row], conditions: &Conditions) -> String {
    let Area { name, about, .. } = area;
    let counts = counts(rows).map(|counts| {
        let table = markdown(&counts, 1);
        format!(
            "\nThe number of keys that were added and handed out during these measurements, in millions:\n\n{table}"
        )
    });
    format!(
        "# Bench: {name}\n\n{about}.\n\n![plot]({name}.svg)\n\n{}\n{conditions}. `cargo xtask bench {name} --docs` wrote this page. The ratio shows \
         how many times better our side is than the best peer.\n{}",
        markdown(&cells(rows), 2),
        counts.unwrap_or_default(),
    )
}

/// Formats a table. The first `words` columns contain left-aligned words, and the others contain right-aligned
/// figures.
fn text(cells: &[Vec<String>], words: usize) -> String {
    let columns = cells.first().map_or(0, Vec::len);
    let width = |column: usize| cells.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in cells {
        for (column, cell) in row.iter().enumerate() {
            let width = widths[column];
            let _ = if column < words { write!(text, "{cell:<width$}  ") } else { write!(text, "{cell:>width$}  ") };
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
    }
    text
}

fn markdown(cells: &[Vec<String>], words: usize) -> String {
    let mut text = String::new();
    for (index, row) in cells.iter().enumerate() {
        let _ = writeln!(text, "| {} |", row.join(" | "));
        if index == 0 {
            let _ = writeln!(text, "|{}{}", "---|".repeat(words), "---:|".repeat(row.len() - words));
        }
    }
    text
}

fn peers(rows: &[Row]) -> Vec<&str> {
    let mut peers: Vec<&str> = rows.iter().flat_map(|row| row.peers.keys()).map(String::as_str).collect();
    peers.sort_unstable();
    peers.dedup();
    peers
}

fn counts(rows: &[Row]) -> Option<Vec<Vec<String>>> {
    let sides: Vec<&str> = std::iter::once("ours").chain(peers(rows)).collect();
    let head = sides.iter().flat_map(|side| [format!("{side}: adds"), "gets".to_owned()]);
    let mut table = vec![std::iter::once("work".to_owned()).chain(head).collect::<Vec<_>>()];
    for row in rows.iter().filter(|row| row.counted.values().any(|counted| counted.adds > 0.0)) {
        if table.last().is_some_and(|last| last[0] == row.workload) {
            continue;
        }
        let figures = sides.iter().flat_map(|side| match row.counted.get(*side) {
            Some(counted) => [counted.adds, counted.gets].map(|count| format!("{:.3}", count / 1e6)),
            None => [const { String::new() }; 2],
        });
        table.push(std::iter::once(row.workload.clone()).chain(figures).collect());
    }
    (table.len() > 1).then_some(table)
}

fn cells(rows: &[Row]) -> Vec<Vec<String>> {
    let peers = peers(rows);
    let mut head = vec!["work".to_owned(), "unit".to_owned(), "ours".to_owned()];
    head.extend(peers.iter().map(|peer| (*peer).to_owned()));
    head.extend(["ratio", "goal", "met", "runs"].map(str::to_owned));
    let body = rows.iter().map(|row| {
        let mut cells = vec![row.workload.clone(), row.unit.clone(), figure(row.ours)];
        cells.extend(peers.iter().map(|peer| figure(row.peers.get(*peer).copied().flatten())));
        cells.push(row.ratio.map_or_else(String::new, |ratio| format!("{ratio:.2}x")));
        cells.push(row.goal.clone().unwrap_or_default());
        cells.push(match (&row.skipped, row.met) {
            (Some(why), _) => format!("skipped: {why}"),
            (None, Some(met)) => if met { "yes" } else { "no" }.to_owned(),
            (None, None) => String::new(),
        });
        cells.push(row.runs.to_string());
        cells
    });
    std::iter::once(head).chain(body).collect()
}

/// Formats a figure with three significant digits, or `None` as an empty string.
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

    fn row(measure: Measure, goals: &[Goal], ours: Option<f64>, peer: Option<f64>) -> Row {
        Row::new("queue", "add", measure, goals, ours, BTreeMap::from([("client-go".to_owned(), peer)]))
    }

    #[test]
    fn ratio_is_how_many_times_better_ours_is() {
        let cost = row(Measure::WallPerOp, &[Goal::Times(4.0)], Some(10.0), Some(50.0));
        assert_eq!((cost.ratio, cost.met), (Some(5.0), Some(true)));
        let rate = row(Measure::OpsPerSecond, &[Goal::Times(4.0)], Some(30.0), Some(10.0));
        assert_eq!((rate.ratio, rate.met), (Some(3.0), Some(false)));
    }

    #[test]
    fn missing_peer_leaves_ratio_and_goal_empty() {
        let row = row(Measure::WallPerOp, &[Goal::Times(4.0)], Some(10.0), None);
        assert_eq!((row.ratio, row.met), (None, None));
        assert_eq!(row.peers["client-go"], None);
    }

    #[test]
    fn zero_cost_meets_any_goal() {
        let none = row(Measure::AllocationsPerOp, &[Goal::AtMost(0.0)], Some(0.0), Some(1.0));
        assert_eq!((none.ratio, none.met), (None, Some(true)));
        let times = row(Measure::AllocationsPerOp, &[Goal::Times(2.0)], Some(0.0), Some(1.0));
        assert_eq!(times.met, Some(true));
    }

    #[test]
    fn json_has_exactly_the_documented_keys() {
        let row = serde_json::to_value(row(Measure::WallPerOp, &[], Some(1.0), None)).expect("a row is JSON");
        let keys: Vec<&String> = row.as_object().expect("an object").keys().collect();
        let promised =
            ["area", "commit", "counted", "goal", "met", "ours", "peers", "ratio", "runs", "skipped", "unit", "work"];
        assert_eq!(keys, promised);
    }

    #[test]
    fn all_goals_of_a_row_count() {
        let tail = |ours, peer| {
            let goals = [Goal::AtMost(100.0), Goal::Times(1.0)];
            row(Measure::Figure("us, p99.9 of add"), &goals, Some(ours), peer).met
        };
        assert_eq!([tail(50.0, Some(60.0)), tail(150.0, Some(160.0))], [Some(true), Some(false)]);
        assert_eq!([tail(50.0, Some(40.0)), tail(50.0, None)], [Some(false), None]);
        let goal = row(Measure::WallPerOp, &[Goal::AtMost(100.0), Goal::Times(0.5)], None, None).goal;
        assert_eq!(goal.as_deref(), Some("at most 100, at least 0.5x"));
    }

    #[test]
    fn goals_can_name_a_peer() {
        let peers = BTreeMap::from([("client-go".to_owned(), Some(50.0)), ("kube-rs".to_owned(), Some(30.0))]);
        let goals = [Goal::TimesOf("client-go", 5.0), Goal::TimesOf("kube-rs", 3.0)];
        let row = |ours, goals| Row::new("cache", "sync", Measure::WallPerOp, goals, Some(ours), peers.clone());
        assert_eq!([10.0, 10.5].map(|ours| row(ours, &goals).met), [Some(true), Some(false)]);
        assert_eq!(row(10.0, &goals).goal.as_deref(), Some("at least 5x client-go, at least 3x kube-rs"));
        assert_eq!(row(10.0, &[Goal::TimesOf("nobody", 1.0)]).met, None);
        assert_eq!([0.9, 0.8].map(|ours| row(ours, &[Goal::AtLeast(0.9)]).met), [Some(true), Some(false)]);
    }

    #[test]
    fn units_per_second_are_better_when_larger() {
        assert_eq!(row(Measure::Figure("adds/s"), &[], Some(30.0), Some(10.0)).ratio, Some(3.0));
        assert_eq!(row(Measure::Figure("ns/call"), &[], Some(30.0), Some(10.0)).ratio, Some(10.0 / 30.0));
    }

    #[test]
    fn skipped_work_has_the_reason_in_its_row() {
        let row = row(Measure::WallPerOp, &[Goal::Times(1.0)], None, None);
        let row = Row { skipped: Some("no writable cgroup".to_owned()), ..row };
        assert!(text_table(&[row]).contains("at least 1x  skipped: no writable cgroup     0\n0 of 1 goals met"));
    }

    #[test]
    fn counted_keys_have_one_line_per_work() {
        let counted = |adds, gets| Counted { adds, gets };
        let counted =
            BTreeMap::from([("ours".to_owned(), counted(8e6, 5e6)), ("client-go".to_owned(), counted(8e6, 4e6))]);
        let row = Row { counted, ..row(Measure::WallPerOp, &[], Some(1.0), Some(1.0)) };
        let table = counts(&[row.clone(), row]).expect("something was counted");
        assert_eq!(table[0], ["work", "ours: adds", "gets", "client-go: adds", "gets"]);
        assert_eq!(table[1..], [["add", "8.000", "5.000", "8.000", "4.000"]]);
    }

    #[test]
    fn figures_keep_three_digits() {
        let figures = [0.0, 0.004, 0.25, 12.34, 123.4, 12_345.0, 4_100_000.0].map(|value| figure(Some(value)));
        assert_eq!(figures, ["0", "4.0e-3", "0.25", "12.3", "123", "12.3 k", "4.10 M"]);
    }
}
