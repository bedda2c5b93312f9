//! The kind ResourceSlice of `resource.k8s.io/v1`.

use jiff::Timestamp;
use pintle_json::Json;
use pintle_kinds::Strategy;
use pintle_kinds::table::{self, Column, Row};
use pintle_meta::GroupVersionKind;

/// The strategy of ResourceSlice in `resource.k8s.io/v1`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ResourceSlice;

impl Strategy for ResourceSlice {
    fn unknown_field_label(&self, kind: &GroupVersionKind, label: &str) -> String {
        format!("field label not supported for {kind}: {label}")
    }

    fn field_labels(&self) -> Option<Vec<&str>> {
        Some(vec!["spec.nodeName", "spec.driver"])
    }

    fn columns(&self) -> Option<Vec<Column>> {
        table::columns("Name, Node, Driver, Pool, Age")
    }

    fn cells(&self, object: &Json, now: Timestamp) -> Vec<Json> {
        let row = Row::new(object, now);
        vec![row.name(), row.text("/spec/nodeName"), row.text("/spec/driver"), row.text("/spec/pool/name"), row.age()]
    }
}
