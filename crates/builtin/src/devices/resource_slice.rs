//! The `ResourceSlice` kind in `resource.k8s.io/v1`.

use pintle_apimachinery::cluster::Context;
use pintle_apimachinery::request::Subresource;
use pintle_apimachinery::validate::FieldErrors;
use pintle_json::Json;
use pintle_kinds::Strategy;
use pintle_meta::GroupVersionKind;

use super::slice_errors;

pub(crate) struct ResourceSlice;

impl Strategy for ResourceSlice {
    fn prepare_for_create(&self, context: &Context<'_>, object: &mut Json) {
        date_taints(context, object);
    }

    fn prepare_for_update(&self, context: &Context<'_>, new: &mut Json, _: &Json, _: Subresource) {
        date_taints(context, new);
    }

    fn validate_create(&self, object: &Json) -> FieldErrors {
        slice_errors::errors(object)
    }

    fn validate_update(&self, new: &Json, old: &Json, _: Subresource) -> FieldErrors {
        slice_errors::update_errors(new, old)
    }

    fn unknown_field_label(&self, kind: &GroupVersionKind, label: &str) -> String {
        format!("field label not supported for {kind}: {label}")
    }
}

/// Sets `timeAdded` of each taint without this field.
fn date_taints(context: &Context<'_>, slice: &mut Json) {
    let Some(spec) = slice.get_mut("spec") else { return };
    for taint in spec.items_mut("devices").flat_map(|device| device.items_mut("taints")) {
        taint.set_default("timeAdded", context.time());
    }
}
