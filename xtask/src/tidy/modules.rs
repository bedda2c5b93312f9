//! Checks the length of each crate, and the module layers in the crates of the API server. A module may use only
//! modules in lower layers. docs/ARCHITECTURE.md shows the layers.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::{Finding, Source};

/// The maximum number of lines in a crate's folder `src`, because changing one line rebuilds the whole crate.
const MAX_LINES: usize = 18_000;

/// The module layers of each crate, lowest layer first.
const LAYERS: &[(&str, &[&str])] = &[
    ("apimachinery", &["clock object verb", "metrics object_diff selector validate", "failure", "request", "cluster"]),
    (
        "apiserver",
        &[
            "audit config faults wait",
            "registry",
            "background watch",
            "http",
            "live",
            "server",
            "crd_checker fuzz plan",
        ],
    ),
    (
        "serving",
        &[
            "body gzip heads indent offload tls",
            "body_budget framing header_blocks webhook_client",
            "activity",
            "streams",
        ],
    ),
    ("storage", &["committed continue_token", "db", "cluster health"]),
];

pub(super) fn check(sources: &[Source], findings: &mut Vec<Finding>) {
    let mut lengths = BTreeMap::<PathBuf, usize>::new();
    for source in sources.iter().filter(|source| source.is("rs")) {
        let folders: PathBuf = source.path.iter().take(3).collect();
        if folders.starts_with("crates") && folders.ends_with("src") {
            *lengths.entry(folders).or_default() += source.text.lines().count();
        }
    }
    findings.extend(lengths.iter().filter_map(|(src, lines)| too_long(src, *lines)));
    for source in sources.iter().filter(|source| source.is("rs")) {
        for (name, layers) in LAYERS {
            if let Ok(path) = source.path.strip_prefix(Path::new("crates").join(name).join("src")) {
                let wrong = wrong_uses(layers, path, &source.text);
                findings.extend(wrong.into_iter().map(|(line, what)| Finding::new(&source.path, line, what)));
            }
        }
    }
}

fn too_long(src: &Path, lines: usize) -> Option<Finding> {
    let what = format!("has {lines} lines, but a crate has at most {MAX_LINES}: split it");
    (lines > MAX_LINES).then(|| Finding::new(src, None, what))
}

/// Returns an error for each use of a module that is not in a lower layer, with its line. `path` is the path of the
/// file relative to `src`.
fn wrong_uses(layers: &[&str], path: &Path, text: &str) -> Vec<(Option<usize>, String)> {
    let path = path.with_extension("");
    let modules: Vec<_> = path.iter().filter_map(|part| part.to_str()).collect();
    let Some(own_name) = modules.first().filter(|name| modules.len() > 1 || !matches!(**name, "lib" | "main")) else {
        return Vec::new();
    };
    let layer = |name: &str| layers.iter().position(|layer| layer.split(' ').any(|known| known == name));
    let Some(own) = layer(own_name) else {
        return vec![(None, format!("{own_name} has no layer: add it to xtask/src/tidy/modules.rs"))];
    };
    let mut wrong = Vec::new();
    for (number, used) in used_modules(text, modules.len()) {
        if used != *own_name && layer(&used).is_some_and(|used| used >= own) {
            wrong.push((Some(number), format!("{own_name} may not use {used}, which is not below it")));
        }
    }
    wrong
}

/// Returns the top-level modules that the code in a file uses, with the line of each use. `depth` is the number of
/// `super` segments between the file's module and the crate root.
fn used_modules(text: &str, depth: usize) -> BTreeSet<(usize, String)> {
    let code = without_comments(text);
    let up = "super::".repeat(depth);
    let found = ["crate::", up.as_str()].into_iter().flat_map(|root| paths_from(root, &code));
    found.filter_map(|(line, path)| Some((line, path.into_iter().next()?))).collect()
}

pub(super) fn without_comments(text: &str) -> String {
    let code: Vec<&str> = text.lines().map(|line| line.split("//").next().unwrap_or_default()).collect();
    code.join("\n")
}

/// Returns the paths in the code that start with `root`, without this prefix and with their lines.
pub(super) fn paths_from(root: &str, code: &str) -> Vec<(usize, Vec<String>)> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices(root) {
        if !code[..at].ends_with(|before: char| before.is_alphanumeric() || matches!(before, '_' | ':' | '.')) {
            let line = code[..at].matches('\n').count() + 1;
            found.extend(paths(&code[at + root.len()..]).into_iter().map(|path| (line, path)));
        }
    }
    found
}

/// Expands groups in braces to one path per member of the group. `rest` is a path without its root.
fn paths(rest: &str) -> Vec<Vec<String>> {
    let Some(group) = rest.strip_prefix('{') else {
        let name: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        let further = rest[name.len()..].strip_prefix("::").map_or_else(|| vec![Vec::new()], paths);
        return further.into_iter().map(|further| [vec![name.clone()], further].concat()).collect();
    };
    let (mut all, mut depth, mut begins) = (Vec::new(), 1, true);
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 1 => break,
            '}' => depth -= 1,
            ',' if depth == 1 => begins = true,
            c if begins && !c.is_whitespace() => {
                all.extend(paths(&group[at..]));
                begins = false;
            }
            _ => (),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEST_LAYERS: &[&str] = &["config object", "kinds", "admission auth", "registry", "http", "server"];

    #[track_caller]
    fn check(path: &str, text: &str, expected: &[usize]) {
        let wrong = wrong_uses(TEST_LAYERS, Path::new(path), text);
        let lines: Vec<_> = wrong.iter().map(|(line, _)| line.unwrap_or(0)).collect();
        assert_eq!(lines, expected, "{wrong:?}");
    }

    #[test]
    fn upward_uses_are_reported() {
        check("kinds.rs", "//! Kinds.\n\nuse crate::object::list;\n", &[]);
        check("object.rs", "//! Objects.\n\nuse crate::kinds::Kind;\n", &[3]);
        check("kinds/pods.rs", "use crate::registry;\n", &[1]);
        check("kinds/pods.rs", "fn f() {\n    crate::registry::Registry::new()\n}\n", &[2]);
        check("auth.rs", "use crate::{admission, kinds::{Kind, Kinds}, object};\n", &[1]);
    }

    #[test]
    fn paths_through_super_are_resolved() {
        check("object.rs", "use super::http;\n", &[1]);
        check("object/metadata.rs", "use super::{list, http};\nuse super::super::http;\n", &[2]);
        check("object/metadata.rs", "use super::super::{list,\n    http};\n", &[1]);
    }

    #[test]
    fn comments_and_other_crates_are_ignored() {
        check("object.rs", "// Not as in crate::http.\nuse http::Method;\n", &[]);
        check("lib.rs", "use crate::server::ApiServer;\n", &[]);
        check("config.rs", "use crate::ApiServer;\nuse pintle_crate::http;\n", &[]);
    }

    #[test]
    fn module_without_a_layer_is_reported() {
        check("news.rs", "", &[0]);
        check("news/old.rs", "", &[0]);
    }

    #[test]
    fn crate_with_too_many_lines_is_reported() {
        let src = Path::new("crates/a/src");
        assert!(too_long(src, MAX_LINES).is_none());
        assert!(too_long(src, MAX_LINES + 1).is_some_and(|finding| finding.to_string().contains("18001 lines")));
    }
}
