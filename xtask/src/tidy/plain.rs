//! Plain language. Each crate has a budget of marker phrases and of hard test names. Budgets may only become smaller.
//!
//! A marker phrase can be correct, but its sentence is often hard to read. docs/STYLE.md has the rules.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::LazyLock;

use regex::Regex;

use super::{Finding, Source};

/// The numbers of marker phrases and of hard test names that a crate contains or may contain.
#[derive(Clone, Copy, Default)]
struct Counts {
    phrases: usize,
    names: usize,
}

/// The crates that may contain marker phrases or hard test names. Other crates may contain none.
const BUDGETS: &[(&str, Counts)] =
    &[("leaderelect", Counts { phrases: 4, names: 0 }), ("workqueue", Counts { phrases: 2, names: 0 })];

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
    let mut found = BTreeMap::<&str, Counts>::new();
    for source in sources.iter().filter(|source| source.is("rs")) {
        let counts = found.entry(area(&source.path)).or_default();
        counts.phrases += comments(&source.text).map(markers).sum::<usize>();
        counts.names += odd_names(&source.text).count();
    }
    findings.extend(overspent(&found, BUDGETS));
    let has_budget =
        |source: &&Source| BUDGETS.iter().any(|(known, budget)| *known == area(&source.path) && budget.names > 0);
    for source in sources.iter().filter(|source| source.is("rs") && !has_budget(source)) {
        findings.extend(odd_names(&source.text).map(|(line, what)| Finding::new(&source.path, line, what)));
    }
}

/// Returns the crate of a file. For a file in `crates/NAME`, this is `NAME`. For other files, this is the top folder.
fn area(path: &Path) -> &str {
    let mut parts = path.iter().filter_map(|part| part.to_str());
    match (parts.next(), parts.next()) {
        (Some("crates"), Some(name)) => name,
        (first, _) => first.unwrap_or_default(),
    }
}

/// Returns the lines of comments and documentation, without code blocks.
fn comments(text: &str) -> impl Iterator<Item = &str> {
    let mut is_code = false;
    text.lines().filter_map(move |line| {
        let comment = line.trim_start().strip_prefix("//")?;
        let comment = comment.strip_prefix(['/', '!']).unwrap_or(comment);
        let comment = comment.strip_prefix(' ').unwrap_or(comment);
        if comment.starts_with("```") {
            is_code = !is_code;
            return None;
        }
        (!is_code).then_some(comment)
    })
}

fn markers(text: &str) -> usize {
    PATTERNS.iter().map(|pattern| pattern.find_iter(text).count()).sum()
}

/// Returns the test names with too many words or with an odd word.
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

fn overspent(found: &BTreeMap<&str, Counts>, budgets: &[(&str, Counts)]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (area, counts) in found {
        let budget = budgets.iter().find(|(known, _)| known == area).map_or(Counts::default(), |(_, budget)| *budget);
        let sums =
            [("marker phrases", counts.phrases, budget.phrases), ("hard test names", counts.names, budget.names)];
        for (what, count, budget) in sums.into_iter().filter(|(_, count, budget)| count != budget) {
            let advice = match count > budget {
                true => "rewrite the new ones; docs/STYLE.md has the rules",
                false => "lower its budget in xtask/src/tidy/plain.rs",
            };
            findings.push(Finding::new(Path::new(area), None, format!("{count} {what}, budget {budget}: {advice}")));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_blocks_are_not_counted() {
        let text = "/// Who is told.\n/// ```\n/// // nobody\n/// ```\n/// Returns it.\nlet nobody = 1; // nobody\n";
        assert_eq!(comments(text).collect::<Vec<_>>(), ["Who is told.", "Returns it."]);
    }

    #[test]
    fn marker_phrases_are_counted() {
        assert_eq!(markers("Who is told how the election goes, anew"), 3);
        assert_eq!(markers("Returns the number of keys that are in flight."), 0);
    }

    #[test]
    fn long_and_odd_test_names_are_found() {
        let text = "#[test]\nfn a_b_c_d_e_f_g_h_i_j() {}\n#[test]\nfn nobody_is_here() {}\n#[test]\nfn eviction_is_lru() {}\nfn a_b_c_d_e_f_g_h_i_j_k() {}\n";
        let found: Vec<_> = odd_names(text).map(|(line, _)| line).collect();
        assert_eq!(found, [2, 4]);
    }

    #[test]
    fn budgets_may_only_fall() {
        let counts = |phrases, names| Counts { phrases, names };
        let found = BTreeMap::from([("a", counts(2, 0)), ("b", counts(1, 4)), ("c", counts(0, 0))]);
        let lines = overspent(&found, &[("a", counts(1, 0)), ("b", counts(3, 4))]);
        let lines: Vec<_> = lines.iter().map(ToString::to_string).collect();
        assert_eq!(lines.len(), 2);
        assert!(lines[0].contains("2 marker phrases, budget 1: rewrite"), "{lines:?}");
        assert!(lines[1].contains("1 marker phrases, budget 3: lower"), "{lines:?}");
    }

    #[test]
    fn crate_is_named_by_its_folder() {
        assert_eq!(area(Path::new("crates/meta/src/lib.rs")), "meta");
        assert_eq!(area(Path::new("xtask/src/main.rs")), "xtask");
    }
}
