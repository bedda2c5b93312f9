//! The core `ComponentStatus` kind, which reports the health of control plane components. The server computes the
//! objects for each read, without a resourceVersion.

use pintle_json::{Json, json};
use pintle_kinds::Strategy;
use pintle_kinds::table::{Cell, ComputedCells};

pub(crate) struct ComponentStatus;

impl Strategy for ComponentStatus {
    /// Returns the component statuses of a cluster without a scheduler or a controller manager. The store, named
    /// `etcd-0`, is always healthy.
    fn computed_objects(&self) -> Option<Vec<Json>> {
        let absent = |name: &str, port: u16| {
            let refused = format!("dial tcp 127.0.0.1:{port}: connect: connection refused");
            component(name, "False", &format!("Get \"https://127.0.0.1:{port}/healthz\": {refused}"))
        };
        Some(vec![absent("scheduler", 10_259), absent("controller-manager", 10_257), component("etcd-0", "True", "ok")])
    }

    fn deprecation(&self) -> Option<&str> {
        Some("v1 ComponentStatus is deprecated in v1.19+")
    }

    fn computed_cells(&self) -> ComputedCells {
        &[
            ("Status", Cell::Computed(health)),
            (
                "Message",
                Cell::Computed(|object| healthy(object).map_or("", |condition| condition.text("/message")).into()),
            ),
            ("Error", Cell::Computed(|object| healthy(object).map_or("", |condition| condition.text("/error")).into())),
        ]
    }
}

fn healthy(object: &Json) -> Option<&Json> {
    object.list("/conditions").find(|condition| condition.text("/type") == "Healthy")
}

fn health(object: &Json) -> Json {
    match healthy(object).map(|condition| condition.text("/status")) {
        Some("True") => "Healthy".into(),
        Some("False") => "Unhealthy".into(),
        _ => "Unknown".into(),
    }
}

fn component(name: &str, healthy: &str, message: &str) -> Json {
    json!({"metadata": {"name": name}, "conditions": [{"type": "Healthy", "status": healthy, "message": message}]})
}
