//! Removes pod fields whose feature gates are off.

use pintle_json::Json;

use super::spec::CONTAINERS;

pub(super) fn drop_gated_fields(spec: &mut Json) {
    spec.unset("schedulingGroup");
    for key in CONTAINERS {
        for container in spec.items_mut(key) {
            let Some(lifecycle) = container.get_mut("lifecycle") else { continue };
            let had = lifecycle.has("/stopSignal");
            lifecycle.unset("stopSignal");
            if had && lifecycle.is_empty() {
                container.unset("lifecycle");
            }
        }
    }
    for volume in spec.items_mut("volumes") {
        let Some(projected) = volume.get_mut("projected") else { continue };
        // As in kube-apiserver, the removal replaces an empty list by null.
        if projected["sources"].is_empty() {
            projected.set("sources", Json::Null);
        }
        for source in projected.items_mut("sources") {
            source.unset("clusterTrustBundle");
            source.unset("podCertificate");
        }
    }
}
