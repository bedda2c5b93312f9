//! Functions for the fuzz targets in `crates/fuzz/` and for the tests below. Each function panics if the code under
//! test violates an invariant.

#![allow(clippy::unwrap_used, reason = "a panic reports a violated invariant")]

use pintle_json::{Json, json};
use pintle_schema::Schema;

use crate::set::Set;
use crate::{WriteContext, apply};

/// Parses `fieldsV1`, writes the set as JSON and parses it again, and panics if the sets differ.
pub fn fields_v1(bytes: &[u8]) {
    let Ok(fields) = serde_json::from_slice::<Json>(bytes) else { return };
    let Some(set) = Set::from_fields(&fields) else { return };
    assert_eq!(Set::from_fields(&set.to_fields()), Some(set), "{fields}");
}

/// Applies an object with fields of another manager twice, and panics if the second apply changes the result.
pub fn applied(bytes: &[u8]) {
    let schema = Schema::builtin("v1", "Pod").unwrap();
    let Some(applied) = serde_json::from_slice::<Json>(bytes).ok().filter(Json::is_object) else { return };
    let other = WriteContext::new("other", "v1", "2026-01-01T00:00:00Z", &schema);
    let theirs = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 80, "protocol": "TCP"}]}]},
    });
    let live = apply(None, &theirs, false, &other).unwrap().object;
    let mine = WriteContext { manager: "mine", ..other };
    let Ok(once) = apply(Some(&live), &applied, true, &mine) else { return };
    let twice = apply(Some(&once.object), &applied, true, &mine).unwrap();
    assert_eq!(twice.object, once.object, "{applied}");
}

#[cfg(test)]
mod tests {
    use pintle_testing::replay_corpus;

    use super::*;

    fn replay(name: &str, check: fn(&[u8])) {
        replay_corpus(format!("{}/../fuzz/corpus/{name}", env!("CARGO_MANIFEST_DIR")), 1_000, check);
    }

    #[test]
    fn field_set_round_trips() {
        replay("fields_v1", fields_v1);
    }

    #[test]
    fn second_apply_changes_nothing() {
        replay("applied", applied);
    }
}
