//! Tracks the variables of comprehensions during the type check.

use std::collections::HashMap;
use std::sync::Arc;

use crate::types::Type;

#[derive(Default)]
pub(super) struct Scopes {
    names: Vec<Arc<str>>,
    types: HashMap<Arc<str>, Vec<Type>>,
}

impl Scopes {
    pub(super) fn push(&mut self, name: &Arc<str>, declared: Type) {
        self.names.push(name.clone());
        self.types.entry(name.clone()).or_default().push(declared);
    }

    pub(super) fn pop(&mut self, count: usize) {
        for _ in 0..count {
            let stack = self.names.pop().and_then(|name| self.types.get_mut(&name));
            stack.and_then(Vec::pop);
        }
    }

    pub(super) fn find(&self, name: &str) -> Option<&Type> {
        self.types.get(name)?.last()
    }
}
