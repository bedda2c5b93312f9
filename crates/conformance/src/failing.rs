//! The list of cases that fail on the embedded server. A run fails if its failing cases differ from the list, in order
//! to detect every change.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

/// Returns the path of the list of failing cases.
#[must_use]
pub fn list_file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("failing.txt")
}

const HEAD: &str = "# Cases that the embedded server does not pass yet, one per line, sorted. `cargo xtask conformance --server --update`
# writes this file; `cargo xtask ci` fails if the results differ from it.
";

/// Reads a sorted list with one name per line. Ignores empty lines and comments (`#`).
///
/// # Errors
///
/// Returns an error if the list file cannot be read, or if the names are not sorted or not unique.
pub fn read(file: &Path) -> anyhow::Result<BTreeSet<String>> {
    let text = fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?;
    let mut names = BTreeSet::new();
    for (index, line) in text.lines().enumerate() {
        let name = line.trim();
        if name.is_empty() || name.starts_with('#') {
            continue;
        }
        if names.last().is_some_and(|last: &String| last.as_str() >= name) {
            bail!("{}:{}: {name} is out of order", file.display(), index + 1);
        }
        names.insert(name.to_owned());
    }
    Ok(names)
}

/// Writes a list.
///
/// # Errors
///
/// Returns an error if the list file cannot be written.
pub fn write(file: &Path, names: &BTreeSet<String>) -> anyhow::Result<()> {
    let lines: String = names.iter().map(|name| format!("{name}\n")).collect();
    fs::write(file, format!("{HEAD}{lines}")).with_context(|| format!("writing {}", file.display()))
}

/// The differences between the list of failing cases and the results of a run.
#[derive(Debug, Default, PartialEq)]
pub struct Drift {
    /// The listed cases that passed.
    pub passing: Vec<String>,
    /// The cases that failed and are not listed.
    pub failing: Vec<String>,
    /// The listed cases that the run did not replay.
    pub unknown: Vec<String>,
}

impl Drift {
    /// Compares the list of failing cases to the results of a run. `replayed` contains the names of all replayed
    /// cases, and `failed` contains the names of the failed cases.
    #[must_use]
    pub fn of(listed: &BTreeSet<String>, replayed: &BTreeSet<String>, failed: &BTreeSet<String>) -> Self {
        let listed_here = listed.intersection(replayed);
        Self {
            passing: listed_here.filter(|name| !failed.contains(*name)).cloned().collect(),
            failing: failed.difference(listed).cloned().collect(),
            unknown: listed.difference(replayed).cloned().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn drift_reports_new_failures_passes_and_unknown_cases() {
        let drift = Drift::of(&set(&["a", "b", "gone"]), &set(&["a", "b", "c", "d"]), &set(&["b", "c"]));
        assert_eq!(drift, Drift { passing: vec!["a".into()], failing: vec!["c".into()], unknown: vec!["gone".into()] });
        assert_eq!(Drift::of(&set(&["b"]), &set(&["a", "b"]), &set(&["b"])), Drift::default());
    }

    #[test]
    fn written_list_is_readable_and_disorder_is_an_error() {
        let file = std::env::temp_dir().join(format!("failing-{}.txt", std::process::id()));
        write(&file, &set(&["b/x", "a/y"])).expect("write");
        assert_eq!(read(&file).expect("read"), set(&["a/y", "b/x"]));
        fs::write(&file, "b\na\n").expect("write");
        let error = read(&file).expect_err("out of order");
        assert!(error.to_string().contains(":2: a is out of order"), "{error}");
        fs::remove_file(&file).expect("remove");
    }
}
