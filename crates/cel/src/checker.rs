//! Checks the types of an expression.

mod calls;
mod infer;
mod literals;
mod scope;
mod validate;

use std::sync::Arc;

use crate::ast::{Ast, Fold, Id, Kind, Literal};
use crate::budget::CompileBudget;
use crate::environment::Environment;
use crate::functions::Overload;
use crate::source::{CompileError, Findings, Issue};
use crate::types::Type;

use infer::Inference;
use scope::Scopes;

/// A type-checked expression, with all of its names resolved and all of its types known.
#[derive(Clone, Debug)]
pub(crate) struct Checked {
    /// The syntax tree after name resolution. A qualified name such as `a.b` is a single identifier, and a call of a
    /// function with a qualified name has no receiver.
    pub(crate) ast: Ast,
    types: Vec<Type>,
    overloads: Vec<Vec<&'static Overload>>,
    pub(crate) variables: Vec<Arc<str>>,
}

impl Checked {
    pub(crate) fn type_of(&self, id: Id) -> &Type {
        self.types.get(id as usize).unwrap_or(&Type::Dyn)
    }

    pub(crate) fn overloads(&self, id: Id) -> &[&'static Overload] {
        self.overloads.get(id as usize).map(Vec::as_slice).unwrap_or_default()
    }

    pub(crate) fn result(&self) -> &Type {
        self.type_of(self.ast.root)
    }
}

pub(crate) fn check(
    environment: &Environment,
    text: &str,
    ast: Ast,
    budget: &CompileBudget,
) -> Result<Checked, CompileError> {
    let count = ast.exprs.len();
    let mut checker = Checker {
        environment,
        ast,
        types: vec![Type::Error; count],
        overloads: vec![Vec::new(); count],
        variables: Vec::new(),
        scopes: Scopes::default(),
        inference: Inference::within(budget.left()),
        issues: Findings::default(),
        visits: 0,
        most_visits: MAX_VISITS.min(budget.left()),
    };
    let root = checker.ast.root;
    checker.expr(root);
    let is_exhausted = checker.is_exhausted();
    let Checker { ast, types, overloads, mut variables, mut inference, mut issues, visits, .. } = checker;
    let types = types.iter().map(|inferred| inference.resolved(inferred)).collect();
    variables.sort();
    variables.dedup();
    budget.spend(visits.saturating_add(inference.steps()));
    if is_exhausted || inference.is_exhausted() {
        issues = Findings::default();
        issues.push(Issue::whole("expression is too complex to check"));
    }
    let checked = Checked { ast, types, overloads, variables };
    if issues.is_empty() {
        validate::literals(&checked, &mut issues);
    }
    if issues.is_empty() { Ok(checked) } else { Err(issues.into_error(text)) }
}

/// The maximum number of expressions that one traversal of the tree may visit, including repeated visits. Some macros
/// duplicate their receiver, so a short text can expand to a huge expression.
pub(crate) const MAX_VISITS: u32 = 300_000;

struct Checker<'e> {
    environment: &'e Environment,
    ast: Ast,
    types: Vec<Type>,
    overloads: Vec<Vec<&'static Overload>>,
    variables: Vec<Arc<str>>,
    scopes: Scopes,
    inference: Inference,
    issues: Findings,
    visits: u32,
    most_visits: u32,
}

impl Checker<'_> {
    fn is_exhausted(&self) -> bool {
        self.visits > self.most_visits || self.inference.is_exhausted()
    }

    fn report(&mut self, id: Id, message: impl Into<String>) {
        let at = self.ast.expr(id).at;
        self.issues.push(Issue::new(at, message));
    }

    fn undeclared(&mut self, id: Id, name: &str) -> Type {
        self.report(id, format!("undeclared reference to '{name}' (in container '')"));
        Type::Error
    }

    fn mismatch(&mut self, id: Id, expected: &Type, found: &Type) {
        let message = format!("expected type '{}' but found '{}'", expected.in_messages(), found.in_messages());
        self.report(id, message);
    }

    fn type_of(&self, id: Id) -> Type {
        self.types[id as usize].clone()
    }

    /// Checks an expression and returns its type. The recursion is bounded by the maximum depth of the tree.
    fn expr(&mut self, id: Id) -> Type {
        self.visits += 1;
        if self.is_exhausted() {
            return Type::Error;
        }
        let inferred = match self.ast.kind(id) {
            Kind::Literal(literal) => literal_type(literal),
            Kind::Ident(name) => {
                let name = name.clone();
                self.ident(id, &name)
            }
            Kind::Select { .. } => self.select(id),
            Kind::Call { .. } => self.call(id),
            Kind::List(_) => self.list(id),
            Kind::Map(_) => self.map(id),
            Kind::Struct { .. } => self.object(id),
            Kind::Fold(_) => self.fold(id),
            Kind::Broken => Type::Error,
        };
        self.types[id as usize] = inferred.clone();
        inferred
    }

    /// Returns the type of the variable `name`. Also resolves type names such as `int`, because expressions can use
    /// type names as values.
    fn lookup(&mut self, name: &str) -> Option<Type> {
        if let Some(local) = self.scopes.find(name) {
            return Some(local.clone());
        }
        if let Some((known, declared)) = self.environment.variable_type(name).map(|declared| (name, declared.clone())) {
            self.variables.push(known.into());
            return Some(declared);
        }
        if self.environment.has_object(name) {
            return Some(Type::type_of(Type::object(name)));
        }
        type_named(name).map(Type::type_of)
    }

    fn ident(&mut self, id: Id, name: &str) -> Type {
        let plain = name.strip_prefix('.').unwrap_or(name);
        match self.lookup(plain) {
            Some(found) => {
                self.ast.exprs[id as usize].kind = Kind::Ident(plain.into());
                found
            }
            None => self.undeclared(id, name),
        }
    }

    fn select(&mut self, id: Id) -> Type {
        let Kind::Select { operand, field, test_only } = self.ast.kind(id) else { return Type::Error };
        let (operand, field, test_only) = (*operand, field.clone(), *test_only);
        if !test_only && let Some(name) = self.ast.qualified_name(id) {
            let plain = name.strip_prefix('.').unwrap_or(&name);
            if let Some(found) = self.lookup(plain) {
                self.ast.exprs[id as usize].kind = Kind::Ident(plain.into());
                return found;
            }
        }
        let selected = self.field(id, operand, &field, false);
        if test_only { Type::Bool } else { self.inference.substitute(&selected) }
    }

    /// Returns the type of `operand.field`. The type is optional if the operand is optional or the operator is `.?`.
    fn field(&mut self, id: Id, operand: Id, field: &str, optional: bool) -> Type {
        let target = self.expr(operand);
        let target = self.inference.substitute(&target);
        let (target, unwrapped) = match target {
            Type::Optional(inner) => ((*inner).clone(), true),
            target => (target, false),
        };
        let selected = match &target {
            Type::Map(parts) => parts.1.clone(),
            Type::Object(name) => self.object_field(id, name, field),
            Type::Param(_) => {
                self.inference.assignable(&Type::Dyn, &target);
                Type::Dyn
            }
            Type::Dyn | Type::Error => Type::Dyn,
            other => {
                let message = format!("type '{}' does not support field selection", other.in_messages());
                self.report(id, message);
                Type::Dyn
            }
        };
        if optional || unwrapped { Type::optional(selected) } else { selected }
    }

    fn object_field(&mut self, id: Id, object: &str, field: &str) -> Type {
        if !self.environment.has_object(object) {
            self.report(id, format!("unexpected failed resolution of '{object}'"));
            return Type::Error;
        }
        match self.environment.field_type(object, field) {
            Some(found) => found,
            None => {
                self.report(id, format!("undefined field '{field}'"));
                Type::Error
            }
        }
    }

    fn fold(&mut self, id: Id) -> Type {
        let Kind::Fold(fold) = self.ast.kind(id) else { return Type::Error };
        let Fold { range, var, second_var, accumulator, init, condition, step, result } = (**fold).clone();
        let over = self.expr(range);
        let accumulated = self.expr(init);
        let over = self.inference.substitute(&over);
        let (first, second) = self.iterated(range, &over, second_var.is_some());
        self.scopes.push(&accumulator, accumulated.clone());
        self.scopes.push(&var, first);
        if let Some(second_var) = &second_var {
            self.scopes.push(second_var, second);
        }
        let found = self.expr(condition);
        self.expect_type(condition, &Type::Bool, &found);
        let found = self.expr(step);
        self.expect_type(step, &accumulated, &found);
        self.scopes.pop(if second_var.is_some() { 2 } else { 1 });
        let found = self.expr(result);
        self.scopes.pop(1);
        self.inference.substitute(&found)
    }

    fn expect_type(&mut self, id: Id, expected: &Type, found: &Type) {
        if !self.inference.assignable(expected, found) {
            self.mismatch(id, expected, found);
        }
    }

    fn iterated(&mut self, range: Id, over: &Type, two: bool) -> (Type, Type) {
        match over {
            Type::List(items) if two => (Type::Int, (**items).clone()),
            Type::List(items) => ((**items).clone(), Type::Error),
            Type::Map(parts) => (parts.0.clone(), parts.1.clone()),
            Type::Dyn | Type::Error | Type::Param(_) => {
                self.inference.assignable(&Type::Dyn, over);
                (Type::Dyn, Type::Dyn)
            }
            other => {
                let message = format!(
                    "expression of type '{}' cannot be range of a comprehension (must be list, map, or dynamic)",
                    other.in_messages()
                );
                self.report(range, message);
                (Type::Error, Type::Error)
            }
        }
    }
}

fn literal_type(literal: &Literal) -> Type {
    match literal {
        Literal::Null => Type::Null,
        Literal::Bool(_) => Type::Bool,
        Literal::Int(_) => Type::Int,
        Literal::Uint(_) => Type::Uint,
        Literal::Double(_) => Type::Double,
        Literal::String(_) => Type::String,
        Literal::Bytes(_) => Type::Bytes,
    }
}

pub(crate) fn type_named(name: &str) -> Option<Type> {
    let param = |name: &str| Type::Param(name.into());
    Some(match name {
        "bool" => Type::Bool,
        "bytes" => Type::Bytes,
        "double" => Type::Double,
        "google.protobuf.Duration" => Type::Duration,
        "int" => Type::Int,
        "list" => Type::list(param("A")),
        "map" => Type::map(param("A"), param("B")),
        "null_type" => Type::Null,
        "string" => Type::String,
        "google.protobuf.Timestamp" => Type::Timestamp,
        "uint" => Type::Uint,
        "optional_type" => Type::optional(param("V")),
        "type" | "net.IP" | "net.CIDR" => Type::Opaque(name.into()),
        _ => return None,
    })
}
