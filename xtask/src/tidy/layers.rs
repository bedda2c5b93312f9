//! The layers of the crates, read from their manifests: each uses only those below. docs/ARCHITECTURE.md has the picture.

use std::path::Path;

use serde_json::Value;
use xshell::{Shell, cmd};

use super::Finding;

/// From the bottom up. A crate may use those of lower layers alone.
const LAYERS: &[&[&str]] = &[
    &["pintle-delta-fifo", "pintle-json", "pintle-meta", "pintle-metrics", "pintle-ratelimit"],
    &[
        "pintle-events",
        "pintle-informer",
        "pintle-kubeconfig",
        "pintle-leaderelect",
        "pintle-restreq",
        "pintle-schema",
        "pintle-store",
        "pintle-testing",
        "pintle-workqueue",
    ],
    &["pintle-controller", "pintle-fieldmanager"],
    &["pintle-apiserver"],
    &["pintle"],
    // Never published; nobody uses them.
    &["pintle-bench", "pintle-conformance", "xtask"],
];

/// Crates that use fewer of ours than their layer would let them, also in their tests.
const ONLY: &[(&str, &[&str], &str)] = &[
    (
        "pintle-apiserver",
        &["pintle-fieldmanager", "pintle-json", "pintle-meta", "pintle-schema", "pintle-store", "pintle-testing"],
        SERVER,
    ),
    ("pintle-fieldmanager", &["pintle-json", "pintle-meta", "pintle-schema", "pintle-testing"], SERVER),
    ("pintle-schema", &["pintle-json", "pintle-meta", "pintle-testing"], SERVER),
    ("pintle-store", &["pintle-json"], SERVER),
    ("pintle-conformance", &["pintle-apiserver"], "it is a foreign witness"),
];

/// Tests put a corpus through by `pintle-testing`, which is of no client.
const SERVER: &str = "so that client and server cannot share a mistake";

/// Crates that are of use to anyone, and what may not be anywhere below them.
const PLAIN: &[&str] = &["pintle-delta-fifo", "pintle-metrics", "pintle-ratelimit", "pintle-workqueue"];
const NOT_PLAIN: &[&str] = &["tokio", "hyper", "http", "k8s-openapi", "kube", "pintle-meta", "serde_json"];

pub(super) fn check(sh: &Shell, root: &Path, packages: &[Value], findings: &mut Vec<Finding>) -> anyhow::Result<()> {
    for package in packages {
        let name = package["name"].as_str().unwrap_or_default();
        let manifest = Path::new(package["manifest_path"].as_str().unwrap_or_default());
        let manifest = manifest.strip_prefix(root).unwrap_or(manifest);
        let uses: Vec<(&str, bool)> = package["dependencies"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(|dependency| dependency["path"].is_string())
            .map(|dependency| (dependency["name"].as_str().unwrap_or_default(), dependency["kind"] == "dev"))
            .collect();
        findings.extend(wrong_edges(name, &uses).into_iter().map(|what| Finding::new(manifest, None, what)));
    }
    for name in PLAIN {
        let cargo = crate::cargo();
        let tree = cmd!(sh, "{cargo} tree --quiet --locked --package {name} --edges normal --prefix none");
        let tree = tree.quiet().read()?;
        for below in tree.lines().filter_map(|line| line.split(' ').next()).filter(|below| NOT_PLAIN.contains(below)) {
            let manifest = Path::new("crates").join(name.trim_start_matches("pintle-")).join("Cargo.toml");
            findings.push(Finding::new(&manifest, None, format!("{name} has to build without {below}")));
        }
    }
    Ok(())
}

/// What is wrong with the crates that one crate uses; `true` marks those that only its tests use.
fn wrong_edges(name: &str, uses: &[(&str, bool)]) -> Vec<String> {
    let layer = |name: &str| LAYERS.iter().position(|layer| layer.contains(&name));
    let Some(own) = layer(name) else {
        return vec![format!("{name} stands in no layer: add it to xtask/src/tidy/layers.rs")];
    };
    let mut wrong = Vec::new();
    for (used, in_tests) in uses {
        // Tests may use a neighbour, say to build what they look at.
        let below = layer(used).is_some_and(|used| used < own || (*in_tests && used == own));
        if !below {
            wrong.push(format!("{name} may not use {used}, which is not below it"));
        }
        if let Some((_, allowed, why)) = ONLY.iter().find(|(only, ..)| *only == name)
            && !allowed.contains(used)
        {
            wrong.push(format!("{name} may not use {used}: {why}"));
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(name: &str, uses: &[(&str, bool)], count: usize) {
        let wrong = wrong_edges(name, uses);
        assert_eq!(wrong.len(), count, "{wrong:?}");
    }

    #[test]
    fn a_crate_uses_only_those_below() {
        check("pintle-informer", &[("pintle-meta", false), ("pintle-delta-fifo", false)], 0);
        check("pintle-informer", &[("pintle-workqueue", false)], 1);
        check("pintle-meta", &[("pintle-informer", false)], 1);
        check("pintle-new", &[], 1);
    }

    #[test]
    fn tests_may_use_neighbours_but_nothing_above() {
        check("pintle-informer", &[("pintle-workqueue", true)], 0);
        check("pintle-informer", &[("pintle-apiserver", true)], 1);
    }

    #[test]
    fn the_server_shares_only_the_vocabulary_with_the_client() {
        check("pintle-apiserver", &[("pintle-meta", false)], 0);
        check("pintle-apiserver", &[("pintle-ratelimit", false)], 1);
        check("pintle-apiserver", &[("pintle-restreq", true)], 1);
    }
}
