//! The limits of Go's regular expressions.

use regex_syntax::ast::{Ast, ClassSet, ClassSetItem, RepetitionKind, RepetitionRange};

/// The maximum number of instructions of a pattern. Go's own limit is about three times as high.
const MAX_INSTRUCTIONS: usize = 1 << 20;

/// Returns whether Go refuses a pattern because of its size.
pub(super) fn is_too_large(ast: &Ast) -> bool {
    instructions(ast) > MAX_INSTRUCTIONS
}

/// Returns the direct subexpressions.
fn parts(ast: &Ast) -> Vec<&Ast> {
    match ast {
        Ast::Repetition(repetition) => vec![&repetition.ast],
        Ast::Group(group) => vec![&group.ast],
        Ast::Alternation(alternation) => alternation.asts.iter().collect(),
        Ast::Concat(concat) => concat.asts.iter().collect(),
        _ => Vec::new(),
    }
}

/// Returns the maximum count of a repetition, or its minimum if it has no maximum. Returns `None` for `*`, `+` and `?`.
fn count(ast: &Ast) -> Option<u32> {
    let Ast::Repetition(repetition) = ast else { return None };
    match &repetition.op.kind {
        RepetitionKind::Range(RepetitionRange::Exactly(count) | RepetitionRange::AtLeast(count)) => Some(*count),
        RepetitionKind::Range(RepetitionRange::Bounded(_, most)) => Some(*most),
        _ => None,
    }
}

fn instructions(ast: &Ast) -> usize {
    let within = parts(ast).into_iter().map(instructions).fold(1, usize::saturating_add);
    let times = count(ast).map_or(1, |count| count.max(1) as usize);
    within.saturating_mul(times)
}

/// Returns the number of Unicode classes that an expression names.
pub(super) fn classes(ast: &Ast) -> usize {
    match ast {
        Ast::ClassUnicode(_) => 1,
        Ast::ClassBracketed(class) => classes_of_set(&class.kind),
        other => parts(other).into_iter().map(classes).sum(),
    }
}

fn classes_of_set(set: &ClassSet) -> usize {
    match set {
        ClassSet::BinaryOp(op) => classes_of_set(&op.lhs) + classes_of_set(&op.rhs),
        ClassSet::Item(item) => classes_of_item(item),
    }
}

fn classes_of_item(item: &ClassSetItem) -> usize {
    match item {
        ClassSetItem::Unicode(_) => 1,
        ClassSetItem::Bracketed(class) => classes_of_set(&class.kind),
        ClassSetItem::Union(union) => union.items.iter().map(classes_of_item).sum(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_pattern_is_found() {
        let large = "((a{1000}b{1000}c{1000}d{1000}))".repeat(300);
        for (pattern, expected) in [(r"(\pL{50}){20}", false), (&*large, true)] {
            let ast = regex_syntax::ast::parse::Parser::new().parse(pattern).expect("a pattern");
            assert_eq!(is_too_large(&ast), expected);
        }
    }
}
