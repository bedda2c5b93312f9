//! What a table says in its last column, if that is headed `Test`, is the name of a test, or a reason why there is none.

use std::collections::BTreeSet;

use super::{Finding, Source};

pub(super) fn check(sources: &[Source], findings: &mut Vec<Finding>) {
    let tests: BTreeSet<&str> =
        sources.iter().filter(|source| source.is("rs")).flat_map(|source| tests(&source.text)).collect();
    for source in sources.iter().filter(|source| source.is("rs") || source.is("md")) {
        for (line, cell) in cells(&source.text) {
            let unknown = cell.split('`').skip(1).step_by(2).filter(|name| !tests.contains(name));
            findings.extend(unknown.map(|name| Finding::new(&source.path, line, format!("there is no test {name}"))));
            if cell.is_empty() {
                findings.push(Finding::new(&source.path, line, "a row without a test and without a reason"));
            }
        }
    }
}

/// The functions that have the attribute of a test.
fn tests(text: &str) -> impl Iterator<Item = &str> {
    let mut is_test = false;
    text.lines().map(str::trim).filter_map(move |line| {
        is_test |= line.starts_with("#[test]") || line.starts_with("#[tokio::test");
        let name = line.trim_start_matches("async ").strip_prefix("fn ")?.split(['(', '<']).next();
        name.filter(|_| std::mem::take(&mut is_test))
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
}
