//! Compiled patterns.

use std::sync::OnceLock;

use regex::{Regex, RegexBuilder};
use regex_syntax::ParserBuilder;
use regex_syntax::ast::{Ast, ClassSetItem, Flag, Visitor, visit};

use super::machine::{Machine, Search};

/// The maximum nesting depth of a pattern, as in Go.
const MAX_NESTING: u32 = 1_000;
/// The maximum nesting depth of a pattern with an automaton. The crate `regex` uses a lot of stack per level when it
/// builds an automaton.
const MAX_NESTING_OF_AUTOMATON: usize = 200;
/// The approximate number of ranges in a Unicode class. An automaton needs about one state per range.
const UNICODE_CLASS: u64 = 300;
/// The approximate factor by which ignoring case multiplies the number of ranges in a Unicode class.
const FOLDED: u64 = 8;
/// The minimum size of an automaton state, in bytes. The automaton is not built if its states would exceed the memory
/// limit even with this minimum size.
const STATE_BYTES: u64 = 16;
/// The number of bytes of text per step of an automaton search.
const BYTES_OF_STEP: usize = 4;

/// A regular expression in Go's RE2 syntax.
///
/// A pattern is compiled on first use. If its automaton would be too large, a search updates a list of active states
/// instead, as in Go. The memory for such a search grows with the length and the repetition counts of the pattern.
///
/// ```
/// let name = pintle_cel::Pattern::parse(r"^\p{L}{1,253}$", 1 << 20)?;
/// let search = name.search("Zoë", 1_000)?;
/// assert!(search.is_some_and(|search| search.is_match));
///
/// let error = pintle_cel::Pattern::parse("a**", 1 << 20).unwrap_err();
/// assert_eq!(error, "error parsing regexp: invalid nested repetition operator: `**`");
/// # Ok::<(), String>(())
/// ```
#[derive(Debug)]
pub struct Pattern {
    /// The pattern in the syntax of the crate `regex`.
    text: Box<str>,
    max_bytes: usize,
    size: Size,
    compiled: OnceLock<Result<Compiled, String>>,
}

#[derive(Debug)]
enum Compiled {
    Automaton(Box<Regex>),
    Machine(Machine),
}

impl Pattern {
    /// Parses a pattern. The automaton of the pattern uses at most `max_bytes` of memory.
    ///
    /// # Errors
    ///
    /// Returns Go's error message if the pattern is invalid.
    pub fn parse(pattern: &str, max_bytes: usize) -> Result<Self, String> {
        let (text, parsed) = super::parsed(pattern, MAX_NESTING).map_err(|reason| wrong(&reason))?;
        let Ok(size) = visit(&parsed, Review::new(&parsed));
        Ok(Self { text: text.into(), max_bytes, size, compiled: OnceLock::new() })
    }

    /// Returns the approximate number of instructions of the pattern in Go.
    #[must_use]
    pub fn instructions(&self) -> u64 {
        self.size.instructions
    }

    /// Returns the number of Unicode classes, such as `\pL`, in the pattern.
    #[must_use]
    pub fn unicode_classes(&self) -> u64 {
        self.size.classes
    }

    /// Searches a text for the pattern. Returns `None` if the search needs more than `max_steps` steps.
    ///
    /// # Errors
    ///
    /// Returns an error message if the pattern cannot be compiled, which should not happen for a valid pattern.
    pub fn search(&self, text: &str, max_steps: usize) -> Result<Option<Search>, String> {
        Ok(match self.compiled()? {
            Compiled::Automaton(regex) => {
                let steps = text.len() / BYTES_OF_STEP;
                (steps <= max_steps).then(|| Search { is_match: regex.is_match(text), steps })
            }
            Compiled::Machine(machine) => machine.search(text, max_steps),
        })
    }

    /// Returns the automaton, which can find the positions of matches.
    pub(crate) fn automaton(&self) -> Result<&Regex, String> {
        match self.compiled()? {
            Compiled::Automaton(regex) => Ok(regex),
            Compiled::Machine(_) => Err(wrong("expression too large")),
        }
    }

    /// Returns the approximate number of states and ranges in the compiled pattern.
    pub(crate) fn size(&self) -> u64 {
        if self.has_automaton() { self.size.states } else { self.size.instructions.saturating_add(self.size.ranges) }
    }

    /// Returns the maximum number of automaton states that a search visits per character.
    pub(crate) fn states(&self) -> u64 {
        if self.has_automaton() { self.size.states } else { 0 }
    }

    fn has_automaton(&self) -> bool {
        let is_small = self.size.states.saturating_mul(STATE_BYTES) <= self.max_bytes as u64;
        is_small && self.size.depth <= MAX_NESTING_OF_AUTOMATON
    }

    fn compiled(&self) -> Result<&Compiled, String> {
        self.compiled.get_or_init(|| self.compile()).as_ref().map_err(Clone::clone)
    }

    fn compile(&self) -> Result<Compiled, String> {
        if self.has_automaton() {
            let mut builder = RegexBuilder::new(&self.text);
            let limited = builder.size_limit(self.max_bytes).dfa_size_limit(self.max_bytes).nest_limit(MAX_NESTING);
            if let Ok(regex) = limited.build() {
                return Ok(Compiled::Automaton(Box::new(regex)));
            }
        }
        let parsed = ParserBuilder::new().nest_limit(MAX_NESTING).build().parse(&self.text);
        let parsed = parsed.map_err(|error| wrong(&error.to_string()))?;
        Machine::new(&parsed).map(Compiled::Machine).ok_or_else(|| wrong("invalid UTF-8"))
    }
}

fn wrong(reason: &str) -> String {
    format!("error parsing regexp: {reason}")
}

fn ignores_case(parsed: &Ast) -> bool {
    struct Finder(bool);

    impl Visitor for Finder {
        type Output = bool;
        type Err = std::convert::Infallible;

        fn finish(self) -> Result<bool, Self::Err> {
            Ok(self.0)
        }

        fn visit_pre(&mut self, ast: &Ast) -> Result<(), Self::Err> {
            let flags = match ast {
                Ast::Flags(flags) => Some(&flags.flags),
                Ast::Group(group) => group.flags(),
                _ => None,
            };
            self.0 |= flags.is_some_and(|flags| flags.flag_state(Flag::CaseInsensitive) == Some(true));
            Ok(())
        }
    }

    let Ok(found) = visit(parsed, Finder(false));
    found
}

#[derive(Debug)]
struct Size {
    /// The number of instructions. The instructions of a repeated part are counted once per repetition.
    instructions: u64,
    /// The number of automaton states. The states of a repeated part are counted once per repetition.
    states: u64,
    ranges: u64,
    classes: u64,
    depth: usize,
}

struct Review {
    counts: Vec<u64>,
    depth: usize,
    size: Size,
    /// The approximate number of ranges in a Unicode class.
    class: u64,
}

impl Review {
    fn new(parsed: &Ast) -> Self {
        let class = if ignores_case(parsed) { UNICODE_CLASS * FOLDED } else { UNICODE_CLASS };
        Self {
            counts: Vec::new(),
            depth: 0,
            size: Size { instructions: 1, states: 0, ranges: 0, classes: 0, depth: 0 },
            class,
        }
    }

    fn grow(&mut self, instructions: u64, states: u64) {
        let product = self.counts.iter().fold(1, |product: u64, count| product.saturating_mul(*count));
        let add = |sum: &mut u64, count: u64| *sum = sum.saturating_add(count.saturating_mul(product));
        add(&mut self.size.instructions, instructions);
        add(&mut self.size.states, states);
    }

    fn unicode_class(&mut self, instructions: u64) {
        self.size.classes += 1;
        self.size.ranges = self.size.ranges.saturating_add(self.class);
        self.grow(instructions, self.class);
    }
}

impl Visitor for Review {
    type Output = Size;
    type Err = std::convert::Infallible;

    fn finish(self) -> Result<Size, Self::Err> {
        Ok(self.size)
    }

    fn visit_pre(&mut self, ast: &Ast) -> Result<(), Self::Err> {
        self.depth += 1;
        self.size.depth = self.size.depth.max(self.depth);
        match ast {
            Ast::Repetition(repetition) => {
                self.counts.push(super::repeats::count(repetition).max(1));
                // Each copy of the repeated part may need an additional instruction that decides whether to continue
                // the repetition.
                self.grow(1, 0);
            }
            Ast::ClassBracketed(_) => self.grow(1, 2),
            Ast::ClassUnicode(_) => self.unicode_class(1),
            Ast::Flags(_) | Ast::Group(_) => {}
            Ast::Assertion(_) => self.grow(1, 0),
            _ => self.grow(1, 1),
        }
        Ok(())
    }

    fn visit_post(&mut self, ast: &Ast) -> Result<(), Self::Err> {
        self.depth -= 1;
        if let Ast::Repetition(_) = ast {
            self.counts.pop();
        }
        Ok(())
    }

    fn visit_class_set_item_pre(&mut self, item: &ClassSetItem) -> Result<(), Self::Err> {
        if let ClassSetItem::Unicode(_) = item {
            self.unicode_class(0);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Compiled, Pattern, Search};

    const MAX_BYTES: usize = 32 << 10;

    fn search(pattern: &str, text: &str) -> Search {
        Pattern::parse(pattern, MAX_BYTES).unwrap().search(text, usize::MAX).unwrap().unwrap()
    }

    fn is_match(pattern: &str, text: &str) -> bool {
        search(pattern, text).is_match
    }

    #[test]
    fn classes_are_those_of_ascii() {
        for (pattern, text, expected) in [
            (r"^\d$", "5", true),
            (r"^\d$", "\u{663}", false),
            (r"^\D$", "\u{663}", true),
            (r"^[\d-]$", "-", true),
            (r"^[^\W]$", "\u{e9}", false),
            (r"^\w+$", "a_1", true),
            (r"^\s$", "\u{a0}", false),
            (r"^\s$", "\u{b}", false),
            (r"\ba", "\u{e9}a", true),
            (r"\Ba", "\u{e9}a", false),
            (r"\<a\>", "<a>", true),
            (r"^\pL$", "\u{e9}", true),
            ("(?i)^K$", "k", true),
            ("^[[:alpha:]]$", "\u{e9}", false),
        ] {
            assert_eq!(is_match(pattern, text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn pattern_with_large_classes_has_no_automaton() {
        for pattern in [r"^\pL{50}i$", r"^(\p{L}|\p{N}){1,253}i$", r"(?i)^\PL{0,9}[\pL\pN]{9,1000}i$"] {
            let parsed = Pattern::parse(pattern, MAX_BYTES).unwrap();
            assert!(matches!(parsed.compiled(), Ok(Compiled::Machine(_))) && parsed.states() == 0, "{pattern}");
            assert!(parsed.automaton().is_err() && parsed.size() < 10_000, "{pattern}: {}", parsed.size());
            assert!(is_match(pattern, &format!("{}i", "\u{e9}".repeat(50))), "{pattern}");
            assert!(!is_match(pattern, &format!("{}1", "\u{e9}".repeat(50))), "{pattern}");
        }
    }

    #[test]
    fn pattern_that_repeats_much_has_no_automaton() {
        let pattern = format!("^{}$", "[a-z]{0,1000}".repeat(3));
        let parsed = Pattern::parse(&pattern, MAX_BYTES).unwrap();
        assert!(matches!(parsed.compiled(), Ok(Compiled::Machine(_))));
        assert!(is_match(&pattern, &"a".repeat(3_000)) && !is_match(&pattern, &"a".repeat(3_001)));
    }

    #[test]
    fn search_ends_at_its_limit_of_steps() {
        let text = "\u{e9}".repeat(1_000);
        for (pattern, expected) in [("^a", 500..501), (r"\pL{50}1", 49_000..50_000)] {
            let parsed = Pattern::parse(pattern, MAX_BYTES).unwrap();
            let steps = search(pattern, &text).steps;
            assert!(expected.contains(&steps), "{pattern}: {steps}");
            assert_eq!(parsed.search(&text, steps), Ok(Some(Search { is_match: false, steps })));
            assert_eq!(parsed.search(&text, steps - 1), Ok(None), "{pattern}");
        }
    }

    #[test]
    fn pattern_nests_as_deep_as_in_go() {
        let nested = |depth: usize| format!("^{}a{}$", "(".repeat(depth), ")*".repeat(depth));
        // Parsing must not overflow a stack of 2 MiB, which is the stack size of test threads and of tokio's worker
        // threads.
        for max_bytes in [0, MAX_BYTES, 1 << 20] {
            let parsed = Pattern::parse(&nested(490), max_bytes).unwrap();
            assert_eq!(parsed.search("aaa", usize::MAX).unwrap().map(|search| search.is_match), Some(true));
        }
        assert!(Pattern::parse(&nested(2_000), MAX_BYTES).is_err());
    }

    #[test]
    fn large_pattern_is_sized_before_it_is_translated() {
        let classes = |pattern: &str| Pattern::parse(&pattern.repeat(4_000), MAX_BYTES).unwrap();
        assert!(classes(r"\pL").size() >= 4_000 * super::UNICODE_CLASS);
        let folded = classes(r"(?i)\PL");
        assert!(folded.size() >= 4_000 * super::UNICODE_CLASS * super::FOLDED);
        assert!(folded.compiled.get().is_none() && folded.unicode_classes() == 4_000);
    }

    #[test]
    fn repeated_parts_are_copied_only_as_often_as_counted() {
        for operator in ["+", "{1,}", "*", "?", "{2,}"] {
            let levels = if operator == "{2,}" { 6 } else { 12 };
            let pattern = format!("^{}[ab]{}$", "(".repeat(levels), format!("){operator}").repeat(levels));
            let parsed = Pattern::parse(&pattern, 0).unwrap();
            let Ok(Compiled::Machine(machine)) = parsed.compiled() else { panic!("{pattern} has an automaton") };
            let bound = 3 * usize::try_from(parsed.instructions()).unwrap();
            assert!(machine.instructions() <= bound, "{pattern}: {} of {bound}", machine.instructions());
            let text = if operator == "?" { "b" } else { &"ab".repeat(100) };
            assert!(parsed.search(text, usize::MAX).unwrap().unwrap().is_match, "{pattern}");
        }
    }

    #[test]
    fn class_without_characters_matches_nothing() {
        for pattern in [r"[^\s\S]", r"\P{Any}", r"a|[^\x00-\x{10FFFF}]", r"\x{D800}", r"\p{Cs}", r"[\x{D800}-\x{DFFF}]"]
        {
            for max_bytes in [0, MAX_BYTES] {
                let found = Pattern::parse(pattern, max_bytes).unwrap().search("b", usize::MAX);
                assert_eq!(found.map(|found| found.map(|found| found.is_match)), Ok(Some(false)), "{pattern}");
            }
        }
    }

    #[test]
    fn surrogates_and_repeated_flags_are_accepted() {
        for pattern in [
            r"^[^\x{D800}-\x{DFFF}]$",
            r"^\P{Cs}$",
            r"^[^\p{Surrogate}]$",
            "^(?ii)B$",
            "^(?i-i:b)$",
            r"^[\x{61}-\x{DFFF}]$",
        ] {
            assert!(is_match(pattern, "b"), "{pattern}");
        }
        assert!(!is_match("^(?i-i)B$", "b"));
        assert!(Pattern::parse(r"\p{Miao}", MAX_BYTES).is_ok());
    }

    proptest::proptest! {
        /// The random texts mostly consist of characters that have a meaning in patterns, so many texts are valid
        /// patterns.
        #[test]
        fn instructions_are_estimated(text in r"([a-c]|\[ab\]|\(|\)|[|*+?]|\{[0-3],\}|\{[0-3]\}|\\pL){0,16}") {
            if let Ok(parsed) = Pattern::parse(&text, 0)
                && let Ok(Compiled::Machine(machine)) = parsed.compiled()
            {
                let bound = 3 * parsed.instructions() + 1;
                proptest::prop_assert!(machine.instructions() as u64 <= bound, "{text}: {} of {bound}", machine.instructions());
            }
        }
    }
}
