//! The limits of Go's regular expressions.

use regex_syntax::ast::{Ast, ClassSet, ClassSetItem, RepetitionKind, RepetitionRange};

/// The maximum count of a repetition, and the maximum product of nested repetitions.
const MAX_REPEATED: u32 = 1_000;
/// The maximum number of instructions of a pattern. Go's own limit is about three times as high.
const MAX_INSTRUCTIONS: usize = 1 << 20;

/// Returns the error of Go for a pattern that exceeds its limits.
pub(super) fn error(ast: &Ast) -> Option<String> {
    if let Some(count) = bad_repeat(ast, MAX_REPEATED) {
        return Some(format!("invalid repeat count: `{{{count}}}`"));
    }
    (instructions(ast) > MAX_INSTRUCTIONS).then(|| "expression too large".into())
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

/// Returns the minimum and maximum count of a repetition, or `None` for `*`, `+` and `?`.
fn counts(ast: &Ast) -> Option<(u32, u32)> {
    let Ast::Repetition(repetition) = ast else { return None };
    match &repetition.op.kind {
        RepetitionKind::Range(RepetitionRange::Exactly(count)) => Some((*count, *count)),
        RepetitionKind::Range(RepetitionRange::AtLeast(count)) => Some((*count, *count)),
        RepetitionKind::Range(RepetitionRange::Bounded(least, most)) => Some((*least, *most)),
        _ => None,
    }
}

/// Returns the first repetition count that exceeds `left`. For nested expressions, `left` is divided by the outer
/// count.
fn bad_repeat(ast: &Ast, mut left: u32) -> Option<u32> {
    if let Some((_, most)) = counts(ast) {
        if most > left {
            return Some(most);
        }
        left = left.checked_div(most).unwrap_or(left);
    }
    parts(ast).into_iter().find_map(|part| bad_repeat(part, left))
}

fn instructions(ast: &Ast) -> usize {
    let within = parts(ast).into_iter().map(instructions).fold(1, usize::saturating_add);
    let times = counts(ast).map_or(1, |(_, most)| most.max(1) as usize);
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
    fn single_and_nested_repeat_counts_are_bounded() {
        for (pattern, expected) in [
            ("a{1000}", true),
            ("a{1001}", false),
            ("a{1001,}", false),
            ("a{0,1001}", false),
            ("(a{100}){10}", true),
            ("(a{100}){100}", false),
            ("((a{2}){500}){2}", false),
            ("(a{500}b{500}){2}", true),
            ("(a*){1000}", true),
            ("(a{0}){1000}", true),
            (r"(\pL{50}){20}", true),
        ] {
            let ast = regex_syntax::ast::parse::Parser::new().parse(pattern).expect("a pattern");
            assert_eq!(error(&ast).is_none(), expected, "{pattern}");
        }
        let large = "((a{1000}b{1000}c{1000}d{1000}))".repeat(300);
        let ast = regex_syntax::ast::parse::Parser::new().parse(&large).expect("a pattern");
        assert_eq!(error(&ast).as_deref(), Some("expression too large"));
    }
}
