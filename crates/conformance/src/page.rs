//! The page of docs/ that says what the embedded server answers as a real one does, and what it does not.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use pintle_apiserver::ApiServer;

/// The page in the repository.
#[must_use]
pub fn page_file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/CONFORMANCE.md")
}

const HEAD: &str = "# Conformance of the embedded server

`cargo xtask conformance --server` replays what a real kube-apiserver 1.36.1 answered, case by case, and holds this page to what
comes out; with `--update` it writes the page.

";

/// What the client was once seen to do: a note, which no run changes.
const CLIENT: &str = "## The client on a real server: a note of 2026-11-23

`cargo xtask conformance --client` starts the etcd and the kube-apiserver of the folder that `KUBEBUILDER_ASSETS` names, and has the client
go through its scenarios there, one after the other. It takes these programs, so it is run by hand, and neither CI nor `--update` changes
what stands here: it is what was seen on that day, of kube-apiserver 1.36.1 and the client of commit dcbc07e or shortly before. What has
changed since is not in it.

| scenarios | what they are about | passed | failed |
|---|---|---|---|
| `crates/pintle/tests/it/handles.rs` | `Api` and `RestMapper`: apply, deletions and waits, metadata and tables, subresources, watches that are cut, pages ahead | 8 | 0 |
| `crates/restreq/tests/it/real.rs` | the life of an object, lists and collections, watches and streaming lists, objects above the limit, refusals, impersonation, connections | 10 | 0 |

The former also run in all tests, against the embedded server; the latter are skipped without a real one.

";

/// How to compare with a real server.
const COMPARE: &str = "## Comparison on your own manifests

`cargo xtask conformance --compare DIR` starts the etcd and the kube-apiserver of the folder that `KUBEBUILDER_ASSETS` names, and an
embedded server without controllers. It sends each YAML or JSON document below `DIR` to both and compares the answers field by field.

1. CustomResourceDefinitions are created first. The comparer waits until each is established, then compares the definition and the
   discovery and OpenAPI documents of its versions. Real servers publish these late, so it retries for ten seconds. Of OpenAPI it leaves out
   the types that all definitions share and the descriptions of paths.
2. Documents without a namespace follow one by one. Documents with one follow several at a time (`--at-once`), each in a new namespace.
3. Each document is sent as a strict dry-run create and as a create. If the create succeeds: get, table, server-side apply twice, merge patch,
   PUT, status GET and PUT, list, list as a table, delete, and get again.
4. Uids, resourceVersions, times, generated names, addresses of Services, node ports and ages are replaced by placeholders. Causes of a
   refused custom resource and the resources of a discovery document are sorted, because real servers report them in random order.
   Descriptions of table columns are left out.

The output has one line per cause. A cause is a kind, a path with `*` for indexes, and the sort of difference: `missing` or `added` in the
embedded server's answer, another `value`, other `words`, or two status codes. `-v` lists the documents of each cause. The exit code is 0 if
nothing differs.

Differences in CEL rules, admission policies, webhooks and conversion are expected: the next section lists what has no effect here.

";

/// The page after a run of all cases, of which some `failed`.
#[must_use]
pub fn page<'a>(cases: impl IntoIterator<Item = &'a str>, failed: &BTreeSet<String>) -> String {
    let mut areas: BTreeMap<&str, [usize; 2]> = BTreeMap::new();
    for name in cases {
        let area = name.split_once('/').map_or("", |(area, _)| area);
        areas.entry(area).or_default()[usize::from(failed.contains(name))] += 1;
    }
    let mut page = HEAD.to_owned();
    page.push_str("| area | answered as recorded | otherwise |\n|---|---|---|\n");
    for (area, [passed, failed]) in &areas {
        let _ = writeln!(page, "| {area} | {passed} | {failed} |");
    }
    let [passed, others] = areas.values().fold([0, 0], |[a, b], [c, d]| [a + c, b + d]);
    let _ = writeln!(page, "| all | {passed} | {others} |\n");
    page.push_str(CLIENT);
    page.push_str(COMPARE);
    page.push_str("## Taken, and without effect\n\n");
    page.push_str("A real server acts upon these, this one does not. Whoever writes one so that it would count gets a `Warning`.\n\n");
    page.push_str("| what | why |\n|---|---|\n");
    for (what, why) in ApiServer::WITHOUT_EFFECT {
        let _ = writeln!(page, "| {what} | {why} |");
    }
    page.push_str("\n## Answered otherwise\n\n");
    for name in failed {
        let _ = writeln!(page, "- {name}");
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_counts_each_area_and_names_what_fails_and_what_has_no_effect() {
        let failed = BTreeSet::from(["b/y".to_owned()]);
        let page = page(["a/x", "b/x", "b/y"], &failed);
        for line in ["| a | 1 | 0 |", "| b | 1 | 1 |", "| all | 2 | 1 |", "- b/y"] {
            assert!(page.lines().any(|known| known == line), "{line}: {page}");
        }
        for (what, why) in ApiServer::WITHOUT_EFFECT {
            assert!(page.contains(&format!("| {what} | {why} |")), "{what}");
        }
    }
}
