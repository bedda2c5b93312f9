//! Describes how kube-apiserver represents objects, and the behavior that depends on this representation.

use std::sync::Arc;

use pintle_json::{Json, json};
use pintle_schema::Schema;
use pintle_store::MemberOrder as Order;

use super::Kind;

/// The representation of a kind's objects in kube-apiserver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// The objects are Go structs with declared fields. All built-in kinds are represented as Go structs with declared fields.
    Declared,
    /// Unstructured maps. Custom resources have this representation.
    Free,
}

impl Kind {
    fn is_declared(&self) -> bool {
        self.strategy.layout() == Layout::Declared
    }

    /// Returns the order of the members in stored and served objects.
    pub fn order(&self) -> Order {
        if self.is_declared() { Order::Declared } else { Order::Sorted }
    }

    /// Returns whether objects can be encoded as protobuf.
    pub fn has_protobuf(&self) -> bool {
        self.is_declared()
    }

    /// Returns whether the kind supports strategic merge patches.
    pub fn takes_strategic_patches(&self) -> bool {
        self.is_declared()
    }

    /// Returns whether a request body must contain `apiVersion` and `kind`. If a body may omit these fields, the server
    /// derives them from the URL.
    pub fn needs_types(&self) -> bool {
        !self.is_declared()
    }

    /// Returns whether the items of a list contain `apiVersion` and `kind`. If the items contain these fields, the list
    /// metadata can contain an empty `continue`.
    pub fn lists_in_full(&self) -> bool {
        !self.is_declared()
    }

    /// Returns the schema. Returns `None` for kinds whose objects the server computes.
    pub fn schema(&self) -> Option<Arc<Schema>> {
        let read = || match self.strategy.openapi() {
            Some(openapi) => Some(Arc::new(Schema::custom(&self.kind, openapi))),
            None => Schema::builtin(&self.api_version(), &self.kind).map(Arc::new),
        };
        self.types.get_or_init(read).clone()
    }

    /// Converts an object to the same JSON that Go would write.
    pub fn normalise(&self, object: &mut Json) {
        if let Some(schema) = self.schema().filter(|_| self.is_declared()) {
            *object = schema.normalised(std::mem::take(object));
        }
    }

    /// Returns the JSON that Go writes for a struct in which no field is set.
    pub fn empty(&self) -> Json {
        let schema = self.schema().filter(|_| self.is_declared());
        let mut empty = schema.map_or_else(|| json!({}), |schema| schema.empty());
        self.strategy.complete_empty(&mut empty);
        empty
    }
}
