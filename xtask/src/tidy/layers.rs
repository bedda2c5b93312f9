//! Checks that each crate depends only on crates in lower layers. docs/ARCHITECTURE.md shows the layers.

use std::path::Path;

use serde_json::Value;
use xshell::{Shell, cmd};

use super::Finding;

/// The crates of each layer without the prefix `pintle-`, lowest layer first.
const LAYERS: &[&str] = &[
    "delta-fifo derive effort json meta metrics ratelimit",
    "cel crd events informer kubeconfig leaderelect recorder schema store testing transport workqueue",
    "apimachinery fieldmanager lock-audit restreq serving sharding webhook",
    "admission controller kinds storage",
    "apiextensions authz builtin discovery",
    "apiserver",
    "cluster",
    "operator",
    "testkit",
    "pintle",
    // The crates that are not published.
    "bench conformance xtask",
];

/// The crates with stricter rules than their layer: the crate, its allowed dependencies, and the reason. The
/// dependency rules also apply to dev-dependencies.
const ONLY: &[(&str, &str, &str)] = &[
    ("admission", "apimachinery cel fieldmanager json meta schema", SERVER),
    ("apiextensions", "apimachinery builtin cel effort fieldmanager json kinds meta schema store", SERVER),
    ("apimachinery", "effort json meta store", SERVER),
    (
        "apiserver",
        "admission apiextensions apimachinery authz builtin cel discovery effort fieldmanager json kinds meta schema serving \
         storage testing",
        SERVER,
    ),
    ("authz", "admission apimachinery builtin effort json kinds meta storage", SERVER),
    ("builtin", "admission apimachinery cel effort fieldmanager json kinds meta schema store", SERVER),
    ("discovery", "apimachinery builtin effort json kinds meta schema", SERVER),
    ("fieldmanager", "json meta schema testing", SERVER),
    ("kinds", "apimachinery fieldmanager json meta schema store", SERVER),
    ("schema", "json meta testing", SERVER),
    // This crate handles HTTP but not Kubernetes objects, so it can be reviewed on its own.
    ("serving", "json", SERVER),
    ("storage", "apimachinery json meta store", SERVER),
    ("store", "json", SERVER),
    ("transport", "meta metrics testing", "it knows no resource and no verb"),
    ("conformance", "apiserver", "it is an independent witness"),
];

/// The reason for the stricter rules of the server's crates. The tests of the server's crates may replay inputs with
/// `pintle-testing`, which tests of clients and servers share.
const SERVER: &str = "client and server must not share a mistake";

/// The crates that must not depend on Kubernetes or on an async runtime.
const PLAIN: &[&str] = &["delta-fifo", "derive", "metrics", "ratelimit", "workqueue"];
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
        let tree = cmd!(sh, "{cargo} tree --quiet --locked --package pintle-{name} --edges normal --prefix none");
        let tree = tree.quiet().read()?;
        for below in tree.lines().filter_map(|line| line.split(' ').next()).filter(|below| NOT_PLAIN.contains(below)) {
            let manifest = Path::new("crates").join(name).join("Cargo.toml");
            findings.push(Finding::new(&manifest, None, format!("pintle-{name} must not depend on {below}")));
        }
    }
    Ok(())
}

/// Returns an error for each dependency that `name` must not have. In `uses`, `true` means a dev-dependency.
fn wrong_edges(name: &str, uses: &[(&str, bool)]) -> Vec<String> {
    let layer = |name: &str| LAYERS.iter().position(|layer| contains(layer, name));
    let Some(own) = layer(name) else {
        return vec![format!("{name} has no layer: add it to xtask/src/tidy/layers.rs")];
    };
    let mut wrong = Vec::new();
    for (used, in_tests) in uses {
        let below = layer(used).is_some_and(|used| used < own || (*in_tests && used == own));
        if !below {
            wrong.push(format!("{name} may not use {used}, which is not below it"));
        }
        if let Some((_, allowed, why)) = ONLY.iter().find(|(only, ..)| contains(only, name))
            && !contains(allowed, used)
        {
            wrong.push(format!("{name} may not use {used}: {why}"));
        }
    }
    wrong
}

/// Returns `true` if a list of names without the prefix `pintle-` contains a crate.
fn contains(names: &str, name: &str) -> bool {
    names.split(' ').any(|known| known == name.strip_prefix("pintle-").unwrap_or(name))
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
    fn crate_uses_only_lower_layers() {
        check("pintle-informer", &[("pintle-meta", false), ("pintle-delta-fifo", false)], 0);
        check("pintle-informer", &[("pintle-workqueue", false)], 1);
        check("pintle-meta", &[("pintle-informer", false)], 1);
        check("pintle-new", &[], 1);
    }

    #[test]
    fn tests_may_use_the_same_layer() {
        check("pintle-informer", &[("pintle-workqueue", true)], 0);
        check("pintle-informer", &[("pintle-apiserver", true)], 1);
    }

    #[test]
    fn server_and_client_share_only_meta() {
        check("pintle-apiserver", &[("pintle-meta", false)], 0);
        check("pintle-apiserver", &[("pintle-ratelimit", false)], 1);
        check("pintle-apiserver", &[("pintle-restreq", true)], 1);
    }
}
