//! Patterns in the syntax of RE2.

use std::sync::OnceLock;

use regex::{Regex, RegexBuilder};
use regex_syntax::ast::{Ast, ClassSetItem, Flag, RepetitionKind, RepetitionRange, Visitor, visit};

use crate::re2;

/// The maximum size of a compiled pattern in bytes.
const MAX_BYTES: usize = 1 << 20;
/// The maximum nesting of a pattern.
const MAX_NESTING: u32 = 200;
/// Patterns up to this size are compiled when they are first used, because they always fit into the limits.
const SMALL: u64 = 1_000;
/// The size that a class of Unicode characters counts.
const UNICODE_CLASS: u64 = 300;

/// Ignoring the case of a class of Unicode characters takes this many times as long as translating the class.
const FOLDED: u64 = 8;

/// A valid pattern.
///
/// Compiling takes much longer than parsing, and most rules of a definition never run. So a small pattern is compiled when it is first
/// used.
#[derive(Debug)]
pub(crate) struct Pattern {
    /// The pattern in the syntax of the crate `regex`.
    text: Box<str>,
    size: u64,
    compiled: OnceLock<Result<Regex, String>>,
}

impl Pattern {
    /// Parses a pattern.
    ///
    /// # Errors
    ///
    /// Returns Go's reason if the pattern is invalid.
    pub(crate) fn parse(pattern: &str) -> Result<Self, String> {
        let wrong = |reason: &str| format!("error parsing regexp: {reason}");
        let (text, parsed) = re2::parsed(pattern, MAX_NESTING).map_err(|reason| wrong(&reason))?;
        let Ok(review) = visit(&parsed, Review::new(&parsed));
        // Translating a pattern takes long if it has many classes. The caller bounds the size of a large pattern before compiling it.
        if review.size <= SMALL {
            let mut translator = regex_syntax::ParserBuilder::new().nest_limit(MAX_NESTING).build();
            translator.parse(&text).map_err(|error| wrong(&error.to_string()))?;
        }
        Ok(Self { text: text.into(), size: review.size, compiled: OnceLock::new() })
    }

    /// Checks that the pattern is not too large. A small pattern is never too large.
    pub(crate) fn check_size(&self) -> Result<(), String> {
        if self.size > SMALL {
            self.regex()?;
        }
        Ok(())
    }

    /// Returns the approximate number of states. It determines the time of a search.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    pub(crate) fn regex(&self) -> Result<&Regex, String> {
        let compile = || {
            let mut builder = RegexBuilder::new(&self.text);
            let built = builder.size_limit(MAX_BYTES).dfa_size_limit(MAX_BYTES).nest_limit(MAX_NESTING).build();
            built.map_err(|error| match error {
                regex::Error::CompiledTooBig(_) => "error parsing regexp: expression too large".into(),
                error => format!("error parsing regexp: {error}"),
            })
        };
        self.compiled.get_or_init(compile).as_ref().map_err(Clone::clone)
    }
}

/// Returns whether a part of the pattern ignores the case.
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

/// Finds the size of a pattern.
struct Review {
    counts: Vec<u64>,
    size: u64,
    /// The size of a class of Unicode characters.
    class: u64,
}

impl Review {
    fn new(parsed: &Ast) -> Self {
        let class = if ignores_case(parsed) { UNICODE_CLASS * FOLDED } else { UNICODE_CLASS };
        Self { counts: Vec::new(), size: 0, class }
    }

    fn product(&self) -> u64 {
        self.counts.iter().fold(1, |product, count| product.saturating_mul(*count))
    }

    fn grow(&mut self, states: u64) {
        self.size = self.size.saturating_add(states.saturating_mul(self.product()));
    }
}

impl Visitor for Review {
    type Output = Self;
    type Err = std::convert::Infallible;

    fn finish(self) -> Result<Self, Self::Err> {
        Ok(self)
    }

    fn visit_pre(&mut self, ast: &Ast) -> Result<(), Self::Err> {
        match ast {
            Ast::Repetition(repetition) => {
                let count = match &repetition.op.kind {
                    RepetitionKind::Range(RepetitionRange::Exactly(count) | RepetitionRange::AtLeast(count)) => *count,
                    RepetitionKind::Range(RepetitionRange::Bounded(_, count)) => *count,
                    _ => 1,
                };
                self.counts.push(u64::from(count.max(1)));
            }
            Ast::ClassBracketed(_) => self.grow(2),
            Ast::ClassUnicode(_) => self.grow(self.class),
            Ast::Assertion(_) | Ast::Flags(_) | Ast::Group(_) => {}
            _ => self.grow(1),
        }
        Ok(())
    }

    fn visit_post(&mut self, ast: &Ast) -> Result<(), Self::Err> {
        if let Ast::Repetition(_) = ast {
            self.counts.pop();
        }
        Ok(())
    }

    fn visit_class_set_item_pre(&mut self, item: &ClassSetItem) -> Result<(), Self::Err> {
        if let ClassSetItem::Unicode(_) = item {
            self.grow(self.class);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Pattern;

    fn is_match(pattern: &str, text: &str) -> bool {
        Pattern::parse(pattern).unwrap().regex().unwrap().is_match(text)
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
    fn large_pattern_is_refused() {
        for pattern in [r"\pL{1000}", "a{1001}", "((a{0,100}){0,100}){0,100}", "(?x)a", "(?u:a)"] {
            let checked = Pattern::parse(pattern).and_then(|pattern| pattern.check_size());
            assert!(checked.is_err(), "{pattern}");
        }
    }

    #[test]
    fn large_pattern_is_sized_before_it_is_translated() {
        let classes = |pattern: &str| Pattern::parse(&pattern.repeat(4_000)).unwrap();
        assert!(classes(r"\pL").size() >= 4_000 * super::UNICODE_CLASS);
        let folded = classes(r"(?i)\PL");
        assert!(folded.size() >= 4_000 * super::UNICODE_CLASS * super::FOLDED);
        assert!(folded.compiled.get().is_none());
    }
}
