//! The `ResourceSlice` kind in `resource.k8s.io/v1`.

use pintle_kinds::Strategy;
use pintle_meta::GroupVersionKind;

pub(crate) struct ResourceSlice;

impl Strategy for ResourceSlice {
    fn unknown_field_label(&self, kind: &GroupVersionKind, label: &str) -> String {
        format!("field label not supported for {kind}: {label}")
    }
}
