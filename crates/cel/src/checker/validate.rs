//! Validates literals after the type check.

use std::collections::HashMap;
use std::ops::Range;

use super::{Checked, MAX_VISITS};
use crate::ast::{Id, Kind, Literal};
use crate::library::{self, Clause, FormatError};
use crate::meter::{MAX_AUTOMATON, Meter};
use crate::re2::Pattern;
use crate::source::{Findings, Issue};
use crate::types::Type;
use crate::value::Value;

/// Reports literals that cannot be converted, invalid regular expressions, invalid format strings, and lists and maps
/// of mixed types.
pub(super) fn literals(checked: &Checked, issues: &mut Findings) {
    let mut check = Check { checked, issues, visits: 0, calls: HashMap::new() };
    check.expr(checked.ast.root, false);
}

struct Check<'c> {
    checked: &'c Checked,
    issues: &'c mut Findings,
    visits: u32,
    /// The indices of the issues of each checked call. Macros repeat their receiver, so a call can be visited many times,
    /// and parsing a long pattern each time would be slow.
    calls: HashMap<Id, Range<usize>>,
}

impl Check<'_> {
    fn report(&mut self, id: Id, message: impl Into<String>) {
        let at = self.checked.ast.expr(id).at;
        self.issues.push(Issue::new(at, message));
    }

    fn mismatch(&mut self, id: Id, expected: &Type, found: &Type) {
        self.report(id, format!("expected type '{}' but found '{}'", expected.in_messages(), found.in_messages()));
    }

    /// Validates the literals in an expression. In the arguments of `format`, lists and maps of mixed types are
    /// valid.
    fn expr(&mut self, id: Id, in_format: bool) {
        self.visits += 1;
        if self.visits > MAX_VISITS {
            return;
        }
        let checked = self.checked;
        match checked.ast.kind(id) {
            Kind::Literal(_) | Kind::Ident(_) | Kind::Broken => {}
            Kind::Select { operand, .. } => self.expr(*operand, in_format),
            Kind::Call { function, target, args } => {
                self.call(id, function, *target, args);
                let in_format = in_format || &**function == "format";
                target.iter().chain(args).for_each(|part| self.expr(*part, in_format));
            }
            Kind::List(items) => {
                if !in_format {
                    self.same_types(items.iter().map(|item| (item.value, item.optional)), true);
                }
                items.iter().for_each(|item| self.expr(item.value, in_format));
            }
            Kind::Map(entries) => {
                if !in_format {
                    self.same_types(entries.iter().map(|entry| (entry.key, false)), false);
                    self.same_types(entries.iter().map(|entry| (entry.value, entry.optional)), false);
                }
                for entry in entries {
                    self.expr(entry.key, in_format);
                    self.expr(entry.value, in_format);
                }
            }
            Kind::Struct { fields, .. } => fields.iter().for_each(|field| self.expr(field.value, in_format)),
            Kind::Fold(fold) => {
                for part in [fold.range, fold.init, fold.condition, fold.step, fold.result] {
                    self.expr(part, in_format);
                }
            }
        }
    }

    fn same_types(&mut self, parts: impl Iterator<Item = (Id, bool)>, only_first: bool) {
        let mut expected: Option<Type> = None;
        for (id, optional) in parts {
            let found = match self.checked.type_of(id) {
                Type::Optional(inner) if optional => &**inner,
                found => found,
            };
            match &expected {
                None => expected = Some(found.clone()),
                Some(expected) if expected == found => {}
                Some(expected) => {
                    self.mismatch(id, expected, found);
                    if only_first {
                        break;
                    }
                }
            }
        }
    }

    fn call(&mut self, id: Id, function: &str, target: Option<Id>, args: &[Id]) {
        if let Some(known) = self.calls.get(&id) {
            return self.issues.repeat(known.clone());
        }
        let first = self.issues.len();
        self.check_call(id, function, target, args);
        self.calls.insert(id, first..self.issues.len());
    }

    fn check_call(&mut self, id: Id, function: &str, target: Option<Id>, args: &[Id]) {
        let Some(first) = args.first() else { return };
        let literal = match self.checked.ast.kind(*first) {
            Kind::Literal(literal) => Some(literal),
            _ => None,
        };
        match (function, literal, target) {
            ("duration" | "timestamp", Some(literal), _) => {
                let (convert, _) = library::function(function, 1, true);
                let converted = convert(&mut Meter::unlimited(), &[Value::from(literal)]);
                if !matches!(converted, Some(Ok(_))) {
                    self.report(*first, format!("invalid {function} argument"));
                }
            }
            ("matches", Some(Literal::String(pattern)), _) if Pattern::parse(pattern, MAX_AUTOMATON).is_err() => {
                self.report(*first, "invalid matches argument");
            }
            ("format", _, Some(target)) => self.format(id, target, *first),
            _ => {}
        }
    }

    fn format(&mut self, id: Id, target: Id, args: Id) {
        let checked = self.checked;
        let (Kind::Literal(Literal::String(text)), Kind::List(items)) =
            (checked.ast.kind(target), checked.ast.kind(args))
        else {
            return;
        };
        let mut refused = None;
        let used = library::clauses(text, items.len(), |part| {
            if let Err((clause, index)) = part
                && let Some(id) = self.refused(clause, items[index].value)
            {
                refused = Some(id);
                return Err(FormatError::Argument(clause.refusal(self.checked.type_of(id).name())));
            }
            Ok(())
        });
        match used {
            Ok(used) if used < items.len() => {
                let count = items.len();
                self.report(id, format!("too many arguments supplied to string.format (expected {used}, got {count})"));
            }
            Ok(_) => {}
            Err(FormatError::Format(message)) => self.report(id, message),
            Err(FormatError::Argument(message)) => self.report(refused.unwrap_or(id), message),
            Err(FormatError::Other(failure)) => self.report(id, failure.message().to_string()),
        }
    }

    /// Returns the expression, `arg` or one of its items, whose type is not valid for the format clause, such as
    /// `%d`.
    fn refused(&self, clause: Clause, arg: Id) -> Option<Id> {
        let found = self.checked.type_of(arg);
        let accepted = match clause {
            Clause::String => return self.refused_text(arg),
            Clause::Decimal | Clause::Octal => matches!(found, Type::Int | Type::Uint),
            Clause::Fixed(_) | Clause::Scientific(_) => matches!(found, Type::Double | Type::String),
            Clause::Binary => matches!(found, Type::Int | Type::Uint | Type::Bool),
            Clause::Hex { .. } => matches!(found, Type::Int | Type::Uint | Type::String | Type::Bytes),
        };
        (!accepted && *found != Type::Dyn).then_some(arg)
    }

    /// Returns the expression, `arg` or a nested item, whose type is not valid for `%s`. The recursion is bounded by
    /// the maximum depth of the tree.
    fn refused_text(&self, arg: Id) -> Option<Id> {
        match self.checked.type_of(arg) {
            Type::Optional(_) | Type::Object(_) | Type::Opaque(_) | Type::Param(_) | Type::Error => return Some(arg),
            _ => {}
        }
        match self.checked.ast.kind(arg) {
            Kind::List(items) => items.iter().find_map(|item| self.refused_text(item.value)),
            Kind::Map(entries) => {
                let parts = entries.iter().flat_map(|entry| [entry.key, entry.value]);
                parts.into_iter().find_map(|part| self.refused_text(part))
            }
            _ => None,
        }
    }
}
