//! The `resource.k8s.io` kinds: devices, and claims through which pods request devices.

mod capacity;
mod claim_errors;
mod claim_status;
mod device_class;
mod device_errors;
mod resource_claim;
mod resource_slice;
mod selector;
mod slice_errors;

use pintle_json::Json;

fn claim_defaults(spec: &mut Json) {
    let Some(devices) = spec.get_mut("devices").filter(|devices| devices.is_object()) else { return };
    // The stored spec contains null, and an update must not change it.
    if devices["requests"].is_empty() {
        devices.set("requests", Json::Null);
    }
    for request in devices.items_mut("requests") {
        request.get_mut("exactly").filter(|exact| exact.is_object()).into_iter().for_each(request_defaults);
        request.items_mut("firstAvailable").for_each(request_defaults);
    }
}

fn request_defaults(request: &mut Json) {
    const EXACT: &str = "ExactCount";
    if request.text("/allocationMode").is_empty() {
        request.set("allocationMode", EXACT);
    }
    if request.text("/allocationMode") == EXACT && request.integer("/count").unwrap_or(0) == 0 {
        request.set("count", 1);
    }
    for toleration in request.items_mut("tolerations").filter(|toleration| toleration.text("/operator").is_empty()) {
        toleration.set("operator", "Equal");
    }
}

pub(super) use device_class::DeviceClass;
pub(super) use resource_claim::{ResourceClaim, ResourceClaimTemplate};
pub(super) use resource_slice::ResourceSlice;
