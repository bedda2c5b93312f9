//! Rules of each crate: a README, a page that opens well, examples that run, the workspace's keys.

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
        check_file(source, findings);
    }
}

fn check_crate(folder: &Path, published: bool, sources: &[Source], findings: &mut Vec<Finding>) {
    let text = |name: &str| {
        let path = folder.join(name);
        sources.iter().find(|source| source.path == path).map(|source| source.text.as_str())
    };
    let mut find = |name: &str, what: &str| findings.push(Finding::new(&folder.join(name), None, what));

    let manifest = text("Cargo.toml").unwrap_or_default();
    for key in ["version.workspace", "edition.workspace", "rust-version.workspace", "license.workspace", "[lints]"] {
        if !manifest.contains(key) {
            find("Cargo.toml", &format!("lacks {key}: the workspace sets it for all"));
        }
    }
    let library = text("src/lib.rs").unwrap_or_default();
    match text("README.md") {
        None => find("README.md", "is missing: each crate has one"),
        Some(readme) if has_rust_example(readme) && !library.contains("include_str!(\"../README.md\")") => {
            find("README.md", "has an example that never runs: include the page in src/lib.rs, for tests at least");
        }
        Some(_) => {}
    }
    let page = crate_page(library);
    if !opens_with_one_sentence(&page) {
        find("src/lib.rs", "has to open with one sentence, in a paragraph of its own");
    }
    if published {
        if !has_rust_example(&page) {
            find("src/lib.rs", "its page has no example");
        }
        if !page.lines().any(|line| {
            (line.starts_with("* ") || line.starts_with("- ") || line.starts_with("| ")) && line.contains("[`")
        }) {
            find("src/lib.rs", "its page does not list its nouns (a list or table of links)");
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
                "an example that never runs: let it run, or make it text",
            ));
        }
    }
}

/// The crate's documentation as Markdown.
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

    #[test]
    fn the_first_paragraph_is_one_sentence() {
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
    fn the_page_is_the_leading_comment() {
        assert_eq!(crate_page("//! A.\n//!\n//!  b\n#![x]\n//! c\n"), "A.\n\n b\n");
    }
}
