//! Expands macros, which are calls that the parser replaces with other expressions.

use std::sync::Arc;

use super::Parsed;
use super::builder::Builder;
use crate::ast::{ACCUMULATOR, Entry, Fold, Id, Item, Kind, Literal, operator};
use crate::source::Issue;

/// The iteration variable of a comprehension that only binds a value and does not iterate.
const UNUSED: &str = "#unused";
/// The variable for the sorted list in the expansion of the macro `sortBy`.
const SORTED: &str = "@__sortBy_input__";

impl Builder {
    pub(super) fn global_call(&mut self, at: u32, function: &Arc<str>, args: Vec<Id>) -> Parsed {
        match global(self, at, function, &args)? {
            Some(expanded) => Ok(expanded),
            None => self.call(at, function, None, args),
        }
    }

    pub(super) fn member_call(&mut self, at: u32, function: &str, target: Id, args: Vec<Id>) -> Parsed {
        match member(self, at, function, target, &args)? {
            Some(expanded) => Ok(expanded),
            None => self.counted_call(at, function, Some(target), args),
        }
    }
}

/// Expands `has(a.b)`. Returns `None` if the function is not the macro `has`.
fn global(builder: &mut Builder, at: u32, function: &str, args: &[Id]) -> Parsed<Option<Id>> {
    let ("has", [arg]) = (function, args) else { return Ok(None) };
    match builder.kind(*arg) {
        Kind::Select { operand, field, .. } => {
            let (operand, field) = (*operand, field.clone());
            builder.push(at, Kind::Select { operand, field, test_only: true }).map(Some)
        }
        _ => refuse(builder, builder.at(*arg), "invalid argument to has() macro"),
    }
}

/// Expands a macro whose receiver is a list, a map or an optional value. Returns `None` if the function is
/// not such a macro.
fn member(builder: &mut Builder, at: u32, function: &str, target: Id, args: &[Id]) -> Parsed<Option<Id>> {
    let mut make = Expansion { builder, at, target };
    match (function, args) {
        ("all", [var, predicate]) => make.one_var(*var, |make| make.all(*predicate)),
        ("exists", [var, predicate]) => make.one_var(*var, |make| make.exists(*predicate)),
        ("exists_one", [var, predicate]) => make.one_var(*var, |make| make.exists_one(*predicate)),
        ("map", [var, value]) => make.mapped(*var, None, *value),
        ("map", [var, filter, value]) => make.mapped(*var, Some(*filter), *value),
        ("filter", [var, predicate]) => make.mapped(*var, Some(*predicate), *var),
        ("all", [key, var, predicate]) => make.two_vars(*key, *var, |make| make.all(*predicate)),
        ("exists", [key, var, predicate]) => make.two_vars(*key, *var, |make| make.exists(*predicate)),
        ("exists_one" | "existsOne", [key, var, predicate]) => {
            make.two_vars(*key, *var, |make| make.exists_one(*predicate))
        }
        ("transformList", [key, var, value]) => make.two_vars(*key, *var, |make| make.appended(None, *value)),
        ("transformList", [key, var, filter, value]) => {
            make.two_vars(*key, *var, |make| make.appended(Some(*filter), *value))
        }
        ("transformMap", [key, var, value]) => make.two_vars(*key, *var, |make| make.inserted(*key, None, *value)),
        ("transformMap", [key, var, filter, value]) => {
            make.two_vars(*key, *var, |make| make.inserted(*key, Some(*filter), *value))
        }
        ("transformMapEntry", [key, var, value]) => make.two_vars(*key, *var, |make| make.merged(None, *value)),
        ("transformMapEntry", [key, var, filter, value]) => {
            make.two_vars(*key, *var, |make| make.merged(Some(*filter), *value))
        }
        ("optMap", [var, value]) => make.opt_map(*var, *value),
        ("optFlatMap", [var, value]) => make.opt_flat_map(*var, *value),
        ("sortBy", [var, key]) => make.sort_by(*var, *key),
        ("bind", [var, value, body]) if make.is_cel_namespace() => make.bind_value(*var, *value, *body),
        _ => Ok(None),
    }
}

fn refuse(builder: &mut Builder, at: u32, message: impl Into<String>) -> Parsed<Option<Id>> {
    builder.issues.push(Issue::new(at, message));
    builder.broken(at).map(Some)
}

struct Expansion<'a> {
    builder: &'a mut Builder,
    at: u32,
    target: Id,
}

struct Loop {
    init: Id,
    condition: Id,
    step: Id,
    result: Id,
}

impl Expansion<'_> {
    fn call(&mut self, function: &str, args: Vec<Id>) -> Parsed {
        self.builder.call(self.at, function, None, args)
    }

    fn member(&mut self, function: &str, target: Id, args: Vec<Id>) -> Parsed {
        self.builder.call(self.at, function, Some(target), args)
    }

    fn literal(&mut self, value: Literal) -> Parsed {
        self.builder.literal(self.at, value)
    }

    fn accumulator(&mut self) -> Parsed {
        self.builder.ident(self.at, ACCUMULATOR)
    }

    fn list(&mut self, values: &[Id]) -> Parsed {
        let items = values.iter().map(|value| Item { value: *value, optional: false }).collect();
        self.builder.push(self.at, Kind::List(items))
    }

    fn name_of(&self, var: Id) -> Option<Arc<str>> {
        match self.builder.kind(var) {
            Kind::Ident(name) => Some(name.clone()),
            _ => None,
        }
    }

    fn fold(&mut self, var: Arc<str>, second_var: Option<Arc<str>>, parts: Loop) -> Parsed<Option<Id>> {
        let Loop { init, condition, step, result } = parts;
        let (range, accumulator) = (self.target, ACCUMULATOR.into());
        let fold = Fold { range, var, second_var, accumulator, init, condition, step, result };
        self.builder.push(self.at, Kind::Fold(Box::new(fold))).map(Some)
    }

    fn one_var(&mut self, var: Id, parts: impl FnOnce(&mut Self) -> Parsed<Loop>) -> Parsed<Option<Id>> {
        let at = self.builder.at(var);
        match self.name_of(var) {
            None => refuse(self.builder, at, "argument must be a simple name"),
            Some(name) if &*name == "__result__" => {
                refuse(self.builder, at, "iteration variable overwrites accumulator variable")
            }
            Some(name) => {
                let parts = parts(self)?;
                self.fold(name, None, parts)
            }
        }
    }

    fn two_vars(&mut self, key: Id, var: Id, parts: impl FnOnce(&mut Self) -> Parsed<Loop>) -> Parsed<Option<Id>> {
        let mut names = Vec::new();
        for var in [key, var] {
            match self.name_of(var) {
                Some(name) => names.push((name, self.builder.at(var))),
                None => return refuse(self.builder, self.builder.at(var), "argument must be a simple name"),
            }
        }
        if names[0].0 == names[1].0 {
            return refuse(self.builder, names[1].1, format!("duplicate variable name: {}", names[0].0));
        }
        if let Some((_, at)) = names.iter().find(|(name, _)| &**name == "__result__") {
            return refuse(self.builder, *at, "iteration variable overwrites accumulator variable");
        }
        let parts = parts(self)?;
        let second = names.pop().map(|(name, _)| name);
        let first = names.swap_remove(0).0;
        self.fold(first, second, parts)
    }

    fn all(&mut self, predicate: Id) -> Parsed<Loop> {
        let init = self.literal(Literal::Bool(true))?;
        let so_far = self.accumulator()?;
        let condition = self.call(operator::NOT_STRICTLY_FALSE, vec![so_far])?;
        let so_far = self.accumulator()?;
        let step = self.call(operator::AND, vec![so_far, predicate])?;
        Ok(Loop { init, condition, step, result: self.accumulator()? })
    }

    fn exists(&mut self, predicate: Id) -> Parsed<Loop> {
        let init = self.literal(Literal::Bool(false))?;
        let so_far = self.accumulator()?;
        let not = self.call(operator::NOT, vec![so_far])?;
        let condition = self.call(operator::NOT_STRICTLY_FALSE, vec![not])?;
        let so_far = self.accumulator()?;
        let step = self.call(operator::OR, vec![so_far, predicate])?;
        Ok(Loop { init, condition, step, result: self.accumulator()? })
    }

    fn exists_one(&mut self, predicate: Id) -> Parsed<Loop> {
        let init = self.literal(Literal::Int(0))?;
        let condition = self.literal(Literal::Bool(true))?;
        let (so_far, one) = (self.accumulator()?, self.literal(Literal::Int(1))?);
        let more = self.call(operator::ADD, vec![so_far, one])?;
        let step = self.only_if(Some(predicate), more)?;
        let (so_far, one) = (self.accumulator()?, self.literal(Literal::Int(1))?);
        Ok(Loop { init, condition, step, result: self.call(operator::EQUALS, vec![so_far, one])? })
    }

    /// Applies the loop step of a comprehension only to the items that pass the filter.
    fn only_if(&mut self, filter: Option<Id>, step: Id) -> Parsed {
        let Some(filter) = filter else { return Ok(step) };
        let so_far = self.accumulator()?;
        self.call(operator::CONDITIONAL, vec![filter, step, so_far])
    }

    fn appended(&mut self, filter: Option<Id>, value: Id) -> Parsed<Loop> {
        let init = self.list(&[])?;
        let condition = self.literal(Literal::Bool(true))?;
        let (so_far, item) = (self.accumulator()?, self.list(&[value])?);
        let step = self.call(operator::ADD, vec![so_far, item])?;
        let step = self.only_if(filter, step)?;
        Ok(Loop { init, condition, step, result: self.accumulator()? })
    }

    fn mapped(&mut self, var: Id, filter: Option<Id>, value: Id) -> Parsed<Option<Id>> {
        let at = self.builder.at(var);
        match self.name_of(var) {
            None => refuse(self.builder, at, "argument is not an identifier"),
            Some(name) if &*name == "__result__" => {
                refuse(self.builder, at, "iteration variable overwrites accumulator variable")
            }
            Some(name) => {
                let parts = self.appended(filter, value)?;
                self.fold(name, None, parts)
            }
        }
    }

    fn empty_map(&mut self) -> Parsed {
        self.builder.push(self.at, Kind::Map(Vec::<Entry>::new()))
    }

    fn inserted(&mut self, key: Id, filter: Option<Id>, value: Id) -> Parsed<Loop> {
        let Some(key) = self.name_of(key) else { return Err(super::Stop::Syntax) };
        let init = self.empty_map()?;
        let condition = self.literal(Literal::Bool(true))?;
        let (so_far, key) = (self.accumulator()?, self.builder.ident(self.at, &key)?);
        let step = self.call(operator::MAP_INSERT, vec![so_far, key, value])?;
        let step = self.only_if(filter, step)?;
        Ok(Loop { init, condition, step, result: self.accumulator()? })
    }

    fn merged(&mut self, filter: Option<Id>, value: Id) -> Parsed<Loop> {
        let init = self.empty_map()?;
        let condition = self.literal(Literal::Bool(true))?;
        let so_far = self.accumulator()?;
        let step = self.call(operator::MAP_INSERT, vec![so_far, value])?;
        let step = self.only_if(filter, step)?;
        Ok(Loop { init, condition, step, result: self.accumulator()? })
    }

    fn bind(&mut self, name: &Arc<str>, value: Id, step: Id, result: Id) -> Parsed {
        let range = self.list(&[])?;
        let condition = self.literal(Literal::Bool(false))?;
        let (var, accumulator) = (UNUSED.into(), name.clone());
        let fold = Fold { range, var, second_var: None, accumulator, init: value, condition, step, result };
        self.builder.push(self.at, Kind::Fold(Box::new(fold)))
    }

    /// Returns `true` if the macro's receiver is the namespace `cel`, and the environment has bindings.
    fn is_cel_namespace(&self) -> bool {
        self.builder.has_bindings && self.name_of(self.target).is_some_and(|name| &*name == "cel")
    }

    fn bind_value(&mut self, var: Id, value: Id, body: Id) -> Parsed<Option<Id>> {
        let Some(name) = self.name_of(var) else {
            let at = self.builder.at(var);
            return refuse(self.builder, at, "cel.bind() variable names must be simple identifiers");
        };
        let step = self.builder.ident(self.at, &name)?;
        self.bind(&name, value, step, body).map(Some)
    }

    fn bind_optional(&mut self, name: &Arc<str>, value: Id) -> Parsed {
        let held = self.member("value", self.target, vec![])?;
        let step = self.builder.ident(self.at, name)?;
        self.bind(name, held, step, value)
    }

    fn if_present(&mut self, present: Id) -> Parsed<Option<Id>> {
        let test = self.member("hasValue", self.target, vec![])?;
        let none = self.call("optional.none", vec![])?;
        self.call(operator::CONDITIONAL, vec![test, present, none]).map(Some)
    }

    fn opt_map(&mut self, var: Id, value: Id) -> Parsed<Option<Id>> {
        let Some(name) = self.name_of(var) else {
            let at = self.builder.at(var);
            return refuse(self.builder, at, "optMap() variable name must be a simple identifier");
        };
        let bound = self.bind_optional(&name, value)?;
        let present = self.call("optional.of", vec![bound])?;
        self.if_present(present)
    }

    fn opt_flat_map(&mut self, var: Id, value: Id) -> Parsed<Option<Id>> {
        let Some(name) = self.name_of(var) else {
            let at = self.builder.at(var);
            return refuse(self.builder, at, "optFlatMap() variable name must be a simple identifier");
        };
        let present = self.bind_optional(&name, value)?;
        self.if_present(present)
    }

    fn sort_by(&mut self, var: Id, key: Id) -> Parsed<Option<Id>> {
        let list = self.target;
        match self.builder.kind(list) {
            Kind::List(_) | Kind::Select { .. } | Kind::Ident(_) | Kind::Fold(_) | Kind::Call { .. } => {}
            _ => {
                let message =
                    "sortBy can only be applied to a list, identifier, comprehension, call or select expression";
                let at = self.builder.at(list);
                return refuse(self.builder, at, message);
            }
        }
        let name: Arc<str> = SORTED.into();
        self.target = self.builder.ident(self.at, &name)?;
        let Some(keys) = self.mapped(var, None, key)? else { return Ok(None) };
        let input = self.builder.ident(self.at, &name)?;
        let sorted = self.member("@sortByAssociatedKeys", input, vec![keys])?;
        let step = self.builder.ident(self.at, &name)?;
        self.bind(&name, list, step, sorted).map(Some)
    }
}
