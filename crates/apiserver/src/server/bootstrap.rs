//! Creates the objects that exist in every cluster before the first controller runs: namespaces, RBAC roles and
//! bindings, flow schemas, priority classes, the local APIServices, the ServiceCIDR, and the Lease of the server.
//!
//! `bootstrap/objects.jsonl` contains the objects of a kube-apiserver 1.36.1, recorded one minute after its start. Each
//! line contains one object in its stored form, without its UID and timestamps. The lines are sorted by the creation
//! order of the objects. The server writes these objects directly to the store, because creating them through the API
//! would take most of the startup time. This module's code creates the objects that differ between servers. The
//! ConfigMap for tracking legacy tokens is omitted, because tests expect only the ConfigMaps that they create.

use std::net::SocketAddr;
use std::sync::{Arc, LazyLock};

use pintle_apimachinery::failure::{Failure, Outcome};
use pintle_apimachinery::object::metadata_mut;
use pintle_apimachinery::request::Subresource;
use pintle_apimachinery::request::options::WriteOptions;
use pintle_json::{Json, json};
use pintle_kinds::RequestTarget;
use pintle_kinds::writer::{OWN_MANAGER, Writer};
use pintle_storage::Expect;

use crate::background;
use crate::registry::{Registry, UpdateSource};

/// The lines of `bootstrap/objects.jsonl`. Tests start many servers in one process, so the lines are parsed only once.
static OBJECTS: LazyLock<Vec<Json>> = LazyLock::new(|| {
    let lines = include_str!("bootstrap/objects.jsonl").lines();
    lines.map(|line| serde_json::from_str(line).expect("a line is a JSON object")).collect()
});

pub(super) fn bootstrap(registry: &Arc<Registry>, address: SocketAddr) {
    let namespaces = ["default", "kube-system", "kube-public", "kube-node-lease"];
    let namespaces =
        namespaces.map(|name| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}));
    let made_here = namespaces.into_iter().chain(of_server(registry)).map(|object| create(registry, object));
    for made in made_here.chain(OBJECTS.iter().map(|object| put(registry, object.clone()))) {
        if let Err(failure) = made {
            tracing::error!(error = failure.status.message, "cannot create an initial object");
        }
    }
    background::reconcile_kubernetes(registry, address);
    registry.db.compact(registry.db.revision());
}

fn of_server(registry: &Registry) -> Vec<Json> {
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

fn create(registry: &Arc<Registry>, mut object: Json) -> Outcome<()> {
    let mut target = target(registry, &object)?;
    let status = object.as_object_mut().and_then(|object| object.remove("status"));
    let options = WriteOptions::default();
    let by = Writer::new(&options, OWN_MANAGER, registry.clock.now_text());
    registry.create(&target, object, &by)?;
    let Some(mut status) = status else { return Ok(()) };
    set_times(&mut status, registry);
    target.subresource = Subresource::Status;
    let make = |live: Option<&Json>| {
        let mut new = live.cloned().unwrap_or_default();
        new["status"] = status.clone();
        Ok(new)
    };
    registry.update(&target, &UpdateSource::Patch(&make), &by)?;
    Ok(())
}

fn put(registry: &Registry, mut object: Json) -> Outcome<()> {
    let target = target(registry, &object)?;
    let now = Json::from(registry.clock.now_text());
    let metadata = metadata_mut(&mut object);
    metadata.set("uid", registry.uuid());
    metadata.set("creationTimestamp", now.clone());
    for entry in object["metadata"].items_mut("managedFields") {
        entry["time"] = now.clone();
    }
    if let Some(status) = object.get_mut("status") {
        set_times(status, registry);
    }
    let refused = |_| Failure::internal(format!("{} exists already", target.key()));
    registry.db.put(&target.resource_key(), &target.key(), Expect::Absent, object).map_err(refused)?;
    Ok(())
}

fn target(registry: &Registry, object: &Json) -> Outcome<RequestTarget> {
    let (api_version, kind) = (object.text("/apiVersion"), object.text("/kind"));
    let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
    let kinds = registry.kinds();
    let Some(kind) = kinds.kind(group, version, kind) else {
        return Err(Failure::internal(format!("no kind {kind:?} is served in {api_version:?}")));
    };
    Ok(RequestTarget::new(kind.clone(), object.text("/metadata/namespace"), object.text("/metadata/name")))
}

fn set_times(status: &mut Json, registry: &Registry) {
    for condition in status.items_mut("conditions") {
        condition["lastTransitionTime"] = registry.clock.now_text().into();
    }
}

#[cfg(test)]
mod tests {
    use pintle_kinds::decode::{self, RawBody};
    use pintle_meta::FieldValidation;

    use super::*;
    use crate::config::ApiServerConfig;

    #[test]
    fn each_object_equals_its_stored_form() {
        let registry = Arc::new(Registry::new(ApiServerConfig::default(), None));
        for name in ["default", "kube-system", "kube-public"] {
            let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
            create(&registry, namespace).expect("a valid namespace");
        }
        for object in OBJECTS.iter() {
            let line = object.to_string();
            let target = target(&registry, object).expect("a kind");
            let strict = FieldValidation::Strict;
            decode::object(&target.kind, &RawBody::json(line.clone()), strict)
                .expect("the object has only fields of its kind");
            assert!(!object["metadata"]["managedFields"].as_array().is_none_or(Vec::is_empty), "{line}");
            create(&registry, object.clone()).expect("a valid object");
            let made = registry.db.get(&target.resource_key(), &target.key()).expect("a stored object").decode();
            assert_eq!(without_variable_fields(made), without_variable_fields(object.clone()), "{line}");
        }
    }

    /// Removes `apiVersion`, `kind`, and the fields that depend on how the object was written: the UID, the timestamps,
    /// the revision and the managed fields.
    fn without_variable_fields(mut object: Json) -> Json {
        object.unset("apiVersion");
        object.unset("kind");
        for member in ["uid", "creationTimestamp", "resourceVersion", "managedFields"] {
            metadata_mut(&mut object).unset(member);
        }
        if let Some(status) = object.get_mut("status") {
            for condition in status.items_mut("conditions") {
                condition["lastTransitionTime"] = Json::Null;
            }
        }
        object
    }
}
