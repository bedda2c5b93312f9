//! Generates `docs/CONFORMANCE.md`, which contains the results of the cases, and the features that have no effect in
//! the embedded server.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use pintle_apiserver::ApiServer;

/// Returns the path of `docs/CONFORMANCE.md` in the repository.
#[must_use]
pub fn page_file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/CONFORMANCE.md")
}

const HEAD: &str = "# Conformance of the embedded server

`cargo xtask conformance --server` replays recorded cases of a real kube-apiserver 1.36.1 against the embedded server. It fails if this page
does not match the results. With `--update` it writes the page.

";

/// The results of the client's test scenarios on a real server. A run of the cases does not change these results.
const CLIENT: &str = "## The client on a real server: results of 2026-11-23

`cargo xtask conformance --client` starts etcd and kube-apiserver from the folder in `KUBEBUILDER_ASSETS` and runs the scenarios of the
client on them, one after the other. It is run by hand, because it needs these programs. CI and `--update` do not change this section. The
results are from kube-apiserver 1.36.1 and the client at about commit dcbc07e. Later changes are not included.

| scenarios | what they test | passed | failed |
|---|---|---|---|
| `crates/pintle/tests/it/handles.rs` | `Api` and `RestMapper`: apply, deletions and waits, metadata and tables, subresources, interrupted watches, prefetched pages | 8 | 0 |
| `crates/restreq/tests/it/real.rs` | the life of an object, lists and collections, watches and streaming lists, objects above the size limit, rejected requests, impersonation, connections | 10 | 0 |

The first group also runs in all tests, on the embedded server. The second group is skipped without a real server.

";

const COMPARE: &str = "## Comparison on your own manifests

`cargo xtask conformance --compare DIR` starts etcd and kube-apiserver from the folder in `KUBEBUILDER_ASSETS`, and an embedded server
without controllers. It sends each YAML or JSON document below `DIR` to both servers and compares the responses field by field.

1. CustomResourceDefinitions are created first. The command waits until each definition is established. Then it compares the definition,
   and the discovery and OpenAPI documents of its versions. Real servers publish these documents late, so the command retries for ten
   seconds. In OpenAPI documents, it ignores the types that all definitions share, and the descriptions of paths.
2. Documents without a namespace follow one by one. Documents with a namespace follow concurrently (`--at-once`), each in a new namespace.
3. The command sends each document as a strict dry-run create, and then as a create. If the create succeeds, the command sends these
   requests: get, table, server-side apply twice, merge patch, PUT, status GET and PUT, list, list as a table, delete, and get again.
4. Placeholders replace uids, resourceVersions, times, generated names, addresses of Services, node ports and ages. Real servers return the
   causes of a rejected custom resource and the resources of a discovery document in random order, so both are sorted. Descriptions of
   table columns are ignored.

The output has one line per cause. A cause consists of a kind, a path with `*` for indexes, and the type of difference. The types are
`missing` and `added` in the embedded server's response, a different `value`, different `words`, and two status codes. `-v` lists the documents of each
cause. The exit code is 0 if there are no differences.

Differences in webhooks and conversion are expected. The next section lists the features without effect.

";

/// Returns the new text of `docs/CONFORMANCE.md` after a run of all cases. `failed` contains the names of the failed
/// cases.
#[must_use]
pub fn page<'a>(cases: impl IntoIterator<Item = &'a str>, failed: &BTreeSet<String>) -> String {
    let mut areas: BTreeMap<&str, [usize; 2]> = BTreeMap::new();
    for name in cases {
        let area = name.split_once('/').map_or("", |(area, _)| area);
        areas.entry(area).or_default()[usize::from(failed.contains(name))] += 1;
    }
    let mut page = HEAD.to_owned();
    page.push_str("| area | same response as recorded | different |\n|---|---|---|\n");
    for (area, [passed, failed]) in &areas {
        let _ = writeln!(page, "| {area} | {passed} | {failed} |");
    }
    let [passed, different] = areas.values().fold([0, 0], |[a, b], [c, d]| [a + c, b + d]);
    let _ = writeln!(page, "| all | {passed} | {different} |\n");
    page.push_str(CLIENT);
    page.push_str(COMPARE);
    page.push_str("## Accepted without effect\n\n");
    page.push_str("These features have an effect on a real server, but not on the embedded server. A write that relies on such a feature returns a `Warning`.\n\n");
    page.push_str("| feature | reason |\n|---|---|\n");
    for (feature, reason) in ApiServer::WITHOUT_EFFECT {
        let _ = writeln!(page, "| {feature} | {reason} |");
    }
    page.push_str("\n## Cases with a different response\n\n");
    for name in failed {
        let _ = writeln!(page, "- {name}");
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_counts_areas_and_lists_failures_and_ineffective_features() {
        let failed = BTreeSet::from(["b/y".to_owned()]);
        let page = page(["a/x", "b/x", "b/y"], &failed);
        for line in ["| a | 1 | 0 |", "| b | 1 | 1 |", "| all | 2 | 1 |", "- b/y"] {
            assert!(page.lines().any(|known| known == line), "{line}: {page}");
        }
        for (feature, reason) in ApiServer::WITHOUT_EFFECT {
            assert!(page.contains(&format!("| {feature} | {reason} |")), "{feature}");
        }
    }
}
