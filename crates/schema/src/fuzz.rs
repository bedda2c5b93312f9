//! Functions for the fuzz targets in `crates/fuzz/` and for the tests below. Each function panics if an invariant is
//! violated.

#![allow(clippy::unwrap_used, reason = "a panic reports a violated invariant")]

use pintle_json::{Json, json};

use crate::decode::{BodyFormat, Expected, decode};
use crate::patch::PatchBody;
use crate::protobuf::{self, Enveloped};
use crate::{Schema, read_yaml, write_yaml};

const POD: (&str, &str) = ("v1", "Pod");

fn schema() -> Schema {
    Schema::builtin(POD.0, POD.1).unwrap()
}

fn pod() -> Json {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "p", "labels": {"a": "b"}, "finalizers": ["f", "g"]},
        "spec": {"containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 80}]}, {"name": "d"}]},
    })
}

/// Decodes and encodes a protobuf body twice. Panics if the two encodings differ.
pub fn protobuf_body(bytes: &[u8]) {
    let Ok(pod) = protobuf::decode(bytes, POD) else { return };
    let Ok(written) = Enveloped::document(&pod) else { return };
    let again = protobuf::decode(&written.body(), POD).unwrap();
    assert_eq!(Enveloped::document(&again).unwrap().body(), written.body(), "{pod}");
}

/// Parses a YAML body, writes its value as YAML, and parses the written YAML. Panics if the value changes.
pub fn yaml_body(bytes: &[u8]) {
    let Ok((value, _)) = read_yaml(bytes) else { return };
    let written = write_yaml(&value);
    let (again, _) = read_yaml(written.as_bytes()).unwrap();
    assert_eq!(again, value, "{written}");
}

/// Applies a JSON patch. Panics if the result is not valid JSON.
pub fn json_patch(bytes: &[u8]) {
    let Ok(patch) = PatchBody::json(bytes) else { return };
    patch.display_text();
    if let Ok(patched) = patch.apply(&pod(), &schema()) {
        assert_eq!(serde_json::from_str::<Json>(&patched.to_string()).unwrap(), patched);
    }
}

/// Applies a strategic merge patch. Panics if the result is not an object.
pub fn strategic_patch(bytes: &[u8]) {
    let Ok(patch) = PatchBody::strategic(bytes) else { return };
    patch.display_text();
    if let Ok(patched) = patch.apply(&pod(), &schema()) {
        assert!(patched.is_object(), "{patched}");
    }
}

/// Decodes a JSON body to an object, and decodes this object again with the same schema. Panics if the object changes.
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
        replay_corpus(format!("{}/../fuzz/corpus/{name}", env!("CARGO_MANIFEST_DIR")), 1_000, check);
    }

    #[test]
    fn protobuf_body_round_trips() {
        replay("protobuf_body", protobuf_body);
    }

    #[test]
    fn yaml_body_round_trips() {
        replay("yaml_body", yaml_body);
    }

    #[test]
    fn json_patch_result_is_valid_json() {
        replay("json_patch", json_patch);
    }

    #[test]
    fn strategic_patch_result_is_an_object() {
        replay("strategic_patch", strategic_patch);
    }

    #[test]
    fn decoded_object_round_trips() {
        replay("object", object);
    }
}
