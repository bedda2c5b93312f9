//! Patterns of texts, at a bounded cost: a few characters can ask for an automaton of megabytes, as `\pL{99}` does.

mod go_limits;
mod machine;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use machine::Machine;
use regex::{Regex, RegexBuilder};
use regex_syntax::ast::Ast;
use regex_syntax::ast::parse::ParserBuilder;
use regex_syntax::hir::Hir;
use regex_syntax::hir::translate::TranslatorBuilder;

/// How many bytes an automaton may take. A pattern whose automaton would be larger is run by a machine.
const LARGEST_AUTOMATON: usize = 32 << 10;
/// So many bytes of a text are a step.
pub(super) const STEP_OF_TEXT: usize = 64;
/// So many instructions of a machine are a step.
const STEP_OF_MACHINE: usize = 16;
/// Longer ones are refused: each three characters can name a class of thousands of others.
const LONGEST_PATTERN: usize = 8 << 10;
/// As in Go.
const DEEPEST_PATTERN: u32 = 1_000;
/// What all patterns of a definition may cost: as much as their automata may take, and so much for each character and for each class of Unicode
/// that is named.
const PATTERN_BUDGET: usize = 128 << 20;
const OF_PATTERN_CHARACTER: usize = 1 << 10;
const OF_NAMED_CLASS: usize = 8 << 10;

/// A pattern, made ready when it is first needed: most definitions have more of them than their objects ask for.
#[derive(Debug)]
pub(crate) struct Pattern {
    text: String,
    ready: OnceLock<Option<Ready>>,
}

#[derive(Debug)]
enum Ready {
    Automaton(Regex),
    Machine(Machine),
}

impl Pattern {
    fn new(text: &str) -> Self {
        Self { text: text.into(), ready: OnceLock::new() }
    }

    /// Whether it is in the text, and how many steps that took. What is no pattern is in every text.
    pub(super) fn matches(&self, text: &str) -> (bool, usize) {
        match self.ready.get_or_init(|| ready(&self.text).ok().flatten()) {
            Some(Ready::Automaton(regex)) => (regex.is_match(text), text.len() / STEP_OF_TEXT),
            Some(Ready::Machine(machine)) => {
                let (matches, steps) = machine.is_match(text);
                (matches, steps / STEP_OF_MACHINE)
            }
            None => (true, 0),
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn ready(text: &str) -> Result<Option<Ready>, String> {
    if text.len() > LONGEST_PATTERN {
        return Ok(None);
    }
    let pattern = as_go_reads_it(text);
    let hir = translate(&pattern, &parse(&pattern)?)?;
    let regex = RegexBuilder::new(&pattern).size_limit(LARGEST_AUTOMATON).nest_limit(DEEPEST_PATTERN).build();
    Ok(regex.ok().map(Ready::Automaton).or_else(|| Machine::new(&hir).map(Ready::Machine)))
}

/// Reads a pattern, and refuses what Go does.
fn parse(pattern: &str) -> Result<Ast, String> {
    if pattern.len() > LONGEST_PATTERN * SPELT_OUT {
        return Err("expression too large".into());
    }
    let ast =
        ParserBuilder::new().nest_limit(DEEPEST_PATTERN).build().parse(pattern).map_err(|error| error.to_string())?;
    go_limits::error(&ast).map_or(Ok(ast), Err)
}

fn translate(pattern: &str, ast: &Ast) -> Result<Hir, String> {
    TranslatorBuilder::new().build().translate(pattern, ast).map_err(|error| error.to_string())
}

/// An automaton has all that is repeated as often as that says, and of a class of Unicode the bytes of thousands of characters.
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

/// By how much a pattern grows at most where its classes are spelt out.
const SPELT_OUT: usize = 8;

/// The same with the classes spelt out that are ASCII in Go.
fn as_go_reads_it(pattern: &str) -> String {
    let mut spelt = String::with_capacity(pattern.len());
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        let escaped = if c == '\\' { chars.next() } else { None };
        match escaped {
            Some('d') => spelt.push_str("[0-9]"),
            Some('D') => spelt.push_str("[^0-9]"),
            Some('w') => spelt.push_str("[0-9A-Za-z_]"),
            Some('W') => spelt.push_str("[^0-9A-Za-z_]"),
            Some('s') => spelt.push_str(r"[\t\n\f\r ]"),
            Some('S') => spelt.push_str(r"[^\t\n\f\r ]"),
            escaped => {
                spelt.push(c);
                spelt.extend(escaped);
            }
        }
    }
    spelt
}

/// The patterns of one definition, as far as they have been looked at. Most stand in it many times, and are made ready once.
#[derive(Debug)]
pub(super) struct Patterns {
    by_text: HashMap<String, Arc<Pattern>>,
    known: HashMap<String, Result<(), String>>,
    left: usize,
}

impl Default for Patterns {
    fn default() -> Self {
        Self { by_text: HashMap::new(), known: HashMap::new(), left: PATTERN_BUDGET }
    }
}

impl Patterns {
    /// The pattern of that text, which all share that ask for it.
    pub(super) fn shared(&mut self, text: &str) -> Arc<Pattern> {
        if let Some(known) = self.by_text.get(text) {
            return known.clone();
        }
        let made = Arc::new(Pattern::new(text));
        self.by_text.insert(text.into(), made.clone());
        made
    }

    /// About what those that are shared take to be made ready, as bytes of a body that takes as long.
    pub(super) fn weight(&self) -> usize {
        self.by_text.keys().map(|text| weight(text)).sum()
    }

    /// Why it is no pattern, if so; or one too many.
    pub(super) fn check(&mut self, pattern: &str) -> Result<(), String> {
        if let Some(known) = self.known.get(pattern) {
            return known.clone();
        }
        let checked = self.look_at(pattern);
        self.known.insert(pattern.into(), checked.clone());
        checked
    }

    fn look_at(&mut self, text: &str) -> Result<(), String> {
        let invalid = |why| format!("must be a valid regular expression, but isn't: {why}");
        let spend = |left: &mut usize, cost: usize| {
            *left = left.checked_sub(cost).ok_or("is one pattern too many for one definition")?;
            Ok::<_, String>(())
        };
        spend(&mut self.left, LARGEST_AUTOMATON + text.len() * OF_PATTERN_CHARACTER)?;
        if text.len() > LONGEST_PATTERN {
            return Err(invalid("expression too large".into()));
        }
        let pattern = as_go_reads_it(text);
        let ast = parse(&pattern).map_err(invalid)?;
        spend(&mut self.left, go_limits::classes(&ast) * OF_NAMED_CLASS)?;
        translate(&pattern, &ast).map(drop).map_err(invalid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_pattern_costs_follows_its_automaton() {
        let check = |pattern: &str, text: &str, expected: (bool, usize)| {
            assert_eq!(Pattern::new(pattern).matches(text), expected, "{pattern}");
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
    fn a_pattern_of_large_classes_is_run_by_a_machine_whose_steps_count() {
        let pattern = Pattern::new(r"^\pL{50}i$");
        for (text, expected) in [(format!("{}i", "\u{e9}".repeat(50)), true), ("a".repeat(51), false)] {
            let (matches, steps) = pattern.matches(&text);
            assert!(matches == expected && (1..100).contains(&steps), "{text}: {steps}");
        }
        let (matches, steps) = Pattern::new(r"\pL{50}1").matches(&"a".repeat(64_000));
        assert!(!matches && (64_000..64_000 * 60 / STEP_OF_MACHINE).contains(&steps), "{steps}");
    }

    #[test]
    fn what_a_pattern_weighs_follows_what_it_repeats() {
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
    fn classes_are_those_of_go() {
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
            assert_eq!(Pattern::new(pattern).matches(text).0, expected, "{pattern} {text}");
        }
    }

    #[test]
    fn repeats_are_bounded_as_in_go_and_many_classes_of_unicode_are_not_refused() {
        let mut patterns = Patterns::default();
        for pattern in ["a{1001}", "(a{100}){100}", &"(".repeat(2_000)] {
            assert!(patterns.check(pattern).is_err(), "{pattern}");
        }
        for number in 0..100 {
            assert_eq!(patterns.check(&format!(r"^\pL{{50}}{number}$")), Ok(()));
        }
    }

    #[test]
    fn patterns_that_stand_often_are_looked_at_once_and_others_have_an_end() {
        let mut patterns = Patterns::default();
        for _ in 0..1_000_000 {
            assert_eq!(patterns.check("^[a-z]{1,63}$"), Ok(()));
        }
        assert!(
            patterns.check("(").is_err_and(|why| why.starts_with("must be a valid regular expression, but isn't: "))
        );
        let taken = (0..).take_while(|number| patterns.check(&format!(r"\pL{{5}}{number}")).is_ok()).count();
        assert!((2_000..4_000).contains(&taken), "{taken}");
        assert_eq!(patterns.check("^[a-z]{1,63}$"), Ok(()), "what is known stays so");
    }
}
