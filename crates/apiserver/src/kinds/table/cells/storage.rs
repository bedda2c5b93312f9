//! Table cells of volumes, claims and the other storage kinds.

use serde_json::Value;

use super::{boolean, joined};
use crate::object::{list, text, text_at};

pub(super) fn volume(object: &Value, age: Value) -> Vec<Value> {
    let claim = match text_at(object, "/spec/claimRef/name") {
        "" => String::new(),
        name => format!("{}/{name}", text_at(object, "/spec/claimRef/namespace")),
    };
    let phase = if terminating(object) { "Terminating" } else { text_at(object, "/status/phase") };
    vec![
        text_at(object, "/metadata/name").into(),
        text(object.pointer("/spec/capacity/storage")).into(),
        modes(object, "/spec/accessModes").into(),
        text_at(object, "/spec/persistentVolumeReclaimPolicy").into(),
        phase.into(),
        claim.into(),
        text_at(object, "/spec/storageClassName").into(),
        or_unset(text_at(object, "/spec/volumeAttributesClassName")),
        text_at(object, "/status/reason").into(),
        age,
        or_unset(text_at(object, "/spec/volumeMode")),
    ]
}

pub(super) fn claim(object: &Value, age: Value) -> Vec<Value> {
    let volume = text_at(object, "/spec/volumeName");
    let (capacity, access) = match volume {
        "" => (String::new(), String::new()),
        _ => (text(object.pointer("/status/capacity/storage")), modes(object, "/status/accessModes")),
    };
    let phase = if terminating(object) { "Terminating" } else { text_at(object, "/status/phase") };
    vec![
        text_at(object, "/metadata/name").into(),
        phase.into(),
        volume.into(),
        capacity.into(),
        access.into(),
        text_at(object, "/spec/storageClassName").into(),
        or_unset(text_at(object, "/spec/volumeAttributesClassName")),
        age,
        or_unset(text_at(object, "/spec/volumeMode")),
    ]
}

/// The other kinds of `storage.k8s.io`.
pub(super) fn others(kind: &str, object: &Value, age: Value) -> Vec<Value> {
    let name = Value::from(text_at(object, "/metadata/name"));
    let truth = |pointer: &str| Value::from(object.pointer(pointer) == Some(&Value::Bool(true)));
    match kind {
        "StorageClass" => {
            let text = |key: &str| Value::from(text_at(object, &format!("/{key}")));
            let expansion = truth("/allowVolumeExpansion");
            vec![name, text("provisioner"), text("reclaimPolicy"), text("volumeBindingMode"), expansion, age]
        }
        "CSIDriver" => {
            let audiences: Vec<_> =
                list(object, "/spec/tokenRequests").map(|request| text_at(request, "/audience")).collect();
            let audiences = if audiences.is_empty() { "<unset>".into() } else { audiences.join(",") };
            vec![
                name,
                truth("/spec/attachRequired"),
                truth("/spec/podInfoOnMount"),
                truth("/spec/storageCapacity"),
                audiences.into(),
                truth("/spec/requiresRepublish"),
                joined(object, "/spec/volumeLifecycleModes", ",").into(),
                age,
            ]
        }
        "CSINode" => vec![name, list(object, "/spec/drivers").count().into(), age],
        "VolumeAttachment" => vec![
            name,
            text_at(object, "/spec/attacher").into(),
            text_at(object, "/spec/source/persistentVolumeName").into(),
            text_at(object, "/spec/nodeName").into(),
            truth("/status/attached"),
            age,
        ],
        "VolumeAttributesClass" => vec![name, text_at(object, "/driverName").into(), age],
        _ => vec![name, text_at(object, "/metadata/creationTimestamp").into()],
    }
}

fn terminating(object: &Value) -> bool {
    crate::object::has(object, "/metadata/deletionTimestamp")
}

fn or_unset(text: &str) -> Value {
    if text.is_empty() { boolean(None) } else { text.into() }
}

/// Access modes by their abbreviations, in a fixed order.
fn modes(object: &Value, pointer: &str) -> String {
    let known =
        [("ReadWriteOnce", "RWO"), ("ReadOnlyMany", "ROX"), ("ReadWriteMany", "RWX"), ("ReadWriteOncePod", "RWOP")];
    let there = |mode: &str| list(object, pointer).any(|found| found.as_str() == Some(mode));
    known.iter().filter(|(mode, _)| there(mode)).map(|(_, short)| *short).collect::<Vec<_>>().join(",")
}
