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
        let sources = volume.get_mut("projected").into_iter().flat_map(|projected| projected.items_mut("sources"));
        for source in sources {
            source.unset("clusterTrustBundle");
            source.unset("podCertificate");
        }
    }
}
