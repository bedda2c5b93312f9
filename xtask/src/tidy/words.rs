//! Checks that public types in different published crates have different names.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{Finding, Source};

/// The type names that several crates may define, each with a reason.
const SHARED: &[(&str, &str)] = &[
    ("Context", "kubectl's word in a kubeconfig, and the usual word for the parameter of a reconciler"),
    ("Controller", ENGINE),
    ("Error", "each crate has its own error type, as is the custom in Rust"),
    ("Manager", ENGINE),
    ("Objects", "the client's cache and the server's store each have a set of objects"),
    ("Reconciler", ENGINE),
];

const ENGINE: &str = "the operator crate wraps the engine of the controller crate, and a program uses one of them";

/// A text that the manifest descriptions of internal crates contain. Users do not import from these crates
/// directly, so their types may share names with types of other crates.
const INTERNAL: &str = "No stability promise";

pub(super) fn check(root: &Path, sources: &[Source], packages: &[Value], findings: &mut Vec<Finding>) {
    let mut owners = BTreeMap::<String, Vec<PathBuf>>::new();
    for package in packages.iter().filter(|package| package["publish"].is_null()) {
        let manifest = Path::new(package["manifest_path"].as_str().unwrap_or_default());
        let manifest = manifest.strip_prefix(root).unwrap_or(manifest);
        let Some(folder) = manifest.parent().filter(|folder| folder.starts_with("crates")) else { continue };
        // Skip `pintle-cel`, which can be used without the other crates and whose type names are terms of CEL.
        if folder.ends_with("cel") {
            continue;
        }
        if package["description"].as_str().is_some_and(|description| description.contains(INTERNAL)) {
            continue;
        }
        for name in public_types(&folder.join("src/lib.rs"), sources) {
            owners.entry(name).or_default().push(folder.join("src/lib.rs"));
        }
    }
    findings.extend(faults(&owners, SHARED));
}

fn faults(owners: &BTreeMap<String, Vec<PathBuf>>, shared: &[(&str, &str)]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (name, libraries) in owners.iter().filter(|(_, libraries)| libraries.len() > 1) {
        if !shared.iter().any(|(known, _)| known == name) {
            let others = libraries[1..].iter().map(|library| library.display().to_string()).collect::<Vec<_>>();
            let what = format!("exports the type {name}, as {} does: one word is one public type", others.join(", "));
            findings.push(Finding::new(&libraries[0], None, what));
        }
    }
    for (name, _) in shared.iter().filter(|(name, _)| owners.get(*name).is_none_or(|libraries| libraries.len() < 2)) {
        let what = format!("{name} is no longer shared: remove it from the list");
        findings.push(Finding::new(Path::new("xtask/src/tidy/words.rs"), None, what));
    }
    findings
}

fn public_types(file: &Path, sources: &[Source]) -> Vec<String> {
    let Some(source) = sources.iter().find(|source| source.path == file) else { return Vec::new() };
    let parts = if file.file_name().is_some_and(|name| name == "lib.rs") {
        file.with_file_name("")
    } else {
        file.with_extension("")
    };
    let mut names = own_types(&source.text);
    for module in modules(&source.text, "pub mod ") {
        names.extend(public_types(&parts.join(format!("{module}.rs")), sources));
    }
    names
}

/// Returns the types that a file defines at its top level or re-exports from its private modules. Types that the
/// file re-exports from other crates are omitted.
fn own_types(text: &str) -> Vec<String> {
    let mut names = Vec::new();
    for keyword in ["struct", "enum", "trait", "type", "union"] {
        let defined =
            text.lines().filter_map(|line| line.strip_prefix("pub ")?.strip_prefix(keyword)?.strip_prefix(' '));
        names.extend(
            defined.map(|name| name.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default().to_owned()),
        );
    }
    let statements = text.split("\npub use ").skip(1).filter_map(|rest| Some(rest.split_once(';')?.0));
    for statement in statements {
        let path = statement.trim_start_matches("self::");
        let Some((module, exported)) = path.split_once("::") else { continue };
        if !modules(text, "mod ").any(|private| private == module) {
            continue;
        }
        let words = exported.split(|c: char| !c.is_alphanumeric() && c != '_');
        names.extend(words.filter(|word| is_type(word)).map(str::to_owned));
    }
    names
}

pub(super) fn without_tests(text: &str) -> &str {
    text.split_once("\n#[cfg(test)]\nmod tests {").map_or(text, |(code, _)| code)
}

fn modules<'a>(text: &'a str, keyword: &'a str) -> impl Iterator<Item = &'a str> {
    text.lines().filter_map(move |line| line.strip_prefix(keyword)?.strip_suffix(';'))
}

/// Returns `true` if a word looks like the name of a type instead of a function, module or constant.
fn is_type(word: &str) -> bool {
    word.starts_with(char::is_uppercase) && word.chars().any(char::is_lowercase)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(path: &str, text: &str) -> Source {
        Source { path: path.into(), text: text.to_owned() }
    }

    #[test]
    fn public_types_include_those_of_public_modules() {
        let sources = [
            source("a/src/lib.rs", "mod b;\npub mod c;\n\npub use b::{LIMIT, Lock, go};\npub use b::d::Deep;\n"),
            source("a/src/b.rs", "pub struct Lock;\npub struct Hidden;\n"),
            source(
                "a/src/c.rs",
                "mod e;\npub use e::{\n    Far,\n    Near,\n};\npub enum Way<T> {}\nimpl X {\n    pub type Not = u8;\n}\n",
            ),
        ];
        assert_eq!(public_types(Path::new("a/src/lib.rs"), &sources), ["Lock", "Deep", "Way", "Far", "Near"]);
    }

    #[test]
    fn reexports_of_other_crates_are_ignored() {
        assert!(
            own_types(
                "//! A.\n\npub use crate::Cluster;\npub use pintle_meta::Object;\npub use pintle_meta as meta;\n"
            )
            .is_empty()
        );
    }

    #[test]
    fn shared_names_and_stale_exceptions_are_found() {
        let owners = |names: &[(&str, usize)]| {
            names.iter().map(|(name, count)| ((*name).to_owned(), vec![PathBuf::from("lib.rs"); *count])).collect()
        };
        let shared = [("Error", "a custom")];
        assert!(faults(&owners(&[("Error", 3), ("Lock", 1)]), &shared).is_empty());
        let found = faults(&owners(&[("Error", 1), ("Lock", 2)]), &shared);
        let found: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(
            found[0].contains("exports the type Lock") && found[1].contains("Error is no longer shared"),
            "{found:?}"
        );
    }
}
