//! The Go representation of objects in kube-apiserver, and the behavior that depends on this representation.

use std::sync::Arc;

use pintle_json::{Json, json};
use pintle_schema::Schema;
use pintle_store::MemberOrder as Order;

use super::Kind;
use super::strategy_types::Layout;

impl Kind {
    fn is_declared(&self) -> bool {
        self.strategy.layout() == Layout::Declared
    }

    /// Returns the order of the fields in stored and served objects.
    pub fn order(&self) -> Order {
        if self.is_declared() { Order::Declared } else { Order::Sorted }
    }

    /// Returns `true` if objects can be encoded as protobuf.
    pub fn has_protobuf(&self) -> bool {
        self.is_declared()
    }

    /// Returns `true` if the kind supports strategic merge patches.
    pub fn takes_strategic_patches(&self) -> bool {
        self.is_declared()
    }

    /// Returns `true` if request bodies must contain `apiVersion` and `kind`. For other kinds, the server can derive
    /// both from the URL.
    pub fn needs_types(&self) -> bool {
        !self.is_declared()
    }

    /// Returns `true` if list items contain `apiVersion` and `kind`. The metadata of such a list can contain an empty
    /// `continue`.
    pub fn lists_in_full(&self) -> bool {
        !self.is_declared()
    }

    /// Returns the schema of the objects, or `None` if the server computes the objects instead of storing them.
    pub fn schema(&self) -> Option<Arc<Schema>> {
        let read = || match self.strategy.openapi() {
            Some(openapi) => Some(Arc::new(Schema::custom(&self.kind, openapi))),
            None => Schema::builtin(&self.api_version(), &self.kind).map(Arc::new),
        };
        self.schema.get_or_init(read).clone()
    }

    /// Converts an object to the JSON that Go would write.
    pub fn normalise(&self, object: &mut Json) {
        if !self.is_declared() {
            self.strategy.normalise(object);
        } else if let Some(schema) = self.schema() {
            *object = schema.normalised(std::mem::take(object));
        }
    }

    /// Returns the JSON that Go writes for a struct with no fields set.
    pub fn empty(&self) -> Json {
        let schema = self.schema().filter(|_| self.is_declared());
        let mut empty = schema.map_or_else(|| json!({}), |schema| schema.empty());
        self.strategy.complete_empty(&mut empty);
        empty
    }
}
