//! Draws the rows with goals as a bar chart in an SVG file. In each group, the bar of the worst value has the full
//! length, and all other bars are proportional to it.

use std::fmt::Write as _;

use super::Area;
use super::rows::{Row, figure};

const LABELS: f64 = 560.0;
const BARS: f64 = 480.0;
const WIDTH: f64 = LABELS + BARS + 150.0;
const BAR: f64 = 14.0;
const GAP: f64 = 14.0;
/// The colours of the bars: the first colour for our side, and the others for the peers in the order of their names.
/// All colours are legible on white and on black.
const COLOURS: [&str; 4] = ["#d9480f", "#5c7cfa", "#868e96", "#2b8a3e"];

pub(crate) fn svg(area: &Area, rows: &[Row]) -> String {
    let rows: Vec<&Row> = rows.iter().filter(|row| row.goal.is_some()).collect();
    let groups: Vec<Vec<(String, f64)>> = rows.iter().map(|row| bars(row)).collect();
    let mut sides: Vec<String> = groups.iter().flatten().map(|(side, _)| side.clone()).collect();
    sides.sort_by_key(|side| (side != "ours", side.clone()));
    sides.dedup();
    let colour = |side: &str| {
        let index = sides.iter().position(|known| known == side).unwrap_or(0);
        COLOURS[index % COLOURS.len()]
    };

    let mut body = String::new();
    let mut x = 10.0;
    for side in &sides {
        let _ = writeln!(body, r#"<rect x="{x}" y="34" width="12" height="12" fill="{}"/>"#, colour(side));
        let _ = writeln!(body, r#"<text x="{}" y="45">{}</text>"#, x + 18.0, escape(side));
        x += 48.0 + 8.0 * side.len() as f64;
    }
    let mut y = 66.0;
    for (row, bars) in rows.into_iter().zip(&groups) {
        let worst = bars.iter().map(|(_, value)| *value).fold(0.0, f64::max);
        let height = BAR * bars.len().max(1) as f64;
        let (middle, label) = (y + height / 2.0 + 4.0, format!("{}, {}", row.workload, row.unit));
        let _ =
            writeln!(body, r#"<text x="{}" y="{middle}" text-anchor="end">{}</text>"#, LABELS - 10.0, escape(&label));
        for (index, (side, value)) in bars.iter().enumerate() {
            let top = y + BAR * index as f64;
            let long = if worst > 0.0 { BARS * value / worst } else { 0.0 };
            let (fill, end, base) = (colour(side), LABELS + long + 6.0, top + 10.5);
            let _ = writeln!(
                body,
                r#"<rect x="{LABELS}" y="{top}" width="{long:.1}" height="{}" fill="{fill}"/>"#,
                BAR - 2.0
            );
            let _ = writeln!(body, r#"<text x="{end:.1}" y="{base}">{}</text>"#, escape(&tip(row, side, *value)));
        }
        y += height + GAP;
    }
    let title = escape(&format!("{}: {}", area.name, area.about));
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {y}\" font-family=\"sans-serif\" \
         font-size=\"11\" fill=\"#868e96\">\n<text x=\"10\" y=\"20\" font-size=\"14\">{title}</text>\n{body}</svg>\n"
    )
}

/// Returns the measured values, with our value first.
fn bars(row: &Row) -> Vec<(String, f64)> {
    let peers = row.peers.iter().map(|(peer, value)| (peer.clone(), *value));
    let all = std::iter::once(("ours".to_owned(), row.ours)).chain(peers);
    all.filter_map(|(side, value)| Some((side, value?))).collect()
}

fn tip(row: &Row, side: &str, value: f64) -> String {
    match row.ratio {
        Some(ratio) if side == "ours" => format!("{} ({ratio:.2}x)", figure(Some(value))),
        _ => figure(Some(value)),
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::{Goal, Measure};
    use super::*;

    #[test]
    fn missing_peers_have_no_bar_and_text_is_escaped() {
        let area = Area { name: "queue", about: "a < b".to_owned(), workloads: Vec::new() };
        let peers = BTreeMap::from([("client-go".to_owned(), Some(50.0)), ("kube-rs".to_owned(), None)]);
        let goals = [Goal::Times(4.0)];
        let row = Row::new("queue", "add & get", Measure::WallPerOp, &goals, Some(10.0), peers.clone());
        let aside = Row::new("queue", "without a goal", Measure::CpuPerOp, &[], Some(10.0), peers);
        let svg = svg(&area, &[row, aside]);
        assert!(!svg.contains("without a goal"), "{svg}");
        assert!(svg.contains("a &lt; b") && svg.contains("add &amp; get"), "{svg}");
        assert!(svg.contains("10.0 (5.00x)") && svg.contains("width=\"96.0\""), "{svg}");
        assert!(!svg.contains("kube-rs"), "{svg}");
    }
}
