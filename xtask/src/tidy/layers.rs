//! Checks that each crate depends only on crates in lower layers. The layers are shown in docs/ARCHITECTURE.md.

use std::path::Path;

use serde_json::Value;
use xshell::{Shell, cmd};

use super::Finding;

const LAYERS: &[&[&str]] = &[
    &["pintle-delta-fifo", "pintle-derive", "pintle-json", "pintle-meta", "pintle-metrics", "pintle-ratelimit"],
    &[
        "pintle-cel",
        "pintle-crd",
        "pintle-events",
        "pintle-informer",
        "pintle-kubeconfig",
        "pintle-leaderelect",
        "pintle-recorder",
        "pintle-schema",
        "pintle-store",
        "pintle-testing",
        "pintle-transport",
        "pintle-workqueue",
    ],
    &[
        "pintle-apimachinery",
        "pintle-fieldmanager",
        "pintle-lock-audit",
        "pintle-restreq",
        "pintle-serving",
        "pintle-sharding",
        "pintle-webhook",
    ],
    &["pintle-admission", "pintle-controller", "pintle-kinds", "pintle-storage"],
    &["pintle-apiextensions", "pintle-authz", "pintle-builtin", "pintle-discovery"],
    &["pintle-apiserver"],
    &["pintle-cluster"],
    &["pintle-operator"],
    &["pintle-testkit"],
    &["pintle"],
    // These crates are never published.
    &["pintle-bench", "pintle-conformance", "xtask"],
];

/// The crates with stricter rules than their layer, each with the allowed crates and the reason. These rules also apply
/// to tests.
const ONLY: &[(&str, &[&str], &str)] = &[
    (
        "pintle-admission",
        &["pintle-apimachinery", "pintle-cel", "pintle-fieldmanager", "pintle-json", "pintle-meta", "pintle-schema"],
        SERVER,
    ),
    (
        "pintle-apiextensions",
        &[
            "pintle-apimachinery",
            "pintle-builtin",
            "pintle-cel",
            "pintle-fieldmanager",
            "pintle-json",
            "pintle-kinds",
            "pintle-meta",
            "pintle-schema",
            "pintle-store",
        ],
        SERVER,
    ),
    ("pintle-apimachinery", &["pintle-json", "pintle-meta", "pintle-store"], SERVER),
    (
        "pintle-apiserver",
        &[
            "pintle-admission",
            "pintle-apiextensions",
            "pintle-apimachinery",
            "pintle-authz",
            "pintle-builtin",
            "pintle-cel",
            "pintle-discovery",
            "pintle-fieldmanager",
            "pintle-json",
            "pintle-kinds",
            "pintle-meta",
            "pintle-schema",
            "pintle-serving",
            "pintle-storage",
            "pintle-testing",
        ],
        SERVER,
    ),
    (
        "pintle-authz",
        &[
            "pintle-admission",
            "pintle-apimachinery",
            "pintle-builtin",
            "pintle-json",
            "pintle-kinds",
            "pintle-meta",
            "pintle-storage",
        ],
        SERVER,
    ),
    (
        "pintle-builtin",
        &[
            "pintle-admission",
            "pintle-apimachinery",
            "pintle-cel",
            "pintle-fieldmanager",
            "pintle-json",
            "pintle-kinds",
            "pintle-meta",
            "pintle-schema",
            "pintle-store",
        ],
        SERVER,
    ),
    (
        "pintle-discovery",
        &["pintle-apimachinery", "pintle-builtin", "pintle-json", "pintle-kinds", "pintle-meta", "pintle-schema"],
        SERVER,
    ),
    ("pintle-fieldmanager", &["pintle-json", "pintle-meta", "pintle-schema", "pintle-testing"], SERVER),
    (
        "pintle-kinds",
        &["pintle-apimachinery", "pintle-fieldmanager", "pintle-json", "pintle-meta", "pintle-schema", "pintle-store"],
        SERVER,
    ),
    ("pintle-schema", &["pintle-json", "pintle-meta", "pintle-testing"], SERVER),
    // This crate handles HTTP but not Kubernetes objects, so it can be reviewed on its own.
    ("pintle-serving", &["pintle-json"], SERVER),
    ("pintle-storage", &["pintle-apimachinery", "pintle-json", "pintle-meta", "pintle-store"], SERVER),
    ("pintle-store", &["pintle-json"], SERVER),
    ("pintle-transport", &["pintle-meta", "pintle-metrics", "pintle-testing"], "it knows no resource and no verb"),
    ("pintle-conformance", &["pintle-apiserver"], "it is an independent witness"),
];

/// Why the crates of the server have stricter rules. Their tests may use `pintle-testing` to replay inputs, because
/// client and server tests share this crate.
const SERVER: &str = "client and server must not share a mistake";

/// The crates that must not depend on Kubernetes or on an async runtime.
const PLAIN: &[&str] =
    &["pintle-delta-fifo", "pintle-derive", "pintle-metrics", "pintle-ratelimit", "pintle-workqueue"];
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
            findings.push(Finding::new(&manifest, None, format!("{name} must not depend on {below}")));
        }
    }
    Ok(())
}

/// Returns an error for each dependency that `name` must not have. In `uses`, `true` marks a dev-dependency.
fn wrong_edges(name: &str, uses: &[(&str, bool)]) -> Vec<String> {
    let layer = |name: &str| LAYERS.iter().position(|layer| layer.contains(&name));
    let Some(own) = layer(name) else {
        return vec![format!("{name} has no layer: add it to xtask/src/tidy/layers.rs")];
    };
    let mut wrong = Vec::new();
    for (used, in_tests) in uses {
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
