//! Takes away what a pod cannot have yet.

use pintle_json::Json;

use super::spec::CONTAINERS;

/// What a cluster takes no notice of until its features are switched on is not kept.
pub(super) fn drop_unreleased(spec: &mut Json) {
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
