//! The admission plugin PodTopologyLabels, which copies the topology labels of a node to its pods.

use pintle_apimachinery::cluster::Context;
use pintle_apimachinery::object::metadata;
use pintle_json::Json;
use pintle_meta::GroupResource;

const TOPOLOGY_LABELS: [&str; 2] = ["topology.kubernetes.io/region", "topology.kubernetes.io/zone"];

/// Copies the region and zone labels of the node to the object. Does nothing if the node does not exist
/// in the cluster.
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
