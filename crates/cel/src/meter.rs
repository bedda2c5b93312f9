//! The meter for the cost and the work of an evaluation.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::error::Failure;
use crate::re2::Pattern;

/// The maximum length of a string that an expression can create, in bytes.
const MAX_TEXT: usize = 16 << 20;
/// The maximum length of a list that an expression can create.
const MAX_ITEMS: usize = 4 << 20;
/// The number of bytes that the meter counts as the memory of one value.
const VALUE: u64 = 40;
/// The number of bytes that are counted as the memory of a string in a list.
pub(crate) const ITEM: usize = 64;
const COMPILE: u64 = 100_000;
/// The additional units of work for each state or range of a compiled pattern.
const COMPILE_STATE: u64 = 500;
/// The units of work per step of a pattern search.
const STEP: u64 = 20;
/// The maximum memory of a pattern's automaton, in bytes.
pub(crate) const MAX_AUTOMATON: usize = 1 << 20;
const MAX_PATTERNS: usize = 32;

pub(crate) type Patterns = HashMap<Box<str>, Arc<Pattern>>;

/// Counts the cost and the work of an evaluation.
///
/// Some operations have a low cost but take a long time. For example, the comparison of two large objects has a cost of
/// one unit. Therefore, the meter also counts units of work, which take about a nanosecond each. The meter stops an
/// evaluation that exceeds the work limit of its budget.
pub(crate) struct Meter {
    cost: u64,
    budget: u64,
    work_left: u64,
    known: Option<Arc<Patterns>>,
    patterns: BTreeMap<Box<str>, Arc<Pattern>>,
}

impl Meter {
    /// Creates a meter for operations outside of an evaluation, which have no limit.
    pub(crate) fn unlimited() -> Self {
        Self { cost: 0, budget: u64::MAX, work_left: u64::MAX, known: None, patterns: BTreeMap::new() }
    }

    pub(crate) fn with_patterns(budget: u64, known: &Arc<Patterns>) -> Self {
        let work_left = budget.saturating_mul(100).saturating_add(1_000_000);
        let known = (!known.is_empty()).then(|| known.clone());
        Self { cost: 0, budget, work_left, known, patterns: BTreeMap::new() }
    }

    pub(crate) fn cost(&self) -> u64 {
        self.cost
    }

    pub(crate) fn left(&self) -> u64 {
        self.budget.saturating_sub(self.cost)
    }

    pub(crate) fn pay(&mut self, cost: u64) -> Result<(), Failure> {
        self.cost = self.cost.saturating_add(cost);
        if self.cost > self.budget { Err(Failure::Budget) } else { Ok(()) }
    }

    /// Counts units of work. Fails with [`Failure::Budget`] if the evaluation exceeds its work limit.
    pub(crate) fn work(&mut self, units: u64) -> Result<(), Failure> {
        match self.work_left.checked_sub(units) {
            Some(left) => {
                self.work_left = left;
                Ok(())
            }
            None => Err(Failure::Budget),
        }
    }

    /// Counts the work of creating a list with `count` items. Call this method before you allocate the list.
    pub(crate) fn items(&mut self, count: usize) -> Result<(), Failure> {
        if count > MAX_ITEMS {
            return Err(Failure::Budget);
        }
        self.work((count as u64).saturating_mul(VALUE))
    }

    /// Counts the work of creating a string with `length` bytes. Call this method before you allocate the string.
    pub(crate) fn text(&mut self, length: usize) -> Result<(), Failure> {
        if length > MAX_TEXT {
            return Err(Failure::Budget);
        }
        self.work(length as u64)
    }

    /// Counts the work of searching a text with the automaton of a pattern. In the worst case, a search visits every
    /// state of the automaton for each character.
    pub(crate) fn search(&mut self, length: usize, pattern: &Pattern) -> Result<(), Failure> {
        self.work((length as u64).saturating_mul(pattern.states()) / 8)
    }

    /// Returns the number of [steps](crate::Search::steps) that a pattern search may still use.
    pub(crate) fn steps_left(&self) -> usize {
        usize::try_from(self.work_left / STEP).unwrap_or(usize::MAX)
    }

    pub(crate) fn steps(&mut self, steps: usize) -> Result<(), Failure> {
        self.work((steps as u64).saturating_mul(STEP))
    }

    /// Returns a compiled pattern. The error message for an invalid pattern begins with `prefix`.
    pub(crate) fn pattern(&mut self, pattern: &str, prefix: &str) -> Result<Arc<Pattern>, Failure> {
        let known = self.known.as_ref().and_then(|known| known.get(pattern));
        if let Some(known) = known.or_else(|| self.patterns.get(pattern)) {
            return Ok(known.clone());
        }
        let wrong = |message: String| Failure::new(format!("{prefix}{message}"));
        self.work((pattern.len() as u64).saturating_mul(100))?;
        let parsed = Arc::new(Pattern::parse(pattern, MAX_AUTOMATON).map_err(wrong)?);
        self.work(parsed.size().saturating_mul(COMPILE_STATE).saturating_add(COMPILE))?;
        if self.patterns.len() >= MAX_PATTERNS {
            self.patterns.clear();
        }
        self.patterns.insert(pattern.into(), parsed.clone());
        Ok(parsed)
    }
}
