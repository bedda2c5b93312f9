//! Checks the counts of nested repetitions in a pattern.

use std::convert::Infallible;

use regex_syntax::ast::{Ast, Repetition, RepetitionKind, RepetitionRange, Span, Visitor, visit};

use super::MAX_REPEAT;

/// Returns the first repetition operator whose count, multiplied by the counts nested inside it, is too large.
pub(super) fn excessive(ast: &Ast) -> Option<Span> {
    let Ok(found) = visit(ast, Repeats::default());
    found
}

#[derive(Default)]
struct Repeats {
    /// The largest product of nested repetition counts in each enclosing part of the pattern.
    products: Vec<u64>,
    excessive: Option<Span>,
}

impl Visitor for Repeats {
    type Output = Option<Span>;
    type Err = Infallible;

    fn finish(self) -> Result<Self::Output, Infallible> {
        Ok(self.excessive)
    }

    fn visit_pre(&mut self, _: &Ast) -> Result<(), Infallible> {
        self.products.push(1);
        Ok(())
    }

    fn visit_post(&mut self, ast: &Ast) -> Result<(), Infallible> {
        let mut product = self.products.pop().unwrap_or(1);
        if let Ast::Repetition(repetition) = ast {
            product = match count(repetition) {
                // If the count of a repetition is zero, Go ignores the counts inside the repeated part.
                0 => 1,
                count => product.saturating_mul(count),
            };
            if product > MAX_REPEAT {
                self.excessive.get_or_insert(repetition.op.span);
            }
        }
        if let Some(around) = self.products.last_mut() {
            *around = product.max(*around);
        }
        Ok(())
    }
}

/// Returns the maximum count of a repetition, or its minimum count if it is unbounded.
pub(super) fn count(repetition: &Repetition) -> u64 {
    u64::from(match &repetition.op.kind {
        RepetitionKind::Range(RepetitionRange::Exactly(count) | RepetitionRange::AtLeast(count)) => *count,
        RepetitionKind::Range(RepetitionRange::Bounded(_, count)) => *count,
        _ => 1,
    })
}
