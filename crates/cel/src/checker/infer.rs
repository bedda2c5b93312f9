//! Infers type parameters by unification.

use std::collections::HashMap;
use std::sync::Arc;

use crate::types::Type;

/// The maximum number of inference steps for one expression. Without this limit, a short expression with nested
/// types could take an exponential number of steps.
const MAX_STEPS: u32 = 4_000_000;

#[derive(Default)]
pub(super) struct Inference {
    known: HashMap<Arc<str>, Type>,
    /// The type parameters that the current unification has changed, with their previous types. A failed unification
    /// restores the previous types.
    trail: Vec<(Arc<str>, Option<Type>)>,
    fresh: u32,
    steps: u32,
    most_steps: u32,
}

impl Inference {
    /// Creates an inference with at most `steps` steps, and at most [`MAX_STEPS`].
    pub(super) fn within(steps: u32) -> Self {
        Self { most_steps: MAX_STEPS.min(steps), ..Self::default() }
    }

    /// Returns `true` if the inference has exceeded its maximum number of steps. The inferred types must not be used in
    /// this case.
    pub(super) fn is_exhausted(&self) -> bool {
        self.steps > self.most_steps
    }

    pub(super) fn steps(&self) -> u32 {
        self.steps
    }

    fn step(&mut self) -> bool {
        self.steps = self.steps.saturating_add(1);
        !self.is_exhausted()
    }

    pub(super) fn unknown(&mut self) -> Type {
        let name = format!("_var{}", self.fresh).into();
        self.fresh += 1;
        Type::Param(name)
    }

    /// Returns `true` if a value of type `right` is valid for the type `left`, and records the inferred type
    /// parameters.
    pub(super) fn assignable(&mut self, left: &Type, right: &Type) -> bool {
        self.attempt(|inference| inference.unify(left, right))
    }

    /// Like [`assignable`](Self::assignable), but for two lists of types.
    pub(super) fn all_assignable(&mut self, left: &[Type], right: &[Type]) -> bool {
        left.len() == right.len()
            && self.attempt(|inference| left.iter().zip(right).all(|(left, right)| inference.unify(left, right)))
    }

    fn attempt(&mut self, unify: impl FnOnce(&mut Self) -> bool) -> bool {
        let mark = self.trail.len();
        let unified = unify(self);
        for (name, before) in self.trail.drain(mark..).rev() {
            if unified {
                continue;
            }
            match before {
                Some(before) => self.known.insert(name, before),
                None => self.known.remove(&name),
            };
        }
        unified
    }

    fn set(&mut self, name: &Arc<str>, to: Type) {
        let before = self.known.insert(name.clone(), to);
        self.trail.push((name.clone(), before));
    }

    fn unify(&mut self, left: &Type, right: &Type) -> bool {
        if !self.step() {
            return true;
        }
        if let Type::Param(name) = right {
            let (valid, bound) = self.bind(left, right, name);
            if valid || bound {
                return valid;
            }
        }
        if let Type::Param(name) = left {
            return self.bind(right, left, name).0;
        }
        match (left, right) {
            _ if left.is_dyn_or_error() || right.is_dyn_or_error() => true,
            (Type::Null, other) | (other, Type::Null) => {
                let nullable = matches!(
                    other,
                    Type::Null
                        | Type::Optional(_)
                        | Type::Object(_)
                        | Type::Opaque(_)
                        | Type::Duration
                        | Type::Timestamp
                );
                nullable
            }
            (Type::List(left), Type::List(right)) | (Type::Optional(left), Type::Optional(right)) => {
                self.unify(left, right)
            }
            (Type::Map(left), Type::Map(right)) => self.unify(&left.0, &right.0) && self.unify(&left.1, &right.1),
            (Type::Type(_), Type::Type(_)) => true,
            _ => left == right,
        }
    }

    /// Binds the type parameter `name` to `other`. The first returned boolean is `true` if the binding is valid. The
    /// second boolean is `true` if the type parameter already had a type.
    fn bind(&mut self, other: &Type, param: &Type, name: &Arc<str>) -> (bool, bool) {
        if other == param {
            return (true, true);
        }
        if let Some(known) = self.known.get(name).cloned() {
            if *other == known {
                return (true, true);
            }
            if !self.unify(other, &known) {
                return (false, true);
            }
            let general = most_general(other, &known);
            if self.not_within(param, &general) {
                self.set(name, general);
            }
            return (true, true);
        }
        if self.not_within(param, other) {
            self.set(name, other.clone());
            return (true, false);
        }
        (false, false)
    }

    fn not_within(&mut self, param: &Type, within: &Type) -> bool {
        if !self.step() {
            return true;
        }
        if param == within {
            return false;
        }
        match within {
            Type::Param(name) => match self.known.get(name).cloned() {
                Some(known) => self.not_within(param, &known),
                None => true,
            },
            Type::List(inner) | Type::Optional(inner) | Type::Type(inner) => self.not_within(param, inner),
            Type::Map(parts) => self.not_within(param, &parts.0) && self.not_within(param, &parts.1),
            _ => true,
        }
    }

    pub(super) fn substitute(&mut self, within: &Type) -> Type {
        self.replace(within, false)
    }

    /// Replaces type parameters with their inferred types. A type parameter without an inferred type becomes `Dyn`.
    pub(super) fn resolved(&mut self, within: &Type) -> Type {
        self.replace(within, true)
    }

    fn replace(&mut self, within: &Type, all: bool) -> Type {
        if !self.step() {
            return Type::Dyn;
        }
        match within {
            Type::Param(name) => match self.known.get(name).cloned() {
                Some(known) => self.replace(&known, all),
                None if all => Type::Dyn,
                None => within.clone(),
            },
            Type::List(inner) => Type::list(self.replace(inner, all)),
            Type::Optional(inner) => Type::optional(self.replace(inner, all)),
            Type::Type(inner) => Type::type_of(self.replace(inner, all)),
            Type::Map(parts) => Type::map(self.replace(&parts.0, all), self.replace(&parts.1, all)),
            _ => within.clone(),
        }
    }
}

pub(super) fn instantiate(within: &Type, fresh: &[(&'static str, Type)]) -> Type {
    match within {
        Type::Param(name) => {
            let found = fresh.iter().find(|(param, _)| **param == **name);
            found.map_or_else(|| within.clone(), |(_, fresh)| fresh.clone())
        }
        Type::List(inner) => Type::list(instantiate(inner, fresh)),
        Type::Optional(inner) => Type::optional(instantiate(inner, fresh)),
        Type::Type(inner) => Type::type_of(instantiate(inner, fresh)),
        Type::Map(parts) => Type::map(instantiate(&parts.0, fresh), instantiate(&parts.1, fresh)),
        _ => within.clone(),
    }
}

/// Returns the more general type of two types that can be unified.
pub(super) fn most_general(left: &Type, right: &Type) -> Type {
    if less_specific(left, right) { left.clone() } else { right.clone() }
}

fn less_specific(left: &Type, right: &Type) -> bool {
    match (left, right) {
        (Type::Dyn | Type::Param(_), _) => true,
        (_, Type::Dyn | Type::Param(_)) => false,
        (Type::List(left), Type::List(right)) | (Type::Optional(left), Type::Optional(right)) => {
            less_specific(left, right)
        }
        (Type::Map(left), Type::Map(right)) => less_specific(&left.0, &right.0) && less_specific(&left.1, &right.1),
        (Type::Type(_), Type::Type(_)) => true,
        _ => left == right,
    }
}
