//! The `DeviceClass` and `ResourceClaimTemplate` kinds in `resource.k8s.io`.

use pintle_json::Json;
use pintle_kinds::Strategy;

use super::claim_defaults;

pub(crate) struct DeviceClass;

impl Strategy for DeviceClass {}

pub(crate) struct ResourceClaimTemplate;

impl Strategy for ResourceClaimTemplate {
    fn defaults(&self, object: &mut Json) {
        object.at_mut("/spec/spec").into_iter().for_each(claim_defaults);
    }
}
