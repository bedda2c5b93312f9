//! Patterns of texts, at a bounded cost: a few characters can ask for an automaton of megabytes, as `\pL{99}` does.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use regex::{Error, Regex, RegexBuilder};

/// How many bytes an automaton may take, and how many steps of a validation one of that size takes for 64 bytes of a text.
const SIZES: [(usize, usize); 3] = [(32 << 10, 1), (1 << 20, 1 << 10), (10 << 20, 1 << 14)];
/// So many bytes of a text are a step.
pub(super) const STEP_OF_TEXT: usize = 64;
/// Longer ones are refused: each three characters can name a class of thousands of others.
const LONGEST_PATTERN: usize = 8 << 10;
/// What all patterns of a definition may cost: what their automata may take, and as much for each character.
const PATTERN_BUDGET: usize = 128 << 20;
const OF_CHARACTER: usize = 1 << 10;

/// A pattern, made ready when it is first needed: most definitions have more of them than their objects ask for.
#[derive(Debug)]
pub(crate) struct Pattern {
    text: String,
    ready: OnceLock<Option<(Regex, usize)>>,
}

impl Pattern {
    fn new(text: &str) -> Self {
        Self { text: text.into(), ready: OnceLock::new() }
    }

    /// Whether it is in the text, and how many steps that took. What is no pattern is in every text.
    pub(super) fn matches(&self, text: &str) -> (bool, usize) {
        let ready = self.ready.get_or_init(|| {
            let mut sizes = SIZES.into_iter();
            sizes.find_map(|(size, steps)| Some((build(&self.text, size).ok()?, steps)))
        });
        match ready {
            Some((regex, steps)) => (regex.is_match(text), text.len() * steps / STEP_OF_TEXT),
            None => (true, 0),
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn build(pattern: &str, size: usize) -> Result<Regex, Error> {
    if pattern.len() > LONGEST_PATTERN {
        return Err(Error::CompiledTooBig(LONGEST_PATTERN));
    }
    RegexBuilder::new(&as_go_reads_it(pattern)).size_limit(size).build()
}

/// An automaton has all that is repeated as often as that says, and of a class of Unicode the bytes of thousands of characters.
fn weight(pattern: &str) -> usize {
    const OF_CLASS: usize = 64;
    let counts = pattern.split('{').skip(1).filter_map(|after| {
        let counts = after.split('}').next()?.split(',');
        counts.filter_map(|count| count.parse::<usize>().ok()).max()
    });
    let copies = counts.fold(1, |copies: usize, count| copies.saturating_mul(count.max(1)).min(LONGEST_PATTERN));
    let of_character = if pattern.contains(r"\p") || pattern.contains(r"\P") { OF_CLASS } else { 1 };
    pattern.len() * copies * of_character
}

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

    fn look_at(&mut self, pattern: &str) -> Result<(), String> {
        for (size, _) in SIZES {
            let Some(left) = self.left.checked_sub(size + pattern.len() * OF_CHARACTER) else {
                return Err("is one pattern too many for one definition".into());
            };
            self.left = left;
            match build(pattern, size) {
                Ok(_) => return Ok(()),
                Err(Error::CompiledTooBig(_)) if pattern.len() <= LONGEST_PATTERN => {}
                Err(error) => return Err(format!("must be a valid regular expression, but isn't: {error}")),
            }
        }
        Err("must be a valid regular expression, but isn't: it takes too much memory".into())
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
        check(r"^\pL{5}$", &long, (false, 10 << 10));
        check(r"^\w{1,63}$", "a_1", (true, 0));
        check("(", &long, (true, 0));
        check(r"\pL{9000}{9000}", &long, (true, 0));
        check(&"a".repeat(LONGEST_PATTERN + 1), &long, (true, 0));
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
    fn patterns_that_stand_often_are_looked_at_once_and_others_have_an_end() {
        let mut patterns = Patterns::default();
        for _ in 0..1_000_000 {
            assert_eq!(patterns.check("^[a-z]{1,63}$"), Ok(()));
        }
        assert!(
            patterns.check("(").is_err_and(|why| why.starts_with("must be a valid regular expression, but isn't: "))
        );
        let taken = (0..).take_while(|number| patterns.check(&format!(r"\pL{{5}}{number}")).is_ok()).count();
        assert!((50..200).contains(&taken), "{taken}");
        assert_eq!(patterns.check("^[a-z]{1,63}$"), Ok(()), "what is known stays so");
    }
}
