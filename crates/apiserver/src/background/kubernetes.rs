//! Maintains the Service `kubernetes` in `default`, with its Endpoints and
//! EndpointSlice. Clients in a cluster use the Service to find the API server.

use std::net::SocketAddr;
use std::sync::Arc;

use pintle_apimachinery::object::key;
use pintle_json::{Json, json};
use pintle_kinds::RequestTarget;
use pintle_kinds::writer::{OWN_MANAGER, Writer};
use pintle_schema::patch::merge;
use pintle_storage::Change;
use tokio::time::Instant;

use super::{Controller, options};
use crate::registry::{Registry, UpdateSource};

const NAMESPACE: &str = "default";
const KUBERNETES: &str = "kubernetes";

#[derive(Debug)]
pub(super) struct Kubernetes {
    pub(super) address: SocketAddr,
}

impl Controller for Kubernetes {
    const RESOURCES: Option<&'static [&'static str]> =
        Some(&["services", "endpoints", "endpointslices.discovery.k8s.io"]);

    fn observe(&mut self, change: &Change) -> bool {
        *change.key == *key(NAMESPACE, KUBERNETES)
    }

    async fn work(&mut self, registry: &Arc<Registry>, _: u64) -> Option<Instant> {
        if !registry.db.is_mirror() {
            reconcile(registry, self.address);
        }
        None
    }
}

/// Creates missing objects and restores the endpoints. Does not change an existing Service.
pub(crate) fn reconcile(registry: &Arc<Registry>, address: SocketAddr) {
    let options = options();
    let manager = Writer::new(&options, OWN_MANAGER, registry.clock.now_text());
    for (group, kind, wanted) in objects(address) {
        let kinds = registry.kinds();
        let Some(kind) = kinds.group_kind(group, kind) else { continue };
        let target = RequestTarget::new(kind.clone(), NAMESPACE, KUBERNETES);
        let make = |live: Option<&Json>| Ok(merge(live.unwrap_or(&Json::Null), &wanted));
        let written = match registry.db.get(&target.resource_key(), &target.key()) {
            None => registry.create(&target, wanted.clone(), &manager),
            Some(_) if kind.kind == "Service" => continue,
            Some(_) => registry.update(&target, &UpdateSource::Patch(&make), &manager),
        };
        if let Err(failure) = written {
            tracing::error!(
                kind = kind.kind,
                error = failure.status.message,
                "cannot write the Service `kubernetes` or its endpoints"
            );
        }
    }
}

fn objects(address: SocketAddr) -> [(&'static str, &'static str, Json); 3] {
    let (ip, port) = (address.ip().to_string(), address.port());
    let ports = json!([{"name": "https", "port": port, "protocol": "TCP"}]);
    let service = json!({
        "metadata": {"name": KUBERNETES, "labels": {"component": "apiserver", "provider": "kubernetes"}},
        "spec": {
            "clusterIP": "10.0.0.1",
            "ipFamilyPolicy": "SingleStack",
            "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": port}],
            "sessionAffinity": "None",
            "type": "ClusterIP",
        },
    });
    let endpoints = json!({
        "metadata": {"name": KUBERNETES, "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}},
        "subsets": [{"addresses": [{"ip": ip}], "ports": ports}],
    });
    let slice = json!({
        "metadata": {"name": KUBERNETES, "labels": {"kubernetes.io/service-name": KUBERNETES}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": [ip], "conditions": {"ready": true}}],
        "ports": ports,
    });
    [("", "Service", service), ("", "Endpoints", endpoints), ("discovery.k8s.io", "EndpointSlice", slice)]
}
