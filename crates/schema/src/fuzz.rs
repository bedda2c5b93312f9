//! What fuzzing puts bytes through, for programs in `fuzz/` and for the tests below: each function panics at what must not be.

#![allow(clippy::unwrap_used, reason = "it is to panic")]

use pintle_json::{Json, json};

use crate::patch::PatchBody;
use crate::protobuf::{self, Enveloped};
use crate::{BodyFormat, Expected, Schema, decode, read_yaml, write_yaml};

const POD: (&str, &str) = ("v1", "Pod");

fn schema() -> Schema {
    Schema::builtin(POD.0, POD.1).unwrap()
}

/// What patches are laid over.
fn pod() -> Json {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "p", "labels": {"a": "b"}, "finalizers": ["f", "g"]},
        "spec": {"containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 80}]}, {"name": "d"}]},
    })
}

/// A body in protobuf: what is read of it is written so that it is read alike.
pub fn protobuf_body(bytes: &[u8]) {
    let Ok(pod) = protobuf::decode(bytes, POD) else { return };
    let Ok(written) = Enveloped::document(&pod) else { return };
    let again = protobuf::decode(&written.body(), POD).unwrap();
    assert_eq!(Enveloped::document(&again).unwrap().body(), written.body(), "{pod}");
}

/// A body in YAML: what is read of it is written so that it is read alike.
pub fn yaml_body(bytes: &[u8]) {
    let Ok((node, _)) = read_yaml(bytes) else { return };
    let value = node.into_value();
    let written = write_yaml(&value);
    let (again, _) = read_yaml(written.as_bytes()).unwrap();
    assert_eq!(again.into_value(), value, "{written}");
}

/// A JSON patch: what comes of it is JSON.
pub fn json_patch(bytes: &[u8]) {
    let Ok(patch) = PatchBody::json(bytes) else { return };
    patch.told();
    if let Ok(patched) = patch.apply(&pod(), &schema()) {
        assert_eq!(serde_json::from_str::<Json>(&patched.to_string()).unwrap(), patched);
    }
}

/// A strategic merge patch: an object stays one, and no directive stays in it that is obeyed.
pub fn strategic_patch(bytes: &[u8]) {
    let Ok(patch) = PatchBody::strategic(bytes) else { return };
    patch.told();
    if let Ok(patched) = patch.apply(&pod(), &schema()) {
        assert!(patched.is_object(), "{patched}");
    }
}

/// A body in JSON: what is read of it is what Go would write, so that it is read as it is.
pub fn object(bytes: &[u8]) {
    let schema = schema();
    let expected = Expected { api_version: POD.0, schema: &schema };
    let Ok(read) = decode(bytes, BodyFormat::Json, &expected) else { return };
    assert_eq!(schema.read(read.object.clone()).unwrap().object, read.object);
}

#[cfg(test)]
mod tests {
    use pintle_testing::replay_corpus;

    use super::*;

    fn replay(name: &str, check: fn(&[u8])) {
        replay_corpus(format!("{}/../../fuzz/corpus/{name}", env!("CARGO_MANIFEST_DIR")), 1_000, check);
    }

    #[test]
    fn no_body_in_protobuf_is_read_otherwise_once_it_is_written() {
        replay("protobuf_body", protobuf_body);
    }

    #[test]
    fn no_body_in_yaml_is_read_otherwise_once_it_is_written() {
        replay("yaml_body", yaml_body);
    }

    #[test]
    fn no_json_patch_is_beyond_reading() {
        replay("json_patch", json_patch);
    }

    #[test]
    fn no_strategic_patch_is_beyond_reading() {
        replay("strategic_patch", strategic_patch);
    }

    #[test]
    fn no_object_is_read_otherwise_once_it_is_read() {
        replay("object", object);
    }
}
