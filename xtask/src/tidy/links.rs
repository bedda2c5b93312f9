//! Checks that the relative links in Markdown files, and the pages that `Cargo.toml` files name, exist.

use std::ffi::OsStr;
use std::path::Path;

use super::{Finding, Source};

pub(super) fn check(root: &Path, sources: &[Source], findings: &mut Vec<Finding>) {
    for source in sources.iter().filter(|source| source.is("md")) {
        let folder = root.join(&source.path);
        let folder = folder.parent().unwrap_or(root);
        for (line, target) in targets(&source.text) {
            let file = target.split('#').next().unwrap_or_default();
            if !file.is_empty() && !folder.join(file).exists() {
                findings.push(Finding::new(&source.path, line, format!("links to {file}, which does not exist")));
            }
        }
    }
    for source in sources.iter().filter(|source| source.path.file_name() == Some(OsStr::new("Cargo.toml"))) {
        for (line, page) in pages(&source.text) {
            if !root.join(page).exists() {
                findings.push(Finding::new(&source.path, line, format!("names {page}, which does not exist")));
            }
        }
    }
}

/// Returns the paths of the form `docs/….md` in a manifest, with their lines.
fn pages(text: &str) -> Vec<(usize, &str)> {
    let is_path = |symbol: char| symbol.is_ascii_alphanumeric() || "/-_.".contains(symbol);
    let mut out = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let words = line.split(|symbol| !is_path(symbol)).map(|word| word.trim_end_matches('.'));
        let pages = words.filter(|word| word.starts_with("docs/") && word.ends_with(".md"));
        out.extend(pages.map(|page| (index + 1, page)));
    }
    out
}

/// Returns the targets of all relative Markdown links outside of code blocks, with their lines.
fn targets(text: &str) -> Vec<(usize, &str)> {
    let mut out = Vec::new();
    let mut code = false;
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            code = !code;
        }
        let mut rest = line;
        while let Some((_, after)) = rest.split_once("](") {
            let Some((target, after)) = after.split_once(')') else { break };
            let path = target.split(' ').next().unwrap_or_default();
            let ours = path.contains('.') && !path.contains(':') && !path.contains("::") && !path.contains('`');
            if ours && !code {
                out.push((index + 1, path));
            }
            rest = after;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_relative_links_outside_of_code() {
        let text =
            "See [a](a.md#x), [b](https://b.c/d.md) and [c](crate::C).\n```\n[d](d.md)\n```\n[e](../e.svg \"E\")\n";
        assert_eq!(targets(text), [(1, "a.md#x"), (5, "../e.svg")]);
    }

    #[test]
    fn finds_pages_that_a_manifest_names() {
        let text =
            "# See docs/A.md.\n[package]\n# The reason (docs/b/c-d.md), not docs/b.\nreadme = \"../docs/e.md\"\n";
        assert_eq!(pages(text), [(1, "docs/A.md"), (3, "docs/b/c-d.md")]);
    }

    #[test]
    fn missing_page_in_a_manifest_is_found() {
        let manifest = Source { path: "crates/a/Cargo.toml".into(), text: "\n# docs/none.md\n".to_owned() };
        let mut findings = Vec::new();
        check(Path::new("."), &[manifest], &mut findings);
        let found: Vec<String> = findings.iter().map(ToString::to_string).collect();
        assert_eq!(found, ["crates/a/Cargo.toml:2: names docs/none.md, which does not exist"]);
    }
}
