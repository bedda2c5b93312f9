//! The `ResourceSlice` kind in `resource.k8s.io/v1`.

use pintle_kinds::Strategy;
use pintle_kinds::table::{Cell, Table};
use pintle_meta::GroupVersionKind;

pub(crate) struct ResourceSlice;

impl Strategy for ResourceSlice {
    fn unknown_field_label(&self, kind: &GroupVersionKind, label: &str) -> String {
        format!("field label not supported for {kind}: {label}")
    }

    fn field_labels(&self) -> Option<Vec<&str>> {
        Some(vec!["spec.nodeName", "spec.driver"])
    }

    fn table(&self) -> Table {
        &[
            ("Name", Cell::Name),
            ("Node", Cell::Text("/spec/nodeName")),
            ("Driver", Cell::Text("/spec/driver")),
            ("Pool", Cell::Text("/spec/pool/name")),
            ("Age", Cell::Age),
        ]
    }
}
