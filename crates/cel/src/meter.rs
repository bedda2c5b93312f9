//! What an evaluation has cost.

use std::collections::HashMap;

use regex::Regex;

use crate::error::Failure;
use crate::library::regex as patterns;

/// The maximum length of a string that an expression creates.
const MAX_TEXT: usize = 16 << 20;
/// The work of compiling a pattern.
const COMPILE: u64 = 200_000;
/// The maximum number of compiled patterns that an evaluation keeps.
const MAX_PATTERNS: usize = 32;

/// The cost of an evaluation, and the work that costs do not show.
///
/// Some operations have a small cost but take long: the comparison of two large objects costs one unit. So the meter also counts work,
/// about a nanosecond a unit, and ends an evaluation that does much more work than its budget pays for.
pub(crate) struct Meter {
    cost: u64,
    budget: u64,
    work_left: u64,
    patterns: HashMap<Box<str>, Regex>,
}

impl Meter {
    pub(crate) fn new(budget: u64) -> Self {
        let work_left = budget.saturating_mul(100).saturating_add(1_000_000);
        Self { cost: 0, budget, work_left, patterns: HashMap::new() }
    }

    pub(crate) fn cost(&self) -> u64 {
        self.cost
    }

    /// Returns the cost that is left.
    pub(crate) fn left(&self) -> u64 {
        self.budget.saturating_sub(self.cost)
    }

    /// Adds a cost.
    pub(crate) fn pay(&mut self, cost: u64) -> Result<(), Failure> {
        self.cost = self.cost.saturating_add(cost);
        if self.cost > self.budget { Err(Failure::Budget) } else { Ok(()) }
    }

    /// Counts work.
    pub(crate) fn work(&mut self, units: u64) -> Result<(), Failure> {
        match self.work_left.checked_sub(units) {
            Some(left) => {
                self.work_left = left;
                Ok(())
            }
            None => Err(Failure::Budget),
        }
    }

    /// Counts the work of creating a string. Call it before the string exists.
    pub(crate) fn text(&mut self, length: usize) -> Result<(), Failure> {
        if length > MAX_TEXT {
            return Err(Failure::Budget);
        }
        self.work(length as u64)
    }

    /// Returns a compiled pattern. The message of a wrong pattern begins with `prefix`.
    pub(crate) fn pattern(&mut self, pattern: &str, prefix: &str) -> Result<Regex, Failure> {
        if let Some(known) = self.patterns.get(pattern) {
            return Ok(known.clone());
        }
        self.work(COMPILE + pattern.len() as u64 * 100)?;
        let compiled = patterns::compile(pattern).map_err(|message| Failure::new(format!("{prefix}{message}")))?;
        if self.patterns.len() >= MAX_PATTERNS {
            self.patterns.clear();
        }
        self.patterns.insert(pattern.into(), compiled.clone());
        Ok(compiled)
    }
}
