//! Determines the address of a kubelet.

use pintle_apimachinery::failure::{Failure, Outcome};
use pintle_json::Json;

const KUBELET_PORT: i64 = 10_250;
/// The types of node addresses, from most to least preferred.
const ADDRESS_TYPES: [&str; 5] = ["Hostname", "InternalDNS", "InternalIP", "ExternalDNS", "ExternalIP"];

/// Returns the kubelet's host and port.
///
/// # Errors
///
/// Returns an error if the status of the node contains no address of a known type.
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
