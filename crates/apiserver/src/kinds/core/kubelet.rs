//! Where a node says that its kubelet listens.

use pintle_json::Json;

use crate::failure::{Failure, Outcome};

/// Where a kubelet listens that does not say where.
const KUBELET_PORT: i64 = 10_250;
/// The kinds of addresses of a node, the best first.
const ADDRESS_TYPES: [&str; 5] = ["Hostname", "InternalDNS", "InternalIP", "ExternalDNS", "ExternalIP"];

/// The host and the port of a node's kubelet.
///
/// # Errors
///
/// The node tells no address.
pub(super) fn kubelet(node: &Json) -> Outcome<(&str, String)> {
    let known: Vec<_> = node.list("/status/addresses").collect();
    let address = ADDRESS_TYPES.iter().find_map(|kind| known.iter().find(|address| address["type"] == *kind));
    let Some(address) = address else {
        let known = Json::from_iter(known.into_iter().cloned());
        return Err(Failure::plain(500, format!("no preferred addresses found; known addresses: {known}")));
    };
    let port = node.integer("/status/daemonEndpoints/kubeletEndpoint/Port").filter(|port| *port != 0);
    Ok((address.text("/address"), port.unwrap_or(KUBELET_PORT).to_string()))
}
