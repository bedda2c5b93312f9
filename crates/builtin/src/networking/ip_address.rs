//! The `IPAddress` kind in `networking.k8s.io`.

use pintle_apimachinery::request::Subresource;
use pintle_apimachinery::validate::{FieldError, FieldErrors, NameRule};
use pintle_json::Json;
use pintle_kinds::Strategy;
use pintle_kinds::check::{Check, immutable};
use pintle_kinds::table::{Cell, ComputedCells};
use pintle_kinds::without_effect::{ADDRESSES, object_warning};

pub(crate) struct IpAddress;

impl Strategy for IpAddress {
    fn validate_create(&self, object: &Json) -> FieldErrors {
        if !object.has("/spec/parentRef") {
            return FieldErrors::from([FieldError::required("spec.parentRef", "")]);
        }
        Check::of(object)
            .name("spec.parentRef.group", NameRule::Subdomain)
            .required("spec.parentRef.resource")
            .name("spec.parentRef.resource", NameRule::PathSegment)
            .required("spec.parentRef.name")
            .name("spec.parentRef.name", NameRule::PathSegment)
            .name("spec.parentRef.namespace", NameRule::PathSegment)
            .done()
    }

    fn validate_update(&self, new: &Json, old: &Json, _: Subresource) -> FieldErrors {
        self.validate_create(new).and(immutable(new, old, &["spec.parentRef"]))
    }

    fn without_effect(&self, object: &Json, _: &dyn Fn(&str, &str) -> bool) -> Vec<String> {
        object_warning(object, ADDRESSES)
    }

    fn computed_cells(&self) -> ComputedCells {
        &[("ParentRef", Cell::Computed(parent))]
    }
}

fn parent(address: &Json) -> Json {
    let part = |key: &str| address.text(&format!("/spec/parentRef/{key}"));
    let resource = match part("group") {
        "" => part("resource").into(),
        group => format!("{}.{group}", part("resource")),
    };
    let parts = [resource.as_str(), part("namespace"), part("name")];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/").into()
}
