//! Translates regular expressions from Go's RE2 syntax to the syntax of the crate `regex`.
//!
//! The crate `regex` accepts some patterns that RE2 rejects, such as nested repetitions, nested classes and `\u0041`.
//! The crate `regex` also rejects some patterns that RE2 accepts, such as a single `{` and octal escapes. Patterns such
//! as `\d`, `\b` and `[a&&b]` have a different meaning in each syntax. Therefore, this module translates patterns for
//! the crate `regex`.

mod class;
mod escape;
mod machine;
mod pattern;
mod repeats;

use std::collections::HashMap;

pub use machine::Search;
pub use pattern::Pattern;
use regex_syntax::ast::parse::ParserBuilder;
use regex_syntax::ast::{Ast, ErrorKind};

/// The maximum repetition count. The maximum also applies to the product of nested repetition counts.
const MAX_REPEAT: u64 = 1000;

/// Translates a regular expression from RE2 syntax to the syntax of the crate `regex`. Returns the translated pattern,
/// in which groups have no names, and its syntax tree.
///
/// This function checks only the syntax and the repetition counts, so the returned pattern can be too large to
/// compile. The returned pattern is at most eight times as long as `pattern`, and has at most `max_depth` nesting
/// levels.
///
/// # Errors
///
/// If RE2 rejects the pattern, returns the error message of Go's package `regexp/syntax`.
fn parsed(pattern: &str, max_depth: u32) -> Result<(String, Ast), String> {
    let text = Scanner::new(pattern).run()?;
    let parsed = ParserBuilder::new().nest_limit(max_depth).build().parse(&text);
    let ast = parsed.map_err(|error| reason(&error))?;
    match repeats::excessive(&ast) {
        Some(span) => {
            Err(format!("invalid repeat count: `{}`", text.get(span.start.offset..span.end.offset).unwrap_or_default()))
        }
        None => Ok((text, ast)),
    }
}

/// An empty class, which is valid inside and outside of brackets.
const NO_CHARACTER: &str = r"[^\x{0}-\x{10FFFF}]";
const ANY_CHARACTER: &str = r"[\x{0}-\x{10FFFF}]";

struct Scanner<'p> {
    pattern: &'p str,
    at: usize,
    out: String,
    /// Flags such as `(?i)` that have not been written to `out` yet. In RE2, a repetition operator after flags applies
    /// to the pattern part before the flags.
    flags: String,
    depth: usize,
    classes: HashMap<&'p str, bool>,
}

/// The kind of a pattern part, which determines whether a repetition operator can follow the part.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Piece {
    Operand,
    /// A repetition operator, which starts at this offset in the pattern.
    Repetition(usize),
    /// The start of a pattern, group or alternative.
    Start,
}

impl<'p> Scanner<'p> {
    fn new(pattern: &'p str) -> Self {
        let out = String::with_capacity(pattern.len());
        Self { pattern, at: 0, out, flags: String::new(), depth: 0, classes: HashMap::new() }
    }

    fn run(mut self) -> Result<String, String> {
        let mut before = Piece::Start;
        while let Some(c) = self.peek() {
            let start = self.at;
            let counts = Counts::read(self.rest());
            if !matches!(c, '*' | '+' | '?') && counts.is_none() && !self.rest().starts_with("(?") {
                self.write_flags();
            }
            before = match c {
                '\\' => self.escape(before)?,
                '[' => {
                    self.class()?;
                    Piece::Operand
                }
                '(' if self.rest().starts_with("(?") => self.group(before)?,
                '*' | '+' | '?' => self.repetition(1, before)?,
                '{' => match counts {
                    Some(counts) if counts.is_valid() => self.repetition(counts.length, before)?,
                    Some(counts) => {
                        return Err(format!("invalid repeat count: `{}`", &self.rest()[..counts.length]));
                    }
                    None => {
                        self.bump();
                        self.literal('{');
                        Piece::Operand
                    }
                },
                '(' | '|' => {
                    self.depth += usize::from(c == '(');
                    self.copy_to(start + 1);
                    Piece::Start
                }
                ')' => {
                    let closed = self.depth.checked_sub(1);
                    self.depth = closed.ok_or_else(|| format!("unexpected ): `{}`", self.pattern))?;
                    self.copy_to(start + 1);
                    Piece::Operand
                }
                c => {
                    self.copy_to(start + c.len_utf8());
                    Piece::Operand
                }
            };
        }
        self.write_flags();
        match self.depth {
            0 => Ok(self.out),
            _ => Err(format!("missing closing ): `{}`", self.pattern)),
        }
    }

    fn write_flags(&mut self) {
        self.out.push_str(&self.flags);
        self.flags.clear();
    }

    fn rest(&self) -> &'p str {
        &self.pattern[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn bump(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += c.len_utf8();
        Some(c)
    }

    fn since(&self, start: usize) -> &'p str {
        &self.pattern[start..self.at]
    }

    fn copy_to(&mut self, end: usize) {
        self.out.push_str(&self.pattern[self.at..end]);
        self.at = end;
    }

    fn literal(&mut self, c: char) {
        if c.is_ascii_alphanumeric() || !c.is_ascii() {
            self.out.push(c)
        } else {
            self.out.push_str(&format!("\\x{{{:X}}}", u32::from(c)))
        }
    }

    /// Writes a code point outside of a class. For a surrogate, writes a class that matches no text.
    fn code_point(&mut self, code: u32) {
        match char::from_u32(code) {
            Some(c) => self.literal(c),
            None => self.out.push_str(NO_CHARACTER),
        }
    }

    /// Reads a repetition operator of the given length. Also reads a `?` after the operator, which makes the operator
    /// lazy.
    fn repetition(&mut self, length: usize, before: Piece) -> Result<Piece, String> {
        let start = self.at;
        if self.flags.is_empty() || self.peek() != Some('?') {
            self.copy_to(start + length)
        } else {
            // Write `{0,1}` instead of `?`, because the `?` could make an operator before the flags lazy.
            self.at += length;
            self.out.push_str("{0,1}");
        }
        if self.peek() == Some('?') {
            self.copy_to(self.at + 1);
        }
        match before {
            Piece::Operand => Ok(Piece::Repetition(start)),
            Piece::Repetition(first) => Err(format!("invalid nested repetition operator: `{}`", self.since(first))),
            Piece::Start => Err(format!("missing argument to repetition operator: `{}`", self.since(start))),
        }
    }

    /// Reads a group or flags that begin with `(?`.
    fn group(&mut self, before: Piece) -> Result<Piece, String> {
        let (start, rest) = (self.at, self.rest());
        let name = rest.strip_prefix("(?P<").or_else(|| rest.strip_prefix("(?<"));
        if let Some(name) = name.filter(|name| !name.is_empty()) {
            let Some((name, behind)) = name.split_once('>') else {
                return Err(format!("invalid named capture: `{rest}`"));
            };
            self.at = self.pattern.len() - behind.len();
            if name.is_empty() || name.contains(|c: char| c != '_' && !c.is_ascii_alphanumeric()) {
                return Err(format!("invalid named capture: `{}`", self.since(start)));
            }
            self.write_flags();
            self.out.push('(');
            self.depth += 1;
            return Ok(Piece::Start);
        }
        self.at += 2;
        let (mut is_negative, mut has_flag) = (false, false);
        // Write each flag only once, because the crate `regex` rejects repeated flags.
        let (mut set, mut cleared) = (String::new(), String::new());
        while let Some(c) = self.bump() {
            match c {
                'i' | 'm' | 's' | 'U' => {
                    has_flag = true;
                    set.retain(|flag| flag != c);
                    cleared.retain(|flag| flag != c);
                    if is_negative { cleared.push(c) } else { set.push(c) }
                }
                '-' if !is_negative => (is_negative, has_flag) = (true, false),
                ':' | ')' if has_flag || !is_negative => {
                    let minus = if cleared.is_empty() { "" } else { "-" };
                    let text = format!("(?{set}{minus}{cleared}{c}");
                    if c == ':' {
                        self.write_flags();
                        self.depth += 1;
                        self.out.push_str(&text);
                        return Ok(Piece::Start);
                    }
                    if text != "(?)" {
                        self.flags.push_str(&text);
                    }
                    return Ok(before.behind_nothing());
                }
                _ => break,
            }
        }
        Err(format!("invalid or unsupported Perl syntax: `{}`", self.since(start)))
    }
}

impl Piece {
    /// Returns the kind of this part after flags or an empty quotation. In RE2, a repetition operator can follow the
    /// flags or the quotation, even if the part before them ends with a repetition operator.
    fn behind_nothing(self) -> Self {
        if self == Self::Start { Self::Start } else { Self::Operand }
    }
}

/// The minimum and maximum of a repetition such as `{2,5}`.
struct Counts {
    least: u64,
    most: u64,
    length: usize,
}

impl Counts {
    /// Reads the counts at the start of a text. Returns `None` if the text is not a repetition, because RE2 treats a
    /// brace without counts as a literal.
    fn read(text: &str) -> Option<Self> {
        let (counts, _) = text.strip_prefix('{')?.split_once('}')?;
        let number = |text: &str| {
            let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            let is_canonical = text == "0" || !text.starts_with('0');
            (is_number && is_canonical).then(|| text.parse().unwrap_or(u64::MAX))
        };
        let (least, most) = match counts.split_once(',') {
            None => (number(counts)?, number(counts)?),
            Some((least, "")) => (number(least)?, number(least)?),
            Some((least, most)) => (number(least)?, number(most)?),
        };
        Some(Self { least, most, length: counts.len() + 2 })
    }

    fn is_valid(&self) -> bool {
        self.least <= self.most && self.most <= MAX_REPEAT
    }
}

/// Returns the error message for a translated pattern that the crate `regex` rejects.
fn reason(error: &regex_syntax::ast::Error) -> String {
    let (text, span) = (error.pattern(), error.span());
    let here = text.get(span.start.offset..span.end.offset).unwrap_or_default();
    match error.kind() {
        ErrorKind::NestLimitExceeded(_) => "expression nests too deeply".into(),
        other => format!("{other}: `{here}`"),
    }
}

#[cfg(test)]
mod tests {
    use super::parsed;

    #[test]
    fn characters_with_another_meaning_are_escaped() {
        assert_eq!(parsed(r"^\d+{$", 100).map(|(text, _)| text).as_deref(), Ok(r"^[0-9]+\x{7B}$"));
    }

    proptest::proptest! {
        #![proptest_config(proptest::test_runner::Config::with_cases(2_000))]

        /// The random texts mostly consist of characters that have a meaning in patterns, so many texts are valid
        /// patterns.
        #[test]
        fn translation_is_a_pattern_of_bounded_length(text in "([-a-c1-3{},*+?()|\\[\\]^$.&~:<>\\\\ PpQEdDwbBxé]|\\(\\?|\\[:){0,12}") {
            if let Ok((translated, _)) = parsed(&text, 50) {
                proptest::prop_assert!(translated.len() <= 8 * text.len(), "{text}: {translated}");
                // A translated pattern may fail to compile only if it is too large.
                if let Err(error) = regex::Regex::new(&translated) {
                    let is_large = matches!(error, regex::Error::CompiledTooBig(_));
                    proptest::prop_assert!(is_large, "{text}: {translated}: {error}");
                }
            }
        }
    }
}
