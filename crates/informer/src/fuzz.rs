//! A check that panics if it fails for the given bytes. The fuzz target in `crates/fuzz/` and the test below run this
//! check.

#![allow(clippy::unwrap_used, reason = "a failed check panics")]

use serde::de::IgnoredAny;
use serde_json::Value;

use crate::projection::Projection;
use crate::scan::Scanner;

/// Checks that the scanner finds the same key and fields as serde. This function also checks that the object is valid
/// JSON after the projection has removed fields.
pub fn scan(json: &[u8]) {
    let scanner = Scanner::new(&Projection::default().without(&["spec", "containers", "env"]));
    let outline = scanner.scan(json);
    let Ok(object) = serde_json::from_slice::<Value>(json) else { return };
    // Do not compare objects with repeated fields. If a field occurs twice, serde uses the last occurrence, but the
    // scanner reads every `metadata` object.
    let is_plain = json.windows(b"\"metadata\"".len()).filter(|part| *part == b"\"metadata\"").count() == 1;
    let Some(outline) = outline else {
        assert!(!object.is_object(), "the scanner rejected a valid JSON object");
        return;
    };
    let pruned = outline.pruned(json);
    serde_json::from_slice::<IgnoredAny>(&pruned).unwrap();
    if is_plain && object["metadata"].is_object() && !json.contains(&b'\\') {
        let text = |name: &str| object["metadata"][name].as_str();
        assert_eq!(outline.uid(json).as_deref(), text("uid"));
        assert_eq!(outline.resource_version(json).as_deref(), text("resourceVersion"));
        let key = outline.key(json);
        assert_eq!(key.as_ref().map(|key| key.name()), text("name"));
        assert!(!String::from_utf8_lossy(&pruned).contains("\"managedFields\"") || !has_managed_fields(&object));
    }
}

fn has_managed_fields(object: &Value) -> bool {
    let mut rest = object.clone();
    let removed = rest["metadata"].as_object_mut().and_then(|metadata| metadata.remove("managedFields"));
    removed.is_some() && !rest.to_string().contains("managedFields")
}

#[cfg(test)]
mod tests {
    use pintle_testing::replay_corpus;

    use super::*;

    #[test]
    fn scan_fuzz_corpus_passes() {
        replay_corpus(concat!(env!("CARGO_MANIFEST_DIR"), "/../fuzz/corpus/scan"), 1_000, scan);
    }
}
