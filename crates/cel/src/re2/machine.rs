//! A matcher for patterns that are too large for an automaton.
//!
//! Like Go's matcher, this matcher reads the text once and updates a list of active states for each character. A
//! repetition duplicates instructions but not character classes, so even repetitions of large classes need little
//! memory. The search time is proportional to the product of the pattern length and the text length.

use std::collections::HashMap;

use regex_syntax::hir::{Class, ClassUnicode, Hir, HirKind, Look, Repetition};

#[derive(Debug)]
pub(super) struct Machine {
    instructions: Vec<Instruction>,
    classes: Vec<ClassUnicode>,
}

#[derive(Clone, Copy, Debug)]
enum Instruction {
    Char(char),
    Class(usize),
    Look(Look),
    Split(usize, usize),
    Match,
}

/// The result of a pattern search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Search {
    /// Whether the pattern matches anywhere in the text.
    pub is_match: bool,
    /// The number of steps of the search. A step takes up to 20 nanoseconds in an optimized build.
    pub steps: usize,
}

impl Machine {
    /// Compiles a pattern. Returns `None` if the pattern can match invalid UTF-8.
    pub(super) fn new(pattern: &Hir) -> Option<Self> {
        let mut compiler = Compiler::default();
        compiler.compile(pattern)?;
        compiler.instructions.push(Instruction::Match);
        Some(Self { instructions: compiler.instructions, classes: compiler.classes })
    }

    #[cfg(test)]
    pub(super) fn instructions(&self) -> usize {
        self.instructions.len()
    }

    /// Searches a text. Returns `None` if the search needs more than `max_steps` steps. Each executed instruction
    /// counts as a step.
    pub(super) fn search(&self, text: &str, max_steps: usize) -> Option<Search> {
        let mut states = States { is_active: vec![false; self.instructions.len()], all: Vec::new() };
        let (mut steps, mut before, mut left) = (0, None, Vec::new());
        for after in text.chars().map(Some).chain([None]) {
            states.clear();
            // Add the first instruction for each character, because a match can start at any character.
            left.push(0);
            let is_match = self.follow(&mut left, &mut states, before, after);
            steps += states.all.len();
            if steps > max_steps {
                return None;
            }
            if is_match {
                return Some(Search { is_match, steps });
            }
            let Some(c) = after else { break };
            left.extend(states.all.iter().filter(|at| self.takes(**at, c)).map(|at| at + 1));
            before = after;
        }
        Some(Search { is_match: false, steps })
    }

    /// Adds the instructions that can be reached without consuming a character to the active states. Returns `true` if
    /// the pattern matches.
    fn follow(&self, left: &mut Vec<usize>, states: &mut States, before: Option<char>, after: Option<char>) -> bool {
        while let Some(at) = left.pop() {
            if !states.insert(at) {
                continue;
            }
            match self.instructions[at] {
                Instruction::Match => return true,
                Instruction::Split(one, other) => left.extend([one, other]),
                Instruction::Look(look) if holds(look, before, after) => left.push(at + 1),
                Instruction::Look(_) | Instruction::Char(_) | Instruction::Class(_) => {}
            }
        }
        false
    }

    fn takes(&self, at: usize, c: char) -> bool {
        match self.instructions[at] {
            Instruction::Char(known) => known == c,
            Instruction::Class(class) => {
                let ranges = self.classes[class].ranges();
                let behind = ranges.partition_point(|range| range.end() < c);
                ranges.get(behind).is_some_and(|range| range.start() <= c)
            }
            Instruction::Look(_) | Instruction::Split(..) | Instruction::Match => false,
        }
    }
}

struct States {
    is_active: Vec<bool>,
    all: Vec<usize>,
}

impl States {
    fn insert(&mut self, at: usize) -> bool {
        let is_new = !std::mem::replace(&mut self.is_active[at], true);
        if is_new {
            self.all.push(at);
        }
        is_new
    }

    fn clear(&mut self) {
        self.all.drain(..).for_each(|at| self.is_active[at] = false);
    }
}

/// Returns `true` if an assertion, such as `\b`, holds between two characters. As in Go, word characters are ASCII
/// characters.
fn holds(look: Look, before: Option<char>, after: Option<char>) -> bool {
    let is_word = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_');
    let is_boundary = is_word(before) != is_word(after);
    match look {
        Look::Start => before.is_none(),
        Look::End => after.is_none(),
        Look::StartLF | Look::StartCRLF => before.is_none_or(|c| c == '\n'),
        Look::EndLF | Look::EndCRLF => after.is_none_or(|c| c == '\n'),
        Look::WordAscii | Look::WordUnicode => is_boundary,
        Look::WordAsciiNegate | Look::WordUnicodeNegate => !is_boundary,
        Look::WordStartAscii | Look::WordStartUnicode => !is_word(before) && is_word(after),
        Look::WordEndAscii | Look::WordEndUnicode => is_word(before) && !is_word(after),
        Look::WordStartHalfAscii | Look::WordStartHalfUnicode => !is_word(before),
        Look::WordEndHalfAscii | Look::WordEndHalfUnicode => !is_word(after),
    }
}

#[derive(Default)]
struct Compiler {
    instructions: Vec<Instruction>,
    classes: Vec<ClassUnicode>,
    /// Maps the address of each class to its index, so that a repeated class is stored only once.
    known: HashMap<usize, usize>,
}

impl Compiler {
    fn compile(&mut self, pattern: &Hir) -> Option<()> {
        match pattern.kind() {
            HirKind::Empty => {}
            HirKind::Literal(literal) => {
                let text = std::str::from_utf8(&literal.0).ok()?;
                self.instructions.extend(text.chars().map(Instruction::Char));
            }
            HirKind::Class(class) => self.class(class)?,
            HirKind::Look(look) => self.instructions.push(Instruction::Look(*look)),
            HirKind::Repetition(repetition) => self.repetition(repetition)?,
            HirKind::Capture(capture) => self.compile(&capture.sub)?,
            HirKind::Concat(all) => all.iter().try_for_each(|part| self.compile(part))?,
            HirKind::Alternation(all) => self.alternation(all)?,
        }
        Some(())
    }

    fn class(&mut self, class: &Class) -> Option<()> {
        let class = match class {
            Class::Unicode(class) => class,
            // The crate `regex` parses an empty class as a class of bytes.
            Class::Bytes(class) => {
                self.classes.push(class.to_unicode_class()?);
                self.instructions.push(Instruction::Class(self.classes.len() - 1));
                return Some(());
            }
        };
        let place = std::ptr::from_ref(class).addr();
        let number = *self.known.entry(place).or_insert_with(|| {
            self.classes.push(class.clone());
            self.classes.len() - 1
        });
        self.instructions.push(Instruction::Class(number));
        Some(())
    }

    fn repetition(&mut self, repetition: &Repetition) -> Option<()> {
        let mut last = self.instructions.len();
        for _ in 0..repetition.min {
            last = self.instructions.len();
            self.compile(&repetition.sub)?;
        }
        match repetition.max {
            None if repetition.min > 0 => {
                let next = self.instructions.len() + 1;
                self.instructions.push(Instruction::Split(last, next));
            }
            None => {
                let at = self.split();
                self.compile(&repetition.sub)?;
                self.jump(at);
                self.leave(at);
            }
            Some(max) => {
                let mut splits = Vec::new();
                for _ in repetition.min..max {
                    splits.push(self.split());
                    self.compile(&repetition.sub)?;
                }
                splits.into_iter().for_each(|at| self.leave(at));
            }
        }
        Some(())
    }

    fn alternation(&mut self, all: &[Hir]) -> Option<()> {
        let mut ends = Vec::new();
        for (number, part) in all.iter().enumerate() {
            let is_last = number + 1 == all.len();
            let at = (!is_last).then(|| self.split());
            self.compile(part)?;
            if let Some(at) = at {
                ends.push(self.split());
                self.leave(at);
            }
        }
        let end = self.instructions.len();
        ends.into_iter().for_each(|at| self.instructions[at] = Instruction::Split(end, end));
        Some(())
    }

    /// Adds a split that continues at the next instruction and at a second target. Call [`leave`](Self::leave) to set
    /// the second target.
    fn split(&mut self) -> usize {
        let at = self.instructions.len();
        self.instructions.push(Instruction::Split(at + 1, at + 1));
        at
    }

    fn jump(&mut self, to: usize) {
        self.instructions.push(Instruction::Split(to, to));
    }

    /// Sets the second target of the split at `at` to the next instruction that will be added.
    fn leave(&mut self, at: usize) {
        self.instructions[at] = Instruction::Split(at + 1, self.instructions.len());
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn machine(pattern: &str) -> Machine {
        Machine::new(&regex_syntax::parse(pattern).expect("a pattern")).expect("a pattern of UTF-8 text")
    }

    #[test]
    fn machine_agrees_with_the_automaton() {
        let patterns = [
            "",
            "a",
            "^a$",
            "a|b|cd",
            "^(a|bc)*d?$",
            "a{2,4}b",
            "^a{0,3}$",
            "(a*)*b",
            "a+?b+",
            r"\pL{3}",
            "^[a-c]{2,}$",
            r"(?m)^a$",
            r"(?-u:\b)ab",
            "^(?:a?){5}a{5}$",
            "x*",
            "()|b",
        ];
        let texts = [
            "",
            "a",
            "b",
            "ab",
            "aab",
            "aaaaab",
            "abc",
            "bcd",
            "abcd",
            "\u{e9}\u{e9}\u{e9}",
            "b\na\nb",
            "cb ab",
            "aaaaa",
        ];
        for pattern in patterns {
            let (machine, regex) = (machine(pattern), regex::Regex::new(pattern).expect("a pattern"));
            for text in texts {
                let found = machine.search(text, usize::MAX).map(|search| search.is_match);
                assert_eq!(found, Some(regex.is_match(text)), "{pattern:?} {text:?}");
            }
        }
    }

    #[test]
    fn repeated_class_is_stored_once() {
        let machine = machine(r"^\pL{50}i$");
        assert_eq!((machine.classes.len(), machine.instructions.len()), (1, 54));
    }

    proptest! {
        #[test]
        fn steps_are_bounded_by_the_product_of_both_lengths(text in "[ab]{0,40}") {
            let machine = machine("(a|b|ab)*c");
            let found = machine.search(&text, machine.instructions.len() * (text.len() + 1));
            prop_assert!(found.is_some_and(|search| !search.is_match));
        }
    }
}
