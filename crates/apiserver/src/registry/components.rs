//! ComponentStatus: what the parts of a control plane say of themselves. Nothing of it is stored, and it has no version.

use pintle_json::{Json, json};

use super::list::{ListReply, Selected, Selection};
use super::served::Served;
use crate::failure::{Failure, Outcome};
use crate::kinds::{GroupResource, Kind, Place};
use crate::store::{Objects, Stored};

/// Whether the kind is that one.
pub(super) fn are_meant(kind: &Kind) -> bool {
    kind.store.group.is_empty() && kind.store.resource == "componentstatuses"
}

pub(super) fn get(place: &Place) -> Outcome<Served> {
    let found = all().into_iter().find(|component| component["metadata"]["name"] == place.name.as_str());
    // A real server says it of the kind and not of the resource.
    let nothing = || Failure::not_found(&GroupResource::new("", "componentstatus"), &place.name);
    Ok(Served::value(&place.kind, found.ok_or_else(nothing)?))
}

pub(super) fn list(selection: &Selection) -> ListReply {
    let objects: Objects = all().iter().map(Stored::unversioned).collect();
    ListReply {
        objects: Selected::among(&objects, selection),
        revision: 0,
        continue_token: String::new(),
        remaining: None,
    }
}

/// As a cluster has them that runs neither a scheduler nor a controller manager beside its API server. The store is never away.
fn all() -> [Json; 3] {
    let absent = |name: &str, port: u16| {
        let refused = format!("dial tcp 127.0.0.1:{port}: connect: connection refused");
        component(name, "False", &format!("Get \"https://127.0.0.1:{port}/healthz\": {refused}"))
    };
    [absent("scheduler", 10_259), absent("controller-manager", 10_257), component("etcd-0", "True", "ok")]
}

fn component(name: &str, healthy: &str, message: &str) -> Json {
    json!({"metadata": {"name": name}, "conditions": [{"type": "Healthy", "status": healthy, "message": message}]})
}
