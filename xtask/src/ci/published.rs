//! Checks the published crates in the form in which users build them: alone, with some features, and from a
//! package.

use std::collections::BTreeSet;

use anyhow::bail;
use serde_json::Value;
use xshell::Shell;

use super::Done;
use super::command::Quiet;

/// The cargo arguments that select the published crates.
pub(super) const PUBLISHED: &str = "--workspace --exclude pintle-bench --exclude pintle-conformance --exclude xtask";

/// Checks the facade as most users build it. The other steps enable all features, and the tests of a crate enable
/// features of its dependencies, so these steps miss code that only compiles with a feature.
pub(super) fn default_features(sh: &Shell) -> anyhow::Result<Done> {
    for selected in ["", " --no-default-features"] {
        check(sh, &format!("check --locked --package pintle{selected}"))?;
    }
    Ok(Done::default())
}

/// Runs `cargo check`. Warnings count as errors, because a warning that occurs only here usually concerns an import
/// that only some features need.
fn check(sh: &Shell, check: &str) -> anyhow::Result<()> {
    let ended = Quiet::cargo(sh, "features").args(check).end()?;
    if !ended.status.success() || ended.output.lines().any(|line| line.starts_with("warning")) {
        bail!("{}cargo {check}: errors or warnings", ended.output);
    }
    Ok(())
}

/// Checks each crate alone: without features, with each feature and each pair of features, and with all features.
pub(super) fn features(sh: &Shell) -> anyhow::Result<Done> {
    // Skip internal crates, which users do not depend on directly.
    let is_part = |package: &&Value| text(&package["description"]).contains("No stability promise");
    let packages = crate::packages(sh)?;
    let published: Vec<&Value> =
        packages.iter().filter(|package| package["publish"].is_null()).filter(|package| !is_part(package)).collect();
    let (mut failed, mut builds) = (Vec::new(), 0);
    for package in &published {
        let features = package["features"].as_object().into_iter().flatten().map(|(name, _)| name.as_str()).collect();
        for selected in selections(&features) {
            builds += 1;
            failed.extend(check(sh, &format!("check --locked --package {}{selected}", text(&package["name"]))).err());
        }
    }
    if !failed.is_empty() {
        bail!("{}", failed.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"));
    }
    Ok(Done::noting(format!("{builds} builds of {} crates", published.len())))
}

/// Returns the cargo arguments for each selection of at most two features, and for all features. `features`
/// contains `default` if the crate has this feature.
fn selections(features: &BTreeSet<&str>) -> BTreeSet<String> {
    let named: Vec<&str> = features.iter().copied().filter(|name| *name != "default").collect();
    let none = if features.contains("default") { " --no-default-features" } else { "" };
    let mut selections = BTreeSet::from([String::new(), none.to_owned()]);
    for (index, first) in named.iter().enumerate() {
        selections.insert(format!("{none} --features {first}"));
        selections.extend(named[index + 1..].iter().map(|second| format!("{none} --features {first},{second}")));
    }
    if named.len() > 2 {
        selections.insert(" --all-features".to_owned());
    }
    selections
}

/// Packs all published crates, for which cargo checks the manifests and the versions of the dependencies. Fails if
/// a crate depends on an unpublished version.
pub(super) fn package(sh: &Shell) -> anyhow::Result<Done> {
    // Do not build the packages, because earlier steps have built the same source files.
    let run = format!("package {PUBLISHED} --no-verify --allow-dirty --locked");
    let output = Quiet::cargo(sh, "package").args(&run).run()?;
    let mut warnings = output.lines().filter(|line| line.starts_with("warning") && *line != NO_ADDRESS);
    if let Some(warning) = warnings.next() {
        bail!("{output}\ncargo {run}: {warning}");
    }
    Ok(Done::noting(format!("{} packages", output.lines().filter(|line| line.contains("Packaged")).count())))
}

/// A warning that cargo prints because the project does not have a public address yet.
const NO_ADDRESS: &str = "warning: manifest has no documentation, homepage or repository";

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(features: &[&str], expected: &[&str]) {
        let selections = selections(&features.iter().copied().collect());
        assert_eq!(selections, expected.iter().map(|selection| (*selection).to_owned()).collect());
    }

    #[test]
    fn selections_contain_single_features_pairs_and_all() {
        check(&[], &[""]);
        check(&["a"], &["", " --features a"]);
        check(&["default"], &["", " --no-default-features"]);
        let none = " --no-default-features";
        let pairs = ["a", "b", "c", "a,b", "a,c", "b,c"].map(|pair| format!("{none} --features {pair}"));
        let expected: Vec<&str> =
            ["", none, " --all-features"].into_iter().chain(pairs.iter().map(String::as_str)).collect();
        check(&["a", "b", "c", "default"], &expected);
    }
}
