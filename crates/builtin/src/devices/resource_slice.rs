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
        drop_gated_fields(object);
        date_taints(context, object);
    }

    fn prepare_for_update(&self, context: &Context<'_>, new: &mut Json, _: &Json, _: Subresource) {
        drop_gated_fields(new);
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

/// Removes the fields whose feature gates are off by default in Kubernetes.
fn drop_gated_fields(slice: &mut Json) {
    let Some(spec) = slice.get_mut("spec") else { return };
    for device in spec.items_mut("devices") {
        device.unset("nodeAllocatableResourceMappings");
        let attributes = device.get_mut("attributes").and_then(Json::as_object_mut);
        for attribute in attributes.into_iter().flat_map(|attributes| attributes.values_mut()) {
            ["ints", "bools", "strings", "versions"].iter().for_each(|kind| attribute.unset(kind));
        }
    }
}

/// Sets the time at which a taint was added, if the request does not contain it.
fn date_taints(context: &Context<'_>, slice: &mut Json) {
    let Some(spec) = slice.get_mut("spec") else { return };
    for taint in spec.items_mut("devices").flat_map(|device| device.items_mut("taints")) {
        taint.set_default("timeAdded", context.time());
    }
}
