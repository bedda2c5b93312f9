//! The admission plugin PodTopologyLabels. The admission plugin copies topology labels from the node to the pod.

use pintle_json::Json;

use crate::kinds::{Context, GroupResource};
use crate::object::metadata;

const TOPOLOGY_LABELS: [&str; 2] = ["topology.kubernetes.io/region", "topology.kubernetes.io/zone"];

/// Copies the region and zone labels of the node to the object. Does nothing if the node does not exist.
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
