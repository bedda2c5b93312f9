//! Where in the cluster a pod is, as its labels say once its node is known: by admission of a real server, PodTopologyLabels.

use pintle_json::Json;

use crate::kinds::{Context, GroupResource};
use crate::object::metadata;

const TOPOLOGY_LABELS: [&str; 2] = ["topology.kubernetes.io/region", "topology.kubernetes.io/zone"];

/// Gives an object the region and the zone of a node, whatever it said of them. Of a node that is not there nothing is known.
pub(super) fn label(context: &Context<'_>, node: &str, object: &mut Json) {
    if node.is_empty() {
        return;
    }
    let Some(node) = context.cluster.object(&GroupResource::new("", "nodes"), "", node) else { return };
    let Some(known) = metadata::member(&node, "labels") else { return };
    for name in TOPOLOGY_LABELS {
        if let Some(value) = known.get(name)
            && let Some(labels) = object.member("metadata").and_then(|metadata| metadata.member("labels"))
        {
            labels.set(name, value.clone());
        }
    }
}
