//! Counts the crates in the dependency tree of a client.

use std::collections::BTreeSet;
use std::process::Command;

use crate::meter::{Sample, Tally, measure};

/// Counts the distinct crates that `cargo tree -e normal` prints for these workspace packages.
pub(crate) fn crates(packages: &[&str]) -> Sample {
    let mut crates = 0;
    let sample = measure(|| {
        let mut tree = Command::new("cargo");
        tree.args(["tree", "--locked", "--edges", "normal", "--prefix", "none"])
            .current_dir(env!("CARGO_MANIFEST_DIR"));
        packages.iter().for_each(|package| _ = tree.args(["--package", package]));
        let output = tree.output().expect("cannot run cargo");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8_lossy(&output.stdout);
        let lines = text.lines().map(|line| line.trim_end_matches(" (*)")).filter(|line| !line.is_empty());
        crates = lines.collect::<BTreeSet<_>>().len();
        Tally::operations(1)
    });
    sample.with("crates", crates as f64)
}
