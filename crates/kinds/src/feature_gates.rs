//! Removes pod fields whose feature gates are off.

use pintle_json::Json;

use crate::Kind;
use crate::strategy_types::PodRelation;

const CONTAINERS: [&str; 3] = ["containers", "initContainers", "ephemeralContainers"];

impl Kind {
    /// Removes the fields of a pod or a pod template whose feature gates are off. The managed fields of the object keep
    /// these fields.
    pub fn drop_gated_fields(&self, object: &mut Json) {
        match self.flags.pods {
            PodRelation::Pod => drop_from_pod(object),
            PodRelation::Template(pointer) => object.at_mut(pointer).into_iter().for_each(drop_from_pod),
            PodRelation::Unrelated | PodRelation::Namespace => {}
        }
    }
}

fn drop_from_pod(pod: &mut Json) {
    let Some(spec) = pod.get_mut("spec") else { return };
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
