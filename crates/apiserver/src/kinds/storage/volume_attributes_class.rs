//! VolumeAttributesClass.

use crate::kinds::Strategy;
use crate::kinds::table::{self, Column, Row};
use jiff::Timestamp;
use pintle_json::Json;

/// `storage.k8s.io` VolumeAttributesClass.
#[derive(Clone, Copy, Debug)]
pub(in crate::kinds) struct VolumeAttributesClass;

impl Strategy for VolumeAttributesClass {
    fn columns(&self) -> Option<Vec<Column>> {
        table::columns("Name, DriverName, Age")
    }

    fn cells(&self, object: &Json, now: Timestamp) -> Vec<Json> {
        let row = Row::new(object, now);
        vec![row.name(), row.text("/driverName"), row.age()]
    }
}
