//! What every cluster has before any controller runs: namespaces, roles and who has them, what classifies requests, priority classes,
//! the local API services, the range of the services' addresses, the Lease of the server itself.
//!
//! `bootstrap/objects.jsonl` is what a kube-apiserver 1.36.1 holds a minute after its start, an object a line, in the order in which it made
//! them, without what a server fills in. Objects whose content depends on the server are made here. The config map that says since when
//! legacy tokens are tracked is left out, so that a test's config maps are its own.

use std::net::SocketAddr;
use std::sync::Arc;

use pintle_meta::FieldValidation;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::background;
use crate::failure::{Failure, Outcome};
use crate::fieldmanager::Writer;
use crate::http::decode::{self, RawBody};
use crate::kinds::Place;
use crate::registry::{Registry, Wish};
use crate::request::Part;
use crate::request::options::WriteOptions;

const OBJECTS: &str = include_str!("bootstrap/objects.jsonl");

/// Makes what is there from the start of a server that listens on `address`. The past begins after it.
pub(super) fn bootstrap(registry: &Arc<Registry>, address: SocketAddr) {
    let namespaces = ["default", "kube-system", "kube-public", "kube-node-lease"];
    let namespaces =
        namespaces.map(|name| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}));
    let made_here = namespaces.into_iter().chain(of_server(registry)).map(|object| object.to_string());
    for object in made_here.chain(OBJECTS.lines().map(str::to_owned)) {
        if let Err(failure) = create(registry, object) {
            tracing::error!(message = failure.status.message, "an object that every cluster has could not be made");
        }
    }
    background::put_kubernetes_right(registry, address);
    registry.db.compact(registry.db.revision());
}

/// What says something of this very server.
fn of_server(registry: &Registry) -> Vec<Value> {
    let now = registry.clock.now_text();
    let identity = registry.with_random(|random| (0..26).map(|_| random.lowercase()).collect::<String>());
    let identity = format!("apiserver-{identity}");
    vec![
        json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR", "metadata": {"name": "kubernetes"},
            "spec": {"cidrs": ["10.0.0.0/24"]},
            "status": {"conditions": [{
                "type": "Ready", "status": "True", "reason": "", "message": "Kubernetes default Service CIDR is ready",
            }]},
        }),
        json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "IPAddress",
            "metadata": {"name": "10.0.0.1", "labels": {
                "ipaddress.kubernetes.io/ip-family": "IPv4",
                "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
            }},
            "spec": {"parentRef": {"resource": "services", "namespace": "default", "name": "kubernetes"}},
        }),
        json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {
                "name": identity, "namespace": "kube-system",
                "labels": {"apiserver.kubernetes.io/identity": "kube-apiserver", "kubernetes.io/hostname": "localhost"},
            },
            "spec": {
                "holderIdentity": format!("{identity}_{}", registry.uuid()),
                "leaseDurationSeconds": 3600,
                "renewTime": now.replace('Z', ".000000Z"),
            },
        }),
    ]
}

/// Makes an object, and writes its status, if it has one.
fn create(registry: &Arc<Registry>, object: String) -> Outcome<()> {
    let Named { api_version, kind } =
        serde_json::from_str(&object).map_err(|error| Failure::internal(error.to_string()))?;
    let (group, version) = api_version.rsplit_once('/').unwrap_or(("", &api_version));
    let kinds = registry.kinds();
    let Some(kind) = kinds.kind(group, version, &kind) else {
        return Err(Failure::internal(format!("no kind {kind:?} is served in {api_version:?}")));
    };
    let manager = match group {
        "flowcontrol.apiserver.k8s.io" => "api-priority-and-fairness-config-producer-v1",
        _ => "kube-apiserver",
    };
    let body = RawBody::json(object);
    let mut object = decode::object(kind, &body, FieldValidation::Strict)?.value;
    let status = object.as_object_mut().and_then(|object| object.remove("status"));
    let metadata = |name: &str| object["metadata"][name].as_str().unwrap_or_default().to_owned();
    let mut place = Place::new(kind.clone(), &metadata("namespace"), &metadata("name"));
    let options = WriteOptions::default();
    let by = Writer::new(&options, manager, registry.clock.now_text());
    registry.create(&place, object, &by)?;
    let Some(mut status) = status else { return Ok(()) };
    for condition in status["conditions"].as_array_mut().into_iter().flatten() {
        condition["lastTransitionTime"] = registry.clock.now_text().into();
    }
    place.part = Part::Status;
    let make = |live: Option<&Value>| {
        let mut new = live.cloned().unwrap_or_default();
        new["status"] = status.clone();
        Ok(new)
    };
    registry.update(&place, &Wish::Patch(&make), &by)?;
    Ok(())
}

/// What an object says it is.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Named {
    api_version: String,
    kind: String,
}
