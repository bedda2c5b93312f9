//! Regular expressions in `pattern`. The size of each compiled expression is limited, because a short pattern such
//! as `\pL{99}` can use several megabytes.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

const LARGEST_AUTOMATON: usize = 32 << 10;
/// The number of search steps per validation step.
const SEARCH_STEPS: usize = 16;
/// The maximum number of instructions in a compiled pattern. For comparison, Go's limit is about three times as
/// high.
const MAX_INSTRUCTIONS: u64 = 1 << 20;
/// The maximum length of a pattern, in bytes. The limit on the length is low, because three characters of a pattern can
/// represent a class with thousands of characters.
const LONGEST_PATTERN: usize = 8 << 10;
/// The memory budget for a definition's patterns, in bytes. Each pattern costs [`LARGEST_AUTOMATON`], plus
/// [`OF_PATTERN_CHARACTER`] per byte, [`OF_INSTRUCTION`] per instruction and [`OF_NAMED_CLASS`] per named Unicode
/// class.
const PATTERN_BUDGET: u64 = 128 << 20;
const OF_PATTERN_CHARACTER: u64 = 1 << 10;
const OF_INSTRUCTION: u64 = 32;
const OF_NAMED_CLASS: u64 = 8 << 10;

/// A pattern that is parsed and compiled on first use, because most objects use only some patterns of their
/// definition.
#[derive(Debug)]
pub(crate) struct Pattern {
    text: String,
    parsed: OnceLock<Option<pintle_cel::Pattern>>,
}

impl Pattern {
    fn new(text: &str) -> Self {
        Self { text: text.into(), parsed: OnceLock::new() }
    }

    /// Returns `true` if the pattern matches, and the number of search steps. Returns `None` if the search exceeds
    /// `max_steps`. An invalid pattern matches every string.
    pub(super) fn matches(&self, text: &str, max_steps: usize) -> Option<(bool, usize)> {
        let Some(pattern) = self.parsed.get_or_init(|| parse(&self.text).ok()) else { return Some((true, 0)) };
        match pattern.search(text, max_steps.saturating_mul(SEARCH_STEPS)) {
            Ok(found) => found.map(|search| (search.is_match, search.steps / SEARCH_STEPS)),
            Err(_) => Some((false, 0)),
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn parse(text: &str) -> Result<pintle_cel::Pattern, String> {
    const TOO_LARGE: &str = "error parsing regexp: expression too large";
    if text.len() > LONGEST_PATTERN {
        return Err(TOO_LARGE.into());
    }
    let pattern = pintle_cel::Pattern::parse(text, LARGEST_AUTOMATON)?;
    if pattern.instructions() > MAX_INSTRUCTIONS { Err(TOO_LARGE.into()) } else { Ok(pattern) }
}

/// Estimates the cost of compiling a pattern. The automaton contains a copy of a repeated expression for each
/// repetition, and a Unicode class adds thousands of characters.
fn weight(pattern: &str) -> usize {
    const OF_UNICODE: usize = 64;
    let counts = pattern.split('{').skip(1).filter_map(|after| {
        let counts = after.split('}').next()?.split(',');
        counts.filter_map(|count| count.parse::<usize>().ok()).max()
    });
    let copies = counts.fold(1, |copies: usize, count| copies.saturating_mul(count.max(1)).min(LONGEST_PATTERN));
    let of_character = if pattern.contains(r"\p") || pattern.contains(r"\P") { OF_UNICODE } else { 1 };
    pattern.len() * copies * of_character
}

/// The distinct patterns of a definition. Equal patterns share one compiled automaton.
#[derive(Debug)]
pub(super) struct Patterns {
    by_text: HashMap<String, Arc<Pattern>>,
    checked: HashMap<String, Result<(), String>>,
    /// The unused memory in [`PATTERN_BUDGET`], in bytes.
    left: u64,
}

impl Default for Patterns {
    fn default() -> Self {
        Self { by_text: HashMap::new(), checked: HashMap::new(), left: PATTERN_BUDGET }
    }
}

impl Patterns {
    pub(super) fn shared(&mut self, text: &str) -> Arc<Pattern> {
        if let Some(known) = self.by_text.get(text) {
            return known.clone();
        }
        let made = Arc::new(Pattern::new(text));
        self.by_text.insert(text.into(), made.clone());
        made
    }

    /// Returns the approximate cost of compiling all shared patterns. A cost of 1 corresponds to the time to process
    /// one byte of a request body.
    pub(super) fn weight(&self) -> usize {
        self.by_text.keys().map(|text| weight(text)).sum()
    }

    /// Returns an error if the pattern is invalid or exceeds the definition's remaining pattern budget.
    pub(super) fn check(&mut self, pattern: &str) -> Result<(), String> {
        if let Some(known) = self.checked.get(pattern) {
            return known.clone();
        }
        let checked = self.check_new(pattern);
        self.checked.insert(pattern.into(), checked.clone());
        checked
    }

    fn check_new(&mut self, text: &str) -> Result<(), String> {
        let spend = |left: &mut u64, cost: u64| {
            *left = left.checked_sub(cost).ok_or("is one pattern too many for one definition")?;
            Ok::<_, String>(())
        };
        spend(&mut self.left, LARGEST_AUTOMATON as u64 + text.len() as u64 * OF_PATTERN_CHARACTER)?;
        let pattern = parse(text).map_err(|why| format!("must be a valid regular expression, but isn't: {why}"))?;
        spend(&mut self.left, pattern.unicode_classes() * OF_NAMED_CLASS + pattern.instructions() * OF_INSTRUCTION)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn automaton_steps_are_proportional_to_the_text() {
        let check = |pattern: &str, text: &str, expected: (bool, usize)| {
            assert_eq!(Pattern::new(pattern).matches(text, 1_000), Some(expected), "{pattern}");
        };
        let long = "a".repeat(640);
        check("^a+$", &long, (true, 10));
        check("^b", &long, (false, 10));
        check(r"^\w{1,63}$", "a_1", (true, 0));
        check("(", &long, (true, 0));
        check(r"\pL{9000}{9000}", &long, (true, 0));
        check(&"a".repeat(LONGEST_PATTERN + 1), &long, (true, 0));
    }

    #[test]
    fn steps_of_large_classes_are_bounded() {
        let pattern = Pattern::new(r"^\pL{50}i$");
        for (text, expected) in [(format!("{}i", "\u{e9}".repeat(50)), true), ("a".repeat(51), false)] {
            let (matches, steps) = pattern.matches(&text, 1_000).expect("few steps");
            assert!(matches == expected && (1..100).contains(&steps), "{text}: {steps}");
        }
        let (matches, steps) = Pattern::new(r"\pL{50}1").matches(&"a".repeat(64_000), 1 << 20).expect("few steps");
        assert!(!matches && (64_000..64_000 * 60 / SEARCH_STEPS).contains(&steps), "{steps}");
    }

    #[test]
    fn search_ends_at_the_limit_of_steps() {
        let pattern = Pattern::new(&format!("{}b$", "(a?){1000}".repeat(40)));
        assert_eq!(pattern.matches(&"a".repeat(2_000), 10_000), None);
        assert_eq!(pattern.matches("b", 100_000).map(|found| found.0), Some(true));
    }

    #[test]
    fn weight_of_a_pattern_grows_with_its_repeats() {
        for (pattern, least, most) in [
            ("^[a-z]+$", 1, 100),
            ("^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$", 1_000, 4_000),
            (r"\pL{99}", 40_000, 1 << 20),
            ("(a{1000}){1000}", 100_000, 1 << 20),
            ("}{,{", 1, 100),
        ] {
            let weight = weight(pattern);
            assert!((least..most).contains(&weight), "{pattern}: {weight}");
        }
    }

    #[test]
    fn perl_classes_are_ascii_as_in_go() {
        for (pattern, text, expected) in [
            (r"^\d+$", "12", true),
            (r"^\d+$", "\u{661}", false),
            (r"^[\w.-]+$", "a.b-c_1", true),
            (r"^[\w.-]+$", "\u{fc}", false),
            (r"^\W$", "\u{fc}", true),
            (r"^[^\s]$", "\u{a0}", true),
            (r"^\\d$", r"\d", true),
            (r"^\pL$", "\u{fc}", true),
        ] {
            assert_eq!(
                Pattern::new(pattern).matches(text, 1_000).map(|found| found.0),
                Some(expected),
                "{pattern} {text}"
            );
        }
    }

    #[test]
    fn syntax_is_that_of_go() {
        for (pattern, text, expected) in [
            ("^a{,5}$", "a{,5}", true),
            ("^{$", "{", true),
            ("^[a&&b]+$", "a&b", true),
            ("^[a[b]$", "[", true),
            (r"^\<a\>$", "<a>", true),
            (r"^\Q.*\E$", ".*", true),
            (r"^\Q.\E$", "x", false),
            (r"\ba", "\u{fc}a", true),
            (r"\ba", "xa", false),
        ] {
            assert_eq!(
                Pattern::new(pattern).matches(text, 1_000).map(|found| found.0),
                Some(expected),
                "{pattern} {text}"
            );
        }
        let mut patterns = Patterns::default();
        for (pattern, why) in [
            ("a**", "invalid nested repetition operator: `**`"),
            ("x{2}{3}", "invalid nested repetition operator: `{2}{3}`"),
            (r"\u0041", r"invalid escape sequence: `\u`"),
            ("[[:foo:]]", "invalid character class range: `[:foo:]`"),
            ("(?x)a", "invalid or unsupported Perl syntax: `(?x`"),
            ("(a{101}){10}", "invalid repeat count: `{10}`"),
            ("(", "missing closing ): `(`"),
        ] {
            let why = format!("must be a valid regular expression, but isn't: error parsing regexp: {why}");
            assert_eq!(patterns.check(pattern), Err(why));
        }
    }

    #[test]
    fn repeats_are_bounded_and_unicode_classes_are_accepted() {
        let mut patterns = Patterns::default();
        let large = "((a{1000}b{1000}c{1000}d{1000}))".repeat(256);
        for pattern in ["a{1001}", "(a{100}){100}", &"(".repeat(2_000), &large] {
            assert!(patterns.check(pattern).is_err(), "{pattern}");
        }
        for number in 0..100 {
            assert_eq!(patterns.check(&format!(r"^\pL{{50}}{number}$")), Ok(()));
        }
    }

    #[test]
    fn repeated_patterns_cost_once_and_new_ones_are_bounded() {
        let mut patterns = Patterns::default();
        for _ in 0..1_000_000 {
            assert_eq!(patterns.check("^[a-z]{1,63}$"), Ok(()));
        }
        assert!(
            patterns.check("(").is_err_and(|why| why.starts_with("must be a valid regular expression, but isn't: "))
        );
        let taken = (0..).take_while(|number| patterns.check(&format!(r"\pL{{5}}{number}")).is_ok()).count();
        assert!((2_000..4_000).contains(&taken), "{taken}");
        assert_eq!(patterns.check("^[a-z]{1,63}$"), Ok(()), "a known pattern stays valid");
    }
}
