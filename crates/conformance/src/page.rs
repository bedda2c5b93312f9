//! Generates `docs/CONFORMANCE.md`, which contains the results of the cases, and the features that have no effect in
//! the embedded server.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use pintle_apiserver::ApiServer;

/// Returns the path of `docs/CONFORMANCE.md` in the repository.
#[must_use]
pub fn page_file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/CONFORMANCE.md")
}

/// The text of the page, with a placeholder for each list. A run of the cases does not change the other sections.
const TEMPLATE: &str = include_str!("page.md");

/// Returns the new text of `docs/CONFORMANCE.md` after a run of all cases. `failed` contains the names of the failed
/// cases.
#[must_use]
pub fn page<'a>(cases: impl IntoIterator<Item = &'a str>, failed: &BTreeSet<String>) -> String {
    let mut areas: BTreeMap<&str, [usize; 2]> = BTreeMap::new();
    for name in cases {
        let area = name.split_once('/').map_or("", |(area, _)| area);
        areas.entry(area).or_default()[usize::from(failed.contains(name))] += 1;
    }
    let [passed, different] = areas.values().fold([0, 0], |[a, b], [c, d]| [a + c, b + d]);
    let rows = areas.into_iter().chain([("all", [passed, different])]);
    let rows = rows.map(|(area, [passed, different])| format!("| {area} | {passed} | {different} |\n"));
    let features = ApiServer::WITHOUT_EFFECT.iter().map(|(feature, reason)| format!("| {feature} | {reason} |\n"));
    let failed = failed.iter().map(|name| format!("- {name}\n"));
    TEMPLATE
        .replace("{areas}\n", &rows.collect::<String>())
        .replace("{features}\n", &features.collect::<String>())
        .replace("{failed}\n", &failed.collect::<String>())
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
