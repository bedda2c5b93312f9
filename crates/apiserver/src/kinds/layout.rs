//! How objects of a kind are laid out, and what follows from it.

use std::sync::Arc;

use pintle_json::{Json, json};
use pintle_schema::Schema;

use super::Kind;
use crate::store::Order;

/// How a real server holds the objects of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// As types of Go, whose fields are declared.
    Declared,
    /// As maps, whose members nothing but a schema says anything of.
    Free,
}

impl Kind {
    fn is_declared(&self) -> bool {
        self.strategy.layout() == Layout::Declared
    }

    /// The order in which its objects have their members where they are stored and served.
    pub(crate) fn order(&self) -> Order {
        if self.is_declared() { Order::Declared } else { Order::Sorted }
    }

    /// Whether its objects have a form in protobuf.
    pub(crate) fn has_protobuf(&self) -> bool {
        self.is_declared()
    }

    /// Whether its objects take patches that know the keys of lists.
    pub(crate) fn takes_strategic_patches(&self) -> bool {
        self.is_declared()
    }

    /// Whether its objects have to say themselves what they are. Others are known by the path that they came by.
    pub(crate) fn needs_types(&self) -> bool {
        !self.is_declared()
    }

    /// Whether lists say of each object what it is, and of themselves that they do not go on.
    pub(crate) fn lists_in_full(&self) -> bool {
        !self.is_declared()
    }

    /// The types of its fields; none for a kind that the server makes up.
    pub(crate) fn schema(&self) -> Option<Arc<Schema>> {
        let read = || match self.strategy.openapi() {
            Some(openapi) => Some(Arc::new(Schema::custom(&self.kind, openapi))),
            None => Schema::builtin(&self.api_version(), &self.kind).map(Arc::new),
        };
        self.types.get_or_init(read).clone()
    }

    /// Brings an object into the form in which Go writes it.
    pub(crate) fn normalise(&self, object: &mut Json) {
        if let Some(schema) = self.schema().filter(|_| self.is_declared()) {
            *object = schema.normalised(std::mem::take(object));
        }
    }

    /// What Go writes of an object in which nothing is set.
    pub(crate) fn empty(&self) -> Json {
        let schema = self.schema().filter(|_| self.is_declared());
        let mut empty = schema.map_or_else(|| json!({}), |schema| schema.empty());
        self.strategy.complete_empty(&mut empty);
        empty
    }
}
