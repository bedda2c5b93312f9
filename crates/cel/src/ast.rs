//! The syntax tree of an expression.

use std::sync::Arc;

pub(crate) type Id = u32;

/// A parsed expression, in which all macros are expanded.
///
/// Some macros expand to code that contains their receiver twice, so the tree can contain the same expression several
/// times. A traversal visits each occurrence of such an expression.
#[derive(Clone, Debug)]
pub(crate) struct Ast {
    pub(crate) exprs: Vec<Expr>,
    pub(crate) root: Id,
}

impl Ast {
    pub(crate) fn expr(&self, id: Id) -> &Expr {
        &self.exprs[id as usize]
    }

    pub(crate) fn kind(&self, id: Id) -> &Kind {
        &self.expr(id).kind
    }

    /// Returns the qualified name, such as `a.b.c`, if the expression selects fields from an identifier.
    pub(crate) fn qualified_name(&self, id: Id) -> Option<String> {
        let mut fields = Vec::new();
        let mut at = id;
        loop {
            match self.kind(at) {
                Kind::Ident(name) => {
                    fields.push(&**name);
                    fields.reverse();
                    return Some(fields.join("."));
                }
                Kind::Select { operand, field, test_only: false } => {
                    fields.push(&**field);
                    at = *operand;
                }
                _ => return None,
            }
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Expr {
    pub(crate) kind: Kind,
    /// The offset of the expression in the source text, in code points, which determines the position in error
    /// messages.
    pub(crate) at: u32,
}

#[derive(Clone, Debug)]
pub(crate) enum Kind {
    Literal(Literal),
    Ident(Arc<str>),
    Select {
        operand: Id,
        field: Arc<str>,
        test_only: bool,
    },
    Call {
        function: Arc<str>,
        target: Option<Id>,
        args: Vec<Id>,
    },
    List(Vec<Item>),
    Map(Vec<Entry>),
    Struct {
        name: Arc<str>,
        fields: Vec<Field>,
    },
    Fold(Box<Fold>),
    /// A placeholder for an expression that failed to parse, which marks the position of the error.
    Broken,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Literal {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(Arc<str>),
    Bytes(Arc<[u8]>),
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Item {
    pub(crate) value: Id,
    pub(crate) optional: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) key: Id,
    pub(crate) value: Id,
    pub(crate) optional: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Field {
    pub(crate) at: u32,
    pub(crate) name: Arc<str>,
    pub(crate) value: Id,
    pub(crate) optional: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Fold {
    pub(crate) range: Id,
    pub(crate) var: Arc<str>,
    pub(crate) second_var: Option<Arc<str>>,
    pub(crate) accumulator: Arc<str>,
    pub(crate) init: Id,
    pub(crate) condition: Id,
    pub(crate) step: Id,
    pub(crate) result: Id,
}

/// The accumulator variable of a comprehension. `@result` is not a valid identifier, so expressions cannot refer to
/// this variable.
pub(crate) const ACCUMULATOR: &str = "@result";

/// The names of the functions that implement the operators. The parser replaces each operator with a call to its
/// function.
pub(crate) mod operator {
    pub(crate) const CONDITIONAL: &str = "_?_:_";
    pub(crate) const AND: &str = "_&&_";
    pub(crate) const OR: &str = "_||_";
    pub(crate) const NOT: &str = "!_";
    pub(crate) const EQUALS: &str = "_==_";
    pub(crate) const NOT_EQUALS: &str = "_!=_";
    pub(crate) const LESS: &str = "_<_";
    pub(crate) const LESS_EQUALS: &str = "_<=_";
    pub(crate) const GREATER: &str = "_>_";
    pub(crate) const GREATER_EQUALS: &str = "_>=_";
    pub(crate) const ADD: &str = "_+_";
    pub(crate) const SUBTRACT: &str = "_-_";
    pub(crate) const MULTIPLY: &str = "_*_";
    pub(crate) const DIVIDE: &str = "_/_";
    pub(crate) const MODULO: &str = "_%_";
    pub(crate) const NEGATE: &str = "-_";
    pub(crate) const INDEX: &str = "_[_]";
    pub(crate) const OPTIONAL_INDEX: &str = "_[?_]";
    pub(crate) const OPTIONAL_SELECT: &str = "_?._";
    pub(crate) const IN: &str = "@in";
    pub(crate) const NOT_STRICTLY_FALSE: &str = "@not_strictly_false";
    pub(crate) const MAP_INSERT: &str = "cel.@mapInsert";
}
