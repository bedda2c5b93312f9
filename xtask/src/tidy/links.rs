//! Checks that the relative links in Markdown files point to existing files.

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
}
