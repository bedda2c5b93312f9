//! Reads the benchmark areas from their files, such as `queue.txt`.
//!
//! The lines before the first workload are the text above the table of the area. A workload is written in this form:
//!
//! ```text
//! // A comment.
//! # 20 k pods whole: first list
//! 3 runs, pods 20000
//! ours: rust cache sync
//!     s until synced: at least 5x client-go, at least 2.5x kube-rs
//!     CPU s; peak bytes
//! ours [compressed]: rust cache sync-compact
//!     s until synced
//! client-go: go cache sync
//! kube-rs: kube cache sync
//! ```
//!
//! The line below the name of a workload contains the number of runs and the [`Around`]. Below this line, each variant
//! of our side has a command and indented rows, and each peer has a command. A command is a kind of [`Program`], a
//! program name and its arguments. A row consists of a unit and goals.

use anyhow::{Context, bail};

use super::{Area, Around, Goal, Measure, Program, Run, Variant, Workload};

const AREAS: [(&str, &str); 7] = [
    ("queue", include_str!("queue.txt")),
    ("cache", include_str!("cache.txt")),
    ("election", include_str!("election.txt")),
    ("rest", include_str!("rest.txt")),
    ("controller", include_str!("controller.txt")),
    ("apiserver", include_str!("apiserver.txt")),
    ("cel", include_str!("cel.txt")),
];

pub(crate) fn areas() -> anyhow::Result<Vec<Area>> {
    AREAS.into_iter().map(|(name, text)| area(name, text)).collect()
}

fn area(name: &'static str, text: &'static str) -> anyhow::Result<Area> {
    let mut area = Area { name, about: String::new(), workloads: Vec::new() };
    for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.is_empty() && !line.starts_with("//")) {
        add(&mut area, line).with_context(|| format!("xtask/src/bench/{name}.txt:{}: {line:?}", index + 1))?;
    }
    Ok(area)
}

fn add(area: &mut Area, line: &'static str) -> anyhow::Result<()> {
    if let Some(name) = line.strip_prefix("# ") {
        let (ours, peers, around) = (Vec::new(), Vec::new(), Around::Nothing);
        area.workloads.push(Workload { name, ours, peers, around, runs: 0 });
    } else if let Some(workload) = area.workloads.last_mut() {
        add_to(workload, line)?;
    } else {
        area.about.push_str(if area.about.is_empty() { "" } else { " " });
        area.about.push_str(line);
    }
    Ok(())
}

fn add_to(workload: &mut Workload, line: &'static str) -> anyhow::Result<()> {
    if let Some(rows) = line.strip_prefix("    ") {
        let ours = workload.ours.last_mut().filter(|_| workload.peers.is_empty());
        let ours = ours.context("rows follow a variant of our side")?;
        for row in rows.split("; ") {
            let (unit, goals) = row.split_once(": ").map_or((row, None), |(unit, goals)| (unit, Some(goals)));
            let goals = goals.into_iter().flat_map(|goals| goals.split(", ")).map(goal);
            ours.rows.push((Measure::of_unit(unit), goals.collect::<anyhow::Result<_>>()?));
        }
    } else if let Some((side, command)) = line.split_once(": ") {
        let run = run(command)?;
        if let Some(name) = side.strip_prefix("ours") {
            let name = name.trim_matches([' ', '[', ']']);
            workload.ours.push(Variant { name, run, rows: Vec::new() });
        } else {
            workload.peers.push((side, run));
        }
    } else {
        let (runs, around_it) = line.split_once(", ").unwrap_or((line, "nothing"));
        let runs = runs.strip_suffix(" runs").or(runs.strip_suffix(" run"));
        workload.runs = runs.context("expected a number of runs")?.parse()?;
        workload.around = around(around_it)?;
    }
    Ok(())
}

fn around(text: &str) -> anyhow::Result<Around> {
    let (name, value) = text.split_once(' ').unwrap_or((text, ""));
    Ok(match name {
        "nothing" => Around::Nothing,
        "quota" => Around::Quota(value.parse()?),
        "pods" => Around::Pods(value.parse()?),
        "cluster" => Around::Cluster,
        "maps" => Around::Maps(value.parse()?),
        "servers" => Around::Servers,
        "rest" => Around::Rest,
        _ => bail!("no server or limit is named {name:?}"),
    })
}

fn run(command: &'static str) -> anyhow::Result<Run> {
    let mut words = command.split(' ');
    let mut next = || words.next().context("a command has a kind and a program");
    let program = match next()? {
        "rust" => Program::Rust(next()?),
        "example" => Program::Example { package: next()?, name: next()? },
        "kube" => Program::Kube(next()?),
        "go" => Program::Go(next()?),
        kind => bail!("no kind of program is named {kind:?}"),
    };
    Ok(Run { program, args: words.collect() })
}

fn goal(text: &'static str) -> anyhow::Result<Goal> {
    if let Some(limit) = text.strip_prefix("at most ") {
        return Ok(Goal::AtMost(limit.parse()?));
    }
    let least = text.strip_prefix("at least ").context("a goal starts with `at most` or `at least`")?;
    Ok(match least.split_once('x') {
        None => Goal::AtLeast(least.parse()?),
        Some((times, "")) => Goal::Times(times.parse()?),
        Some((times, peer)) => Goal::TimesOf(peer.trim_start(), times.parse()?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_area_is_complete() {
        let areas = areas().expect("every line is valid");
        let counts: Vec<_> = areas.iter().map(|area| (area.name, area.workloads.len())).collect();
        let expected = [
            ("queue", 24),
            ("cache", 32),
            ("election", 6),
            ("rest", 10),
            ("controller", 10),
            ("apiserver", 12),
            ("cel", 6),
        ];
        assert_eq!(counts, expected);
        for Workload { name, ours, peers, runs, .. } in areas.iter().flat_map(|area| &area.workloads) {
            assert!(*runs > 0 && !ours.is_empty(), "{name}");
            for (measure, goals) in ours.iter().flat_map(|variant| &variant.rows) {
                let is_figure = matches!(measure, Measure::Figure(_));
                assert!(!is_figure || !measure.unit().ends_with("/op"), "{name}: {}", measure.unit());
                let known = |goal: &Goal| match goal {
                    Goal::TimesOf(of, _) => peers.iter().any(|(peer, _)| peer == of),
                    _ => true,
                };
                assert!(goals.iter().all(known), "{name}: {}", measure.unit());
            }
        }
    }

    #[test]
    fn errors_name_the_file_and_the_line() {
        let error = |text| format!("{:#}", area("queue", text).err().expect("an invalid line"));
        for (line, why) in [
            ("many runs", "invalid digit"),
            ("3 times", "a number of runs"),
            ("3 runs, tables 5", "tables"),
            ("ours: python queue", "python"),
            ("client-go: go", "a kind and a program"),
            ("    ns/op", "follow a variant"),
            ("ours: rust queue\n    ns/op: faster", "`at most` or `at least`"),
        ] {
            let text: &'static str = format!("About.\n\n# a\n{line}\n").leak();
            let (error, at) = (error(text), 3 + line.lines().count());
            let names = format!("xtask/src/bench/queue.txt:{at}: ");
            assert!(error.starts_with(&names) && error.contains(why), "{error}");
        }
    }
}
