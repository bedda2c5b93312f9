//! What a table says in its last column, if that is headed `Test`, is the name of a test, or a reason why there is none. And a file that
//! says which rows it has, in a line such as `Rows: A1-A4, B2.`, has these and no others, so that none is lost.

use std::collections::BTreeSet;

use super::{Finding, Source};

pub(super) fn check(sources: &[Source], findings: &mut Vec<Finding>) {
    let tests: BTreeSet<&str> =
        sources.iter().filter(|source| source.is("rs")).flat_map(|source| tests(&source.text)).map(|(_, name)| name).collect();
    for source in sources.iter().filter(|source| source.is("rs") || source.is("md")) {
        for (line, cell) in cells(&source.text) {
            let unknown = cell.split('`').skip(1).step_by(2).filter(|name| !tests.contains(name));
            findings.extend(unknown.map(|name| Finding::new(&source.path, line, format!("there is no test {name}"))));
            if cell.is_empty() {
                findings.push(Finding::new(&source.path, line, "a row without a test and without a reason"));
            }
        }
        if let Some((line, said)) = said(&source.text) {
            let there: BTreeSet<String> = names(&source.text).collect();
            let lost = said.difference(&there).map(|name| format!("there is no row {name}"));
            let more =
                there.difference(&said).map(|name| format!("the row {name} is not among those that it says it has"));
            findings.extend(lost.chain(more).map(|text| Finding::new(&source.path, line, text)));
        }
    }
}

/// The rows that a file says it has, and the line that says so.
fn said(text: &str) -> Option<(usize, BTreeSet<String>)> {
    let (index, line) = text.lines().enumerate().find(|(_, line)| line.starts_with("Rows: "))?;
    let parts = line.trim_start_matches("Rows: ").trim_end_matches('.').split(", ");
    Some((index + 1, parts.flat_map(expand).collect()))
}

/// `A2-A4` stands for three rows.
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

/// The first cells of the tables that are headed `Row`, of which one may name several.
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

/// The functions with a test attribute, each with its line.
pub(super) fn tests(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_test = false;
    text.lines().map(str::trim).enumerate().filter_map(move |(index, line)| {
        is_test |= line.starts_with("#[test]") || line.starts_with("#[tokio::test");
        let name = line.trim_start_matches("async ").strip_prefix("fn ")?.split(['(', '<']).next();
        name.filter(|_| std::mem::take(&mut is_test)).map(|name| (index + 1, name))
    })
}

/// The last cells of the rows of such tables, with their lines.
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
    fn a_row_names_a_test_or_a_reason() {
        let source = |path: &str, text: &str| Source { path: path.into(), text: text.to_owned() };
        let tests =
            "#[test]\nfn a() {}\nfn helper() {}\n#[tokio::test(x)]\n#[y]\nasync fn b() {}\n#[test]\nfn c(s in t) {}\n";
        let page = "//! | What | Test |\n//! |---|---|\n//! | x | `a`, `b` |\n//! | y | `helper` |\n//!\n//! | `z` |\n";
        let rows = "| Row | Test |\n|---|---|\n| 1 | `c` |\n| 2 | types |\n| 3 | |\n";
        let mut findings = Vec::new();
        check(&[source("t.rs", tests), source("lib.rs", page), source("ROWS.md", rows)], &mut findings);
        let found: Vec<String> = findings.iter().map(ToString::to_string).collect();
        assert_eq!(
            found,
            ["lib.rs:4: there is no test helper", "ROWS.md:5: a row without a test and without a reason"]
        );
    }

    #[test]
    fn a_file_has_the_rows_that_it_says_it_has() {
        let found = |rows: &str| {
            let text = format!(
                "Rows: A1-A3, B7.\n\n| Row | Test |\n|---|---|\n{rows}\n| What | Test |\n|---|---|\n| C | x |\n"
            );
            let mut findings = Vec::new();
            check(&[Source { path: "ROWS.md".into(), text }], &mut findings);
            findings.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert!(found("| A1, A2 | x |\n| A3 | x |\n| B7 | x |\n").is_empty());
        assert_eq!(
            found("| A1 | x |\n| A3 | x |\n"),
            ["ROWS.md:1: there is no row A2", "ROWS.md:1: there is no row B7"]
        );
        assert_eq!(
            found("| A1, A2, A3 | x |\n| B7 | x |\n| B8 | x |\n"),
            ["ROWS.md:1: the row B8 is not among those that it says it has"]
        );
    }
}
