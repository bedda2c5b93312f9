//! Patterns in the syntax of RE2.

use std::borrow::Cow;
use std::sync::OnceLock;

use regex::{Regex, RegexBuilder};
use regex_syntax::ast::parse::ParserBuilder;
use regex_syntax::ast::{
    AssertionKind, Ast, ClassPerl, ClassPerlKind, ClassSetItem, ErrorKind, RepetitionKind, RepetitionRange, Span,
    Visitor, visit,
};

/// The maximum size of a compiled pattern in bytes.
const MAX_BYTES: usize = 1 << 20;
/// The maximum nesting of a pattern.
const MAX_NESTING: u32 = 200;
/// The maximum count of a repetition. For nested repetitions, it limits the product of their counts.
const MAX_REPEAT: u64 = 1000;
/// The maximum size of a pattern that is compiled at its first use. Such a pattern never exceeds the limits.
const SMALL: u64 = 1_000;
/// The size that a class of Unicode characters counts.
const UNICODE_CLASS: u64 = 300;

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
        let pattern = &*unquoted(pattern);
        let parsed = ParserBuilder::new().nest_limit(MAX_NESTING).build().parse(pattern);
        let parsed = parsed.map_err(|error| wrong(&go_reason(&error)))?;
        let Ok(review) = visit(&parsed, Review::default());
        if review.exceeded {
            return Err(wrong(&format!("invalid repeat count: `{pattern}`")));
        }
        if review.foreign {
            return Err(wrong(&format!("invalid or unsupported Perl syntax: `{pattern}`")));
        }
        let text = replaced(pattern, &review.replacements);
        let mut translator = regex_syntax::ParserBuilder::new().nest_limit(MAX_NESTING).build();
        translator.parse(&text).map_err(|error| wrong(&error.to_string()))?;
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

/// Replaces `\Q…\E` by the escaped text, because the crate `regex` does not support it.
fn unquoted(pattern: &str) -> Cow<'_, str> {
    if !pattern.contains("\\Q") {
        return pattern.into();
    }
    let (mut text, mut rest) = (String::new(), pattern);
    while let Some((before, after)) = rest.split_once('\\') {
        text.push_str(before);
        if let Some(quoted) = after.strip_prefix('Q') {
            let (inner, behind) = quoted.split_once("\\E").unwrap_or((quoted, ""));
            text.push_str(&regex::escape(inner));
            rest = behind;
        } else {
            let mut chars = after.chars();
            text.push('\\');
            text.extend(chars.next());
            rest = chars.as_str();
        }
    }
    text.push_str(rest);
    text.into()
}

fn replaced(pattern: &str, replacements: &[(Span, &str)]) -> String {
    let (mut text, mut end) = (String::with_capacity(pattern.len()), 0);
    for (span, replacement) in replacements {
        text.push_str(pattern.get(end..span.start.offset).unwrap_or_default());
        text.push_str(replacement);
        end = span.end.offset;
    }
    text.push_str(pattern.get(end..).unwrap_or_default());
    text
}

/// The result of a pass over a pattern: its size, syntax that only Rust accepts, and syntax that Go and Rust interpret
/// differently.
#[derive(Default)]
struct Review {
    counts: Vec<u64>,
    exceeded: bool,
    foreign: bool,
    size: u64,
    /// In RE2, `\d`, `\s`, `\w` and `\b` concern ASCII characters only.
    replacements: Vec<(Span, &'static str)>,
}

impl Review {
    fn product(&self) -> u64 {
        self.counts.iter().fold(1, |product, count| product.saturating_mul(*count))
    }

    fn grow(&mut self, states: u64) {
        self.size = self.size.saturating_add(states.saturating_mul(self.product()));
    }

    fn perl(&mut self, class: &ClassPerl) {
        self.grow(1);
        let text = match (&class.kind, class.negated) {
            (ClassPerlKind::Digit, false) => "[0-9]",
            (ClassPerlKind::Digit, true) => "[^0-9]",
            (ClassPerlKind::Space, false) => r"[\t\n\f\r ]",
            (ClassPerlKind::Space, true) => r"[^\t\n\f\r ]",
            (ClassPerlKind::Word, false) => "[0-9A-Za-z_]",
            (ClassPerlKind::Word, true) => "[^0-9A-Za-z_]",
        };
        self.replacements.push((class.span, text));
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
                self.exceeded |= self.product() > MAX_REPEAT;
            }
            Ast::ClassBracketed(class) => {
                self.foreign |= matches!(class.kind, regex_syntax::ast::ClassSet::BinaryOp(_));
                self.grow(2);
            }
            Ast::ClassUnicode(_) => self.grow(UNICODE_CLASS),
            Ast::ClassPerl(class) => self.perl(class),
            Ast::Assertion(assertion) => match assertion.kind {
                AssertionKind::WordBoundary => self.replacements.push((assertion.span, r"(?-u:\b)")),
                AssertionKind::NotWordBoundary => self.replacements.push((assertion.span, r"(?-u:\B)")),
                AssertionKind::WordBoundaryStartAngle => self.replacements.push((assertion.span, "<")),
                AssertionKind::WordBoundaryEndAngle => self.replacements.push((assertion.span, ">")),
                AssertionKind::StartLine
                | AssertionKind::EndLine
                | AssertionKind::StartText
                | AssertionKind::EndText => {}
                _ => self.foreign = true,
            },
            Ast::Flags(flags) => self.foreign |= is_foreign(&flags.flags),
            Ast::Group(group) => self.foreign |= group.flags().is_some_and(is_foreign),
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
        match item {
            ClassSetItem::Perl(class) => self.perl(class),
            ClassSetItem::Unicode(_) => self.grow(UNICODE_CLASS),
            _ => {}
        }
        Ok(())
    }
}

fn is_foreign(flags: &regex_syntax::ast::Flags) -> bool {
    use regex_syntax::ast::Flag;
    [Flag::IgnoreWhitespace, Flag::Unicode, Flag::CRLF].into_iter().any(|flag| flags.flag_state(flag).is_some())
}

/// Returns Go's reason and the text at fault.
fn go_reason(error: &regex_syntax::ast::Error) -> String {
    let (pattern, span) = (error.pattern(), error.span());
    let here = pattern.get(span.start.offset..span.end.offset).unwrap_or_default();
    let from = pattern.get(span.start.offset..).unwrap_or_default();
    match error.kind() {
        ErrorKind::ClassUnclosed => format!("missing closing ]: `{from}`"),
        ErrorKind::ClassRangeInvalid => format!("invalid character class range: `{here}`"),
        ErrorKind::GroupUnclosed => format!("missing closing ): `{pattern}`"),
        ErrorKind::GroupUnopened => format!("unexpected ): `{pattern}`"),
        ErrorKind::RepetitionMissing => {
            let lazy = from.as_bytes().get(1) == Some(&b'?');
            let operator = from.get(..if lazy { 2 } else { 1 }).unwrap_or_default();
            format!("missing argument to repetition operator: `{operator}`")
        }
        ErrorKind::RepetitionCountInvalid => format!("invalid repeat count: `{here}`"),
        ErrorKind::EscapeUnexpectedEof => "trailing backslash at end of expression: ``".into(),
        ErrorKind::EscapeUnrecognized | ErrorKind::UnsupportedBackreference => {
            format!("invalid escape sequence: `{here}`")
        }
        ErrorKind::UnsupportedLookAround => {
            let shown = from.get(..3).unwrap_or(from);
            format!("invalid or unsupported Perl syntax: `{shown}`")
        }
        ErrorKind::FlagUnrecognized => format!("invalid or unsupported Perl syntax: `(?{here}`"),
        ErrorKind::GroupNameInvalid | ErrorKind::GroupNameUnexpectedEof => format!("invalid named capture: `{from}`"),
        ErrorKind::NestLimitExceeded(_) => "expression nests too deeply".into(),
        other => format!("{other}: `{here}`"),
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
        for pattern in
            [r"\pL{1000}", "a{1001}", "((a{0,100}){0,100}){0,100}", "(?x)a", "(?u:a)", "[a&&b]", r"\b{start}"]
        {
            let checked = Pattern::parse(pattern).and_then(|pattern| pattern.check_size());
            assert!(checked.is_err(), "{pattern}");
        }
    }
}
