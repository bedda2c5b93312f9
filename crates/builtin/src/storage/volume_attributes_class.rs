//! The `VolumeAttributesClass` kind in `storage.k8s.io`.

use pintle_apimachinery::cluster::Cluster;
use pintle_apimachinery::failure::Outcome;
use pintle_apimachinery::request::Subresource;
use pintle_apimachinery::validate::{FieldError, FieldErrors};
use pintle_json::Json;
use pintle_kinds::Strategy;
use pintle_kinds::check::Check;

use super::storage_class::{driver_errors, parameter_errors};
use crate::core::add_finalizer;

pub(crate) struct VolumeAttributesClass;

impl Strategy for VolumeAttributesClass {
    fn admit(&self, _: &dyn Cluster, object: &mut Json, old: Option<&Json>, _: Subresource) -> Outcome<()> {
        if old.is_none() {
            add_finalizer(object, "kubernetes.io/vac-protection");
        }
        Ok(())
    }

    fn validate_create(&self, object: &Json) -> FieldErrors {
        let none = object.members("/parameters").next().is_none();
        Check::of(object)
            .required("driverName")
            .also(driver_errors(object, "driverName"))
            .also(parameter_errors(object))
            .required_if(none, "parameters", "must contain at least one key/value pair")
            .done()
    }

    fn validate_update(&self, new: &Json, old: &Json, _: Subresource) -> FieldErrors {
        let changed = ["driverName", "parameters"].into_iter().filter(|key| new.get(key) != old.get(key));
        let mut errors: FieldErrors =
            changed.map(|key| FieldError::forbidden(key, format!("updates to {key} are forbidden."))).collect();
        errors.extend(self.validate_create(new));
        errors
    }
}
