//! The `DeviceClass` and `ResourceClaimTemplate` kinds in `resource.k8s.io`.

use pintle_json::Json;
use pintle_kinds::Strategy;
use pintle_kinds::table::{Cell, Table};

use super::claim_defaults;

pub(crate) struct DeviceClass;

impl Strategy for DeviceClass {
    fn table(&self) -> Table {
        &[("Name", Cell::Name), ("Age", Cell::Age)]
    }
}

pub(crate) struct ResourceClaimTemplate;

impl Strategy for ResourceClaimTemplate {
    fn defaults(&self, object: &mut Json) {
        object.at_mut("/spec/spec").into_iter().for_each(claim_defaults);
    }

    fn table(&self) -> Table {
        &[("Name", Cell::Name), ("Age", Cell::Age)]
    }
}
