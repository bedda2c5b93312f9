//! The list of cases that do not pass yet. It is held to exactly, so that nothing is lost or gained unseen.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

/// The list in this crate's folder.
#[must_use]
pub fn list_file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("failing.txt")
}

/// The head of a written list.
const HEAD: &str = "# Cases that the embedded server does not pass yet, one a line, sorted. `cargo xtask conformance --server --update`
# writes this file; `cargo xtask ci` holds to it exactly.
";

/// Reads a list: one name a line, sorted; empty lines and comments (`#`) do not count.
///
/// # Errors
///
/// A file that cannot be read; a name that is out of order or there twice.
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
/// A file that cannot be written.
pub fn write(file: &Path, names: &BTreeSet<String>) -> anyhow::Result<()> {
    let lines: String = names.iter().map(|name| format!("{name}\n")).collect();
    fs::write(file, format!("{HEAD}{lines}")).with_context(|| format!("writing {}", file.display()))
}

/// How what was replayed departs from the list.
#[derive(Debug, Default, PartialEq)]
pub struct Drift {
    /// Listed, but they pass: take them off.
    pub passing: Vec<String>,
    /// They fail and are not listed.
    pub failing: Vec<String>,
    /// Listed, but no such case was replayed.
    pub unknown: Vec<String>,
}

impl Drift {
    /// Holds `listed` against all names that were replayed and those of them that failed.
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
    fn the_list_is_held_to_in_both_directions() {
        let drift = Drift::of(&set(&["a", "b", "gone"]), &set(&["a", "b", "c", "d"]), &set(&["b", "c"]));
        assert_eq!(drift, Drift { passing: vec!["a".into()], failing: vec!["c".into()], unknown: vec!["gone".into()] });
        assert_eq!(Drift::of(&set(&["b"]), &set(&["a", "b"]), &set(&["b"])), Drift::default());
    }

    #[test]
    fn a_written_list_reads_back_and_disorder_is_told() {
        let file = std::env::temp_dir().join(format!("failing-{}.txt", std::process::id()));
        write(&file, &set(&["b/x", "a/y"])).expect("write");
        assert_eq!(read(&file).expect("read"), set(&["a/y", "b/x"]));
        fs::write(&file, "b\na\n").expect("write");
        let error = read(&file).expect_err("out of order");
        assert!(error.to_string().contains(":2: a is out of order"), "{error}");
        fs::remove_file(&file).expect("remove");
    }
}
