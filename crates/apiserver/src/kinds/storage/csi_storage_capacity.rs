//! CSIStorageCapacity.

use crate::kinds::{Strategy, warnings};
use crate::request::Part;
use pintle_json::Json;

/// `storage.k8s.io/v1` CSIStorageCapacity.
#[derive(Clone, Copy, Debug)]
pub(in crate::kinds) struct CsiStorageCapacity;

impl Strategy for CsiStorageCapacity {
    fn warnings(&self, object: &Json, _: Option<&Json>, _: Part) -> Vec<String> {
        let selector = object.get("nodeTopology");
        selector.map(|selector| warnings::node_selector(selector, "nodeTopology")).unwrap_or_default()
    }
}
