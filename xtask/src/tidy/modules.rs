//! The modules of the API server: each uses only those in layers below, of which docs/ARCHITECTURE.md has the picture; and none is
//! named as another.

use std::collections::{BTreeSet, HashMap};
use std::ffi::OsStr;
use std::path::Path;

use super::{Finding, Source};

const SRC: &str = "crates/apiserver/src";

/// From the bottom up. A module may use those of lower layers alone.
const LAYERS: &[&[&str]] = &[
    &["verb"],
    &["apart", "audit", "clock", "config", "faults", "object", "shared_map", "wait"],
    &["selector", "store", "validate"],
    &["failure", "health"],
    &["request"],
    &["kinds"],
    &["admission", "auth", "crd"],
    &["discovery"],
    &["registry"],
    &["background", "watch"],
    &["http"],
    &["live"],
    &["server"],
    &["fuzz", "plan"],
];

pub(super) fn check(sources: &[Source], findings: &mut Vec<Finding>) {
    let files = sources.iter().filter(|source| source.is("rs") && source.path.starts_with(SRC));
    for (path, other) in named_alike(files.map(|source| source.path.as_path())) {
        findings.push(Finding::new(path, None, format!("is named as {} is: one name is one thing", other.display())));
    }
    for source in sources.iter().filter(|source| source.is("rs")) {
        if let Ok(path) = source.path.strip_prefix(SRC) {
            let wrong = wrong_uses(path, &source.text);
            findings.extend(wrong.into_iter().map(|(line, what)| Finding::new(&source.path, line, what)));
        }
    }
}

/// The modules that are named as one before them is, and that one. Tests stand beside what they test, and are called so.
fn named_alike<'a>(files: impl Iterator<Item = &'a Path>) -> Vec<(&'a Path, &'a Path)> {
    let mut first = HashMap::new();
    let named = files.filter(|file| file.file_stem() != Some(OsStr::new("tests")));
    named.filter_map(|file| Some((file, first.insert(file.file_stem(), file)?))).collect()
}

/// What is wrong with the modules that one file uses, with the lines. `path` is that below `src`.
fn wrong_uses(path: &Path, text: &str) -> Vec<(Option<usize>, String)> {
    let path = path.with_extension("");
    let modules: Vec<_> = path.iter().filter_map(|part| part.to_str()).collect();
    let Some(own_name) = modules.first().filter(|name| modules.len() > 1 || !matches!(**name, "lib" | "main")) else {
        return Vec::new();
    };
    let layer = |name: &str| LAYERS.iter().position(|layer| layer.contains(&name));
    let Some(own) = layer(own_name) else {
        return vec![(None, format!("{own_name} stands in no layer: add it to xtask/src/tidy/modules.rs"))];
    };
    let mut wrong = Vec::new();
    for (number, used) in used_modules(text, modules.len()) {
        if used != *own_name && layer(&used).is_some_and(|used| used >= own) {
            wrong.push((Some(number), format!("{own_name} may not use {used}, which is not below it")));
        }
    }
    wrong
}

/// The modules of the crate's root that a file names in its code, each with the line. `depth` is how far the file's own module is
/// below the root: as many `super` lead there.
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

/// The paths that begin with `root`, each with its line and without that.
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

/// The ways in which a path goes on: one, or those of a group in braces.
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

    #[track_caller]
    fn check(path: &str, text: &str, expected: &[usize]) {
        let wrong = wrong_uses(Path::new(path), text);
        let lines: Vec<_> = wrong.iter().map(|(line, _)| line.unwrap_or(0)).collect();
        assert_eq!(lines, expected, "{wrong:?}");
    }

    #[test]
    fn a_module_uses_only_those_below() {
        check("kinds.rs", "//! Kinds.\n\nuse crate::object::list;\n", &[]);
        check("object.rs", "//! Objects.\n\nuse crate::kinds::Kind;\n", &[3]);
        check("kinds/pods.rs", "use crate::registry;\n", &[1]);
        check("kinds/pods.rs", "fn f() {\n    crate::registry::Registry::new()\n}\n", &[2]);
        check("auth.rs", "use crate::{admission, kinds::{Kind, Kinds}, object};\n", &[1]);
    }

    #[test]
    fn a_path_from_the_root_may_also_begin_above() {
        check("object.rs", "use super::http;\n", &[1]);
        check("object/metadata.rs", "use super::{list, http};\nuse super::super::http;\n", &[2]);
        check("object/metadata.rs", "use super::super::{list,\n    http};\n", &[1]);
    }

    #[test]
    fn what_is_no_code_or_no_module_is_none_of_its_business() {
        check("object.rs", "// Not as in crate::http.\nuse http::Method;\n", &[]);
        check("lib.rs", "use crate::server::ApiServer;\n", &[]);
        check("config.rs", "use crate::ApiServer;\nuse pintle_crate::http;\n", &[]);
    }

    #[test]
    fn a_name_is_of_one_module() {
        let files = ["kinds.rs", "kinds/pod.rs", "kinds/tests.rs", "crd/tests.rs", "admission/pod.rs"].map(Path::new);
        assert_eq!(named_alike(files.into_iter()), [(Path::new("admission/pod.rs"), Path::new("kinds/pod.rs"))]);
    }

    #[test]
    fn a_new_module_has_to_have_a_layer() {
        check("news.rs", "", &[0]);
        check("news/old.rs", "", &[0]);
    }
}
