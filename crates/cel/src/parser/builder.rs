//! Adds expressions to the syntax tree and limits its depth. `macros.rs` expands macros.

use super::{MAX_NESTING, Parsed, Stop};
use crate::ast::{Expr, Id, Kind, Literal, operator};
use crate::source::Issue;

/// The maximum depth of a syntax tree. Each traversal of the tree recurses to at most this depth. cel-go accepts deeper
/// trees, because it does not count all kinds of expressions. No reasonable expression needs a deeper syntax tree.
const MAX_DEPTH: u16 = 400;

/// The depth of an expression in this crate and in cel-go.
#[derive(Clone, Copy, Default)]
struct Depth {
    tree: u16,
    /// The depth in cel-go. In cel-go, only conditionals, relations, arithmetic, indexing, field selections and method
    /// calls add a level.
    cel_go: u16,
}

#[derive(Clone, Copy, PartialEq)]
enum CelGoLevel {
    Adds,
    AddsNone,
}

pub(super) struct Builder {
    pub(super) exprs: Vec<Expr>,
    pub(super) issues: Vec<Issue>,
    depths: Vec<Depth>,
    /// Whether to expand the macro `cel.bind`.
    pub(super) has_bindings: bool,
}

impl Builder {
    pub(super) fn new(issues: Vec<Issue>, has_bindings: bool) -> Self {
        Self { exprs: Vec::new(), issues, depths: Vec::new(), has_bindings }
    }

    pub(super) fn kind(&self, id: Id) -> &Kind {
        &self.exprs[id as usize].kind
    }

    pub(super) fn at(&self, id: Id) -> u32 {
        self.exprs[id as usize].at
    }

    pub(super) fn push(&mut self, at: u32, kind: Kind) -> Parsed {
        self.add(at, kind, CelGoLevel::AddsNone)
    }

    fn add(&mut self, at: u32, kind: Kind, cel_go_level: CelGoLevel) -> Parsed {
        let mut depth = Depth::default();
        for_each_child(&kind, &mut |child| {
            let child_depth = self.depths[child as usize];
            depth.tree = depth.tree.max(child_depth.tree);
            depth.cel_go = depth.cel_go.max(child_depth.cel_go);
        });
        depth.tree += 1;
        depth.cel_go += u16::from(cel_go_level == CelGoLevel::Adds);
        if depth.tree > MAX_DEPTH || u32::from(depth.cel_go) > MAX_NESTING {
            return Err(Stop::Limit("max recursion depth exceeded".into()));
        }
        // The cast does not truncate, because a text has at most 100,000 code points, and each macro adds a fixed
        // number of expressions.
        let id = self.exprs.len() as Id;
        self.exprs.push(Expr { kind, at });
        self.depths.push(depth);
        Ok(id)
    }

    pub(super) fn literal(&mut self, at: u32, value: Literal) -> Parsed {
        self.push(at, Kind::Literal(value))
    }

    pub(super) fn broken(&mut self, at: u32) -> Parsed {
        self.push(at, Kind::Broken)
    }

    pub(super) fn ident(&mut self, at: u32, name: &str) -> Parsed {
        self.push(at, Kind::Ident(name.into()))
    }

    pub(super) fn select(&mut self, at: u32, operand: Id, field: &str) -> Parsed {
        self.add(at, Kind::Select { operand, field: field.into(), test_only: false }, CelGoLevel::Adds)
    }

    pub(super) fn call(&mut self, at: u32, function: &str, target: Option<Id>, args: Vec<Id>) -> Parsed {
        self.push(at, Kind::Call { function: function.into(), target, args })
    }

    /// Adds a function call that adds a level to the depth in cel-go.
    pub(super) fn counted_call(&mut self, at: u32, function: &str, target: Option<Id>, args: Vec<Id>) -> Parsed {
        self.add(at, Kind::Call { function: function.into(), target, args }, CelGoLevel::Adds)
    }

    pub(super) fn conditional(&mut self, at: u32, condition: Id, yes: Id, no: Id) -> Parsed {
        self.counted_call(at, operator::CONDITIONAL, None, vec![condition, yes, no])
    }
}

fn for_each_child(kind: &Kind, visit: &mut dyn FnMut(Id)) {
    match kind {
        Kind::Literal(_) | Kind::Ident(_) | Kind::Broken => {}
        Kind::Select { operand, .. } => visit(*operand),
        Kind::Call { target, args, .. } => target.iter().chain(args).for_each(|id| visit(*id)),
        Kind::List(items) => items.iter().for_each(|item| visit(item.value)),
        Kind::Map(entries) => entries.iter().for_each(|entry| {
            visit(entry.key);
            visit(entry.value);
        }),
        Kind::Struct { fields, .. } => fields.iter().for_each(|field| visit(field.value)),
        Kind::Fold(fold) => {
            [fold.range, fold.init, fold.condition, fold.step, fold.result].into_iter().for_each(visit);
        }
    }
}
