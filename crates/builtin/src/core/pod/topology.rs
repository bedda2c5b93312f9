//! The admission plugin PodTopologyLabels, which copies the topology labels of a node to its pods.

use pintle_apimachinery::cluster::Cluster;
use pintle_apimachinery::object::metadata;
use pintle_json::Json;
use pintle_meta::GroupResource;

const TOPOLOGY_LABELS: [&str; 2] = ["topology.kubernetes.io/region", "topology.kubernetes.io/zone"];

/// Copies the region and zone labels of a node to the object. The object contains the name of the node at the JSON
/// pointer `node`. Does nothing if the node does not exist.
pub(super) fn label(cluster: &dyn Cluster, node: &str, object: &mut Json) {
    let node = object.text(node);
    if node.is_empty() {
        return;
    }
    let Some(node) = cluster.object(&GroupResource::new("", "nodes"), "", node) else { return };
    let Some(known) = metadata::member(&node, "labels") else { return };
    for name in TOPOLOGY_LABELS {
        if let Some(value) = known.get(name)
            && let Some(labels) = object.member("metadata").and_then(|metadata| metadata.member("labels"))
        {
            labels.set(name, value.clone());
        }
    }
}
