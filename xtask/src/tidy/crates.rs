//! Checks the README, the documentation, the examples and the manifest keys of each crate.

use std::path::Path;

use serde_json::Value;

use super::{Finding, Source};

pub(super) fn check(root: &Path, sources: &[Source], packages: &[Value], findings: &mut Vec<Finding>) {
    if !sources.iter().any(|source| source.path == Path::new("LICENSE")) {
        findings.push(Finding::new(Path::new("LICENSE"), None, "is missing"));
    }
    for package in packages {
        let manifest = Path::new(package["manifest_path"].as_str().unwrap_or_default());
        let manifest = manifest.strip_prefix(root).unwrap_or(manifest);
        let Some(folder) = manifest.parent().filter(|folder| folder.starts_with("crates")) else { continue };
        let published = package["publish"].is_null();
        check_crate(folder, published, sources, findings);
    }
    for source in sources.iter().filter(|source| source.is("rs")) {
        // Skip the project template, which has cargo's default layout.
        if !source.path.starts_with("crates/pintle/template") {
            check_place(source, findings);
        }
        check_file(source, findings);
    }
}

/// Checks that a crate has `foo.rs` next to `foo/`, has its tests in `tests/it`, and describes each file in the
/// file's first line.
fn check_place(source: &Source, findings: &mut Vec<Finding>) {
    let mut find = |what: &str| findings.push(Finding::new(&source.path, None, what));
    if source.path.file_name().is_some_and(|name| name == "mod.rs") {
        find("use a file next to the folder, with the folder's name");
    }
    if !source.text.starts_with("//!") {
        find("must start with a line that describes the file (`//! …`)");
    }
    let mut parts = source.path.iter().skip_while(|part| *part != "tests").skip(1);
    let binary = parts.next().and_then(|part| part.to_str());
    if binary.is_some_and(|binary| binary != "it" && !OWN_BINARIES.contains(&binary)) {
        find("is a test outside of tests/it: one test binary per crate builds much faster");
    }
}

/// The tests that are separate programs, because they need a special build, or measure or change the whole process.
const OWN_BINARIES: &[&str] =
    &["allocations.rs", "cpu_time", "installed_provider.rs", "loom.rs", "memory.rs", "shuttle"];

fn check_crate(folder: &Path, published: bool, sources: &[Source], findings: &mut Vec<Finding>) {
    let text = |name: &str| {
        let path = folder.join(name);
        sources.iter().find(|source| source.path == path).map(|source| source.text.as_str())
    };
    let mut find = |name: &str, what: &str| findings.push(Finding::new(&folder.join(name), None, what));

    let manifest = text("Cargo.toml").unwrap_or_default();
    for key in ["version.workspace", "edition.workspace", "rust-version.workspace", "license.workspace", "[lints]"] {
        if !manifest.contains(key) {
            find("Cargo.toml", &format!("lacks {key}: the workspace sets it for all crates"));
        }
    }
    for key in ["keywords.workspace", "categories", "description", "[package.metadata.docs.rs]"] {
        if published && !manifest.contains(key) {
            find("Cargo.toml", &format!("lacks {key}: crates.io and docs.rs use it"));
        }
    }
    let library = text("src/lib.rs").unwrap_or_default();
    match text("README.md") {
        None => find("README.md", "is missing: each crate has one"),
        Some(readme) if has_rust_example(readme) && !library.contains("include_str!(\"../README.md\")") => {
            find("README.md", "has an example that never runs: include the README in src/lib.rs for doctests");
        }
        Some(_) => {}
    }
    for module in second_paths(library) {
        find(
            "src/lib.rs",
            &format!("exports items of the public module {module} a second time: each item has one public path"),
        );
    }
    let page = crate_page(library);
    if !opens_with_one_sentence(&page) {
        find("src/lib.rs", "must start with one sentence in its own paragraph");
    }
    if published {
        // A macro crate needs no example, because the crate that re-exports the macro contains its example.
        let is_macro = manifest.contains("proc-macro = true");
        if !is_macro && !has_rust_example(&page) {
            find("src/lib.rs", "the crate page has no example");
        }
        if !page.lines().any(|line| {
            (line.starts_with("* ") || line.starts_with("- ") || line.starts_with("| ")) && line.contains("[`")
        }) {
            find("src/lib.rs", "the crate page does not list its main types (a list or table of links)");
        }
        for feature in undescribed_features(manifest, &page) {
            find("src/lib.rs", &format!("lacks the feature {feature} in the table of the section `# Features`"));
        }
    }
}

fn check_file(source: &Source, findings: &mut Vec<Finding>) {
    for (index, line) in source.text.lines().enumerate() {
        let comment = line.trim_start();
        let fence = comment.strip_prefix("//! ```").or_else(|| comment.strip_prefix("/// ```"));
        if fence.is_some_and(|tags| tags.split(',').any(|tag| tag.trim() == "ignore")) {
            findings.push(Finding::new(
                &source.path,
                index + 1,
                "an example that never runs: let it run, or mark it as text",
            ));
        }
    }
}

/// Returns the public modules whose items are also exported at the crate root.
fn second_paths(library: &str) -> Vec<&str> {
    let public: Vec<&str> =
        library.lines().filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';')).collect();
    let exported = library.lines().filter_map(|line| line.strip_prefix("pub use ")?.split("::").next());
    exported.filter(|module| public.contains(module)).collect()
}

/// Returns the features of a manifest, except `default`, that have no row in the section `# Features` of the crate page.
fn undescribed_features<'a>(manifest: &'a str, page: &str) -> Vec<&'a str> {
    let section = page.split("# Features\n").nth(1).and_then(|rest| rest.split("\n# ").next()).unwrap_or_default();
    let lines = manifest.lines().skip_while(|line| *line != "[features]").skip(1);
    let lines = lines.take_while(|line| !line.starts_with('['));
    let features = lines.filter(|line| !line.starts_with('#')).filter_map(|line| Some(line.split_once(" = ")?.0));
    features.filter(|feature| *feature != "default" && !section.contains(&format!("\n| `{feature}` | "))).collect()
}

fn crate_page(library: &str) -> String {
    let lines = library.lines().map_while(|line| line.strip_prefix("//!"));
    lines.map(|line| format!("{}\n", line.strip_prefix(' ').unwrap_or(line))).collect()
}

fn opens_with_one_sentence(page: &str) -> bool {
    let first: Vec<&str> = page.lines().take_while(|line| !line.trim().is_empty()).collect();
    let first = first.join(" ");
    first.ends_with('.') && !first.trim_end_matches('.').contains(". ")
}

fn has_rust_example(page: &str) -> bool {
    let mut open = false;
    page.lines().filter_map(|line| line.trim_start().strip_prefix("```")).any(|tags| {
        open = !open;
        open && ["", "rust", "no_run", "should_panic"].contains(&tags.split(',').next().unwrap_or_default().trim())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn places(path: &str, text: &str, expected: &[&str]) {
        let mut findings = Vec::new();
        check_place(&Source { path: path.into(), text: text.to_owned() }, &mut findings);
        let found: Vec<String> = findings.iter().map(ToString::to_string).collect();
        assert_eq!(found.len(), expected.len(), "{found:?}");
        assert!(found.iter().zip(expected).all(|(found, expected)| found.contains(expected)), "{found:?}");
    }

    #[test]
    fn misplaced_and_undescribed_files_are_found() {
        places("crates/a/src/b.rs", "//! B.\n", &[]);
        places("crates/a/tests/it/b.rs", "//! B.\n", &[]);
        places("crates/a/tests/shuttle/b.rs", "//! B.\n", &[]);
        places("crates/a/src/b/mod.rs", "//! B.\n", &["with the folder's name"]);
        places("crates/a/src/b.rs", "use c;\n", &["start with a line"]);
        places("crates/a/tests/b.rs", "//! B.\n", &["outside of tests/it"]);
        places("crates/a/tests/scenarios/b.rs", "//! B.\n", &["outside of tests/it"]);
    }

    #[test]
    fn first_paragraph_is_one_sentence() {
        assert!(opens_with_one_sentence("A queue\nof keys.\n\nMore. And more.\n"));
        assert!(!opens_with_one_sentence("A queue. Of keys.\n"));
        assert!(!opens_with_one_sentence("A queue\n\nMore.\n"));
        assert!(!opens_with_one_sentence(""));
    }

    #[test]
    fn examples_are_blocks_of_rust() {
        assert!(has_rust_example("x\n```\nlet a = 1;\n```\n"));
        assert!(has_rust_example("```text\nx\n```\n```rust,no_run\n```\n"));
        assert!(!has_rust_example("```text\nx\n```\n```sh\nls\n```\n"));
    }

    #[test]
    fn features_without_a_row_are_found() {
        let manifest = "[features]\ndefault = [\"a\"]\n# B = 1\na = []\nb-c = [\"a\"]\n\n[dependencies]\nd = \"1\"\n";
        let page = "A.\n\n# Features\n\n| feature | adds |\n|---|---|\n| `a` | A |\n\n# More\n\n| `b-c` | x |\n";
        assert_eq!(undescribed_features(manifest, page), ["b-c"]);
        assert_eq!(undescribed_features(manifest, "A.\n"), ["a", "b-c"]);
        assert_eq!(undescribed_features("[dependencies]\nd = \"1\"\n", "A.\n"), Vec::<&str>::new());
    }

    #[test]
    fn second_paths_are_exports_of_public_modules() {
        assert_eq!(second_paths("pub mod a;\nmod b;\npub use a::{B, C};\npub use b::D;\npub use other as c;\n"), ["a"]);
    }

    #[test]
    fn crate_page_is_the_leading_comment() {
        assert_eq!(crate_page("//! A.\n//!\n//!  b\n#![x]\n//! c\n"), "A.\n\n b\n");
    }
}
