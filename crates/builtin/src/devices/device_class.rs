//! The `DeviceClass` kind in `resource.k8s.io`.

use pintle_apimachinery::request::Subresource;
use pintle_apimachinery::validate::FieldErrors;
use pintle_json::Json;
use pintle_kinds::Strategy;

use super::claim_errors::class_errors;

pub(crate) struct DeviceClass;

impl Strategy for DeviceClass {
    fn validate_create(&self, object: &Json) -> FieldErrors {
        class_errors(&object["spec"])
    }

    fn validate_update(&self, new: &Json, _: &Json, _: Subresource) -> FieldErrors {
        class_errors(&new["spec"])
    }
}
