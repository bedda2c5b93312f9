//! Checks that comments do not contain marker phrases, and that test names are easy to read.
//!
//! A marker phrase can be correct English, but it often makes a sentence hard to read, as docs/STYLE.md
//! explains.

use std::sync::LazyLock;

use regex::Regex;

use super::{Finding, Source};

/// The maximum number of words in a test name.
const LONGEST_NAME: usize = 9;

/// Words that make a test name hard to read.
const ODD_WORDS: &[&str] = &["told", "who", "whoever", "somebody", "nobody", "anew"];

const MARKERS: &[&str] = &[
    r"\b(is|are|was|were|be|been|being) told\b|\btells? (of|what|who|that|it|them|how|whether)\b|\btold (of|what|that|by|as)\b",
    r"(^|[.,;:(] )(who|whoever|those who|somebody|anybody|nobody)\b|\b(those|they|one|for|to|by|of|from|with|than) who(ever)?\b|\b(somebody|whoever)\b",
    r"(^|[.;:] )What \w+ (is|are|has|was|does|comes|cannot|can|may|needs)\b|\b(of|to|by|from|with|than|for|in) what (is|was|has|are|it|they|the|comes|cannot|can)\b",
    r"\b(that|those) of\b",
    r"\bas (it|they) (came|comes|is|are|was|were)\b",
    r"\b(is|are|was|were) to (be|\w+)\b",
    r"\b(stands?|stood) (there|here|beside|by|in|for|at|on|under)\b",
    r"\b(anew|thereby|hence|whereby|wherein|therein|thus|nor|lest|ere|albeit|bef[a]lls?|whence|likewise|shall|beside)\b",
];

static PATTERNS: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    let compile = |pattern: &&str| Regex::new(&format!("(?i){pattern}")).expect("a constant pattern");
    MARKERS.iter().map(compile).collect()
});

pub(super) fn check(sources: &[Source], findings: &mut Vec<Finding>) {
    for source in sources.iter().filter(|source| source.is("rs")) {
        let found = markers(&source.text).chain(odd_names(&source.text));
        findings.extend(found.map(|(line, what)| Finding::new(&source.path, line, what)));
    }
}

/// Returns the lines of comments and docs outside of code blocks, with their line numbers.
fn comments(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_code = false;
    (1..).zip(text.lines()).filter_map(move |(number, line)| {
        let comment = line.trim_start().strip_prefix("//")?;
        let comment = comment.strip_prefix(['/', '!']).unwrap_or(comment);
        let comment = comment.strip_prefix(' ').unwrap_or(comment);
        if comment.starts_with("```") {
            is_code = !is_code;
            return None;
        }
        (!is_code).then_some((number, comment))
    })
}

fn markers(text: &str) -> impl Iterator<Item = (usize, String)> {
    comments(text).flat_map(|(line, comment)| {
        let phrases = PATTERNS.iter().flat_map(move |pattern| pattern.find_iter(comment));
        phrases.map(move |phrase| (line, format!("marker phrase {:?}: see docs/STYLE.md", phrase.as_str())))
    })
}

fn odd_names(text: &str) -> impl Iterator<Item = (usize, String)> {
    super::rows::tests(text).filter_map(|(line, name)| {
        let words: Vec<&str> = name.split('_').collect();
        if words.len() > LONGEST_NAME {
            return Some((line, format!("test name {name} has {} words, at most {LONGEST_NAME}", words.len())));
        }
        let odd = words.iter().find(|word| ODD_WORDS.contains(word))?;
        Some((line, format!("test name {name}: {odd:?} hides the subject; see docs/STYLE.md")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_blocks_are_not_counted() {
        let text = "/// Who is told.\n/// ```\n/// // nobody\n/// ```\n/// Returns it.\nlet nobody = 1; // nobody\n";
        assert_eq!(comments(text).collect::<Vec<_>>(), [(1, "Who is told."), (5, "Returns it.")]);
    }

    #[test]
    fn marker_phrases_are_found() {
        let lines = |text: &str| markers(text).map(|(line, _)| line).collect::<Vec<_>>();
        assert_eq!(lines("\n// Who is told how the election goes, anew"), [2, 2, 2]);
        assert_eq!(lines("// Returns the number of keys that are in flight."), [0; 0]);
    }

    #[test]
    fn long_and_odd_test_names_are_found() {
        let text = "#[test]\nfn a_b_c_d_e_f_g_h_i_j() {}\n#[test]\nfn nobody_is_here() {}\n#[test]\nfn eviction_is_lru() {}\nfn a_b_c_d_e_f_g_h_i_j_k() {}\n";
        let found: Vec<_> = odd_names(text).map(|(line, _)| line).collect();
        assert_eq!(found, [2, 4]);
    }
}
