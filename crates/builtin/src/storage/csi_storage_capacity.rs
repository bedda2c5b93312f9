//! The `CSIStorageCapacity` kind in `storage.k8s.io/v1`.

use pintle_apimachinery::request::Subresource;
use pintle_apimachinery::validate::{FieldErrors, NameRule};
use pintle_json::Json;
use pintle_kinds::Strategy;
use pintle_kinds::check::{Check, immutable};
use pintle_kinds::label_selector::selector_errors;
use pintle_schema::quantity;

use crate::warnings;

pub(crate) struct CsiStorageCapacity;

impl Strategy for CsiStorageCapacity {
    fn validate_create(&self, object: &Json) -> FieldErrors {
        let capacity = object.text("/capacity");
        let negative = quantity::nanos(capacity).is_some_and(|nanos| nanos < 0);
        Check::of(object)
            .also(selector_errors(&object["nodeTopology"], "nodeTopology"))
            .child("storageClassName", |class| class.whole_is(NameRule::Subdomain))
            .invalid_text_if(negative, "capacity", capacity, "must be greater than or equal to 0")
            .done()
    }

    fn validate_update(&self, new: &Json, old: &Json, _: Subresource) -> FieldErrors {
        self.validate_create(new).and(immutable(new, old, &["nodeTopology", "storageClassName"]))
    }

    fn warnings(&self, object: &Json, _: Option<&Json>, _: Subresource) -> Vec<String> {
        let selector = object.get("nodeTopology");
        selector.map(|selector| warnings::node_selector(selector, "nodeTopology")).unwrap_or_default()
    }
}
