//! The kinds DeviceClass and ResourceClaimTemplate of the group `resource.k8s.io`.

use pintle_json::Json;
use pintle_kinds::Strategy;
use pintle_kinds::table::{self, Column, Row};

use super::claim_defaults;
use jiff::Timestamp;

/// The strategy of DeviceClass in `resource.k8s.io`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DeviceClass;

impl Strategy for DeviceClass {
    fn columns(&self) -> Option<Vec<Column>> {
        table::columns("Name, Age")
    }

    fn cells(&self, object: &Json, now: Timestamp) -> Vec<Json> {
        let row = Row::new(object, now);
        vec![row.name(), row.age()]
    }
}

/// The strategy of ResourceClaimTemplate in `resource.k8s.io`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ResourceClaimTemplate;

impl Strategy for ResourceClaimTemplate {
    fn defaults(&self, object: &mut Json) {
        object.at_mut("/spec/spec").into_iter().for_each(claim_defaults);
    }

    fn columns(&self) -> Option<Vec<Column>> {
        DeviceClass.columns()
    }

    fn cells(&self, object: &Json, now: Timestamp) -> Vec<Json> {
        DeviceClass.cells(object, now)
    }
}
