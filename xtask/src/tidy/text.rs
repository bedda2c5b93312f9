//! Checks whitespace, file lengths and forbidden words in all text files.

use super::{Finding, Source};

/// The maximum number of lines in a source file.
const LONGEST: usize = 600;

/// The extensions of the files to which these rules apply.
const WRITTEN: &[&str] = &["rs", "toml", "md", "yaml", "yml", "txt", "go", "sh"];

/// The forbidden words and their replacements.
const FORBIDDEN: &[(&str, &str)] = &[
    (concat!("todo", "!("), "finish it, or leave it out"),
    (concat!("unimplemented", "!("), "finish it, or leave it out"),
    (concat!("TO", "DO"), "finish it, or open an issue"),
    (concat!("FIX", "ME"), "finish it, or open an issue"),
    (concat!("sh", "all "), "say \"does\" or \"must\""),
    (concat!("bef", "all"), "say \"happens to\""),
    (concat!("says ", "else"), "say \"sets another\""),
    (concat!("/wo", "rk/"), "a path of one machine"),
    (concat!("/ro", "ot/"), "a path of one machine"),
    (concat!("/t", "mp/"), "a path of one machine; use a temporary folder"),
];

pub(super) fn check(sources: &[Source], findings: &mut Vec<Finding>) {
    for source in sources.iter().filter(|source| WRITTEN.iter().any(|ending| source.is(ending))) {
        check_one(source, findings);
    }
}

fn check_one(source: &Source, findings: &mut Vec<Finding>) {
    let Source { path, text } = source;
    let mut find = |line: Option<usize>, what: String| findings.push(Finding::new(path, line, what));
    for (index, line) in text.lines().enumerate() {
        let number = Some(index + 1);
        if line.ends_with([' ', '\t', '\r']) {
            find(number, "trailing space".to_owned());
        }
        if source.is("rs") && line.contains('\t') {
            find(number, "a tab".to_owned());
        }
        for (word, advice) in FORBIDDEN {
            if line.contains(word) {
                find(number, format!("{word:?}: {advice}"));
            }
        }
    }
    if !text.is_empty() && !text.ends_with('\n') || text.ends_with("\n\n") {
        find(None, "must end with one line end".to_owned());
    }
    let lines = text.lines().count();
    if source.is("rs") && lines > LONGEST {
        find(None, format!("{lines} lines; a file has at most {LONGEST}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn finds(path: &str, text: &str, expected: &[&str]) {
        let mut findings = Vec::new();
        check_one(&Source { path: path.into(), text: text.to_owned() }, &mut findings);
        let found: Vec<String> = findings.iter().map(ToString::to_string).collect();
        assert_eq!(found.len(), expected.len(), "{found:?}");
        assert!(found.iter().zip(expected).all(|(found, expected)| found.contains(expected)), "{found:?}");
    }

    #[test]
    fn clean_text_passes() {
        finds("a.rs", "//! A.\n", &[]);
    }

    #[test]
    fn spaces_line_ends_and_words_are_found() {
        finds("a.md", "a \nb", &["a.md:1: trailing space", "line end"]);
        finds("a.rs", "\tx\n\n", &["a.rs:1: a tab", "line end"]);
        finds("a.rs", &format!("// {}DO\n", "TO"), &["a.rs:1:"]);
    }

    #[test]
    fn long_files_are_found() {
        finds("a.rs", &"x\n".repeat(LONGEST + 1), &["601 lines"]);
        finds("a.md", &"x\n".repeat(LONGEST + 1), &[]);
    }
}
