//! VolumeAttributesClass.

use super::storage_class::{driver_faults, parameter_faults};
use crate::failure::Outcome;
use crate::kinds::check::Check;
use crate::kinds::core::add_finalizer;
use crate::kinds::table::{self, Column, Row};
use crate::kinds::{Context, Strategy};
use crate::request::Part;
use crate::validate::{FieldFault, FieldFaults};
use jiff::Timestamp;
use pintle_json::Json;

/// `storage.k8s.io` VolumeAttributesClass.
#[derive(Clone, Copy, Debug)]
pub(in crate::kinds) struct VolumeAttributesClass;

impl Strategy for VolumeAttributesClass {
    fn admit(&self, _: &Context<'_>, object: &mut Json, old: Option<&Json>, _: Part) -> Outcome<()> {
        if old.is_none() {
            add_finalizer(object, "kubernetes.io/vac-protection");
        }
        Ok(())
    }

    fn validate_create(&self, object: &Json) -> FieldFaults {
        let none = object.members("/parameters").next().is_none();
        Check::of(object)
            .required("driverName")
            .also(driver_faults(object, "driverName"))
            .also(parameter_faults(object))
            .refuse(none, || FieldFault::required("parameters", "must contain at least one key/value pair"))
            .done()
    }

    fn validate_update(&self, new: &Json, old: &Json, _: Part) -> FieldFaults {
        let changed = ["driverName", "parameters"].into_iter().filter(|key| new.get(key) != old.get(key));
        let mut faults: FieldFaults =
            changed.map(|key| FieldFault::forbidden(key, format!("updates to {key} are forbidden."))).collect();
        faults.extend(self.validate_create(new));
        faults
    }

    fn columns(&self) -> Option<Vec<Column>> {
        table::columns("Name, DriverName, Age")
    }

    fn cells(&self, object: &Json, now: Timestamp) -> Vec<Json> {
        let row = Row::new(object, now);
        vec![row.name(), row.text("/driverName"), row.age()]
    }
}
