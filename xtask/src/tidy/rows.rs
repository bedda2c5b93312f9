//! Checks Markdown tables of rules. If the last column is `Test`, each cell must name an existing test or say why
//! there is none.
//!
//! If a file declares rows, for example with `Rows: A1-A4, B2.`, its tables must have exactly these rows. A missing
//! row of a table violates this rule.

use std::collections::BTreeSet;

use super::{Finding, Source};

pub(super) fn check(sources: &[Source], findings: &mut Vec<Finding>) {
    let tests: BTreeSet<&str> = sources
        .iter()
        .filter(|source| source.is("rs"))
        .flat_map(|source| tests(&source.text))
        .map(|(_, name)| name)
        .collect();
    for source in sources.iter().filter(|source| source.is("rs") || source.is("md")) {
        for (line, cell) in cells(&source.text) {
            let unknown = cell.split('`').skip(1).step_by(2).filter(|name| !tests.contains(name));
            findings
                .extend(unknown.map(|name| Finding::new(&source.path, line, format!("test {name} does not exist"))));
            if cell.is_empty() {
                findings.push(Finding::new(&source.path, line, "a row needs a test or a reason"));
            }
        }
        if let Some((line, declared)) = declared(&source.text) {
            let there: BTreeSet<String> = names(&source.text).collect();
            let lost = declared.difference(&there).map(|name| format!("row {name} is missing"));
            let more =
                there.difference(&declared).map(|name| format!("row {name} is not declared in the line `Rows:`"));
            findings.extend(lost.chain(more).map(|text| Finding::new(&source.path, line, text)));
        }
    }
}

/// Returns the rows that a file declares, and the line of the declaration.
fn declared(text: &str) -> Option<(usize, BTreeSet<String>)> {
    let (index, line) = text.lines().enumerate().find(|(_, line)| line.starts_with("Rows: "))?;
    let parts = line.trim_start_matches("Rows: ").trim_end_matches('.').split(", ");
    Some((index + 1, parts.flat_map(expand).collect()))
}

fn expand(part: &str) -> Vec<String> {
    let numbered = |name: &str| {
        let letters = name.trim_end_matches(|letter: char| letter.is_ascii_digit());
        Some((letters.to_owned(), name[letters.len()..].parse::<u32>().ok()?))
    };
    let ends = part.split_once('-').and_then(|(first, last)| numbered(first).zip(numbered(last)));
    match ends {
        Some(((letters, first), (_, last))) => (first..=last).map(|number| format!("{letters}{number}")).collect(),
        None => vec![part.to_owned()],
    }
}

/// Returns the names in the first column of each table whose first heading is `Row`. A cell can contain several
/// names.
fn names(text: &str) -> impl Iterator<Item = String> {
    let mut is_table = false;
    text.lines().flat_map(move |line| {
        let cell = line.strip_prefix('|').and_then(|row| row.split('|').next()).map(str::trim);
        let was_table = is_table;
        is_table = cell.is_some_and(|cell| was_table || cell == "Row");
        let cell = cell.filter(|cell| was_table && !cell.starts_with('-')).unwrap_or_default();
        cell.split(", ").filter(|name| !name.is_empty()).map(str::to_owned).collect::<Vec<_>>()
    })
}

/// Returns the functions that have a test attribute, with their lines.
pub(super) fn tests(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_test = false;
    text.lines().map(str::trim).enumerate().filter_map(move |(index, line)| {
        is_test |= line.starts_with("#[test]") || line.starts_with("#[tokio::test");
        let name = line.trim_start_matches("async ").strip_prefix("fn ")?.split(['(', '<']).next();
        name.filter(|_| std::mem::take(&mut is_test)).map(|name| (index + 1, name))
    })
}

/// Returns the cells in the last column of each table whose last heading is `Test`, with their lines.
fn cells(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_table = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let row = line.trim_start_matches("//!").trim().strip_prefix('|').and_then(|row| row.strip_suffix('|'));
        let cell = row.and_then(|row| row.rsplit('|').next()).map(str::trim);
        let was_table = is_table;
        is_table = cell.is_some_and(|cell| was_table || cell == "Test");
        cell.filter(|_| was_table).map(|cell| (index + 1, cell))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_needs_an_existing_test_or_a_reason() {
        let source = |path: &str, text: &str| Source { path: path.into(), text: text.to_owned() };
        let tests =
            "#[test]\nfn a() {}\nfn helper() {}\n#[tokio::test(x)]\n#[y]\nasync fn b() {}\n#[test]\nfn c(s in t) {}\n";
        let page = "//! | What | Test |\n//! |---|---|\n//! | x | `a`, `b` |\n//! | y | `helper` |\n//!\n//! | `z` |\n";
        let rows = "| Row | Test |\n|---|---|\n| 1 | `c` |\n| 2 | types |\n| 3 | |\n";
        let mut findings = Vec::new();
        check(&[source("t.rs", tests), source("lib.rs", page), source("ROWS.md", rows)], &mut findings);
        let found: Vec<String> = findings.iter().map(ToString::to_string).collect();
        assert_eq!(found, ["lib.rs:4: test helper does not exist", "ROWS.md:5: a row needs a test or a reason"]);
    }

    #[test]
    fn declared_and_present_rows_must_match() {
        let found = |rows: &str| {
            let text = format!(
                "Rows: A1-A3, B7.\n\n| Row | Test |\n|---|---|\n{rows}\n| What | Test |\n|---|---|\n| C | x |\n"
            );
            let mut findings = Vec::new();
            check(&[Source { path: "ROWS.md".into(), text }], &mut findings);
            findings.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert!(found("| A1, A2 | x |\n| A3 | x |\n| B7 | x |\n").is_empty());
        assert_eq!(found("| A1 | x |\n| A3 | x |\n"), ["ROWS.md:1: row A2 is missing", "ROWS.md:1: row B7 is missing"]);
        assert_eq!(
            found("| A1, A2, A3 | x |\n| B7 | x |\n| B8 | x |\n"),
            ["ROWS.md:1: row B8 is not declared in the line `Rows:`"]
        );
    }
}
