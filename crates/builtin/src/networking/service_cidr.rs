//! The `ServiceCIDR` kind in `networking.k8s.io`.

use pintle_apimachinery::cluster::Cluster;
use pintle_json::Json;
use pintle_kinds::without_effect::{SERVICE_RANGES, object_warning};
use pintle_kinds::{Kinds, Strategy};

pub(crate) struct ServiceCidr;

impl Strategy for ServiceCidr {
    fn without_effect(&self, object: &Json, _: &Kinds, _: &dyn Cluster) -> Vec<String> {
        object_warning(object, SERVICE_RANGES)
    }
}
