//! Finds the function signatures that match a call.

use std::sync::Arc;

use super::Checker;
use super::infer::instantiate;
use crate::ast::{Id, Kind, Literal, operator};
use crate::functions::{self, Overload};
use crate::types::Type;

impl Checker<'_> {
    pub(super) fn call(&mut self, id: Id) -> Type {
        let Kind::Call { function, target, args } = self.ast.kind(id) else { return Type::Error };
        let (function, target, args) = (function.clone(), *target, args.clone());
        if &*function == operator::OPTIONAL_SELECT {
            return self.optional_select(id, &args);
        }
        for arg in &args {
            self.expr(*arg);
        }
        match target {
            None => self.global_call(id, &function, &args),
            Some(target) => self.member_call(id, &function, target, &args),
        }
    }

    fn functions(&self, name: &str) -> Vec<&'static Overload> {
        let patches = self.environment.has_patches();
        functions::overloads(name).iter().filter(|overload| patches || !overload.for_patches).collect()
    }

    fn optional_select(&mut self, id: Id, args: &[Id]) -> Type {
        let [operand, field] = *args else { return Type::Error };
        let Kind::Literal(Literal::String(name)) = self.ast.kind(field) else { return Type::Error };
        let name = name.clone();
        self.types[field as usize] = Type::String;
        let selected = self.field(id, operand, &name, true);
        self.overloads[id as usize] = self.functions(operator::OPTIONAL_SELECT);
        self.inference.substitute(&selected)
    }

    fn global_call(&mut self, id: Id, name: &Arc<str>, args: &[Id]) -> Type {
        let plain = name.strip_prefix('.').unwrap_or(name);
        let candidates = self.functions(plain);
        if candidates.is_empty() {
            return self.undeclared(id, name);
        }
        self.qualify(id, plain, args);
        self.resolve(id, plain, &candidates, None, args)
    }

    /// Converts a method call such as `a.b.f(x)` to a call of the function `a.b.f` if this function exists.
    fn qualify(&mut self, id: Id, name: &str, args: &[Id]) {
        let kind = Kind::Call { function: name.into(), target: None, args: args.to_vec() };
        self.ast.exprs[id as usize].kind = kind;
    }

    fn member_call(&mut self, id: Id, function: &str, target: Id, args: &[Id]) -> Type {
        if let Some(prefix) = self.ast.qualified_name(target) {
            let name = format!("{}.{function}", prefix.strip_prefix('.').unwrap_or(&prefix));
            let candidates = self.functions(&name);
            if !candidates.is_empty() {
                self.qualify(id, &name, args);
                return self.resolve(id, &name, &candidates, None, args);
            }
        }
        self.expr(target);
        let candidates = self.functions(function);
        if candidates.is_empty() {
            return self.undeclared(id, function);
        }
        self.resolve(id, function, &candidates, Some(target), args)
    }

    fn resolve(
        &mut self,
        id: Id,
        name: &str,
        candidates: &[&'static Overload],
        target: Option<Id>,
        args: &[Id],
    ) -> Type {
        let types: Vec<_> = target.iter().chain(args).map(|arg| self.type_of(*arg)).collect();
        if matches!(name, operator::AND | operator::OR) {
            return self.logical(id, candidates, args, &types);
        }
        let mut matching = Vec::new();
        let mut result: Option<Type> = None;
        for overload in candidates.iter().copied().filter(|overload| overload.member == target.is_some()) {
            let fresh: Vec<_> = overload.params.iter().map(|param| (*param, self.inference.unknown())).collect();
            let params: Vec<_> = overload.args.iter().map(|arg| instantiate(arg, &fresh)).collect();
            if !self.inference.all_assignable(&types, &params) {
                continue;
            }
            matching.push(overload);
            let found = self.inference.substitute(&instantiate(&overload.result, &fresh));
            result = Some(match result {
                None => found,
                Some(result) if result == Type::Dyn || result == found => result,
                Some(_) => Type::Dyn,
            });
        }
        self.overloads[id as usize] = matching;
        match result {
            Some(result) => result,
            None => self.no_match(id, name, types, target.is_some()),
        }
    }

    fn logical(&mut self, id: Id, candidates: &[&'static Overload], args: &[Id], types: &[Type]) -> Type {
        let mut result = Type::Bool;
        for (arg, found) in args.iter().zip(types) {
            if !self.inference.assignable(found, &Type::Bool) {
                self.mismatch(*arg, &Type::Bool, found);
                result = Type::Error;
            }
        }
        self.overloads[id as usize] = candidates.to_vec();
        result
    }

    fn no_match(&mut self, id: Id, name: &str, types: Vec<Type>, member: bool) -> Type {
        let types: Vec<_> = types.iter().map(|found| self.inference.resolved(found)).collect();
        let mut texts: Vec<_> = types.iter().map(|found| found.in_messages().to_string()).collect();
        let receiver = if member { format!("{}.", texts.remove(0)) } else { String::new() };
        let message = format!("found no matching overload for '{name}' applied to '{receiver}({})'", texts.join(", "));
        self.report(id, message);
        Type::Error
    }
}
